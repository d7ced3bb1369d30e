"""Every error that the core raises on purpose.

Two families, because callers do different things with them:

* `ReportError`: a value was wrong. Nothing has changed; correct the value and try again.
* `IllegalMove` and `CorrelationError`: the value was fine, but not here or not now.

Each message names what was wrong and what would be right.
"""

from __future__ import annotations


class CallsheetError(Exception):
    """The base of everything that callsheet raises on purpose."""


class ReportError(CallsheetError, ValueError):
    """A value can't be part of a report. The report is as it was before."""


class InvalidStatus(ReportError):
    """A status is not one of `ToolCallStatus`."""


class InvalidReason(InvalidStatus):
    """A reason is not one of `Reason`, or contradicts the status."""


class InvalidKind(ReportError):
    """A kind is neither one of `ToolKind` nor a custom kind that starts with an underscore."""


class InvalidId(ReportError):
    """A call's id is empty, too long, or has characters that no id should have."""


class InvalidLocation(ReportError):
    """A path is not absolute, or a line number is below 1."""


class InvalidContent(ReportError):
    """An item of content is malformed."""


class InvalidValue(ReportError):
    """A value is not JSON, or not text that can be written as UTF-8."""


class OwnedReport(CallsheetError):
    """A report that a ledger owns was to be changed behind the ledger's back."""


class IllegalMove(CallsheetError):
    """The transition table has no such move."""

    def __init__(self, message: str, *, old: str | None, new: str | None) -> None:
        super().__init__(message)
        self.old: str | None = old
        self.new: str | None = new


class LateUpdate(IllegalMove):
    """A change came for a call that has ended. A final state is final."""


class CorrelationError(CallsheetError, LookupError):
    """No call of this session has that id or alias."""

    def __init__(self, tool_call_id: str, session_id: str, *, role: str = "tool call") -> None:
        super().__init__(
            f"unknown {role} {tool_call_id!r} in session {session_id!r}: "
            "it was never announced here, or it ended long ago"
        )
        self.tool_call_id: str = tool_call_id
        self.session_id: str = session_id
