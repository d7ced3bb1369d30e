"""A live call: the handle through which a tool, or the code that runs it, reports.

A call is a scope. Entering it announces the call; leaving it ends the call, if nothing else did:
once, on every path. All methods but `permission` are plain functions, may be called from any thread,
return at once, and never raise because of what is reported (unless the session is strict).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from callsheet.acp.permission import PermissionOption
from callsheet.report.content import ContentLike, TextContent, ToolCallContent
from callsheet.report.errors import InvalidValue
from callsheet.report.events import ExitStatus
from callsheet.report.fields import SETTLE
from callsheet.report.ids import check_id
from callsheet.report.json import JsonValue, is_object
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason, ToolCallStatus, to_status
from callsheet.runtime import permission
from callsheet.runtime.call_state import (
    CallState,
    Ending,
    Made,
    ending_of,
    exit_ending,
    exit_text,
    is_about,
)
from callsheet.runtime.clock import Stopwatch
from callsheet.runtime.desk import Opening
from callsheet.runtime.health import Misuse, PermissionDenied, safely
from callsheet.runtime.live_output import KEEP, Output, to_bytes

if TYPE_CHECKING:
    from callsheet.runtime.session import RuntimeSession

_PENDING = ToolCallStatus.PENDING
_IN_PROGRESS = ToolCallStatus.IN_PROGRESS
_PAUSED = ToolCallStatus.PAUSED
_COMPLETED = ToolCallStatus.COMPLETED

MOST_LOCATIONS = 16
"""Most locations that a call shows. Each opens a file in some editors."""


class RuntimeCall(CallState):
    """One tool call of a session. Made by `RuntimeSession.call`; tools hold `callsheet.Call`."""

    __slots__ = ("_exit", "_opening", "_output", "_seconds", "_timeout", "_watch")

    def __init__(self, session: RuntimeSession, opening: Opening, timeout: float | None) -> None:
        super().__init__(session)
        self._opening: Opening | None = opening
        self._output: Output | None = None
        self._exit: ExitStatus | None = None
        self._watch: Stopwatch = Stopwatch(session.desk.clock)
        self._seconds: float | None = timeout
        self._timeout: asyncio.Timeout | None = None

    def __repr__(self) -> str:
        report = self._report
        if report is None:
            return "<Call, not entered>"
        return f"<Call {self.id} {report.name!r} {report.status.value}>"

    # The scope

    def __enter__(self) -> Self:
        """Announce the call."""
        if self._seconds is not None:
            self._seconds = None
            message = "a call's timeout needs an event loop: async with session.call(…)"
            self._desk.faults.degraded(InvalidValue(message))
        return self._announce()

    def _announce(self) -> Self:
        opening, self._opening = self._opening, None
        if opening is None:
            raise Misuse(f"{self!r} was entered before; a call is announced once")
        self.session.announce(self, opening)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the call, if it has not ended."""
        if self._report is not None and not self._report.status.is_final:
            timed_out = self._seconds if self._timeout and self._timeout.expired() else None
            if exc is None and self._exit is not None:
                self._leave(exit_ending(self._exit))
                return
            clean = self._desk.guard.clean
            self._leave(ending_of(exc, self._desk.phrase, clean, timed_out))

    async def __aenter__(self) -> Self:
        """Announce the call."""
        self._announce()
        if self._seconds is not None:
            try:
                self._timeout = await asyncio.timeout(self._seconds).__aenter__()
            except BaseException as exc:
                self.__exit__(type(exc), exc, None)
                raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """End the call, if it has not ended."""
        if self._timeout is None:
            self.__exit__(kind, exc, trace)
            return None
        try:
            return await self._timeout.__aexit__(kind, exc, trace)
        except TimeoutError as timeout:
            exc = timeout
            raise
        finally:
            self.__exit__(type(exc) if exc else None, exc, trace)

    def opened(self, report: ToolCallReport, output: Output | None) -> None:
        """Store the report and the id that the desk announced, under its lock."""
        self._report, self.id, self._output = report, report.tool_call_id, output

    def introduce_to(self, consumer: Any) -> None:
        """Send this call to a consumer that was added late, under the desk's lock."""
        if self._report is not None and not self._report.status.is_final:
            if self._output is not None:
                consumer.output(self._output, False)
            consumer.put(self._report, True)

    # Changes

    @safely
    def update(self, **fields: JsonValue) -> None:
        """Set fields of the report.

        Args:
            **fields: `title`, `kind`, `content`, `locations`, `raw_input` and `raw_output` replace the
                field; `meta` is merged into `_meta`; `status` moves the call, and a final one ends it.
        """
        status = fields.pop("status", None)
        meta = fields.pop("meta", None)
        if fields or meta:
            self._apply(lambda report: self._guarded(fields, report), meta)
        if status is not None:
            self._move(to_status(status))

    @safely
    def start(self) -> None:
        """Report that the tool is running: `in_progress`."""
        with self._desk.lock:
            report = self.report
            if report.status is not _IN_PROGRESS:
                self._report = self._started(report)

    @safely
    def pause(self) -> None:
        """Report that the tool is waiting for something: `paused` (v1 clients see it as running)."""
        with self._desk.lock:
            report = self.report
            if report.status is _PENDING:
                report = self._started(report)
            self._report = self._desk.change(report, {"status": _PAUSED})

    def resume(self) -> None:
        """Report that the tool is running again: `in_progress`."""
        self.start()

    def title(self, text: str) -> None:
        """Replace the title: one line about what is being done."""
        self.update(title=text)

    @safely
    def progress(
        self, done: float | None = None, total: float | None = None, message: str | None = None
    ) -> None:
        """Report progress. Peers see it in the title, in the content, or in `_meta`.

        Args:
            done: How much is done, in any unit.
            total: How much there is to do, in the same unit.
            message: What is being done now.
        """
        said = {"done": done, "total": total, "message": message}
        self._note("progress", {key: value for key, value in said.items() if value is not None})

    @safely
    def custom(self, **fields: JsonValue) -> None:
        """Add fields of your own to `_meta.callsheet.custom`."""
        known = self.report.notes.get("custom")
        self._note("custom", {**(known if is_object(known) else {}), **fields})

    @safely
    def show(self, *items: ContentLike) -> None:
        """Append content: text, images, links, or anything that `ToolCallContent` makes."""
        new, found = self._desk.guard.items(items)
        with (
            self._desk.lock
        ):  # the new content is computed from the old, so nothing may change it between
            report = self.report
            fields, notes = self._with_items(report, new, found)
            self._report = self._desk.change(report, fields, notes or None)

    @safely
    def locate(self, path: Any, line: int | None = None) -> None:
        """Report the file, and the line, that the tool works on now.

        Args:
            path: The file. A relative path is resolved against the session's directory.
            line: The line in it.
        """
        place = self._desk.place(path, line)
        if place is not None:

            def make(report: ToolCallReport) -> Made:
                others = [other for other in report.locations if other.path != place.path]
                places = (*others, place)[-MOST_LOCATIONS:]
                return self._bounded({"locations": places}, report, 0)

            self._apply(make)

    @safely
    def diff(self, path: Any, old: str | None, new: str | None) -> None:
        """Show a change of a file, and add the file to the locations.

        Args:
            path: The file. A relative path is resolved against the session's directory.
            old: The text before; None for a file that is created.
            new: The text after; None for a file that is deleted.
        """
        place = self._desk.place(path, None)
        if place is None:
            return
        (shown,), found = self._desk.guard.items([ToolCallContent.diff(place.path, old, new)])

        def make(report: ToolCallReport) -> Made:
            others = [item for item in report.content if not is_about(item, place.path)]
            fields: dict[str, Any] = {"content": (*others, shown)}
            if all(other.path != place.path for other in report.locations):
                fields["locations"] = (*report.locations, place)[-MOST_LOCATIONS:]
            return self._bounded(fields, report, found)

        self._apply(make)

    @safely
    def usage(self, *, cpu_ms: float | None = None, max_rss_kb: int | None = None) -> None:
        """Report the resources that the call used, if you know better than the session can measure.

        Args:
            cpu_ms: Milliseconds of CPU time.
            max_rss_kb: Peak of resident memory, in kilobytes.
        """
        self._watch.say(cpu_ms, max_rss_kb)

    # Live output

    @safely
    def write(self, data: bytes | bytearray | memoryview | str) -> None:
        """Append live output. A character may be split over two writes."""
        if type(data) is not bytes:
            data = to_bytes(data)
        desk = self._desk
        for begin in range(0, len(data), KEEP) if len(data) > KEEP else (0,):
            with desk.lock:
                report, output = self.report, self._output
                if report.status.is_final:
                    desk.faults.late(f"output of call {self.id}")
                    return
                if output is None:
                    output = self._open_output(report)
                much = output.write(data if len(data) <= KEEP else data[begin : begin + KEEP])
                desk.output(output, much=much)
            if much:
                desk.keep_up(output)

    @safely
    def terminal(self, terminal_id: str) -> None:
        """Show the output of this call in a terminal of the client's own.

        The client shows that terminal; other consumers receive what is written to the call.

        Args:
            terminal_id: The id by which the client knows the terminal.
        """
        checked = check_id(terminal_id, "terminal id")
        with self._desk.lock:
            report = self.report
            if report.status.is_final:
                self._desk.faults.late(f"terminal of call {self.id}")
                return
            output = self._output or self._open_output(report)
            output.state.shown_as = checked
            self._report = self._desk.change(self.report, {})

    @safely
    def exit(self, code: int | None = None, signal: str | None = None) -> None:
        """Report how the command ended whose output was written. This does not end the call.

        Args:
            code: The exit code, if it exited.
            signal: The signal's name, if it was killed.
        """
        clean = None if signal is None else self._desk.guard.clean(signal)
        self._exit = ExitStatus(exit_code=code, signal=clean)

    def _open_output(self, report: ToolCallReport) -> Output:
        output = self._output = Output(self._desk, self.id, report)
        self._desk.output(output, much=False)
        self._report = self._desk.change(report, {"content": (*report.content, output.item)})
        return output

    # Ends

    @safely
    def succeed(
        self, output: ContentLike | Sequence[ContentLike] | None = None, *, raw: JsonValue = None
    ) -> None:
        """End the call as `completed`.

        Args:
            output: Content to append, for the user to read.
            raw: The result as JSON, for programs.
        """
        self._end(Ending(_COMPLETED, None, output), raw)

    @safely
    def fail(
        self,
        message: ContentLike | Sequence[ContentLike] | None = None,
        *,
        reason: Reason | str = Reason.TOOL_ERROR,
        raw: JsonValue = None,
    ) -> None:
        """End the call as `failed`.

        Args:
            message: Content to append, for the user to read.
            reason: Why it failed.
            raw: The result as JSON, for programs.
        """
        self._end(Ending(ToolCallStatus.FAILED, reason, message), raw)

    @safely
    def cancel(self, message: str | None = None) -> None:
        """End the call as `cancelled`. `message` replaces the default text."""
        text = message or self._desk.phrase("cancelled")
        self._end(Ending(ToolCallStatus.CANCELLED, Reason.CANCELLED, text))

    def _leave(self, ending: Ending) -> None:
        """End the call without fail: an exception may be propagating, and must not be replaced by ours."""
        try:
            self._end(ending)
        except Exception as exc:  # noqa: BLE001
            self._desk.faults.count(str(exc), degraded=1, failed=1)
            self._end(ending._replace(output=None))

    def _end(self, ending: Ending, raw: JsonValue = None) -> None:
        desk = self._desk
        if self.report.status.is_final:
            desk.faults.late(f"call {self.id} {ending.status.value}")
            return
        found, items = 0, ()
        if ending.output is not None:
            items, found = self._items(ending.output)
        if raw is not None:
            raw, more = desk.guard.value(raw)
            raw, found = SETTLE["raw_output"](raw), found + more
        self._optimistically(
            lambda report: self._last_fields(report, items, raw, found),
            lambda report, made: self._finish(report, ending, raw, made),
        )
        self.session.ended(self)

    def _last_fields(
        self, report: ToolCallReport, items: Sequence[ToolCallContent], raw: JsonValue, found: int
    ) -> Made:
        output, content = self._output, self.whole_content(report)
        if output is not None:
            with self._desk.lock:
                output.settle(float("inf"))
                if not output.state.total and output.state.shown_as is None:
                    content = tuple([item for item in content if item != output.item])
                elif len(items) == 1 and output.is_just(items[0]):
                    items = ()
        fields: dict[str, Any] = {}
        if (
            not items
            and self._exit is not None
            and (text := exit_text(self._exit, self._desk.phrase))
        ):
            items = (TextContent(text),)
        if items or content is not report.content:
            fields["content"] = (*content, *items)
        if raw is not None:
            fields["raw_output"] = raw
        return self._bounded(fields, report, found)

    def _finish(
        self, report: ToolCallReport, ending: Ending, raw: JsonValue, made: Made
    ) -> ToolCallReport:
        desk, status, (fields, notes) = self._desk, ending.status, made
        if report.status.is_final:
            desk.faults.late(f"call {self.id} {status.value}")
            return report
        if report.status is _PAUSED or (report.status is _PENDING and status is _COMPLETED):
            report = self._started(report, since=self._watch.made)
        if self._output is not None:
            self._output.state.exit_status = self._exit
            found = self._output.close(raw)
            if found:
                said = notes.get("redactions") or report.notes.get("redactions") or 0
                desk.faults.tally(redacted=found)
                notes["redactions"] = said + found
            self._output = None
        notes |= self._watch.end()
        if ending.reason is not None:
            notes["reason"] = desk.reason(ending.reason, status)
        fields["status"] = status
        return desk.amend(report, fields, notes)

    def _move(self, status: ToolCallStatus) -> None:
        if status is _IN_PROGRESS:
            self.start()
        elif status is _PAUSED:
            self.pause()
        elif status.is_final:
            reason = None if status is _COMPLETED else Reason.TOOL_ERROR
            cancelled = status is ToolCallStatus.CANCELLED
            self._end(Ending(status, Reason.CANCELLED if cancelled else reason, None))

    def _started(self, report: ToolCallReport, since: float | None = None) -> ToolCallReport:
        notes = None if report.status.is_final else self._watch.start(since)
        return self._desk.amend(report, {"status": _IN_PROGRESS}, notes)

    # Asking, and calls of its own

    async def permission(
        self, options: Sequence[PermissionOption] | None = None
    ) -> PermissionOption:
        """Ask the client to approve the call.

        Without an approval the call ends as `failed` with the reason `denied`; as `cancelled`, if the
        turn was cancelled.

        Args:
            options: The answers to choose from; the usual ones if omitted.

        Returns:
            The option that was chosen.

        Raises:
            PermissionDenied: The client refused, or could not be asked, or the turn was cancelled.
        """
        try:
            return await permission.ask(self, options)
        except PermissionDenied as exc:
            if not self.has_ended:
                self.cancel(str(exc)) if exc.cancelled else self.fail(
                    str(exc), reason=Reason.DENIED
                )
            raise

    def call(self, name: str, input: JsonValue = None, **options: Any) -> RuntimeCall:  # noqa: A002
        """Make a call that is part of this one."""
        return self.session.call(name, input, parent=self, **options)
