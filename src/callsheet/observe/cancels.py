"""Whether a call was running when people cancelled, and so may have been stopped by it."""

from __future__ import annotations

from callsheet.observe.exits import exit_of
from callsheet.observe.moments import Call

CROSSED = 0.005
"""Seconds in which a cancel and the call's own end may cross on the wire."""


def ran_when_cancelled(call: Call, ended: int | None) -> bool:
    """Whether a call that ended on a line had begun before its turn was cancelled, and ended after it."""
    turn = call.turn
    if turn is None or turn.cancelled is None or ended is None:
        return False
    return call.first < turn.cancelled < ended and not _has_crossed(call)


def did_its_work(call: Call) -> bool:
    """Whether a call surely was through with what it had to do: its command says so."""
    found = exit_of(call)
    return found is not None and found.is_fine


def _has_crossed(call: Call) -> bool:
    begun = call.turn.cancelled_at if call.turn is not None else None
    return begun is not None and call.ended_at is not None and call.ended_at - begun < CROSSED
