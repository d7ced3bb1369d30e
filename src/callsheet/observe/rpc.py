"""Who has sent a message, where the recording does not say it.

Most methods belong to one side. An answer goes to whoever has asked; where both sides have asked under one
id, what is in it tells.

Which requests wait for an answer, and what a message has to do with them.

What a request for permission asks, and what was answered.
"""

from __future__ import annotations

import re
from collections.abc import Container
from difflib import SequenceMatcher
from typing import Any

from callsheet.observe.events import MessageSeen, RecordingEnded, UnansweredRequest
from callsheet.observe.evidence import texts
from callsheet.observe.lines import RecordedLine, Sender
from callsheet.observe.model import (
    FINAL,
    ApprovalRequest,
    Decision,
    Json,
    ObservedCall,
    ObservedConnection,
    ObservedSession,
    ObservedTurn,
    many,
    obj,
    rpc_id,
    text,
)

AGENTS = ("session/update", "session/request_permission")
OPENING = ("session/new", "session/load", "session/resume", "session/fork")
_AGENTS_BEGIN = ("fs/", "terminal/", "elicitation/")
_CLIENTS_BEGIN = ("session/", "auth", "initialize", "tool_call/", "logout")
_TELLING = {
    "initialize": "protocolVersion",
    "session/new": "sessionId",
    "session/prompt": "stopReason",
    "session/request_permission": "outcome",
    "terminal/create": "terminalId",
    "fs/read_text_file": "content",
}


def sender_of_method(method: str) -> Sender | None:
    """Return who calls a method."""
    if method == "terminal/cancel":
        return "client"
    if method in AGENTS or method.startswith(_AGENTS_BEGIN):
        return "agent"
    return "client" if method.startswith(_CLIENTS_BEGIN) else None


def sender_of_response(
    message: Json, key: Any, asked: dict[tuple[Sender, Any], Any]
) -> Sender | None:
    """Return who has answered. `asked` has what waits for an answer, by who asked and under which id."""
    ways: list[Sender] = [way for way in ("client", "agent") if (way, key) in asked]
    if "client" not in ways and answered_method(obj(message.get("result"))):
        return "agent"  # what the client has asked was not recorded
    if ways == ["agent"] and not _fits(asked["agent", key][0], message):
        return None  # the same, most likely
    if len(ways) == 2:
        ways = [way for way in ways if _fits(asked[way, key][0], message)] or ways
    if not ways:
        return None
    # Where nothing tells, it is the last question that is answered first: a turn waits for what it asks.
    asker = max(ways, key=lambda way: asked[way, key][2])
    return "agent" if asker == "client" else "client"


def _fits(method: str, message: Json) -> bool:
    known: Container[str] = obj(message.get("result"))
    key = _TELLING.get(method)
    return key is None or key in known or "error" in message


def identifies_method(message: Json) -> bool:
    """Whether an answer tells by what is in it which method it answers."""
    return not obj(message.get("result")).keys().isdisjoint(_TELLING.values())


def sender_of_cancel(key: Any, asked: dict[tuple[Sender, Any], Any]) -> Sender | None:
    """Return who takes back a request: whoever has made it. None if both have asked under one id."""
    ways: list[Sender] = [way for way in ("client", "agent") if (way, key) in asked]
    return ways[0] if len(ways) == 1 else None


def answered_method(result: Json) -> str:
    """Return the method that an agent has answered, of a recording that has only the agent's lines."""
    for method in ("initialize", "session/new", "session/prompt"):
        if _TELLING[method] in result:
            return method
    return ""


def pending_opening(asked: dict[tuple[Sender, Any], Any]) -> int | None:
    """Return the line of the client's last request that may open a session, if none has answered it."""
    lines = [
        line
        for (asker, _), (method, _, line) in asked.items()
        if asker == "client" and (method in OPENING or method.startswith("_"))
    ]
    return max(lines, default=None)


MOST_REQUESTS = 4096
"""Requests that wait at most. One that nobody answers must not be kept for ever."""


class RequestTracker:
    """The requests of a recording, by who asked and under which id."""

    def __init__(self) -> None:
        self.asked: dict[tuple[Sender, Any], tuple[str, Json, int]] = {}
        self._either: dict[Any, int] = {}
        """Requests of which nobody knows who made them, by their ids: of extensions."""
        self.messages: int = 0
        self.first: int = 0
        self.has_ids: bool = False
        self._time: float | None = None

    def ask(self, sender: Sender, key: Any, method: str, params: Json, line: RecordedLine) -> None:
        """Note a request."""
        if len(self.asked) >= MOST_REQUESTS:
            del self.asked[next(iter(self.asked))]
        self.asked[sender, key] = method, params, line.number

    def ask_of_either(self, key: Any, line: RecordedLine) -> None:
        """Note a request of one side or the other."""
        if len(self._either) >= MOST_REQUESTS:
            del self._either[next(iter(self._either))]
        self._either[key] = line.number

    def restart(self) -> None:
        """Forget all but the last: the agent was started again, and will not answer the others."""
        self.asked = dict(list(self.asked.items())[-1:])
        self._either = {}
        self._time = None

    def sender(self, message: Json, params: Json) -> Sender | None:
        """Return who has sent a message, where the recording does not say it."""
        method, key = text(message.get("method")), rpc_id(message.get("id"))
        if method == "$/cancel_request":
            return sender_of_cancel(rpc_id(params.get("requestId")), self.asked)
        if method is not None:
            return sender_of_method(method)
        if key in self._either and not identifies_method(message):
            return None
        return sender_of_response(message, key, self.asked)

    def heard(
        self,
        line: RecordedLine,
        message: Json,
        sender: Sender | None,
        connection: ObservedConnection,
        params: Json,
    ) -> MessageSeen:
        """Make a moment of a message."""
        self.messages += 1
        self.first = self.first or line.number
        session, method = text(params.get("sessionId")), text(message.get("method"))
        heard = MessageSeen(line, message, sender, connection, session, method, before=self._time)
        if line.time is not None:
            self._time = line.time
        if "id" in message:
            self.has_ids = True
            self._relate(heard, sender, rpc_id(message["id"]))
        return heard

    def over(
        self, line: int, connection: ObservedConnection, calls: int, turns: list[ObservedTurn]
    ) -> RecordingEnded:
        """Return the last moment: what there was, and what was never answered."""
        waiting = [
            UnansweredRequest(way, method, line)
            for (way, _), (method, _, line) in self.asked.items()
        ]
        return RecordingEnded(
            line,
            connection,
            line,
            calls,
            messages=self.messages,
            first=self.first,
            has_ids=self.has_ids,
            waiting=waiting,
            turns=turns,
        )

    def _relate(self, heard: MessageSeen, sender: Sender | None, key: Any) -> None:
        if sender is None:
            is_odd = heard.method is None and self._either.pop(key, None) is None
            heard.answers = "" if is_odd else None
        elif heard.method is None:
            asker: Sender = "client" if sender == "agent" else "agent"
            heard.answers = self.asked.get((asker, key), ("",))[0]
        elif key is not None and (sender, key) in self.asked:
            heard.same_id = self.asked[sender, key][2]


