"""Correct a call's status, and find why it failed.

The status is translated to ACP's. A call that the agent reports as failed stays failed. A call that it
reports as completed counts as completed unless there is evidence against that: a rejected approval, a
cancelled turn, an exit code, or an error that the tool itself reports. The checker uses the same evidence
(`callsheet.observe`).
"""

from __future__ import annotations

import copy
import re

from msgspec.structs import replace

from callsheet.observe.evidence import error_in, inner, result_text, texts
from callsheet.observe.exit_codes import did_its_work, exit_of, ran_when_cancelled
from callsheet.observe.model import FINAL, Json, ObservedCall, many, obj, text
from callsheet.report.status import Reason
from callsheet.tap.repair.draft import CallDraft
from callsheet.tap.repair.names import listed

_REASONS = {reason.value: reason for reason in Reason}
_TIMED_OUT = ("timed_out", "timedOut")
_STOPPED = 124
"""Exit codes from here on may mean that the command was stopped: by `timeout`, or by a signal."""


_MARKS = re.compile(r"^[^\w'\"`]+|[\])>* ]+$").sub
_BY_PEOPLE = r"(?:the |your )?(?:user|client|human|operator)"
_IS_REFUSED = re.compile(
    rf"(?i)(?:error: ?)?(?:{_BY_PEOPLE} (?:has )?(?:refused|rejected|denied|declined|doesn't want)\b.*"
    r"|(?:[\w '\"`]{1,60} )?(?:refused|rejected|denied|declined|not (?:allowed|approved|permitted))"
    rf" by {_BY_PEOPLE}\b.*"
    r"|permission (?:to [\w ]{1,40} )?(?:was |has been )?(?:refused|rejected|declined|not granted)\b.*)"
).fullmatch
_IS_CANCELLED = re.compile(
    r"(?i)(?:error: ?)?(?:(?:[\w '\"`]{1,60} )?(?:cancell?ed|interrupted|aborted|stopped)"
    rf" by {_BY_PEOPLE}\b.*"
    rf"|{_BY_PEOPLE} (?:has )?(?:cancell?ed|interrupted|aborted|stopped)\b.*"
    r"|(?:\W?(?:the )?(?:request|operation|command|tool call|tool execution) (?:was |has been )?"
    r"(?:cancell?ed|aborted|interrupted))\W*)"
).fullmatch
"""How agents report in place of a result that there is none, and why: the first line of a short text."""

ACP = frozenset(("pending", "in_progress", "completed", "failed", "cancelled"))

_STATUS_OF = {
    word: status for status in ("pending", "completed", "failed") for word in listed(status)
}
_REASON_OF = {
    word: reason
    for reason in (Reason.DENIED, Reason.CANCELLED, Reason.TIMEOUT)
    for word in listed(reason.value)
}


def in_acp(status: str, *, is_v2: bool) -> tuple[str, Reason | None]:
    """Return the ACP status for an agent's status, and why the call ended, if the status implies it.

    An unknown status means that the call is running.
    """
    if status in ACP or (is_v2 and status == "paused"):
        return status, Reason.CANCELLED if status == "cancelled" else None
    word = "".join(filter(str.isalnum, status.rpartition(".")[2])).lower()
    reason = _REASON_OF.get(word)
    if reason is not None:
        return "cancelled" if reason is Reason.CANCELLED else "failed", reason
    return _STATUS_OF.get(word, "in_progress"), None


def find_outcome(draft: CallDraft) -> CallDraft:
    """Correct a call's status, and find why it failed, if that is known."""
    reported = draft.status
    if reported is None:
        return draft
    status, reason = in_acp(reported, is_v2=draft.is_v2)
    if status in FINAL:
        reason = _why(draft, status, reason)
        if reason is not None:
            status = "cancelled" if reason is Reason.CANCELLED else "failed"
    draft = replace(draft, status=status, reason=None if reason is None else reason.value)
    is_v1s_word = (reported, status) == ("failed", "cancelled") and not draft.is_v2
    return draft if status == reported or is_v1s_word else draft.with_repair("status")


def _why(draft: CallDraft, status: str, word: Reason | None) -> Reason | None:
    """Return why a call that has ended did not succeed, if so, and if it is known.

    `word` is the reason that its status implies.
    """
    call = as_drafted(draft)
    ended = _ended(call, is_v2=draft.is_v2)
    if status == "completed":
        return _why_not_done(draft, call, ended)
    if draft.is_v2 and status == "cancelled":
        return word
    return _why_failed(draft, call, ended, word)


