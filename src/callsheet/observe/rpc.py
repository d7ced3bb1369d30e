"""JSON-RPC as seen from outside: the sender of a message, pending requests, and permission requests.

- Senders: a recording need not state who has sent a message. Most methods belong to one side, and a response
  goes to the side that sent the request. Where both sides have a pending request of the same id, the fields
  of the result decide.
- `RequestTracker` knows which requests wait for a response, and relates messages to them.
- Permission requests: which call one is about, also under another id, and what the client decided.
"""

from __future__ import annotations

import re
from collections.abc import Container
from difflib import SequenceMatcher
from typing import Any

from callsheet.observe.events import MessageSeen, RecordingEnded, UnansweredRequest
from callsheet.observe.evidence import texts
from callsheet.observe.lines import RecordedLine, Sender, is_rpc
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
_TYPICAL_FIELD = {
    "initialize": "protocolVersion",
    "session/new": "sessionId",
    "session/prompt": "stopReason",
    "session/request_permission": "outcome",
    "terminal/create": "terminalId",
    "fs/read_text_file": "content",
}


def sender_of_method(method: str) -> Sender | None:
    """Return which side calls a method; None if either may."""
    if method == "terminal/cancel":
        return "client"
    if method in AGENTS or method.startswith(_AGENTS_BEGIN):
        return "agent"
    return "client" if method.startswith(_CLIENTS_BEGIN) else None


def _fits(method: str, message: Json) -> bool:
    known: Container[str] = obj(message.get("result"))
    key = _TYPICAL_FIELD.get(method)
    return key is None or key in known or "error" in message


def answered_method(result: Json) -> str:
    """Return the method that an agent has answered, by the fields of the result; "" if they fit none.

    This serves recordings that have only the agent's lines.
    """
    for method in ("initialize", "session/new", "session/prompt"):
        if _TYPICAL_FIELD[method] in result:
            return method
    return ""


MOST_REQUESTS = 4096
"""Requests that may wait. Of more, the oldest is forgotten: it may never be answered."""


