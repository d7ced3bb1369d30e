"""A call, live: the handle that a tool, or whoever runs it, holds.

A call is a scope. Entering it announces the call; leaving it ends the call, if nothing else did:
once, on every path. All methods are plain functions, may be called from any thread, return at
once, and never raise because of what is reported (unless the session is strict).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from callsheet.report.content import ContentLike, DiffContent, TextContent, ToolCallContent
from callsheet.report.events import ExitStatus
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason, ToolCallStatus
from callsheet.report.values import JsonObject, JsonValue, is_object
from callsheet.wire.permission import PermissionOption

from . import permission, usage
from .clock import to_rfc3339
from .desk import Desk, Opening
from .errors import PermissionDenied
from .output import Output

if TYPE_CHECKING:
    from .session import Session

_PENDING = ToolCallStatus.PENDING
_IN_PROGRESS = ToolCallStatus.IN_PROGRESS
_PAUSED = ToolCallStatus.PAUSED
_COMPLETED = ToolCallStatus.COMPLETED
_FAILED = ToolCallStatus.FAILED
_CANCELLED = ToolCallStatus.CANCELLED

LONGEST_MESSAGE = 300
"""Characters of an exception's message that are reported."""


MOST_LOCATIONS = 16
"""Places that a call shows at most. Each opens a file in some editors."""


