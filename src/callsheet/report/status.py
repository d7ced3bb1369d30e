"""The life of a call, as one table.

Rule 1: everything about which status may follow which lives in this file, in `MOVES`, and nowhere
else.

Rule 2: this file doesn't know who asks. A tool of ours and a message of another agent are judged
alike.

Theory of operation
-------------------
A call is first heard of in some status, then moves along the rows of `MOVES` until a row is empty:
that status is final. `None` stands for "not heard of yet". A live call is announced as pending; but
a history that is replayed announces calls that ended long ago, and other agents announce calls that
run already, so a call may begin anywhere.

Staying where one is, is not a move, and always fine while the call lives. After a final status
nothing is fine, not even the same status again: whatever comes then is a `LateUpdate`.

The diagram in docs/lifecycle.md is drawn from `MOVES` by scripts/draw_lifecycle.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from callsheet.report.errors import IllegalMove, InvalidReason, InvalidStatus, LateUpdate


class ToolCallStatus(StrEnum):
    """Where a call is in its life."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    is_final: bool
    """Whether a call in this status has ended. Read off `MOVES`, below."""

    # Enum hashes in Python; these are keys on the hot path, and str hashes in C.
    __hash__ = str.__hash__


class Reason(StrEnum):
    """Why a call ended as it did (`_meta.callsheet.reason`)."""

    DENIED = "denied"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    EXIT_CODE = "exit_code"
    TOOL_ERROR = "tool_error"
    EXCEPTION = "exception"
    ABANDONED = "abandoned"


_S = ToolCallStatus

MOVES: Mapping[ToolCallStatus | None, frozenset[ToolCallStatus]] = {
    None: frozenset(_S),
    _S.PENDING: frozenset({_S.IN_PROGRESS, _S.FAILED, _S.CANCELLED}),
    _S.IN_PROGRESS: frozenset({_S.PAUSED, _S.COMPLETED, _S.FAILED, _S.CANCELLED}),
    _S.PAUSED: frozenset({_S.IN_PROGRESS}),
    _S.COMPLETED: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELLED: frozenset(),
}

for _status in ToolCallStatus:
    _status.is_final = not MOVES[_status]

_KNOWN = {status.value: status for status in ToolCallStatus}
_REASONS = {reason.value: reason for reason in Reason}


def to_status(value: object) -> ToolCallStatus:
    """Return the status that `value` names, or raise `InvalidStatus`."""
    if type(value) is ToolCallStatus:
        return value
    status = _KNOWN.get(value) if isinstance(value, str) else None
    if status is None:
        raise InvalidStatus(f"unknown status {value!r}: use one of {', '.join(_KNOWN)}")
    return status


def to_reason(value: object) -> Reason:
    """Return the reason that `value` names, or raise `InvalidReason`."""
    if type(value) is Reason:
        return value
    reason = _REASONS.get(value) if isinstance(value, str) else None
    if reason is None:
        raise InvalidReason(f"unknown reason {value!r}: use one of {', '.join(_REASONS)}")
    return reason


def check_alive(status: ToolCallStatus, tool_call_id: str) -> None:
    """Raise `LateUpdate` if a call in `status` has ended."""
    if not MOVES[status]:
        raise LateUpdate(
            f"call {tool_call_id} has ended ({status.value}); a final state is final",
            old=status.value,
            new=None,
        )


def check_move(old: ToolCallStatus, new: ToolCallStatus, tool_call_id: str) -> None:
    """Raise `IllegalMove` unless a call that is in `old` may be in `new` next."""
    legal = MOVES[old]
    if new in legal or (new is old and legal):
        return
    check_alive(old, tool_call_id)
    ways = ", ".join(sorted(status.value for status in legal))
    raise IllegalMove(
        f"call {tool_call_id} can't go from {old.value} to {new.value}; from {old.value} it may go to {ways}",
        old=old.value,
        new=new.value,
    )
