"""Does each call open once, under an id of its own, move only as it may, and end?

A call must end with its turn, after a cancel and after a denial, and with the status that is true: the
second half of this file.
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
def announced_twice(event: UpdateArrived) -> Violation | None:
    """Find a `tool_call` for a call that is open."""
    call = event.call
    if event.kind != "tool_call" or call is None or call.ended is not None:
        return None
    if call.announced is None or _is_replayed_again(event):
        return None
    return Violation(
        f"it was announced on line {call.announced}, and is still open", "update.toolCallId"
    )


@rule("lifecycle/id-reused", CallBegan)
def id_reused(event: CallBegan) -> Violation | None:
    """Find a call that has the id of another that was there before."""
    call = event.call
    if not call.is_reused:
        return None
    before = f", which ended on line {call.ended_before}" if call.ended_before else ""
    where = "params.toolCall.toolCallId" if call.is_asked_first else "update.toolCallId"
    return Violation(f"the id {call.id} belongs to another call{before}", where)


@rule("lifecycle/not-announced", UpdateArrived)
def not_announced(event: UpdateArrived) -> Violation | None:
    """Find the first update of a call that was not announced."""
    if event.kind == "tool_call" or event.elsewhere is not None or not event.session.is_whole:
        return None
    if event.connection.is_v2 and event.kind == "tool_call_update":
        return None  # it announces
    call = event.call
    if call is None and not event.known_before:
        return Violation("no call of this id was announced", "update.toolCallId")
    if call is not None and call.announced is None and not call.updates:
        asked = call.questions[0].line if call.questions else call.first
        return Violation(
            f"permission was requested on line {asked}, but the call was never announced",
            "update.toolCallId",
        )
    return None


@rule("lifecycle/moved-back", UpdateArrived, fields=["status"])
def moved_back(event: UpdateArrived) -> Violation | None:
    """Find a call that goes back: from running to pending, from an end to anything that is none."""
    call, status = event.call, _status(event)
    if call is None or status is None or event.kind == "tool_call" or _is_replayed_again(event):
        return None
    if call.ended is not None:
        is_back = status not in FINAL and call.status in FINAL and not _opens_another(event)
    else:
        is_back = status == "pending" and call.status in _STARTED
    return (
        Violation(f"it goes back from {call.status} to {status}", "update.status")
        if is_back
        else None
    )


@rule("lifecycle/never-ran", UpdateArrived, fields=["status"])
def never_ran(event: UpdateArrived) -> Violation | None:
    """Find a call that is completed, and was never in progress."""
    call = event.call
    if call is None or call.announced is None or call.is_replayed or call.ended is not None:
        return None
    if call.status != "pending" or _status(event) != "completed" or event.kind == "tool_call":
        return None
    if call.denied is not None or call.fields.get("kind") in _INSTANT or _may_be_history(event):
        return None
    since = next((line for status, line in call.statuses if status == "pending"), call.first)
    return Violation(
        f"it was pending since line {since}, and is completed without having been in_progress",
        "update.status",
    )


@rule("lifecycle/after-the-end", UpdateArrived)
def changed_after_its_end(event: UpdateArrived) -> Violation | None:
    """Find the first update of a call that has ended, and each that ends it in another way."""
    call, status = event.call, _status(event)
    if event.kind == "tool_call" or _is_replayed_again(event):
        return None
    if call is None:
        is_gone = event.known_before and not event.session.is_replaying
        return Violation("it ended long ago") if is_gone else None
    if call.ended is None or (status is not None and status not in FINAL):
        return None  # the latter is a move back
    if status is not None and status != call.status and call.status in FINAL:
        return Violation(
            f"it has been {call.status} since line {call.ended}, and is now {status}",
            "update.status",
        )
    if call.late:
        return None
    return Violation(
        f"it has been {call.status} since line {call.ended}", "update.status" if status else None
    )


@rule("lifecycle/unknown-status", UpdateArrived, fields=["status"], screen=True)
def unknown_status(event: UpdateArrived) -> Violation | None:
    """Find a status that the version of the protocol does not have."""
    status, connection = text(event.update.get("status")), event.connection
    if status is None or status in V1:
        return None
    if not connection.is_v1 and (status in V2 or status.startswith("_")):
        return None
    if event.call is not None and event.call.status == status:
        return None  # it was reported
    return Violation(
        f"{quoted(status, 40)} is not a status of ACP {_version(connection)}", "update.status"
    )


def _status(event: UpdateArrived) -> str | None:
    status = event.update.get("status")
    if status is None and "status" in event.update and event.connection.is_v2:
        return "pending"  # v2: null resets it
    return text(status)


def _is_replayed_again(event: UpdateArrived) -> bool:
    """Whether a history is replayed of a call that was known before."""
    session, call = event.session, event.call
    return session.is_replaying and call is not None and call.first < (session.asked or 0)


def _may_be_history(event: UpdateArrived) -> bool:
    """Whether a session may just be loaded: the agent's lines alone don't show it."""
    session = event.session
    return not (event.connection.has_both_ways or session.is_whole or session.last_turn)


def _opens_another(event: UpdateArrived) -> bool:
    """Whether v2 opens another call under the id, which is another matter."""
    return event.connection.is_v2 and ("title" in event.update or "rawInput" in event.update)


def _version(connection: ObservedConnection) -> str:
    return "v2" if connection.is_v2 else "v1" if connection.is_v1 else "v1 or v2"


@rule("lifecycle/never-ended", CallLeftOpen)
def never_ended(event: CallLeftOpen) -> Violation | None:
    """Find a call that is open when its turn is over, and nobody stopped it."""
    if event.call.is_replayed or _was_cancelled(event) or event.call.denied:
        return None
    return Violation(f"{_state(event.call)} when its turn is over (line {event.line})")


@rule("lifecycle/open-after-cancel", CallLeftOpen)
def open_after_cancel(event: CallLeftOpen) -> Violation | None:
    """Find a call that was cancelled, and did not end."""
    if event.call.is_replayed or not _was_cancelled(event):
        return None
    by = event.call.cancelled or (event.turn.cancelled if event.turn is not None else None)
    return Violation(f"it was cancelled on line {by}, but did not end: {_state(event.call)}")


@rule("lifecycle/open-after-denial", CallLeftOpen)
def open_after_denial(event: CallLeftOpen) -> Violation | None:
    """Find a call that was denied, and did not end."""
    denied = event.call.denied
    if event.call.is_replayed or denied is None or _was_cancelled(event):
        return None
    return Violation(
        f"it was denied on line {denied.answered}, but did not end: {_state(event.call)}"
    )


@rule("lifecycle/open-in-history", CallLeftOpen)
def open_in_history(event: CallLeftOpen) -> Violation | None:
    """Find a call of a history that is replayed without an end."""
    if not event.call.is_replayed:
        return None
    return Violation(f"{_state(event.call)} when the session is loaded (line {event.line})")


@rule("lifecycle/cut-off", CallClosed)
def cut_off(event: CallClosed) -> Violation | None:
    """Find a call that is open only because the recording ends before its turn does."""
    call = event.call
    if not event.at_the_end or call.ended is not None or call.is_left or call.is_background:
        return None
    return Violation(f"{_state(call)} where the recording ends")


@rule("lifecycle/denied-but-completed", UpdateArrived, fields=["status"])
def denied_but_completed(event: UpdateArrived) -> Violation | None:
    """Find a call that is shown as done, although the user denied it."""
    call = event.call
    if call is None or event.update.get("status") != "completed" or call.ended is not None:
        return None
    denied = call.denied
    if denied is None:
        return None
    return Violation(
        f"permission was {denied.outcome} on line {denied.answered}, but it is shown as completed",
        "update.status",
    )


@rule("lifecycle/cancelled-but-completed", CallClosed)
def cancelled_but_completed(event: CallClosed) -> Violation | None:
    """Find a call that ran when the user cancelled, and is shown as done."""
    call, turn = event.call, event.call.turn
    if turn is None or turn.stop_reason != "cancelled" or not ran_when_cancelled(call, call.ended):
        return None
    if _first_end(call) != "completed" or call.denied is not None or did_its_work(call):
        return None
    return Violation(
        f"it was running when the turn was cancelled on line {turn.cancelled}, but is shown as completed",
        "update.status",
        call.ended,
    )


def _first_end(call: ObservedCall) -> str | None:
    return next((status for status, line in call.statuses if line == call.ended), None)


def _was_cancelled(event: CallLeftOpen) -> bool:
    turn = event.turn
    if event.call.cancelled is not None:
        return True
    if turn is None or turn.cancelled is None:
        return False
    denied = event.call.denied
    return denied is None or denied.outcome != "rejected"


def _state(call: ObservedCall) -> str:
    if not call.updates:
        return f"nothing was sent about it since the request on line {call.first}"
    return f"it is still {call.status or 'pending'}"
