"""Complete permission requests: each shows the same report as its call's announcement, under the same id.

Some agents ask before they report what they ask about. No user should approve what is reported only a
moment later, so such a request waits for it, no longer than an announcement does (`hold.py`).
Meanwhile, text and requests about other calls may overtake it; responses and other requests of the
agent may not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from callsheet.acp import v1, v2
from callsheet.acp.codec import KEYS, as_dict
from callsheet.observe.model import ApprovalRequest, Json, ObservedCall, obj, text
from callsheet.report.json import JsonObject
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason
from callsheet.tap.context import Context, TappedCall
from callsheet.tap.passthrough import PERMISSION, with_ids
from callsheet.tap.repair.names import is_bare


def complete_request(
    message: Json, report: ToolCallReport, clean: Callable[[Any], Any], *, is_v2: bool
) -> Json | None:
    """Return a permission request with the complete call in it. All else stays as the agent sent it.

    Args:
        message: The request.
        report: The call as the client is shown it.
        clean: Redacts the rest of the request.
        is_v2: Whether ACP v2 is spoken.

    Returns:
        The request, or None if it is malformed, so that its meaning is unclear: then it passes unchanged.
    """
    from callsheet.acp.schemas import definition  # loaded with the first request, not before

    params = {key: value for key, value in obj(message.get("params")).items() if key != "toolCall"}
    call = as_dict((v2 if is_v2 else v1).announce(report))
    call.pop("sessionUpdate", None)
    made = with_ids(clean(params), params)
    if is_v2:
        made["title"] = text(made.get("title")) or report.title or report.name or "Unknown tool"
        made["subject"] = {**obj(made.get("subject")), "type": "tool_call", "toolCall": call}
    else:
        made["toolCall"] = call
    wanted = definition(2 if is_v2 else 1, (PERMISSION, False))
    is_valid = wanted is not None and wanted.is_valid(made)
    return {**message, "params": made} if is_valid else None


def shows_the_same(request: Json, call: Json) -> bool:
    """Whether a request of either version shows a call just so."""
    params = obj(request.get("params"))
    shown = obj(params.get("toolCall")) or obj(obj(params.get("subject")).get("toolCall"))
    return all(shown.get(key) == call.get(key) for key in KEYS if key != "_meta")


def is_blind(mine: TappedCall, question: ApprovalRequest) -> bool:
    """Whether nothing is known of what the user would approve. In v2, the request itself shows it."""
    report = mine.report
    if report is None or report.is_final or mine.draft.is_v2:
        return False
    shows = question.tool_call.get("content") or report.content or report.locations
    if report.raw_input or shows:
        return False
    return mine.draft.has_own_title or is_bare(report.title, report.name, report.kind, None)


def why_denied(call: ObservedCall) -> Reason:
    """Return why a call ends whose permission request was rejected or cancelled."""
    turn, denied = call.turn, call.denied
    rejected = denied is not None and denied.outcome == "rejected"
    if not rejected and turn is not None and turn.cancelled is not None:
        return Reason.CANCELLED
    return Reason.DENIED


def was_only_allowed(call: ObservedCall) -> bool:
    """Whether the user approved something, and nothing else is known of what that was."""
    if not call.questions or not call.is_asked_first or call.updates:
        return False
    question = call.questions[-1]
    return question.outcome == "allowed" and not question.tool_call.get("rawInput")


def was_never_allowed(call: ObservedCall) -> bool:
    """Whether the user was asked about a call and never approved it: it has not run."""
    return call.denied is not None and all(one.outcome != "allowed" for one in call.questions)


def decision_note(
    mine: TappedCall, question: ApprovalRequest, tap: Context, now: float
) -> JsonObject:
    """Return the note on the user's answer: what it was, and how long it took."""
    option = text(question.chosen.get("name"))
    outcome = {"allowed": "allowed", "rejected": "denied"}.get(question.outcome or "", "cancelled")
    note: JsonObject = {"outcome": outcome, "by": "user"}
    if option:
        note["option"] = option
    if mine.asked is not None and tap.has_times:
        asked, answered = tap.time(mine.asked), tap.time(now)
        if asked is not None:
            note |= {"askedAt": asked, "answeredAt": answered}
        note["waitedMs"] = max(0, round((now - mine.asked) * 1000))
    return note


class HeldRequest(Struct, eq=False):
    """A request that waits for what it is about. `line` is as it came."""

    mine: TappedCall
    question: ApprovalRequest
    message: Json
    line: bytes
