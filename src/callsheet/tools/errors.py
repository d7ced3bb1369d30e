"""The errors that a tool raises, and that the executor turns into failed results.

Each class has a stable `code` for programs. Its `retry` states whether another attempt can succeed: `no`;
`changed`, with different arguments or after a change; `later`, with the same arguments at another time.
"""

from __future__ import annotations

import errno
from typing import Any, ClassVar, Literal, TypeAlias

from callsheet.report.errors import CallsheetError
from callsheet.report.json import JsonValue
from callsheet.report.status import Reason

Retry: TypeAlias = Literal["no", "changed", "later"]


class ToolError(CallsheetError):
    """A tool failed.

    Args:
        message: What was wrong, and what would be right.
        output: Output besides the message, such as what a command had printed.
        exit_code: The exit code, if the tool ran something that has one.
        metadata: Further metadata of the result, by key.
    """

    code: ClassVar[str] = "execution_failed"
    retry: ClassVar[Retry] = "changed"
    reason: Reason = Reason.TOOL_ERROR

    def __init__(
        self, message: str, *, output: str = "", exit_code: int | None = None, **metadata: JsonValue
    ) -> None:
        super().__init__(message)
        self.output: str = output
        self.exit_code: int | None = exit_code
        self.metadata: dict[str, JsonValue] = metadata


class InvalidArguments(ToolError):
    """An argument is missing, unknown, or not what the schema allows."""

    code = "invalid_arguments"


class NotFound(ToolError):
    """The requested tool, file or page does not exist."""

    code = "not_found"


class NotPermitted(ToolError):
    """The operation was refused by the user or the system, or is outside the workspace."""

    code = "permission_denied"
    retry = "no"
    reason = Reason.DENIED


class TimedOut(ToolError):
    """The tool exceeded its timeout."""

    code = "timeout"
    retry = "later"
    reason = Reason.TIMEOUT


class Cancelled(ToolError):
    """The call was cancelled."""

    code = "cancelled"
    retry = "later"
    reason = Reason.CANCELLED


class ExecutionFailed(ToolError):
    """The tool ran, and failed."""


class IOFailed(ToolError):
    """The file system or the network failed."""

    code = "io_error"
    retry = "later"


_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP)
_IMPOSSIBLE = (errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL)


def of_os_error(problem: OSError, message: str, **metadata: Any) -> ToolError:
    """Return the tool error for an error of the system."""
    if isinstance(problem, FileNotFoundError):
        return NotFound(message, **metadata)
    if problem.errno in _REFUSED:
        error = NotPermitted(message, **metadata)
        error.reason = Reason.TOOL_ERROR  # it was the system, not the user, that refused
        return error
    if problem.errno in _IMPOSSIBLE:
        return InvalidArguments(message, **metadata)
    return IOFailed(message, errno=problem.errno, **metadata)
