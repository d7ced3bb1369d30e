"""Does each call open once, under an id of its own, and move only as it may? How calls end: `endings.py`.

Does each call end: with its turn, after a cancel, after a no? And does it end as what it was?
"""

from __future__ import annotations

from callsheet.check.finding import Violation, quoted, rule
from callsheet.observe.events import CallBegan, CallClosed, CallLeftOpen, UpdateArrived
from callsheet.observe.exit_codes import did_its_work, ran_when_cancelled
from callsheet.observe.model import FINAL, ObservedCall, ObservedConnection, text

V1 = ("pending", "in_progress", "completed", "failed")
V2 = (*V1, "paused", "cancelled")
_STARTED = ("in_progress", "paused")
_INSTANT = ("think", "switch_mode")
"""Kinds of which nothing runs."""


@rule("lifecycle/announced-twice", UpdateArrived)
def announced_twice(told: UpdateArrived) -> Violation | None:
    """Find a `tool_call` for a call that is open."""
    call = told.call
    if told.kind != "tool_call" or call is None or call.ended is not None:
        return None
    if call.announced is None or _is_told_again(told):
        return None
    return Violation(f"it was announced on line {call.announced}, and is open", "update.toolCallId")


@rule("lifecycle/id-reused", CallBegan)
def id_reused(begun: CallBegan) -> Violation | None:
    """Find a call that has the id of another that was there before."""
    call = begun.call
    if not call.is_reused:
        return None
    before = f", which ended on line {call.ended_before}" if call.ended_before else ""
    where = "params.toolCall.toolCallId" if call.is_asked_first else "update.toolCallId"
    return Violation(f"the id {call.id} was another call's{before}", where)


@rule("lifecycle/not-announced", UpdateArrived)
def not_announced(told: UpdateArrived) -> Violation | None:
    """Find the first update of a call that was not announced."""
    if told.kind == "tool_call" or told.elsewhere is not None or not told.session.is_whole:
        return None
    if told.connection.is_v2 and told.kind == "tool_call_update":
        return None  # it announces
    call = told.call
    if call is None and not told.known_before:
        return Violation("no call of this id was announced", "update.toolCallId")
    if call is not None and call.announced is None and not call.updates:
        asked = call.questions[0].line if call.questions else call.first
        return Violation(
            f"it was asked about on line {asked}, and never announced", "update.toolCallId"
        )
    return None


@rule("lifecycle/moved-back", UpdateArrived)
def moved_back(told: UpdateArrived) -> Violation | None:
    """Find a call that goes back: from running to pending, from an end to anything that is none."""
    call, status = told.call, _status(told)
    if call is None or status is None or told.kind == "tool_call" or _is_told_again(told):
        return None
    if call.ended is not None:
        is_back = status not in FINAL and call.status in FINAL and not _tells_anew(told)
    else:
        is_back = status == "pending" and call.status in _STARTED
    return (
        Violation(f"it goes back from {call.status} to {status}", "update.status")
        if is_back
        else None
    )


@rule("lifecycle/never-ran", UpdateArrived)
def never_ran(told: UpdateArrived) -> Violation | None:
    """Find a call that is done, and never was shown to run."""
    call = told.call
    if call is None or call.announced is None or call.is_replayed or call.ended is not None:
        return None
    if call.status != "pending" or _status(told) != "completed" or told.kind == "tool_call":
        return None
    if call.denied is not None or call.fields.get("kind") in _INSTANT or _may_be_history(told):
        return None
    since = next((line for status, line in call.statuses if status == "pending"), call.first)
    return Violation(
        f"it was pending since line {since}, and is completed without in_progress between",
        "update.status",
    )


@rule("lifecycle/after-the-end", UpdateArrived)
def changed_after_its_end(told: UpdateArrived) -> Violation | None:
    """Find the first update of a call that has ended, and each that ends it in another way."""
    call, status = told.call, _status(told)
    if told.kind == "tool_call" or _is_told_again(told):
        return None
    if call is None:
        is_gone = told.known_before and not told.session.is_replaying
        return Violation("it was over long ago") if is_gone else None
    if call.ended is None or (status is not None and status not in FINAL):
        return None  # the latter is a move back
    if status is not None and status != call.status and call.status in FINAL:
        return Violation(
            f"it was {call.status} since line {call.ended}, now {status}", "update.status"
        )
    if call.late:
        return None
    return Violation(
        f"it was {call.status} since line {call.ended}", "update.status" if status else None
    )


@rule("lifecycle/unknown-status", UpdateArrived)
def unknown_status(told: UpdateArrived) -> Violation | None:
    """Find a status that the version of the protocol does not have."""
    status, connection = text(told.update.get("status")), told.connection
    if status is None or status in V1:
        return None
    if not connection.is_v1 and (status in V2 or status.startswith("_")):
        return None
    if told.call is not None and told.call.status == status:
        return None  # it was told
    return Violation(
        f"{quoted(status, 40)} is no status of ACP {_version(connection)}", "update.status"
    )


