"""What passes the tap between other things: in order, in its own message, and without secrets."""

from __future__ import annotations

import gc
from typing import Any

from callsheet.check.recording.examples import SESSION
from callsheet.check.recording.moments import Call

from .made_recordings import Message, announced, completed, words
from .tapped import Tapped, kinds, updates

SECRET = "ghp_" + "a1B2" * 9
HALF = SECRET[:18]
USAGE: Message = {"sessionUpdate": "usage_update", "used": 1, "size": 2}


def note(update: Message) -> Message:
    params = {"sessionId": SESSION, "update": update}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def chunk(said: str, **more: Any) -> Message:
    content = {"type": "text", "text": said}
    return note({"sessionUpdate": "agent_message_chunk", "content": content, **more})


def said(tap: Tapped) -> str:
    """Give all that the agent was heard saying."""
    shown = [one for one in updates(tap.heard()) if "content" in one]
    return "".join(one["content"]["text"] for one in shown)


def test_calls_that_have_ended_are_let_go() -> None:
    def known() -> int:
        gc.collect()
        return sum(isinstance(one, Call) for one in gc.get_objects())

    before = known()
    tap = Tapped()
    tap.judge = None
    for number in range(1500):
        key = f"call-{number}"
        tap.agent(announced(key), completed(key, content=words("x" * 100)))
        tap.lines()
    assert known() - before <= 1100


def test_what_a_piece_of_text_has_besides_is_without_secrets() -> None:
    tap = Tapped().agent(chunk("hello", _meta={"env": SECRET}))
    content = {"type": "text", "text": "hi", "annotations": {"note": SECRET}}
    tap.agent(note({"sessionUpdate": "agent_message_chunk", "content": content}))
    heard = tap.heard()
    assert SECRET not in repr(heard)
    assert [one["content"]["text"] for one in updates(heard)] == ["hello", "hi"]
    assert tap.account.hidden == 2


def test_a_text_that_waits_stays_in_its_own_message() -> None:
    tap = Tapped().agent(chunk("see sk", messageId="m1"), chunk("irts", messageId="m2")).wait(1)
    shown = updates(tap.heard())
    by_id = {
        key: "".join(one["content"]["text"] for one in shown if one["messageId"] == key)
        for key in ("m1", "m2")
    }
    assert by_id == {"m1": "see sk", "m2": "irts"}


def test_a_secret_is_hidden_that_is_split_by_an_update_that_nobody_sees() -> None:
    for between in (note(USAGE), chunk("")):
        tap = Tapped().agent(chunk(f"it is {HALF}"), between, chunk(SECRET[18:] + " yes")).wait(1)
        heard = said(tap)
        assert HALF not in heard
        assert SECRET[18:] not in heard
        assert heard.endswith(" yes")


def test_notifications_and_requests_of_an_agent_do_not_overtake_its_words() -> None:
    extension = {"jsonrpc": "2.0", "method": "_zed/thing", "params": {}}
    params = {"sessionId": SESSION, "path": "/code/a"}
    reading = {"jsonrpc": "2.0", "id": 7, "method": "fs/read_text_file", "params": params}
    for message in (extension, reading):
        tap = Tapped().agent(chunk(f"it is {HALF}"), message).wait(1)
        assert kinds(tap.heard())[-1] == message["method"]