_SAYS_MORE = re.compile(r"\S+\s.*[/\\.\"'`].*", re.DOTALL).fullmatch
"""Whether a title says what a call works on, not only what it is."""


_ALIKE = 200
"""Characters of two results that tell whether they are alike."""


def question_of(
    line: RecordedLine, request: Any, params: Json, session: ObservedSession | None
) -> ApprovalRequest:
    """Make sense of a request for permission. v2 says what it is about in `subject`."""
    subject = obj(params.get("subject"))
    tool_call = obj(params.get("toolCall")) or obj(subject.get("toolCall"))
    key = text(tool_call.get("toolCallId")) or text(subject.get("toolCallId"))
    turn = session.turn if session is not None else None
    return ApprovalRequest(line.number, session, key, None, params, tool_call, request, turn=turn)


def outcome_of(message: Json, question: ApprovalRequest) -> Decision:
    """Return what the client decided. None if it can't be told."""
    if "error" in message:
        return "error"
    outcome = obj(obj(message.get("result")).get("outcome"))
    if outcome.get("outcome") != "selected":
        return "cancelled" if outcome.get("outcome") == "cancelled" else None
    for option in many(question.params.get("options")):
        told = obj(option)
        if told and told.get("optionId") == outcome.get("optionId"):
            return _by_kind(text(told.get("kind")) or "")
    return None


def _by_kind(kind: str) -> Decision:
    if kind.startswith("allow"):
        return "allowed"
    return "rejected" if kind.startswith("reject") else None


def twin_of(question: ApprovalRequest) -> ObservedCall | None:
    """Return the open call of the turn that is surely the one that a question under another id is about."""
    told, turn = question.tool_call, question.turn
    given, title = told.get("rawInput"), text(told.get("title")) or ""
    if turn is None:
        return None
    open_ones = [
        call
        for call in turn.calls.values()
        if call.announced is not None
        and call.ended is None
        and not call.questions
        and _agree(told.get("kind"), call.fields.get("kind"))
    ]
    if not given:
        # It asks for a yes to what was announced: that can only be the one that is there.
        shows = many(told.get("content")) or many(told.get("locations"))
        return open_ones[0] if told and len(open_ones) == 1 and not shows else None
    found = [call for call in open_ones if call.fields.get("rawInput") == given]
    if not found and _SAYS_MORE(title):
        # Some tell their input in other words when they ask.
        found = [call for call in open_ones if call.fields.get("title") == title]
    if not found:
        found = [call for call in open_ones if _is_about_it(told, call)]
    return found[0] if len(found) == 1 else None


def meant_by(over: ObservedCall, update: Json) -> ObservedCall | None:
    """Return the call that an update surely means which is under the id of one that is over.

    Some ask under an id of their own, and tell the result under the model's, which that may have used before.
    """
    turn = over.session.turn
    if (
        turn is None
        or text(update.get("status")) not in FINAL
        or not _is_another_result(over, update)
    ):
        return None
    if over.late:  # it is told again and again
        return None
    allowed = [
        call
        for call in turn.calls.values()
        if call.is_asked_first
        and call.first > (over.ended or 0)
        and call.ended is None
        and not call.updates
        and call.questions[-1].outcome == "allowed"
    ]
    return allowed[0] if len(allowed) == 1 else None


def _is_another_result(over: ObservedCall, update: Json) -> bool:
    """Whether an update shows something else than the call has shown, not the same in other words."""
    before, now = ("\n".join(texts(told.get("content"))) for told in (over.fields, update))
    if not before.strip() or not now.strip():
        return False
    return SequenceMatcher(None, before[:_ALIKE], now[:_ALIKE], autojunk=False).ratio() < 0.5


def _is_about_it(told: Json, call: ObservedCall) -> bool:
    """Whether a question shows a diff of the one file that a call is there to change."""
    changed = [
        text(item.get("path"))
        for item in map(obj, many(told.get("content")))
        if item.get("type") == "diff"
    ]
    places = [text(obj(place).get("path")) for place in many(call.fields.get("locations"))]
    return "edit" == told.get("kind") == call.fields.get("kind") and changed == places != []


def _agree(one: object, other: object) -> bool:
    said = (text(one), text(other))
    return None in said or "other" in said or one == other