class RequestTracker:
    """The pending requests, by sender and id. Of an extension's, the sender may be unknown."""

    def __init__(self) -> None:
        self.asked: dict[tuple[Sender | None, Any], tuple[str, Json, int]] = {}
        self.messages: int = 0
        self.first: int = 0
        self.has_ids: bool = False
        self._time: float | None = None

    def ask(self, sender: Sender | None, key: Any, method: str, params: Json, line: int) -> None:
        """Note a request."""
        if len(self.asked) >= MOST_REQUESTS:
            del self.asked[next(iter(self.asked))]
        self.asked[sender, key] = method, params, line

    def note(self, event: MessageSeen, params: Json) -> None:
        """Note a request, or that one is answered, where that is all that is tracked."""
        key = rpc_id(event.message["id"])
        if event.method is not None:
            self.ask(event.sender, key, event.method, params, event.line.number)
        else:
            self.asked.pop(("client" if event.sender == "agent" else "agent", key), None)

    def restart(self) -> None:
        """Forget all but the last: the agent was started again, and will not answer the others."""
        self.asked = dict(list(self.asked.items())[-1:])
        self._time = None

    def pending_opening(self) -> int | None:
        """Return the line of the client's last pending request that may open a session."""
        lines = [
            line
            for (asker, _), (method, _, line) in self.asked.items()
            if asker == "client" and (method in OPENING or method.startswith("_"))
        ]
        return max(lines, default=None)

    def sender(self, message: Json, params: Json) -> Sender | None:
        """Return who has sent a message, where the recording does not state it; None if that is uncertain."""
        method, key = text(message.get("method")), rpc_id(message.get("id"))
        if method == "$/cancel_request":  # whoever has sent the request, unless both sides have
            ways = self._askers(rpc_id(params.get("requestId")))
            return ways[0] if len(ways) == 1 else None
        if method is not None:
            return sender_of_method(method)
        is_typical = not obj(message.get("result")).keys().isdisjoint(_TYPICAL_FIELD.values())
        return (
            None if (None, key) in self.asked and not is_typical else self._responder(message, key)
        )

    def _askers(self, key: Any) -> list[Sender]:
        ways: tuple[Sender, Sender] = ("client", "agent")
        return [way for way in ways if (way, key) in self.asked]

    def _responder(self, message: Json, key: Any) -> Sender | None:
        """Return who has sent a response."""
        asked = self.asked
        ways: list[Sender] = self._askers(key)
        if "client" not in ways and answered_method(obj(message.get("result"))):
            return "agent"  # what the client has asked was not recorded
        if ways == ["agent"] and not _fits(asked["agent", key][0], message):
            return None  # the same, most likely
        if len(ways) == 2:
            ways = [way for way in ways if _fits(asked[way, key][0], message)] or ways
        if not ways:
            return None
        # In doubt, the last request is answered first: a turn waits for what it asks.
        asker = max(ways, key=lambda way: asked[way, key][2])
        return "agent" if asker == "client" else "client"

    def seen(
        self,
        line: RecordedLine,
        message: Json,
        sender: Sender | None,
        connection: ObservedConnection,
        params: Json,
    ) -> MessageSeen:
        """Count a message, and return its event."""
        self.messages += is_rpc(message)
        self.first = self.first or line.number
        session, method = text(params.get("sessionId")), text(message.get("method"))
        event = MessageSeen(line, message, sender, connection, session, method, before=self._time)
        if line.time is not None:
            self._time = line.time
        if "id" in message:
            self.has_ids = True
            self._relate(event, sender, rpc_id(message["id"]))
        return event

    def over(
        self, line: int, connection: ObservedConnection, calls: int, turns: list[ObservedTurn]
    ) -> RecordingEnded:
        """Return the last event: what there was, and what was never answered."""
        waiting = [
            UnansweredRequest(way, method, line)
            for (way, _), (method, _, line) in self.asked.items()
            if way is not None
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

    def _relate(self, event: MessageSeen, sender: Sender | None, key: Any) -> None:
        if sender is None:
            is_odd = event.method is None and self.asked.pop((None, key), None) is None
            event.answers = "" if is_odd else None
        elif event.method is None:
            asker: Sender = "client" if sender == "agent" else "agent"
            event.answers = self.asked.get((asker, key), ("",))[0]
        elif key is not None and (sender, key) in self.asked:
            event.same_id = self.asked[sender, key][2]


_SAYS_MORE = re.compile(r"\S+\s.*[/\\.\"'`].*", re.DOTALL).fullmatch
"""Whether a title names what a call works on, not only what it is."""


_ALIKE = 200
"""Characters of two results that are compared."""


def question_of(
    line: RecordedLine, request: Any, params: Json, session: ObservedSession | None
) -> ApprovalRequest:
    """Return an approval request. In v2, `subject` has what it is about."""
    subject = obj(params.get("subject"))
    tool_call = obj(params.get("toolCall")) or obj(subject.get("toolCall"))
    key = text(tool_call.get("toolCallId")) or text(subject.get("toolCallId"))
    turn = session.turn if session is not None else None
    return ApprovalRequest(line.number, session, key, None, params, tool_call, request, turn=turn)


def outcome_of(message: Json, question: ApprovalRequest) -> Decision:
    """Return what the client decided; None if that is unclear."""
    if "error" in message:
        return "error"
    outcome = obj(obj(message.get("result")).get("outcome"))
    if outcome.get("outcome") != "selected":
        return "cancelled" if outcome.get("outcome") == "cancelled" else None
    question.chosen = option_of(question, outcome.get("optionId"))
    return _by_kind(text(question.chosen.get("kind")) or "")


def option_of(question: ApprovalRequest, key: Any) -> Json:
    """Return the option that an answer names; an empty one if there is none."""
    for option in many(question.params.get("options")):
        if obj(option) and obj(option).get("optionId") == key:
            return obj(option)
    return obj(None)


def _by_kind(kind: str) -> Decision:
    if kind.startswith("allow"):
        return "allowed"
    return "rejected" if kind.startswith("reject") else None


def twin_of(question: ApprovalRequest) -> ObservedCall | None:
    """Return the open call that a request under another id is certainly about; None in doubt.

    Some agents ask under an id of their own. The call is the only one of the turn with the same input, else
    with the same descriptive title, else with a diff of the same file.
    """
    fields, turn = question.tool_call, question.turn
    value, title = fields.get("rawInput"), text(fields.get("title")) or ""
    if turn is None:
        return None
    open_ones = [
        call
        for call in turn.calls.values()
        if call.announced is not None
        and call.ended is None
        and not call.questions
        and _agree(fields.get("kind"), call.fields.get("kind"))
    ]
    if not value:
        # It asks about what was announced: that can only be the one call that is there.
        shows = many(fields.get("content")) or many(fields.get("locations"))
        return open_ones[0] if fields and len(open_ones) == 1 and not shows else None
    found = [call for call in open_ones if call.fields.get("rawInput") == value]
    if not found and _SAYS_MORE(title):
        # Some agents describe their input differently when they ask.
        found = [call for call in open_ones if call.fields.get("title") == title]
    if not found:
        found = [call for call in open_ones if _is_about_it(fields, call)]
    return found[0] if len(found) == 1 else None


def meant_by(over: ObservedCall, update: Json) -> ObservedCall | None:
    """Return the call that an update under the id of an ended call certainly means; None in doubt.

    Some agents ask under an id of their own, and send the result under the model's id, which may be an
    earlier call's.
    """
    turn = over.session.turn
    if (
        turn is None
        or text(update.get("status")) not in FINAL
        or not _is_another_result(over, update)
    ):
        return None
    if over.late:  # it is sent again and again
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
    """Whether an update has another result than the call, not just the same result in another form."""
    before, now = ("\n".join(texts(fields.get("content"))) for fields in (over.fields, update))
    if not before.strip() or not now.strip():
        return False
    return SequenceMatcher(None, before[:_ALIKE], now[:_ALIKE], autojunk=False).ratio() < 0.5


def _is_about_it(fields: Json, call: ObservedCall) -> bool:
    """Whether a request shows a diff of the one file that a call has as its location."""
    changed = [
        text(item.get("path"))
        for item in map(obj, many(fields.get("content")))
        if item.get("type") == "diff"
    ]
    places = [text(obj(place).get("path")) for place in many(call.fields.get("locations"))]
    return "edit" == fields.get("kind") == call.fields.get("kind") and changed == places != []


def _agree(one: object, other: object) -> bool:
    phrase = (text(one), text(other))
    return None in phrase or "other" in phrase or one == other
