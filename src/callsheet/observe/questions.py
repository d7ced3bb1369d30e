"""What a request for permission asks, and what was answered."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Any

from callsheet.observe.lines import Line
from callsheet.observe.moments import FINAL, Call, Json, Outcome, Question, Session
from callsheet.observe.results import texts
from callsheet.observe.values import many, obj, text

_SAYS_MORE = re.compile(r"\S+\s.*[/\\.\"'`].*", re.DOTALL).fullmatch
"""Whether a title says what a call works on, not only what it is."""


_ALIKE = 200
"""Characters of two results that tell whether they are alike."""


def question_of(line: Line, request: Any, params: Json, session: Session | None) -> Question:
    """Make sense of a request for permission. v2 says what it is about in `subject`."""
    subject = obj(params.get("subject"))
    tool_call = obj(params.get("toolCall")) or obj(subject.get("toolCall"))
    key = text(tool_call.get("toolCallId")) or text(subject.get("toolCallId"))
    turn = session.turn if session is not None else None
    return Question(line.number, session, key, None, params, tool_call, request, turn=turn)


def outcome_of(message: Json, question: Question) -> Outcome:
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


def _by_kind(kind: str) -> Outcome:
    if kind.startswith("allow"):
        return "allowed"
    return "rejected" if kind.startswith("reject") else None


def twin_of(question: Question) -> Call | None:
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


def meant_by(over: Call, update: Json) -> Call | None:
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


def _is_another_result(over: Call, update: Json) -> bool:
    """Whether an update shows something else than the call has shown, not the same in other words."""
    before, now = ("\n".join(texts(told.get("content"))) for told in (over.fields, update))
    if not before.strip() or not now.strip():
        return False
    return SequenceMatcher(None, before[:_ALIKE], now[:_ALIKE], autojunk=False).ratio() < 0.5


def _is_about_it(told: Json, call: Call) -> bool:
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
