"""The state machine of a tool call, as one table.

Rule 1: everything that decides which status may follow which lives in this file, in `MOVES`.

Rule 2: this file does not know who asks. A status that one of our tools reports and a status that
another agent sends are checked alike.

Theory of operation
-------------------
Each row of `MOVES` is a status, and holds the statuses that may come next. A call enters the table
at the row `None` ("not announced yet") and moves from row to row until it reaches one that is empty.
An empty row is what makes a status final: `is_final` is computed from the table, so there is no
second list of final statuses that could disagree with it.

Three rows deserve an explanation:

* `None` leads everywhere. A live call is announced as pending, but a replayed history announces
  calls that ended long ago, and other agents announce calls that are already running.
* `PENDING` does not lead to `COMPLETED`: a call that never ran has no result. It does lead to
  `FAILED` and `CANCELLED`, because a call can be denied or cancelled before it runs.
* `PAUSED` leads only back to `IN_PROGRESS`. To end a paused call, resume it first.

Reporting the current status again is not a move. It is legal while the call is alive, so a sender
may repeat itself. After a final status nothing is legal, not even that status again: `check_alive`
and `check_move` then raise `LateUpdate`. Any other step that is not in the table is an `IllegalMove`.

The diagram in docs/explanation/lifecycle.md is drawn from `MOVES` by `make docs`.
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
    """Return the status that `value` names.

    Raises:
        InvalidStatus: `value` is not a status or the name of one.
    """
    if type(value) is ToolCallStatus:
        return value
    status = _KNOWN.get(value) if isinstance(value, str) else None
    if status is None:
        raise InvalidStatus(f"unknown status {value!r}: use one of {', '.join(_KNOWN)}")
    return status


def to_reason(value: object) -> Reason:
    """Return the reason that `value` names.

    Raises:
        InvalidReason: `value` is not a reason or the name of one.
    """
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
    """Check that a call in status `old` may report status `new` next.

    Raises:
        LateUpdate: The call has ended; `old` is final.
        IllegalMove: `MOVES` has no step from `old` to `new`.
    """
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
