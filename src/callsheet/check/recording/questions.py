"""What a request for permission asks, and what was answered."""

from __future__ import annotations

from typing import Any

from .lines import Line
from .moments import Json, Outcome, Question, Session
from .values import many, obj, text


def question_of(line: Line, request: Any, params: Json, session: Session | None) -> Question:
    """Make sense of a request for permission. v2 says what it is about in `subject`."""
    subject = obj(params.get("subject"))
    tool_call = obj(params.get("toolCall")) or obj(subject.get("toolCall"))
    key = text(tool_call.get("toolCallId")) or text(subject.get("toolCallId"))
    turn = session.turn if session is not None else None
    return Question(line.number, session, key, None, params, tool_call, request, turn=turn)


def outcome_of(message: Json, question: Question) -> Outcome:
    """Give what the client decided. None if it can't be told."""
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
