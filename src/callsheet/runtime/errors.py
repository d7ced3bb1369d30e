"""What the runtime raises on purpose."""

from __future__ import annotations

from callsheet.acp.permission import PermissionOption
from callsheet.report.errors import CallsheetError


class SessionClosed(CallsheetError):
    """The session is closed, or was never opened."""


class PermissionDenied(CallsheetError):
    """The client said no, or nobody could be asked.

    `cancelled` says that the turn was cancelled instead; `option` is what was chosen.
    """

    def __init__(
        self, message: str, *, cancelled: bool = False, option: PermissionOption | None = None
    ) -> None:
        super().__init__(message)
        self.cancelled: bool = cancelled
        self.option: PermissionOption | None = option


class ConsumerLost(CallsheetError):
    """A consumer was given up, or refused what it was sent (raised in strict mode only)."""
