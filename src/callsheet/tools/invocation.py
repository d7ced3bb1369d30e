"""Call a tool's function, and convert what it returns, yields or raises.

Async functions run on the event loop; others in daemon threads of our own, because the threads of
`concurrent.futures` prevent the interpreter from exiting until they are done. What a function yields is live
output of its call. `to_result`, `to_error` and `reason_of` convert the outcome into a `ToolResult` and a
`Reason`.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import copy_context
from inspect import isawaitable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import msgspec

from callsheet.limits.to_json import jsonsafe
from callsheet.report.content import DiffContent, ToolCallContent, to_content
from callsheet.report.status import Reason
from callsheet.runtime.health import PermissionDenied, short_message
from callsheet.tools.errors import (
    Cancelled,
    ExecutionFailed,
    NotPermitted,
    TimedOut,
    ToolError,
    of_os_error,
)
from callsheet.tools.result import ToolResult
from callsheet.tools.stdio_guard import enter_call, leave_call

if TYPE_CHECKING:
    from callsheet.tools.session import Call
    from callsheet.tools.tool import Tool


IDLE = 10.0
"""Seconds that a thread waits for more work."""

_jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
_idle = threading.Semaphore(0)
"""Counts the threads that wait for a job. Whoever puts a job into the queue takes one of them first."""


async def in_thread(function: Callable[[], Any]) -> Any:
    """Run a function in a thread, in the context of the caller, and return its value.

    If this is cancelled, the thread continues, and its value is discarded.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = copy_context()
    _jobs.put(lambda: context.run(_do, function, future, loop))
    if not _idle.acquire(blocking=False):
        threading.Thread(target=_work, name="callsheet tool", daemon=True).start()
    return await future


def _work() -> None:
    while True:
        try:
            job = _jobs.get(timeout=IDLE)
        except Empty:
            if _idle.acquire(blocking=False):  # nobody counts on this thread any more
                return
            continue
        job()
        del job  # or its values would live on until the next one
        _idle.release()


def _do(
    function: Callable[[], Any], future: asyncio.Future[Any], loop: asyncio.AbstractEventLoop
) -> None:
    value, problem = None, None
    try:
        value = function()
    except (SystemExit, KeyboardInterrupt) as exc:
        problem = ExecutionFailed(f"the tool tried to end the program ({exc!r})")
    except StopIteration as exc:  # a future can't hold it
        problem = RuntimeError(f"the tool raised {exc!r}")
    except BaseException as exc:  # noqa: BLE001 - raised where it is awaited
        problem = exc
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(_settle, future, value, problem)


def _settle(future: asyncio.Future[Any], value: Any, problem: BaseException | None) -> None:
    if future.done():
        return
    if problem is None:
        future.set_result(value)
    else:
        future.set_exception(problem)


MOST_OUTPUT = 1 << 20
"""Maximum number of yielded characters that become the output of the result. All are sent live."""


async def invoke(tool: Tool, call: Call, values: dict[str, Any], output: list[str]) -> Any:
    """Call a tool's function with its arguments, and return its value, or what it has yielded.

    The text that it yields is appended to `output`, so that it is available even if the function fails.

    Raises:
        ExecutionFailed: It is declared to return a `ToolResult`, and has returned something else.
    """
    first = (call,) if tool.parameters.takes_call else ()
    enter_call(call)
    try:
        if tool.how == "async":
            return _as_declared(await tool.function(*first, **values), tool, call)
        stream = _YieldedOutput(call, output)
        if tool.how == "async stream":
            async for piece in tool.function(*first, **values):
                stream.take(piece)
            return stream.result()

        def work() -> Any:
            enter_call(call)  # the thread may outlive its call, and must not print then either
            try:
                made = tool.function(*first, **values)
                return stream.take_all(made) if tool.how == "stream" else made
            finally:
                leave_call()

        made = await in_thread(work)
        if tool.how == "stream":
            return stream.result()
        return _as_declared(await made if isawaitable(made) else made, tool, call)
    finally:
        leave_call()