class Call:
    """One tool call of a session. Made by `Session.call`."""

    __slots__ = (
        "_desk", "_opening", "_output", "_report", "_seconds", "_started", "_timeout", "_usage",
        "_used", "id", "session",
    )  # fmt: skip

    def __init__(self, session: Session, opening: Opening, timeout: float | None) -> None:
        self.id: str = ""
        self.session: Session = session
        self._desk: Desk = session.desk
        self._opening: Opening | None = opening
        self._report: ToolCallReport | None = None
        self._output: Output | None = None
        self._started: float | None = None
        self._usage: usage.Sample | None = None
        self._used: dict[str, int] | None = None
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
        opening, self._opening = self._opening, None
        if opening is None:
            raise RuntimeError(f"{self!r} was entered before; a call is announced once")
        self._report = report = self.session.announce(self, opening)
        self.id = report.tool_call_id
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the call, if it has not ended."""
        report = self._report
        if report is not None and not report.status.is_final:
            self._leave(exc)

    async def __aenter__(self) -> Self:
        """Announce the call."""
        if self._seconds is not None:
            self._timeout = await asyncio.timeout(self._seconds).__aenter__()
        return self.__enter__()

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

    def _leave(self, exc: BaseException | None) -> None:
        """End the call by how its scope was left."""
        phrase = self._desk.phrase
        if exc is None:
            self._end(_FAILED, Reason.ABANDONED, phrase("abandoned"))
        elif isinstance(exc, PermissionDenied):
            self._end(_FAILED, Reason.DENIED, str(exc))
        elif isinstance(exc, TimeoutError):
            after = self._seconds
            bare = after is None
            text = phrase("timed_out_bare") if bare else phrase("timed_out", seconds=after)
            self._end(_FAILED, Reason.TIMEOUT, text)
        elif isinstance(exc, (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)):
            self._end(_CANCELLED, Reason.CANCELLED, phrase("cancelled"))
        elif isinstance(exc, SystemExit):
            self._end(_FAILED, Reason.ABANDONED, phrase("interrupted"))
        else:
            self._end(_FAILED, Reason.EXCEPTION, short_message(exc))

    # What is known of it

    @property
    def report(self) -> ToolCallReport:
        """The report as it is now. It never changes; ask again for the next."""
        if self._report is None:
            raise RuntimeError(
                "the call is not announced yet; enter it first: async with session.call(…) as call"
            )
        return self._report

    @property
    def status(self) -> ToolCallStatus:
        """Where the call is in its life."""
        return self.report.status

    @property
    def has_ended(self) -> bool:
        """Whether the call has ended."""
        return self._report is not None and self._report.status.is_final

    # Changes

    def update(self, **fields: JsonValue) -> None:
        """Set fields of the report: title, kind, content, locations, raw_input, raw_output; patch `meta`."""
        meta = fields.pop("meta", None)
        self._change(fields, meta=meta)

    def start(self) -> None:
        """The tool runs now: `in_progress`."""
        with self._desk.lock:
            report = self.report
            if report.status is not _IN_PROGRESS:
                self._report = self._start(report)

    def pause(self) -> None:
        """The tool waits for something: `paused` (v1 clients see it go on)."""
        with self._desk.lock:
            report = self.report
            if report.status is _PENDING:
                report = self._start(report)
            self._report = self._desk.change(report, {"status": _PAUSED})

    def resume(self) -> None:
        """The tool goes on: `in_progress`."""
        self.start()

    def title(self, text: str) -> None:
        """Say anew, in a line, what is being done."""
        self._change({"title": text})

    def progress(
        self, done: float | None = None, total: float | None = None, message: str | None = None
    ) -> None:
        """Say how far the work is. Peers see it in the title, in the content, or in `_meta`."""
        progress = {"done": done, "total": total, "message": message}
        self._change({}, {"progress": {k: v for k, v in progress.items() if v is not None}})

    def show(self, *items: ContentLike) -> None:
        """Add to what the call shows: text, images, links, or whatever `ToolCallContent` makes."""
        with self._desk.lock:
            report = self.report
            content = self._desk.fit("content", [*report.content, *items], report.content)
            self._report = self._desk.change(report, {"content": content})

    def locate(self, path: Any, line: int | None = None) -> None:
        """Say where the work is now. Relative paths are meant from the session's directory."""
        with self._desk.lock:
            report, place = self.report, self._desk.place(path, line)
            if place is not None:
                others = [other for other in report.locations if other.path != place.path]
                places = (*others, place)[-MOST_LOCATIONS:]
                self._report = self._desk.change(report, {"locations": places})

    def diff(self, path: Any, old: str | None, new: str | None) -> None:
        """Show a change of a file, and that the work is there. For a new file, `old` is None."""
        with self._desk.lock:
            report, place = self.report, self._desk.place(path, None)
            if place is None:
                return
            shown = self._desk.faults.attempt(lambda: ToolCallContent.diff(place.path, old, new))
            if shown is None:
                return
            others = [item for item in report.content if not _is_about(item, place.path)]
            fields: dict[str, Any] = {"content": (*others, shown)}
            if all(other.path != place.path for other in report.locations):
                fields["locations"] = (*report.locations, place)
            self._report = self._desk.change(report, fields)

    def custom(self, **fields: JsonValue) -> None:
        """Add fields of your own to `_meta.callsheet.custom`."""
        with self._desk.lock:
            report = self.report
            known = report.notes.get("custom")
            custom = {**(known if is_object(known) else {}), **fields}
            self._report = self._desk.change(report, {}, {"custom": custom})

    def usage(self, *, cpu_ms: float | None = None, max_rss_kb: int | None = None) -> None:
        """Say what the call used, where you know it better than can be measured from outside."""
        used = {"cpuMs": None if cpu_ms is None else round(cpu_ms), "maxRssKb": max_rss_kb}
        self._used = {**(self._used or {}), **{k: v for k, v in used.items() if v is not None}}

    def _change(
        self,
        fields: dict[str, Any],
        notes: JsonObject | None = None,
        meta: JsonObject | None = None,
    ) -> None:
        with self._desk.lock:
            self._report = self._desk.change(self.report, fields, notes, meta)

    # Live output

    def write(self, data: bytes | bytearray | memoryview | str) -> None:
        """Add live output. A character may be split over two writes."""
        if type(data) is not bytes:
            data = data.encode(errors="replace") if isinstance(data, str) else bytes(data)
        desk = self._desk
        with desk.lock:
            report, output = self.report, self._output
            if report.status.is_final:
                desk.faults.late(f"output of call {self.id}")
                return
            if output is None:
                output = self._open_output(report)
            much = output.write(data)
            desk.output(self.id, output.state, much)
        if much:
            desk.keep_up()

    def terminal(self, terminal_id: str) -> None:
        """The client's own terminal `terminal_id` shows the output of this call.

        The client is shown that terminal; other consumers get what is written to the call.
        """
        with self._desk.lock:
            report = self.report
            if not report.status.is_final:
                output = self._output or self._open_output(report)
                output.state.shown_as = terminal_id
                self._report = self._desk.change(self.report, {})

    def exit(self, code: int | None = None, signal: str | None = None) -> None:
        """Say how the command ended whose output was written."""
        with self._desk.lock:
            if self._output is not None:
                status = self._desk.faults.attempt(
                    lambda: ExitStatus(exit_code=code, signal=signal)
                )
                self._output.state.exit_status = status

    def _open_output(self, report: ToolCallReport) -> Output:
        output = self._output = Output(self._desk, report)
        self._desk.output(self.id, output.state, False)
        self._report = self._desk.change(report, {"content": (*report.content, output.item)})
        return output

    # Ends

    def succeed(
        self, output: ContentLike | Sequence[ContentLike] | None = None, *, raw: JsonValue = None
    ) -> None:
        """The tool is done: `completed`. `output` is for people, `raw` for machines."""
        self._end(_COMPLETED, None, output, raw)

    def fail(
        self,
        message: ContentLike | Sequence[ContentLike] | None = None,
        *,
        reason: Reason | str = Reason.TOOL_ERROR,
        raw: JsonValue = None,
    ) -> None:
        """The tool has failed: `failed`, with a reason."""
        self._end(_FAILED, reason, message, raw)

    def cancel(self, message: str | None = None) -> None:
        """The call is no longer wanted: `cancelled`."""
        self._end(_CANCELLED, Reason.CANCELLED, message or self._desk.phrase("cancelled"))

    def _end(
        self,
        status: ToolCallStatus,
        reason: Reason | str | None,
        output: ContentLike | Sequence[ContentLike] | None = None,
        raw: JsonValue = None,
    ) -> None:
        desk = self._desk
        with desk.lock:
            report = self.report
            if report.status.is_final:
                desk.faults.late(f"call {self.id} {status.value}")
                return
            if report.status is _PAUSED or (report.status is _PENDING and status is _COMPLETED):
                report = self._start(report)
            fields: dict[str, Any] = {"status": status}
            if output is not None:
                fields["content"] = self._content_with(report, output)
            if raw is not None:
                fields["raw_output"] = desk.fit("raw_output", raw, None)
            notes = self._end_notes()
            if reason is not None:
                notes["reason"] = desk.reason(reason, status)
            if self._output is not None:
                self._output.close(raw)
                self._output = None
            self._report = desk.move(report, fields, notes)
        self.session.ended(self)

    # Helpers, called under the desk's lock

    def _start(self, report: ToolCallReport) -> ToolCallReport:
        notes, clock = None, self._desk.clock
        if self._started is None and not report.status.is_final:
            self._started = now = clock.monotonic()
            self._usage = usage.sample(now)
            notes = {"startedAt": to_rfc3339(clock.time_ns())}
        return self._desk.move(report, {"status": _IN_PROGRESS}, notes)

    def _end_notes(self) -> JsonObject:
        clock = self._desk.clock
        notes: JsonObject = {"endedAt": to_rfc3339(clock.time_ns())}
        if self._started is not None and self._usage is not None:
            now = clock.monotonic()
            notes["durationMs"] = round((now - self._started) * 1000, 3)
            notes["usage"] = usage.between(self._usage, usage.sample(now))
            if self._used:
                notes["usage"] = {**notes["usage"], **self._used}
        return notes

    def _content_with(self, report: ToolCallReport, output: Any) -> Any:
        """Add the result to the content, unless it is just what was written live."""
        if type(output) is str and output.isascii() and not report.content:
            return (TextContent(output),)
        many = isinstance(output, (list, tuple))
        items: list[Any] = list(output) if many else [output]  # pyright: ignore[reportUnknownArgumentType]
        if self._output is not None and len(items) == 1 and self._output.is_just(items[0]):
            return report.content
        return self._desk.fit("content", [*report.content, *items], report.content)

    # Asking, and calls of its own

    async def permission(
        self, options: Sequence[PermissionOption] | None = None
    ) -> PermissionOption:
        """Ask the client whether this may be done. Gives the option that was chosen.

        If the answer is no, or can't be had, the call ends `failed` with the reason `denied`, and
        `PermissionDenied` is raised.
        """
        try:
            return await permission.ask(self, options)
        except PermissionDenied as exc:
            if not self.has_ended:
                self.cancel(str(exc)) if exc.cancelled else self.fail(
                    str(exc), reason=Reason.DENIED
                )
            raise

    def call(self, name: str, input: JsonValue = None, **options: Any) -> Call:  # noqa: A002
        """Make a call that is part of this one."""
        return self.session.call(name, input, parent=self, **options)


def short_message(exc: BaseException) -> str:
    """Give an exception in a line, without its traceback."""
    try:
        text = str(exc)
    except Exception:  # noqa: BLE001 - it is somebody else's exception
        text = ""
    line = text.strip().split("\n", 1)[0].rstrip()
    message = f"{type(exc).__name__}: {line}" if line else type(exc).__name__
    return message if len(message) <= LONGEST_MESSAGE else message[: LONGEST_MESSAGE - 1] + "…"


def _is_about(item: object, path: str) -> bool:
    """Whether an item is an earlier diff of the same file, which the new one takes the place of."""
    return type(item) is DiffContent and [change.path for change in item.changes] == [path]