def as_drafted(draft: CallDraft) -> ObservedCall:
    """Return the call with what was found out about it: which tool it is of, and its input."""
    call = draft.call
    found: Json = {"kind": draft.kind, "name": draft.name, "rawInput": draft.raw_input}
    changed = {
        key: value for key, value in found.items() if value and value is not call.fields.get(key)
    }
    if changed:
        call = copy.copy(call)
        call.fields = {**call.fields, **changed}
    return call


def _ended(call: ObservedCall, *, is_v2: bool) -> int | None:
    """Return the line on which the call was first reported as ended, by whatever name of the status."""
    if call.ended is not None:
        return call.ended
    ends = (line for status, line in call.statuses if in_acp(status, is_v2=is_v2)[0] in FINAL)
    return next(ends, None)


def _why_not_done(draft: CallDraft, call: ObservedCall, ended: int | None) -> Reason | None:
    """Return why a call failed that the agent reports as completed; None without evidence of a failure."""
    refused = _refused(call, ended) or _shows_refusal(call)
    if refused is not None:
        return refused
    if _was_stopped(call, ended) and not did_its_work(call):
        return Reason.CANCELLED
    failure_of = draft.profile.failure_of
    found = failure_of(draft.call) if failure_of is not None else None
    if found is not None:
        return found
    code = exit_of(call)
    if code is not None and not code.is_fine:
        return Reason.EXIT_CODE
    return Reason.TOOL_ERROR if error_in(call) is not None or _has_error_flag(call) else None


def _why_failed(
    draft: CallDraft, call: ObservedCall, ended: int | None, word: Reason | None
) -> Reason | None:
    """Return why a call failed that the agent reports as failed; None if nothing shows it.

    `word` is the reason that its status implies. What the user decided takes precedence over it.
    """
    refused = _declared(call) or _refused(call, ended)
    if refused is not None:
        return refused
    stopped = call.cancelled is not None or _was_stopped(call, ended)
    refused = None if stopped else _shows_refusal(call)
    if refused is not None:
        return refused
    found = exit_of(call)
    code = found.code if found is not None else 0
    if not 0 < code < _STOPPED and stopped:
        return Reason.CANCELLED
    failure_of = draft.profile.failure_of
    why = word or (failure_of(draft.call) if failure_of is not None else None)
    if why is not None:
        return why
    if _reports_timeout(call):
        return Reason.TIMEOUT
    if code:
        return Reason.EXIT_CODE
    has_why = call.fields.get("rawOutput") or any(texts(call.fields.get("content")))
    return Reason.TOOL_ERROR if has_why else None


def _refused(call: ObservedCall, ended: int | None) -> Reason | None:
    """Return the reason if the user rejected or cancelled the approval before the call ended."""
    denied = call.denied
    if denied is None or (ended is not None and (denied.answered or 0) > ended):
        return None
    return Reason.DENIED if denied.outcome == "rejected" else Reason.CANCELLED


def _shows_refusal(call: ObservedCall) -> Reason | None:
    """Return why there is no result, where a call shows only a message about that.

    A file may have the same text, so a completed call that reads or searches is no evidence.
    """
    if call.status == "completed" and call.fields.get("kind") in ("read", "search", "fetch"):
        return None
    output = _MARKS("", result_text(call).partition("\n")[0])
    if _IS_REFUSED(output):
        return Reason.DENIED
    return Reason.CANCELLED if _IS_CANCELLED(output) else None


def _was_stopped(call: ObservedCall, ended: int | None) -> bool:
    """Whether the call ran when its turn was cancelled, and may have been stopped by that.

    A turn that ended with another stop reason before the call did was not stopped.
    """
    turn = call.turn
    if turn is None or ended is None or not ran_when_cancelled(call, ended):
        return False
    return turn.ended is None or ended < turn.ended or turn.stop_reason == "cancelled"


def _declared(call: ObservedCall) -> Reason | None:
    """Return the reason that the agent itself reports in `_meta`, as Callsheet's own agents do."""
    reported = obj(obj(call.fields.get("_meta")).get("callsheet")).get("reason")
    return _REASONS.get(text(reported) or "")


def _has_error_flag(call: ObservedCall) -> bool:
    """Whether an item of the content, or `_meta`, or an object in either, is flagged as an error."""
    outer = [obj(call.fields.get("_meta")), *map(obj, many(call.fields.get("content")))]
    objects = [*outer, *(obj(value) for one in outer for value in one.values())]
    return any(one.get(flag) is True for one in objects for flag in ("isError", "is_error"))


def _reports_timeout(call: ObservedCall) -> bool:
    raw = obj(call.fields.get("rawOutput"))
    return any(reported.get(key) is True for reported in inner(raw) for key in _TIMED_OUT)
