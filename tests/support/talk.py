"""A recording that is made message by message, to check it.

    talk = Talk().opened().prompt().call("a", "pending").call("a", "completed").stop()
    assert rules(talk) == []

`Talk` counts the ids of requests of each side for itself, as real peers do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Self

from callsheet.check.engine import RecordingChecker
from callsheet.check.finding import Finding
from callsheet.check.rules import RULES
from callsheet.observe.lines import RecordedLine, parse_line
from callsheet.observe.tracker import Tracker

Message = dict[str, Any]
Style = Literal["dir", "raw", "agent"]

NOT_COMPLETE = [rule for rule in RULES if rule.category != "complete"]
"""The calls of a `Talk` say little."""

OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


class Talk:
    """What a client and an agent said, in order."""

    def __init__(self, version: int = 1, session: str = "s") -> None:
        self.version: int = version
        self.session: str = session
        self.said: list[tuple[str, Message, float]] = []
        self.clock: float = 0.0
        self._ids: dict[str, int] = {"client": 0, "agent": 0}
        self._prompt: int = 0
        self._asked: int = 0

    # Messages

    def say(self, who: str, message: Message) -> Self:
        """Say anything. Each message takes a second."""
        self.said.append((who, {"jsonrpc": "2.0", **message}, self.clock))
        self.clock += 1
        return self

    def ask(self, who: str, method: str, params: Message) -> int:
        """Send a request, and give its id."""
        self._ids[who] += 1
        self.say(who, {"id": self._ids[who], "method": method, "params": params})
        return self._ids[who]

    def answer(self, who: str, key: Any, result: Any = None, error: str = "") -> Self:
        """Answer a request."""
        if error:
            return self.say(who, {"id": key, "error": {"code": -32600, "message": error}})
        return self.say(who, {"id": key, "result": result})

    def note(self, who: str, method: str, params: Message) -> Self:
        """Send a notification."""
        return self.say(who, {"method": method, "params": params})

    # What clients do

    def hello(self, **answer: Any) -> Self:
        """Agree on the version."""
        key = self.ask("client", "initialize", {"protocolVersion": self.version})
        return self.answer("agent", key, {"protocolVersion": self.version, **answer})

    def opened(self) -> Self:
        """Say hello, and open the session."""
        key = self.hello().ask("client", "session/new", {"cwd": "/code", "mcpServers": []})
        return self.answer("agent", key, {"sessionId": self.session})

    def prompt(self) -> Self:
        """Begin a turn."""
        params = {"sessionId": self.session, "prompt": [{"type": "text", "text": "Go on."}]}
        self._prompt = self.ask("client", "session/prompt", params)
        if self.version == 2:
            self.answer("agent", self._prompt, {"messageId": f"m{self._prompt}"})
            self.update("state_update", state="running")
        return self

    def stop(self, reason: str = "end_turn", **more: Any) -> Self:
        """End the turn."""
        if self.version == 2:
            return self.update("state_update", state="idle", stopReason=reason, **more)
        return self.answer("agent", self._prompt, {"stopReason": reason})

    def cancel(self) -> Self:
        """Cancel the turn."""
        return self.note("client", "session/cancel", {"sessionId": self.session})

    def decide(self, option: str = "yes") -> Self:
        """Answer the last question: `yes`, `no` or `cancelled`."""
        outcome = {"outcome": "selected", "optionId": option}
        if option == "cancelled":
            outcome = {"outcome": "cancelled"}
        return self.answer("client", self._asked, {"outcome": outcome})

    # What agents do

    def update(self, kind: str, /, session: str = "", **update: Any) -> Self:
        """Send an update."""
        told = {"sessionUpdate": kind, **update}
        params = {"sessionId": session or self.session, "update": told}
        return self.note("agent", "session/update", params)

    def call(self, key: str, status: str | None = None, *, session: str = "", **more: Any) -> Self:
        """Tell of a call: v1's `tool_call` the first time, else an update."""
        opened = any(
            message.get("method") == "session/update"
            and message["params"]["update"].get("toolCallId") == key
            for _, message, _ in self.said
        )
        kind = "tool_call" if self.version == 1 and not opened else "tool_call_update"
        return self.tell(kind, key, status, session=session, **more)

    def tell(
        self, kind: str, /, key: str, status: str | None = None, *, session: str = "", **more: Any
    ) -> Self:
        """Send an update of a call, of this kind."""
        fields = {"toolCallId": key, **more}
        if status is not None:
            fields["status"] = status
        if kind == "tool_call":
            fields.setdefault("title", "Reading a file")
        return self.update(kind, session, **fields)

    def question(self, key: str, **more: Any) -> Self:
        """Ask for permission."""
        told = {"toolCallId": key, **more}
        params: Message = {"sessionId": self.session, "options": OPTIONS}
        if self.version == 1:
            params["toolCall"] = told
        else:
            params |= {"title": "May I?", "subject": {"type": "tool_call", "toolCall": told}}
        self._asked = self.ask("agent", "session/request_permission", params)
        return self

    # The recording

    def lines(self, style: Style = "dir") -> list[RecordedLine]:
        """Return the lines: with directions, raw, or only the agent's."""
        said = [one for one in self.said if style != "agent" or one[0] == "agent"]
        return [parse_line(number, _written(style, *one)) for number, one in enumerate(said, 1)]


def _written(style: Style, who: str, message: Message, time: float) -> bytes:
    if style != "dir":
        return json.dumps(message).encode()
    way = "client->agent" if who == "client" else "agent->client"
    return json.dumps({"t": time, "dir": way, "msg": message}).encode()


def findings(lines: Talk | Path | Iterable[RecordedLine], *categories: str) -> list[Finding]:
    """Check a recording, and give what is found of some categories: lifecycle and order."""
    wanted = categories or ("lifecycle", "order")
    return [one for one in everything(lines) if one.rule.partition("/")[0] in wanted]


def everything(lines: Talk | Path | Iterable[RecordedLine]) -> list[Finding]:
    """Check a recording, by all rules but those of what is left out."""
    found: list[Finding] = []
    checker = RecordingChecker(NOT_COMPLETE, on_finding=found.append)
    if isinstance(lines, Talk):
        lines = lines.lines()
    elif isinstance(lines, Path):
        data = lines.read_bytes().splitlines()
        lines = [parse_line(number, line) for number, line in enumerate(data, 1)]
    for line in lines:
        checker.feed(line)
    checker.finish()
    return found


def rules(lines: Talk | Path | Iterable[RecordedLine], *categories: str) -> list[str]:
    """Return the ids of the rules that a recording breaks, of some categories: lifecycle and order."""
    return [finding.rule for finding in findings(lines, *categories)]


def watched(lines: Talk | Iterable[RecordedLine]) -> tuple[Tracker, list[Any]]:
    """Watch a recording, and give what happened in it."""
    watch = Tracker()
    given = lines.lines() if isinstance(lines, Talk) else lines
    moments = [moment for line in given for moment in watch.feed(line)]
    return watch, [*moments, *watch.finish()]
