"""The errors that a tool raises. The executor makes the result from them.

Each type has a stable `code` for machines, and says in `retry` whether trying again can help: `no`;
`changed`, if something is done differently; `later`, if the same may work another time.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from callsheet.report.errors import CallsheetError
from callsheet.report.json import JsonValue
from callsheet.report.status import Reason

Retry: TypeAlias = Literal["no", "changed", "later"]


class ToolError(CallsheetError):
    """A tool has failed. The message says what was wrong and what would be right.

    `output` is what there is besides, such as what a command had printed. More named values become
    metadata of the result.
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
    """What was asked for does not exist: a tool, a file, a page."""

    code = "not_found"


class NotPermitted(ToolError):
    """It may not be done: the user or the system refused, or it is outside the workspace."""

    code = "permission_denied"
    retry = "no"
    reason = Reason.DENIED


class TimedOut(ToolError):
    """It took too long."""

    code = "timeout"
    retry = "later"
    reason = Reason.TIMEOUT


class Cancelled(ToolError):
    """It was not wanted any more."""

    code = "cancelled"
    retry = "later"
    reason = Reason.CANCELLED


class ExecutionFailed(ToolError):
    """It was done, and went wrong."""


class IOFailed(ToolError):
    """The file system or the network failed."""

    code = "io_error"
    retry = "later"