def _as_declared(value: Any, tool: Tool, call: Call) -> Any:
    """Return a tool's value. A `return` that was forgotten must not make a success of a failure."""
    if not tool.parameters.returns_result or isinstance(value, ToolResult) or call.has_ended:
        return value
    what = "nothing" if value is None else type(value).__name__
    raise ExecutionFailed(
        f"{tool.name} returned {what}, and is declared to return a ToolResult: "
        "`return call.success(…)` or `return call.error(…)`"
    )


class _YieldedOutput:
    """What a tool yields: text and bytes are live output, anything else is its result."""

    def __init__(self, call: Call, output: list[str]) -> None:
        self._call: Call = call
        self._output: list[str] = output
        self._length: int = 0
        self._last: Any = None

    def take(self, piece: Any) -> None:
        if not isinstance(piece, (str, bytes, bytearray)):
            self._last = piece
            return
        self._call.write(piece)
        text = piece if isinstance(piece, str) else bytes(piece).decode(errors="replace")
        if self._length < MOST_OUTPUT:
            self._output.append(text[: MOST_OUTPUT - self._length])
        self._length += len(text)

    def take_all(self, pieces: Iterable[Any]) -> None:
        for piece in pieces:
            if self._call.has_ended:
                return
            self.take(piece)

    def result(self) -> Any:
        if self._last is not None:
            return self._last
        left = self._length - MOST_OUTPUT
        text = "".join(self._output)
        if left > 0:
            mark = self._call.session.phrase("bytes_left_out", count=left)
            done = self._call.success(f"{text}\n[{mark}]").with_metadata("truncated", True)
            return done.as_written()
        return self._call.success(text).as_written()


async def previewed(tool: Tool, call: Call, values: dict[str, Any]) -> tuple[ToolCallContent, ...]:
    """Report what a call would change, and return it. An error of the preview ends the call."""
    items = await preview_of(tool, call, values)
    for item in items:
        change = item.changes[0] if type(item) is DiffContent and len(item.changes) == 1 else None
        if change is not None and change.old_path is None:
            call.diff(change.path, change.old_text, change.new_text)
        elif item not in call.report.content:
            call.show(item)
    return items


async def preview_of(tool: Tool, call: Call, values: dict[str, Any]) -> tuple[ToolCallContent, ...]:
    """Return what a call would change."""
    preview = tool.preview
    if preview is None:
        return ()
    first = (call,) if tool.parameters.takes_call else ()
    if inspect.iscoroutinefunction(preview):
        made = await preview(*first, **values)
    else:
        made = await in_thread(lambda: preview(*first, **values))
    return tuple(to_content(item) for item in made or ())


def to_result(value: Any, success: Callable[[str], ToolResult]) -> ToolResult:
    """Return the result for the value that a tool returned: a result, text, content, or data."""
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
    """Return the `ToolError` for an exception of a tool. `why` is the reason if the tool was stopped."""
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
        return _named(problem)
    if why is not None:  # errors raised while a tool is being stopped are due to the stop
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
    """Return the executor's reason for the stop, with the output and metadata of the tool's own error."""
    if not isinstance(problem, ToolError):
        return why
    error = type(why)(str(why), output=problem.output)
    error.metadata |= why.metadata | problem.metadata
    if "timed_out" in error.metadata:
        error.metadata["timed_out"] = isinstance(why, TimedOut)
    return error


def _named(problem: OSError) -> ToolError:
    """Return the tool error for an error of the system, with the path that it is about."""
    why = problem.strerror or short_message(problem)
    where = problem.filename if isinstance(problem.filename, str) else None
    if where is None:
        return of_os_error(problem, why)
    return of_os_error(problem, f"{where}: {why}", file_path=where)


def reason_of(result: ToolResult, error: ToolError | None) -> Reason | None:
    """Return the reason for a call's end. `error` is the exception, if the tool raised one."""
    if result.success:
        return None
    if result.exit_code:
        return Reason.EXIT_CODE
    return Reason.TOOL_ERROR if error is None else error.reason
