"""What a tool has returned or raised, as a `ToolResult` and the reason for its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from callsheet.limits.to_json import jsonsafe
from callsheet.report.content import ToolCallContent
from callsheet.report.status import Reason
from callsheet.runtime.health import PermissionDenied, short_message

from .errors import (
    Cancelled,
    ExecutionFailed,
    InvalidArguments,
    IOFailed,
    NotFound,
    NotPermitted,
    TimedOut,
    ToolError,
)
from .result import ToolResult


def to_result(value: Any, success: Callable[[str], ToolResult]) -> ToolResult:
    """Make a result of what a tool has returned: a result, text, content, or data."""
    if isinstance(value, ToolResult):
        return value
    if value is None:
        return success("")
    if isinstance(value, str):
        return success(value)
    if isinstance(value, (bytes, bytearray)):
        return success(bytes(value).decode(errors="replace"))
    if isinstance(value, ToolCallContent):
        return success("").with_content(value)
    data = jsonsafe(value)
    text = msgspec.json.format(msgspec.json.encode(data), indent=2).decode()
    return success(text).with_metadata("result", data)


def to_error(problem: BaseException, why: Cancelled | TimedOut | None) -> ToolError:
    """Make a `ToolError` of what a tool has raised. `why` is why it was stopped, if it was."""
    if why is not None and isinstance(problem, (asyncio.CancelledError, Cancelled, TimedOut)):
        return _stopped(problem, why)
    if isinstance(problem, ToolError):
        return problem
    if isinstance(problem, PermissionDenied):
        return Cancelled(str(problem)) if problem.cancelled else NotPermitted(str(problem))
    if isinstance(problem, asyncio.CancelledError):
        return Cancelled("Cancelled")
    if isinstance(problem, TimeoutError):
        return TimedOut(short_message(problem) if str(problem) else "Timed out")
    if isinstance(problem, OSError):
        return _of_os_error(problem)
    if why is not None:  # what breaks while a tool is stopped breaks because of that
        return type(why)(
            str(why),
            output=short_message(problem),
            **why.metadata,
            exception=type(problem).__name__,
        )
    error = ExecutionFailed(short_message(problem), exception=type(problem).__name__)
    error.reason = Reason.EXCEPTION
    return error


def _stopped(problem: BaseException, why: Cancelled | TimedOut) -> ToolError:
    """Keep what a tool said while it was stopped. Why it was, the executor knows better."""
    if not isinstance(problem, ToolError):
        return why
    error = type(why)(str(why), output=problem.output)
    error.metadata |= why.metadata | problem.metadata
    if "timed_out" in error.metadata:
        error.metadata["timed_out"] = isinstance(why, TimedOut)
    return error


def _of_os_error(problem: OSError) -> ToolError:
    said = problem.strerror or short_message(problem)
    where = problem.filename if isinstance(problem.filename, str) else None
    message = f"{where}: {said}" if where else said
    metadata: dict[str, Any] = {"file_path": where} if where else {}
    if isinstance(problem, FileNotFoundError):
        return NotFound(message, **metadata)
    if isinstance(problem, PermissionError):
        error = NotPermitted(message, **metadata)
        error.reason = Reason.TOOL_ERROR  # it was the system, not the user, who said no
        return error
    if isinstance(problem, (IsADirectoryError, NotADirectoryError)):
        return InvalidArguments(message, **metadata)
    return IOFailed(message, errno=problem.errno, **metadata)


def reason_of(result: ToolResult, error: ToolError | None) -> Reason | None:
    """Return the reason for a call's end. `error` is what was raised, if the tool did not return."""
    if result.success:
        return None
    if result.exit_code:
        return Reason.EXIT_CODE
    return Reason.TOOL_ERROR if error is None else error.reason
