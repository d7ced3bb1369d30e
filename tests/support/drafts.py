"""Calls of other agents, told update by update, and what the tap makes of them.

    told = Told().call(title="bash").update(rawInput={"command": "ls"})
    assert told.draft().title == "Running `ls`"

`draft` asks after the last message what a client is to be told. All goes through the reader that the tap has.
"""

from __future__ import annotations

import json
from typing import Any, Self

from callsheet.describe import Describer
from callsheet.observe.lines import parse_line
from callsheet.observe.model import ObservedCall
from callsheet.observe.tracker import Tracker
from callsheet.tap.repair import CallDraft, repaired

SESSION, CWD = "s1", "/code"


def text(said: str) -> list[dict[str, Any]]:
    """Return a text as a call's content."""
    return [{"type": "content", "content": {"type": "text", "text": said}}]


def diff(path: str, new: str, old: str | None = None) -> dict[str, Any]:
    """Return a diff as an item of a call's content."""
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


class Told:
    """One call, as an agent tells it."""

    def __init__(
        self,
        agent: str = "somebody",
        *,
        version: int = 1,
        cwd: str = CWD,
        key: str = "c1",
        locale: str = "en",
    ) -> None:
        self._watch: Tracker = Tracker()
        self._key: str = key
        self._number: int = 0
        self._describer: Describer = Describer(cwd or "/", locale=locale)
        hello = {"protocolVersion": version, "agentInfo": {"name": agent, "version": "1"}}
        self._hear({"id": 0, "method": "initialize", "params": {"protocolVersion": version}})
        self._hear({"id": 0, "result": hello})
        self._hear({"id": 1, "method": "session/new", "params": {"cwd": cwd, "mcpServers": []}})
        self._hear({"id": 1, "result": {"sessionId": SESSION}})
        params = {"sessionId": SESSION, "prompt": []}
        self._hear({"id": 2, "method": "session/prompt", "params": params})

    def call(self, **fields: Any) -> Self:
        """Announce the call."""
        return self._tell("tool_call", {"status": "pending", **fields})

    def update(self, **fields: Any) -> Self:
        """Update the call."""
        return self._tell("tool_call_update", fields)

    def chunk(self, said: str) -> Self:
        """Add a text to the call's content, as v2 does."""
        return self._tell("tool_call_content_chunk", {"content": text(said)[0]})

    def ask(self, **fields: Any) -> Self:
        """Ask for permission."""
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        call = {"toolCallId": self._key, **fields}
        params = {"sessionId": SESSION, "toolCall": call, "options": options}
        return self._hear({"id": "p1", "method": "session/request_permission", "params": params})

    def allow(self) -> Self:
        """Return permission."""
        outcome = {"outcome": "selected", "optionId": "yes"}
        return self._hear({"id": "p1", "result": {"outcome": outcome}})

    def stop(self) -> Self:
        """End the turn."""
        return self._hear({"id": 2, "result": {"stopReason": "end_turn"}})

    def draft(self) -> CallDraft:
        """Return what a client is to be sent of it now."""
        call: ObservedCall = self._watch.sessions[SESSION].calls[self._key]
        return repaired(CallDraft(call=call, describer=self._describer))

    def _tell(self, kind: str, fields: dict[str, Any]) -> Self:
        update = {"sessionUpdate": kind, "toolCallId": self._key, **fields}
        params = {"sessionId": SESSION, "update": update}
        return self._hear({"method": "session/update", "params": params})

    def _hear(self, message: dict[str, Any]) -> Self:
        self._number += 1
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        for _ in self._watch.feed(parse_line(self._number, data)):
            pass
        return self