def _status(told: UpdateArrived) -> str | None:
    status = told.update.get("status")
    if status is None and "status" in told.update and told.connection.is_v2:
        return "pending"  # v2: null resets it
    return text(status)


def _is_told_again(told: UpdateArrived) -> bool:
    """Whether a history is told of a call that was known before."""
    session, call = told.session, told.call
    return session.is_replaying and call is not None and call.first < (session.asked or 0)


def _may_be_history(told: UpdateArrived) -> bool:
    """Whether a session may just be loaded: of the agent's lines alone, nobody can tell."""
    session = told.session
    return not (told.connection.has_both_ways or session.is_whole or session.last_turn)


def _tells_anew(told: UpdateArrived) -> bool:
    """Whether v2 opens another call under the id, which is another matter."""
    return told.connection.is_v2 and ("title" in told.update or "rawInput" in told.update)


def _version(connection: ObservedConnection) -> str:
    return "v2" if connection.is_v2 else "v1" if connection.is_v1 else "v1 or v2"


@rule("lifecycle/never-ended", CallLeftOpen)
def never_ended(left: CallLeftOpen) -> Violation | None:
    """Find a call that is open when its turn is over, and nobody stopped it."""
    if left.call.is_replayed or _was_cancelled(left) or _was_denied(left):
        return None
    return Violation(f"{_state(left.call)} when its turn is over (line {left.line})")


@rule("lifecycle/open-after-cancel", CallLeftOpen)
def open_after_cancel(left: CallLeftOpen) -> Violation | None:
    """Find a call that was cancelled, and did not end."""
    if left.call.is_replayed or not _was_cancelled(left):
        return None
    by = left.call.cancelled or (left.turn.cancelled if left.turn is not None else None)
    return Violation(f"it was cancelled on line {by}, and did not end: {_state(left.call)}")


@rule("lifecycle/open-after-denial", CallLeftOpen)
def open_after_denial(left: CallLeftOpen) -> Violation | None:
    """Find a call that was denied, and did not end."""
    denied = left.call.denied
    if left.call.is_replayed or denied is None or _was_cancelled(left):
        return None
    return Violation(
        f"it was denied on line {denied.answered}, and did not end: {_state(left.call)}"
    )


@rule("lifecycle/open-in-history", CallLeftOpen)
def open_in_history(left: CallLeftOpen) -> Violation | None:
    """Find a call of a history that is told without an end."""
    if not left.call.is_replayed:
        return None
    return Violation(f"{_state(left.call)} when the session is loaded (line {left.line})")


@rule("lifecycle/cut-off", CallClosed)
def cut_off(over: CallClosed) -> Violation | None:
    """Find a call that is open only because the recording ends before its turn does."""
    call = over.call
    if not over.at_the_end or call.ended is not None or call.is_left or call.is_background:
        return None
    return Violation(f"{_state(call)} where the recording ends")


@rule("lifecycle/denied-but-completed", UpdateArrived)
def denied_but_completed(told: UpdateArrived) -> Violation | None:
    """Find a call that is shown as done, although people said no."""
    call = told.call
    if call is None or told.update.get("status") != "completed" or call.ended is not None:
        return None
    denied = call.denied
    if denied is None:
        return None
    return Violation(
        f"permission was {denied.outcome} on line {denied.answered}, and it is shown as completed",
        "update.status",
    )


@rule("lifecycle/cancelled-but-completed", CallClosed)
def cancelled_but_completed(over: CallClosed) -> Violation | None:
    """Find a call that ran when people cancelled, and is shown as done."""
    call, turn = over.call, over.call.turn
    if turn is None or turn.stop_reason != "cancelled" or not ran_when_cancelled(call, call.ended):
        return None
    if _first_end(call) != "completed" or call.denied is not None or did_its_work(call):
        return None
    return Violation(
        f"it ran when the turn was cancelled on line {turn.cancelled}, and is shown as completed",
        "update.status",
        call.ended,
    )


def _first_end(call: ObservedCall) -> str | None:
    return next((status for status, line in call.statuses if line == call.ended), None)


def _was_cancelled(left: CallLeftOpen) -> bool:
    turn = left.turn
    if left.call.cancelled is not None:
        return True
    if turn is None or turn.cancelled is None:
        return False
    denied = left.call.denied
    return denied is None or denied.outcome != "rejected"


def _was_denied(left: CallLeftOpen) -> bool:
    return left.call.denied is not None


def _state(call: ObservedCall) -> str:
    if not call.updates:
        return f"nothing was heard of it since the question on line {call.first}"
    return f"it is still {call.status or 'pending'}"
