"""Judges what a tap tells a client: each line is valid, or just what came in; each call is told as a life.

What the tap changes in a message that is not valid is only a secret in it, or, of what an agent says piece by
piece, where the pieces end.
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from typing import Any

from callsheet.acp.schemas import breaches, definition
from callsheet.observe.model import obj, text
from callsheet.redaction.redactor import Redactor

Message = dict[str, Any]
Key = tuple[str, str]

FINAL = ("completed", "failed", "cancelled")
CALLS = ("tool_call", "tool_call_update", "tool_call_content_chunk")
CHUNKS = ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk")
LONGEST_ID = 1024
"""Characters of a session's id beyond which nothing is looked into."""

RECENT = 400
"""Lines of the agent that are known again."""

_NUMBER = re.compile(r"#\d+\]")


class Judge:
    """Hears both sides of a tap. `version` is the client's."""

    def __init__(self, version: int) -> None:
        self.version: int = version
        self.counts: Counter[str] = Counter()
        self.statuses: dict[Key, str] = {}
        """Of each call that the client was told of."""
        self._redactor: Redactor = Redactor()
        self._recent: dict[bytes, Message | None] = {}
        self._order: deque[bytes] = deque()

    # What goes in

    def agent_says(self, line: bytes) -> None:
        """Note a line that the agent has sent."""
        self._recent[line] = None
        self._order.append(line)
        if len(self._order) > RECENT:
            old = self._order.popleft()
            if old not in self._order:
                del self._recent[old]

    def client_says(self, line: bytes) -> None:
        """Note a line that the client has sent: it may make the client forget what it knows."""
        message = _read(line)
        method, params = message.get("method"), obj(message.get("params"))
        if method == "initialize":
            self.all_have_ended()
            self.statuses.clear()
        elif method == "session/load" or (method == "session/resume" and params.get("replayFrom")):
            session = text(params.get("sessionId"))
            for key in [key for key in self.statuses if key[0] == session]:
                assert self.statuses.pop(key) in FINAL, f"{key} is open, and loaded again"

    # What comes out

    def agent_hears(self, line: bytes, said: bytes) -> None:
        """Judge what reaches the agent: what the client has said, but for the ids of calls."""
        if line == said:
            return
        heard, told = _read(line), _read(said)
        for message in (heard, told):
            obj(message.get("params")).pop("toolCallId", None)
        assert heard
        assert heard == told, f"{said[:500]!r} became {line[:500]!r}"
        self.counts["renamed"] += 1

    def client_hears(self, line: bytes) -> None:
        """Judge what reaches the client."""
        if line in self._recent:
            self.counts["as it came"] += 1
            if _is_strict(line):
                self._passes(_read(line))
            return
        assert line.endswith(b"\n"), line[-100:]
        message = json.loads(line)
        params = obj(message.get("params"))
        method = message.get("method")
        wanted = definition(self.version, (str(method), False))
        if method in ("session/update", "session/request_permission"):
            assert wanted is not None
            if wanted.is_valid(params):
                self.counts["made"] += 1
                self._takes(method, params)
                return
        assert self._is_only_cleaned(message), (
            f"{line[:2000]!r}\n{wanted and breaches(self.version, wanted.name, params)[:3]}"
        )
        self.counts["without secrets"] += 1

    def all_have_ended(self) -> None:
        """See that no call is left open."""
        left = [key for key, status in self.statuses.items() if status not in FINAL]
        assert not left, f"{len(left)} calls never ended: {str(left[:5])[:500]}"

    def _passes(self, message: Message) -> None:
        """See that what passed as it came is no update of a call that could have been understood."""
        params = obj(message.get("params"))
        update = obj(params.get("update"))
        if message.get("method") == "session/update" and update.get("sessionUpdate") in CALLS:
            session = text(params.get("sessionId"))
            told = session is not None and text(update.get("toolCallId")) is not None
            is_known = told and len(session or "") <= LONGEST_ID
            assert not is_known, f"passed as it came: {json.dumps(message)[:1000]}"

    def _is_only_cleaned(self, message: Message) -> bool:
        """Whether a message came in like this, but for secrets, and for where a text was cut into pieces."""
        piece = _piece(message)
        for line in reversed(self._recent):
            known = self._recent[line]
            if known is None:
                known = self._recent[line] = _read(line)
            if piece is not None and _piece(known) == piece:
                return True
            if known.get("method") == message.get("method"):
                what = next((one for one in ("params", "error") if one in known), "result")
                clean, count = self._redactor.value(known.get(what))
                heard, _ = self._redactor.value(message.get(what))  # ids of answers stay
                if count and _unmarked({**known, what: clean}) == _unmarked(
                    {**message, what: heard}
                ):
                    return True
        return False

    # The calls

    def _takes(self, method: str, params: Message) -> None:
        session = params["sessionId"]
        if len(session) > LONGEST_ID:
            return
        if method == "session/request_permission":
            call = obj(params.get("toolCall")) or obj(obj(params.get("subject")).get("toolCall"))
            if call:
                self._is_known(session, call["toolCallId"])
            return
        update = params["update"]
        kind = update["sessionUpdate"]
        if kind in CALLS:
            self._told((session, update["toolCallId"]), kind, update)

    def _is_known(self, session: str, call: str) -> None:
        if (session, call) not in self.statuses:
            self.counts["asked of a call that has ended long ago"] += 1

    def _told(self, key: Key, kind: str, update: Message) -> None:
        before = self.statuses.get(key)
        if self.version == 1:
            assert (kind == "tool_call") == (before is None), f"{key}: {before}, {update}"
        assert before not in FINAL, f"{key}: {before}, {update}"
        self.statuses[key] = update.get("status") or before or "pending"
        self.counts["calls"] += before is None


class Indulgent(Judge):
    """Judges a tap that repairs nothing: all that it must do is to live."""

    def client_hears(self, line: bytes) -> None:
        """Take anything."""
        self.counts["heard"] += 1


def _is_strict(line: bytes) -> bool:
    """Whether a line is JSON to any reader."""
    try:
        json.dumps(json.loads(line.decode(), parse_constant=int), ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return True


def _read(line: bytes) -> Message:
    """Return the message on a line, if there is one. What is no text is U+FFFD in it."""
    try:
        said = line.decode(errors="replace").removeprefix("\ufeff")
        told = json.loads(said, parse_constant=lambda _: None)
        whole = json.dumps(told, ensure_ascii=False)
        return obj(json.loads(whole.encode("utf-16", "surrogatepass").decode("utf-16", "replace")))
    except (ValueError, RecursionError):
        return {}


def _piece(message: Message) -> Message | None:
    """Return what is around the text of a piece of a longer one."""
    params = obj(message.get("params"))
    update = obj(params.get("update"))
    content = obj(update.get("content"))
    if update.get("sessionUpdate") not in CHUNKS or text(content.get("text")) is None:
        return None
    content = {**content, "text": ""}
    return {**message, "params": {**params, "update": {**update, "content": content}}}


def _unmarked(message: Message) -> str:
    """Return a message without the numbers of its marks: another process counts otherwise."""
    return _NUMBER.sub("]", json.dumps(message, sort_keys=True))
