"""Run tools and report their calls, so that every call ends, whatever its tool does.

A call goes through these steps: it is announced; its arguments are validated and converted; its paths are
resolved; permission is requested, with a preview of the change; its paths are locked; the tool is invoked
with a timeout; and the outcome becomes a `ToolResult`, which is stamped and reported.

All steps after the announcement run in a task of their own, which is what makes every call end. The caller
waits for `Run.finished`, not for the task: a tool that ignores its cancellation is abandoned after `GRACE`
seconds, and its call ends without it. No tool is ever run twice for one call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic
from traceback import format_exception
from typing import TYPE_CHECKING, Any, TypeAlias

from callsheet.report.errors import InvalidValue
from callsheet.report.json import JsonObject, is_object
from callsheet.report.status import Reason
from callsheet.runtime.clock import to_rfc3339
from callsheet.runtime.health import SessionClosed
from callsheet.runtime.options import CallSpec
from callsheet.tools.invocation import (
    in_thread,
    invoke,
    preview_of,
    previewed,
    reason_of,
    to_error,
    to_result,
)
from callsheet.tools.path_locks import PathClaim, PathLocks
from callsheet.tools.permissions import Permissions
from callsheet.tools.stdio_guard import current_call
from callsheet.tools.tool import Registry
from callsheet.tools.workspace import resolve_paths

from .errors import (
    Cancelled,
    ExecutionFailed,
    InvalidArguments,
    NotFound,
    TimedOut,
    ToolError,
)
from .result import ToolResult
from .tool import Locate, Tool

if TYPE_CHECKING:
    from .session import Call, Session

TIMEOUT = 120.0
"""Seconds that a tool may run, unless the tool or the caller sets a timeout."""

GRACE = 3.0
"""Seconds after which a tool that was cancelled and is still running is abandoned."""

AT_ONCE = 16
"""Calls of one `run_all` that run at the same time."""

_LONG = 262_144
"""Characters of input or output that are redacted in a thread. Fewer take less than a millisecond."""

_TIMES_ASKED = 3
"""Maximum number of approval requests for one call, if its preview changes after each approval."""

_FREE = nullcontext()
"""Stands for what a call need not wait for."""

Asked: TypeAlias = "tuple[str, JsonObject]"


class Run:
    """One call in progress."""

    def __init__(self, call: Call, loop: asyncio.AbstractEventLoop) -> None:
        self.call: Call = call
        self.started: float | None = None
        self.timeout: float | None = None
        self.deadline: float = inf
        self.why: Cancelled | TimedOut | None = None
        self.task: asyncio.Task[None] | None = None
        self.begun: bool = False
        self.has_ended: bool = False
        self.value: Any = None
        self.output: list[str] = []
        self.problem: BaseException | None = None
        self.finished: asyncio.Future[None] = loop.create_future()
        self._loop: asyncio.AbstractEventLoop = loop
        self._grace: asyncio.TimerHandle | None = None

    def end(self, value: Any = None, problem: BaseException | None = None) -> None:
        """Record the value or the exception that the work ended with."""
        if isinstance(problem, SystemExit):
            problem = ExecutionFailed(f"the tool tried to end the program ({problem!r})")
        self.value, self.problem, self.has_ended = value, problem, True
        self._finish()

    async def wait(self) -> None:
        """Wait for the end of the work. If cancelled, cancel the work and wait for that."""
        try:
            await self.finished
        except asyncio.CancelledError:
            # `finished` is cancelled only if this wait was still pending; else the work has ended already.
            if self.finished.cancelled() and self.task is not None and not self.task.done():
                self.finished = self._loop.create_future()
                self.stop(Cancelled(self.call.session.phrase("cancelled")))
                await self.finished
            raise

    def stop_from_anywhere(self, why: Cancelled) -> None:
        """Stop the tool from any thread. A task can only be cancelled on its own event loop."""
        with suppress(RuntimeError):  # its loop is closed, so it has ended
            self._loop.call_soon_threadsafe(self.stop, why)

    def stop(self, why: Cancelled | TimedOut) -> None:
        """Cancel the tool, and stop waiting for it after `GRACE` seconds."""
        if self.why is None and self.task is not None and not self.task.done():
            self.why = why
            self.task.cancel()
            if self.begun:
                self._grace = self._loop.call_later(GRACE, self._finish)
            else:  # a task that is cancelled before its first step never runs
                self._finish()

    def _finish(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
        if not self.finished.done():
            self.finished.set_result(None)


class Executor:
    """Run the tools of one session."""

    def __init__(self, session: Session, registry: Registry, permissions: Permissions) -> None:
        self.registry: Registry = registry
        self.permissions: Permissions = permissions
        self._session: Session = session
        self._locks: PathLocks = PathLocks()
        self._runs: dict[str, Run] = {}
        self._is_closed: bool = False
        # One timer for the timeouts of all runs: nearly all of them end long before.
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at: float = inf

    async def run(
        self,
        name: str,
        arguments: JsonObject | None = None,
        *,
        timeout: float | None = None,
        turn: asyncio.Semaphore | None = None,
        **links: Any,
    ) -> ToolResult:
        """Run a tool, report its call, and return its result; see `Session.run`.

        `turn` limits how many tools run at the same time.

        Raises:
            SessionClosed: The executor is closed.
        """
        if self._is_closed:
            raise SessionClosed(f"session {self._session.session_id} is closed; make a new one")
        given: Any = {} if arguments is None else arguments
        tool = self.registry.get(name)
        call = self._call(name, tool, given, links)
        try:
            if _is_large(given):
                await _off_loop(call.__enter__)
            else:
                call.__enter__()
            run = Run(call, asyncio.get_running_loop())
            begun = monotonic()
            self._runs[call.id] = run
            try:
                self._begin(run, tool, name, given, timeout, turn)
                await run.wait()
            finally:
                del self._runs[call.id]
                if call.claim is not None and not run.begun:
                    self._locks.release(call.claim)
                result, error = self._outcome(run)
                ms = round((monotonic() - (run.started or begun)) * 1000, 3)
                facts: JsonObject = {
                    "timestamp": to_rfc3339(self._session.clock.time_ns()),
                    "working_directory": self._session.cwd,
                }
                if not result.success:
                    facts |= {"error_code": ExecutionFailed.code, "retry": ExecutionFailed.retry}
                result = result.stamped(call.id, name, ms, facts)
                reason = reason_of(result, error)
                if len(result.output) > _LONG:
                    await _off_loop(lambda: call.conclude(result, reason))
                else:
                    call.conclude(result, reason)
        except BaseException as exc:
            call.__exit__(type(exc), exc, None)  # if announcing or concluding it was interrupted
            raise
        call.__exit__(None, None, None)  # if it could not be concluded
        return result

    async def run_all(self, calls: Iterable[Asked], *, at_once: int = AT_ONCE) -> list[ToolResult]:
        """Run tools in parallel, as one batch; see `Session.run_all`."""
        if at_once < 1:
            raise InvalidValue(f"at_once: expected 1 or more, got {at_once}")
        asked = list(calls)
        turn = asyncio.Semaphore(at_once)
        with self._session.batch(total=len(asked)) as batch:
            links: dict[str, Any] = {"batch": batch} if len(asked) > 1 else {}
            each = [self.run(name, arguments, turn=turn, **links) for name, arguments in asked]
            return await asyncio.gather(*each)

    def cancel(self, key: str, message: str | None = None) -> bool:
        """Cancel one call, from any thread, and return whether it was running; see `Session.cancel`."""
        report = self._session.get(key)
        run = self._runs.get(key if report is None else report.tool_call_id)
        if run is None:
            return False
        run.stop_from_anywhere(Cancelled(message or self._session.phrase("cancelled")))
        return True

    async def close(self) -> None:
        """Stop all running tools, and refuse new calls."""
        self._is_closed = True
        await self.stop()
        if self._alarm is not None:
            self._alarm.cancel()

    async def stop(self) -> None:
        """Stop all running tools, and wait until their calls have ended."""
        left = list(self._runs.values())
        for run in left:
            run.stop_from_anywhere(Cancelled(self._session.phrase("closed")))
        for run in left:
            while not run.call.has_ended:  # `run`, which awaits it, ends the call
                await asyncio.sleep(0.001)

    # One call

    def _call(self, name: str, tool: Tool | None, given: Any, links: JsonObject) -> Call:
        if links:
            links = {key: value for key, value in links.items() if value is not None}
        outer = current_call.get()
        if outer is not None and outer.session is self._session:
            links.setdefault("parent", outer)
        if tool is None:
            spec = CallSpec(name, given, **links)
        else:
            places = tool.locations
            if callable(places):
                places = self._located(tool, places, given)
            spec = CallSpec(
                name, given, tool.title, tool.kind, places, annotations=tool.annotations, **links
            )
        call = self._session.call_type(self._session, spec, None)
        if outer is not None:
            call.around = outer.claim or outer.around
        return call

    def _located(self, tool: Tool, locate: Locate, given: Any) -> Sequence[Any] | None:
        try:
            return locate(given)
        except Exception as exc:  # noqa: BLE001 - the arguments are not checked yet
            if is_object(given):
                self._session.faults.count(f"locations of {tool.name}: {exc!r}", degraded=1)
            return None

    def _begin(self, run: Run, *asked: Any) -> None:
        """Begin the work of a call, in a task of its own."""
        try:
            work = self._prepare(run, *asked)
        except KeyboardInterrupt:
            raise
        except BaseException as exc:  # noqa: BLE001 - it becomes a result
            run.end(problem=exc)
        else:
            run.task = asyncio.get_running_loop().create_task(self._carry_out(run, *work))

    def _prepare(
        self,
        run: Run,
        tool: Tool | None,
        name: str,
        given: Any,
        timeout: float | None,
        turn: asyncio.Semaphore | None,
    ) -> tuple[Any, ...]:
        """Start the tool, unless something has to be waited for; return what is left to do.

        So the client is told of the call and of its start together, and before the tool runs.
        """
        if tool is None:
            raise self._unknown(name)
        if timeout is not None and not timeout > 0:
            raise InvalidArguments(f"timeout: expected seconds above 0, got {timeout}")
        values = tool.convert(given)
        run.timeout = timeout or tool.timeout or self._session.tool_settings.timeout
        call, beyond, writes = run.call, (), ()
        if tool.paths:
            paths, beyond = self._place(tool, values)
            writes = [path for name in tool.writes for path in paths[name]]
            reads = [path for name in tool.reads for path in paths[name]]
            if reads or writes:
                call.claim = PathClaim(reads, writes, call.around)
        ask, allows = None, self.permissions.allows
        if (beyond or tool.needs_permission(given)) and not allows(call, tool, beyond):
            preview = partial(previewed, tool, call, values)
            ask = partial(self.permissions.ask, call, tool, given, beyond, writes, preview)
        elif turn is None and (call.claim is None or self._locks.take_at_once(call.claim)):
            self._start(run)
            return invoke, tool, call, values, run.output
        return self._wait, run, tool, values, turn, ask

    async def _carry_out(
        self, run: Run, work: Callable[..., Awaitable[Any]], *arguments: Any
    ) -> None:
        """Do the work, and record its value or exception."""
        run.begun = True
        value = problem = None
        try:
            value = await work(*arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as exc:  # noqa: BLE001 - it becomes a result
            problem = exc
        if run.call.claim is not None:
            self._locks.release(run.call.claim)
        run.end(value, problem)

    async def _wait(
        self,
        run: Run,
        tool: Tool,
        values: dict[str, Any],
        turn: asyncio.Semaphore | None,
        ask: Callable[[], Awaitable[Any]] | None,
    ) -> Any:
        """Wait for permission, for a turn and for paths, as far as they are needed; then run the tool."""
        call, shown = run.call, None
        for _ in range(_TIMES_ASKED):
            if ask is not None:
                shown = await ask()
            async with turn or _FREE:
                if call.claim is not None:
                    await self._locks.take(call.claim)
                if not shown or await preview_of(tool, call, values) == shown:
                    self._start(run)
                    return await invoke(tool, call, values, run.output)
                # The change is no longer the one that the user approved.
                if call.claim is not None:
                    self._locks.release(call.claim)
        raise ExecutionFailed(
            "What would be changed is never what was approved; it changes meanwhile"
        )

    def _start(self, run: Run) -> None:
        """Report that the tool is running, and start its timeout."""
        run.call.start()
        run.started = now = monotonic()
        if run.timeout is not None:
            run.deadline = now + run.timeout
            if run.deadline < self._alarm_at:
                self._set_alarm(run.deadline, now)

    def _set_alarm(self, at: float, now: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = at
        self._alarm = asyncio.get_running_loop().call_later(at - now, self._time_out)

    def _time_out(self) -> None:
        """Stop the runs whose time is over, and wait for the next that might be."""
        now, following = monotonic(), inf
        for run in self._runs.values():
            if run.deadline <= now:
                message = self._session.phrase("timed_out", seconds=run.timeout)
                run.stop(TimedOut(message, timeout_s=run.timeout))
            else:
                following = min(following, run.deadline)
        self._alarm, self._alarm_at = None, inf
        if following < inf:
            self._set_alarm(following, now)

    def _unknown(self, name: str) -> NotFound:
        near = self.registry.nearest(name)
        names = ", ".join(near or self.registry.names()) or "none"
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {names}"
        return NotFound(f"There is no tool {name!r}; {hint}")

    def _place(
        self, tool: Tool, values: dict[str, Any]
    ) -> tuple[dict[str, list[Path]], list[tuple[str, Path]]]:
        """Resolve paths in `values`. Return the paths by argument, and those outside the workspace."""
        found: dict[str, list[Path]] = {}
        beyond: list[tuple[str, Path]] = []
        workspace = self._session.workspace
        for name, entry in tool.paths:
            mine = found[name] = []

            def place(text: str, entry: bool = entry, mine: list[Path] = mine) -> Path:
                path = workspace.find(text, entry=entry)
                mine.append(path)
                if not workspace.holds(path):
                    beyond.append((text, path))
                return path

            value = values[name]
            if value is not None:
                values[name] = place(value) if type(value) is str else resolve_paths(value, place)
        return found, beyond

    def _outcome(self, run: Run) -> tuple[ToolResult, ToolError | None]:
        call, problem = run.call, run.problem
        if not run.has_ended:
            problem = run.why or Cancelled(self._session.phrase("cancelled"))
            if run.begun:
                self._session.faults.count(f"tool {call.report.name!r} did not stop", failed=1)
        if problem is None:
            try:
                return to_result(run.value, call.success), None
            except Exception as exc:  # noqa: BLE001 - a value that is no result is a failure of the tool
                problem = exc
        error = to_error(problem, run.why)
        if error.reason is Reason.EXCEPTION and self._session.on_exception is not None:
            self._show(problem, self._session.on_exception)
        return call.error(error, output=error.output or "".join(run.output)), error

    def _show(self, problem: BaseException, show: Callable[[str], object]) -> None:
        """Show where an exception comes from, to the tool's author."""
        try:
            show(self._session.guard.clean("".join(format_exception(problem))))
        except Exception as exc:  # noqa: BLE001 - the call must end
            self._session.faults.count(f"on_exception: {exc!r}", failed=1)


async def _off_loop(work: Callable[[], object]) -> None:
    """Announce or end a large call in a thread, so that redaction does not block the loop."""
    task = asyncio.ensure_future(in_thread(work))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task  # never end a call while a thread is still announcing it
        raise


def _is_large(given: Any) -> bool:
    size = 0
    for value in given.values() if is_object(given) else ():
        if isinstance(value, str):
            size += len(value)
    return size > _LONG
