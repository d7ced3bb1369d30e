"""Does each call end: with its turn, after a cancel, after a no? And does it end as what it was?"""

from __future__ import annotations

from callsheet.check.finding import Rule, Said
from callsheet.observe.events import CallClosed, CallLeftOpen, UpdateArrived
from callsheet.observe.exit_codes import did_its_work, ran_when_cancelled
from callsheet.observe.model import ObservedCall


def never_ended(left: CallLeftOpen) -> Said | None:
    """Find a call that is open when its turn is over, and nobody stopped it."""
    if left.call.is_replayed or _was_cancelled(left) or _was_denied(left):
        return None
    return Said(f"{_state(left.call)} when its turn is over (line {left.line})")


def open_after_cancel(left: CallLeftOpen) -> Said | None:
    """Find a call that was cancelled, and did not end."""
    if left.call.is_replayed or not _was_cancelled(left):
        return None
    by = left.call.cancelled or (left.turn.cancelled if left.turn is not None else None)
    return Said(f"it was cancelled on line {by}, and did not end: {_state(left.call)}")


def open_after_denial(left: CallLeftOpen) -> Said | None:
    """Find a call that was denied, and did not end."""
    denied = left.call.denied
    if left.call.is_replayed or denied is None or _was_cancelled(left):
        return None
    return Said(f"it was denied on line {denied.answered}, and did not end: {_state(left.call)}")


def open_in_history(left: CallLeftOpen) -> Said | None:
    """Find a call of a history that is told without an end."""
    if not left.call.is_replayed:
        return None
    return Said(f"{_state(left.call)} when the session is loaded (line {left.line})")


def cut_off(over: CallClosed) -> Said | None:
    """Find a call that is open only because the recording ends before its turn does."""
    call = over.call
    if not over.at_the_end or call.ended is not None or call.is_left or call.is_background:
        return None
    return Said(f"{_state(call)} where the recording ends")


def denied_but_completed(told: UpdateArrived) -> Said | None:
    """Find a call that is shown as done, although people said no."""
    call = told.call
    if call is None or told.update.get("status") != "completed" or call.ended is not None:
        return None
    denied = call.denied
    if denied is None:
        return None
    return Said(
        f"permission was {denied.outcome} on line {denied.answered}, and it is shown as completed",
        "update.status",
    )


def cancelled_but_completed(over: CallClosed) -> Said | None:
    """Find a call that ran when people cancelled, and is shown as done."""
    call, turn = over.call, over.call.turn
    if turn is None or turn.stop_reason != "cancelled" or not ran_when_cancelled(call, call.ended):
        return None
    if _first_end(call) != "completed" or call.denied is not None or did_its_work(call):
        return None
    return Said(
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


RULES = (
    Rule(
        id="lifecycle/never-ended",
        severity="error",
        moment=CallLeftOpen,
        title="A call is open when its turn is over",
        protocol="Each call ends before its turn does (v1: the prompt's answer; v2: `idle`).",
        harm="The card spins for ever. People can't tell what was done.",
        fix="End every open call before you answer the prompt, also on errors and at the last step.",
        check=never_ended,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "in_progress"}',
    ),
    Rule(
        id="lifecycle/open-after-cancel",
        severity="error",
        moment=CallLeftOpen,
        title="A cancelled call does not end",
        protocol="After a cancel, the agent sends the last updates of its calls, then answers the prompt.",
        harm="The card spins for ever. People who have cancelled can't tell whether it still runs.",
        fix="End every open call on a cancel: `failed` in v1, `cancelled` in v2.",
        check=open_after_cancel,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "in_progress"}\n'
        '{"method": "session/cancel", "params": {"sessionId": "s1"}}',
    ),
    Rule(
        id="lifecycle/open-after-denial",
        severity="error",
        moment=CallLeftOpen,
        title="A denied call does not end",
        protocol="A call that may not run has ended, too: it is `failed` (v2: or `cancelled`).",
        harm="The card spins for ever, or keeps asking, although people have said no.",
        fix="When permission is rejected or the question dismissed, end the call with the reason.",
        check=open_after_denial,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "pending"}\n'
        '{"id": 0, "method": "session/request_permission", "params": {"sessionId": "s1",'
        ' "toolCall": {"toolCallId": "c1"}, "options": [{"optionId": "n", "name": "No", "kind":'
        ' "reject_once"}]}}\n'
        '{"id": 0, "result": {"outcome": {"outcome": "selected", "optionId": "n"}}}',
    ),
    Rule(
        id="lifecycle/open-in-history",
        severity="warning",
        moment=CallLeftOpen,
        title="A loaded session shows a call that never ended",
        protocol="`session/load` tells the history as it was, before it is answered. What is past has ended.",
        harm="The card of a call from days ago spins for ever.",
        fix="Tell the end of each call in the replay. One whose end is not known has failed.",
        check=open_in_history,
        example='{"id": 2, "result": {"stopReason": "end_turn"}}\n'
        '{"id": 3, "method": "session/load", "params": {"sessionId": "s1", "cwd": "/code",'
        ' "mcpServers": []}}\n'
        '{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "in_progress"}\n'
        '{"id": 3, "result": {}}',
    ),
    Rule(
        id="lifecycle/cut-off",
        severity="advice",
        moment=CallClosed,
        title="The recording ends before the call does",
        protocol="Each call ends before its turn does. Here, the turn's end was not recorded.",
        harm="If the agent died there, people saw a card that spins for ever.",
        fix="Record until the prompt is answered. If it never is, see why the agent stopped.",
        check=cut_off,
    ),
    Rule(
        id="lifecycle/denied-but-completed",
        severity="error",
        moment=UpdateArrived,
        title="A denied call is shown as completed",
        protocol="`completed` is for calls that were carried out. Without permission, nothing may be.",
        harm="People believe that it was done against their word; or it was.",
        fix="End a denied call as `failed`, and say that it was denied.",
        check=denied_but_completed,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "pending"}\n'
        '{"id": 0, "method": "session/request_permission", "params": {"sessionId": "s1",'
        ' "toolCall": {"toolCallId": "c1"}, "options": [{"optionId": "n", "name": "No", "kind":'
        ' "reject_once"}]}}\n'
        '{"id": 0, "result": {"outcome": {"outcome": "selected", "optionId": "n"}}}\n'
        '{"tool_call_update": "c1", "status": "completed"}',
    ),
    Rule(
        id="lifecycle/cancelled-but-completed",
        severity="warning",
        moment=CallClosed,
        title="A cancelled call is shown as completed",
        protocol="A call that was stopped is `failed`, in v2 `cancelled`; `completed` is for what was done.",
        harm="People believe that the work was done, and build on it.",
        fix="End what a cancel has stopped as `failed` or `cancelled`, with what it had done so far.",
        check=cancelled_but_completed,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "in_progress"}\n'
        '{"method": "session/cancel", "params": {"sessionId": "s1"}}\n'
        '{"tool_call_update": "c1", "status": "completed"}\n'
        '{"id": 2, "result": {"stopReason": "cancelled"}}',
    ),
)
