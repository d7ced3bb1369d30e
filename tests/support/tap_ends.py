"""Calls of other agents, told message by message, as the tap puts them right.

draft = draft_of(turn().call("a", "completed", rawOutput={"exit_code": 2}))
assert draft.reason == "exit_code"
"""

from __future__ import annotations

from typing import Any

from callsheet.describe import Describer
from callsheet.observe.events import PermissionAsked, UpdateApplied
from callsheet.observe.model import ObservedCall
from callsheet.observe.tracker import Tracker
from callsheet.tap.repair import CallDraft, repaired
from tests.support.talk import Talk


def turn(version: int = 1, agent: str = "") -> Talk:
    """Return a talk in which a turn has begun, with an agent of this name."""
    talk = Talk(version)
    key = talk.hello(agentInfo={"name": agent}).ask("client", "session/new", {"cwd": "/code"})
    return talk.answer("agent", key, {"sessionId": talk.session}).prompt()


def words(said: str) -> list[dict[str, Any]]:
    """Return a text as a call's content."""
    return [{"type": "content", "content": {"type": "text", "text": said}}]


def shown(draft: CallDraft) -> list[str]:
    """Return the texts that a draft shows; of other items, their type."""
    return [item.get("content", {}).get("text", item["type"]) for item in draft.content]


def ending(draft: CallDraft) -> tuple[str | None, str | None]:
    """Return a draft's status and reason."""
    return draft.status, draft.reason


def draft_of(talk: Talk, key: str = "a") -> CallDraft:
    """Return what a client is to be sent of a call at the end of a talk."""
    tracker = Tracker()
    call: ObservedCall | None = None
    for line in talk.lines():
        for event in tracker.feed(line):
            if isinstance(event, PermissionAsked) and event.question.call_id == key:
                call = event.question.call
            elif isinstance(event, UpdateApplied) and event.call.id == key:
                call = event.call
    assert call is not None
    return repaired(CallDraft(call=call, describer=Describer("/code")))
