"""A live call: the handle through which a tool, or the code that runs it, reports.

A call is a scope. Entering it announces the call; leaving it ends the call, if nothing else did:
once, on every path. All methods but `permission` are plain functions, may be called from any thread,
return at once, and never raise because of what is reported (unless the session is strict): `safely`
is the one boundary for that. How a change is made is in `call_state`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import PurePath
from types import TracebackType
from typing import Any, Literal, Self

from callsheet.acp.permission import PermissionOption
from callsheet.report.content import ContentLike, DiffContent, ToolCallContent
from callsheet.report.errors import InvalidLocation, InvalidValue
from callsheet.report.events import ExitStatus
from callsheet.report.fields import ToolCallLocation
from callsheet.report.ids import check_id
from callsheet.report.json import JsonValue, check_text, is_object
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason, ToolCallStatus, to_status
from callsheet.runtime import permission
from callsheet.runtime.call_state import CallState, Fields
from callsheet.runtime.endings import Ending, ending_of, exit_ending
from callsheet.runtime.health import PermissionDenied, safely
from callsheet.runtime.live_output import KEEP, to_bytes

_PENDING = ToolCallStatus.PENDING
_IN_PROGRESS = ToolCallStatus.IN_PROGRESS
_PAUSED = ToolCallStatus.PAUSED
_COMPLETED = ToolCallStatus.COMPLETED
_CANCELLED = ToolCallStatus.CANCELLED

MOST_LOCATIONS = 16
"""Most locations that a call shows. Each opens a file in some editors."""


class RuntimeCall(CallState):
    """One tool call of a session. Made by `RuntimeSession.call`; tools hold `callsheet.Call`."""

    def __repr__(self) -> str:
        if self.folded is None or self.current is None:
            return "<Call, not entered>"
        return f"<Call {self.id} {self.folded.name!r} {self.current.value}>"

    # The scope

    def __enter__(self) -> Self:
        """Announce the call."""
        if self._seconds is not None:
            self._seconds = None
            message = "a call's timeout needs an event loop: async with session.call(…)"
            self.session.faults.degraded(InvalidValue(message))
        self.session.announce(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the call, if it has not ended."""
        if self.current is None or self.current.is_final:
            return
        if exc is None and self._exit is not None:
            ending = exit_ending(self._exit)
        else:
            timed_out = self._seconds if self._timeout and self._timeout.expired() else None
            session = self.session
            ending = ending_of(exc, session.phrase, session.guard.clean, timed_out)
        try:
            self._end(ending)
        except Exception as fault:  # noqa: BLE001 - it must not replace the one that propagates
            self.session.faults.count(str(fault), degraded=1, failed=1)

    def close(self, exc: BaseException | None = None) -> None:
        """End a call of `session.open_call`, as leaving a scope does. Closing it twice is harmless.

        Args:
            exc: What ended it, if that was an exception. Without one, a call that has not ended is `failed`,
                with the reason `abandoned`: end it by `succeed` before.
        """
        self.__exit__(None if exc is None else type(exc), exc, None)

    async def __aenter__(self) -> Self:
        """Announce the call."""
        self.session.announce(self)
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
            if self.current is not None and not self.current.is_final:
                self.__exit__(kind, exc, trace)
            return None
        try:
            return await self._timeout.__aexit__(kind, exc, trace)
        except TimeoutError as timeout:
            exc = timeout
            raise
        finally:
            self.__exit__(type(exc) if exc else None, exc, trace)

    # Changes

    @safely
    def update(self, **fields: JsonValue) -> None:
        """Set fields of the report.

        Args:
            **fields: `title`, `kind`, `content`, `locations`, `raw_input` and `raw_output` replace the
                field; `meta` is merged into `_meta`; `status` moves the call, and a final one ends it.
        """
        status, meta = fields.pop("status", None), fields.pop("meta", None)
        if meta:
            meta = self.session.guard.meta(meta)
        if fields or meta:
            good, found = self._sanitized(fields)
            self._change(lambda _: good, found, meta=meta)
            if "raw_input" in good:
                self.whole_input = good["raw_input"]
            if "content" in good:
                self._whole = None
        if status is not None:
            self._move(to_status(status))

    def start(self) -> None:
        """Report that the tool is running: `in_progress`."""
        session = self.session
        try:
            with session.lock:
                if (self.current or self.status) is not _IN_PROGRESS:
                    self._started()
        except Exception as exc:  # noqa: BLE001 - as `safely` does, without its frame
            session.faults.degraded(exc)

    @safely
    def pause(self) -> None:
        """Report that the tool is waiting for something: `paused` (v1 clients see it as running)."""
        with self.session.lock:
            if self.status is _PENDING:
                self._started()
            self.session.delivery.commit(self, {"status": _PAUSED})

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
        given = {"done": done, "total": total, "message": message}
        self._note("progress", {key: value for key, value in given.items() if value is not None})

    @safely
    def custom(self, **fields: JsonValue) -> None:
        """Add fields of your own to `_meta.callsheet.custom`."""
        known = self.report.notes.get("custom")
        self._note("custom", {**(known if is_object(known) else {}), **fields})

    def _note(self, key: str, value: JsonValue) -> None:
        safe, found = self.session.guard.value(value)
        self._change(lambda _: {"notes": {key: safe}}, found)

    @safely
    def show(self, *items: ContentLike) -> None:
        """Append content: text, images, links, or anything that `ToolCallContent` makes."""
        session = self.session
        new, found = session.guard.items(items)
        # The new content is computed from the old, so nothing may change it in between. What is too
        # much is cut anew from the whole; not each time, which would take the square of their number.
        with session.lock:
            report = self.report
            whole = (*self.whole_content(report), *new)
            if self._whole is not None and len(whole) < 1.25 * self._cut_at:
                fields, notes = session.guard.bounded({}, report, found)
                self._whole = whole
            else:
                fields, notes = session.guard.bounded(
                    {"content": whole}, report, found, spill=False
                )
                is_cut = fields["content"] is not whole
                self._whole, self._cut_at = (whole if is_cut else None), len(whole)
            session.delivery.commit(self, fields, notes)

    @safely
    def locate(self, path: Any, line: int | None = None) -> None:
        """Report the file, and the line, that the tool works on now.

        Args:
            path: The file. A relative path is resolved against the session's directory.
            line: The line in it.
        """
        place = self._place(path, line)

        def make(report: ToolCallReport) -> Fields:
            others = [other for other in report.locations if other.path != place.path]
            return {"locations": (*others, place)[-MOST_LOCATIONS:]}

        self._change(make)

    @safely
    def diff(self, path: Any, old: str | None, new: str | None) -> None:
        """Show a change of a file, and add the file to the locations.

        Args:
            path: The file. A relative path is resolved against the session's directory.
            old: The text before; None for a file that is created.
            new: The text after; None for a file that is deleted.
        """
        place = self._place(path, None)
        given = ToolCallContent.diff(place.path, old, new)
        (shown,), found = self.session.guard.items([given])

        def make(report: ToolCallReport) -> Fields:
            others = [item for item in report.content if not _is_diff_of(item, place.path)]
            fields: Fields = {"content": (*others, shown)}
            if all(other.path != place.path for other in report.locations):
                fields["locations"] = (*report.locations, place)[-MOST_LOCATIONS:]
            return fields

        self._change(make, found)

    def _place(self, path: Any, line: int | None) -> ToolCallLocation:
        """Return a location; a relative path is meant from the session's directory."""
        if isinstance(path, PurePath):
            path = str(path)
        # A file's name may have bytes that are no text; cleaning marks them.
        if isinstance(path, str):
            path = self.session.guard.clean(path)
        clean = check_text(path, "location path", InvalidLocation)
        return ToolCallLocation(os.path.normpath(os.path.join(self.session.cwd, clean)), line)  # noqa: PTH118

    @safely
    def usage(self, *, cpu_ms: float | None = None, max_rss_kb: int | None = None) -> None:
        """Report the resources that the call used, if you know better than the session can measure.

        Args:
            cpu_ms: Milliseconds of CPU time.
            max_rss_kb: Peak of resident memory, in kilobytes.
        """
        self._watch.report(cpu_ms, max_rss_kb)

    # Live output

    @safely
    def write(self, data: bytes | bytearray | memoryview | str) -> None:
        """Append live output. A character may be split over two writes."""
        if type(data) is not bytes:
            data = to_bytes(data)
        session = self.session
        for begin in range(0, len(data), KEEP) if len(data) > KEEP else (0,):
            with session.lock:
                output = self._live_output()
                much = output.write(data if len(data) <= KEEP else data[begin : begin + KEEP])
                session.notify_output(output, much=much)
            if much:
                session.keep_up(output)

    @safely
    def terminal(self, terminal_id: str) -> None:
        """Show the output of this call in a terminal of the client's own.

        The client shows that terminal; other consumers receive what is written to the call.

        Args:
            terminal_id: The id by which the client knows the terminal.
        """
        checked = check_id(terminal_id, "terminal id")
        with self.session.lock:
            self._live_output().state.shown_as = checked
            self.session.delivery.commit(self, {})

    @safely
    def exit(self, code: int | None = None, signal: str | None = None) -> None:
        """Report how the command ended whose output was written. This does not end the call.

        Args:
            code: The exit code, if it exited.
            signal: The signal's name, if it was killed.
        """
        clean = None if signal is None else self.session.guard.clean(signal)
        self._exit = ExitStatus(exit_code=code, signal=clean)

    # Ends

    def succeed(
        self, output: ContentLike | Sequence[ContentLike] | None = None, *, raw: JsonValue = None
    ) -> None:
        """End the call as `completed`.

        Args:
            output: Content to append, for the user to read.
            raw: The result as JSON, for programs.
        """
        try:
            self._end(Ending(_COMPLETED, None, output), raw)
        except Exception as exc:  # noqa: BLE001 - as `safely` does, without its frame
            self.session.faults.degraded(exc)

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
        text = message or self.session.phrase("cancelled")
        self._end(Ending(_CANCELLED, Reason.CANCELLED, text))

    def _move(self, status: ToolCallStatus) -> None:
        if status is _IN_PROGRESS:
            self.start()
        elif status is _PAUSED:
            self.pause()
        elif status is _COMPLETED:
            self._end(Ending(status))
        elif status.is_final:
            cancelled = status is _CANCELLED
            self._end(Ending(status, Reason.CANCELLED if cancelled else Reason.TOOL_ERROR))

    # Asking, and calls of its own

    async def permission(
        self, options: Sequence[PermissionOption] | None = None, *, scope: str | None = None
    ) -> PermissionOption:
        """Ask the client to approve the call.

        Without an approval the call ends as `failed` with the reason `denied`; as `cancelled`, if the
        turn was cancelled.

        Args:
            options: The answers to choose from; the usual ones if omitted.
            scope: What an answer for always applies to, for the report.

        Returns:
            The option that was chosen.

        Raises:
            PermissionDenied: The client refused, or could not be asked, or the turn was cancelled.
        """
        try:
            return await permission.ask(self, options, scope)
        except PermissionDenied as exc:
            if not self.has_ended:
                self.cancel(str(exc)) if exc.cancelled else self.fail(
                    str(exc), reason=Reason.DENIED
                )
            raise

    @safely
    def decided(
        self,
        outcome: Literal["allowed", "denied", "cancelled"],
        by: Literal["user", "mode", "remembered", "settings"],
        **facts: JsonValue,
    ) -> None:
        """Note how it was decided whether the call may run. The next change of its status reports it.

        Args:
            outcome: What was decided.
            by: Who or what decided: the user, the session's mode, an earlier answer, or the settings.
            **facts: What else is known: `option`, `scope`, `askedAt`, `answeredAt`, `waitedMs`.
        """
        noted = {"outcome": outcome, "by": by, **facts}
        decision = {"permission": {key: value for key, value in noted.items() if value is not None}}
        with self.session.lock:
            if self.current is _IN_PROGRESS or self.current is _PAUSED:
                self.session.delivery.commit(self, {}, decision)
            elif not self.has_ended:
                self._decision = decision

    def call(self, name: str, input: JsonValue = None, **options: Any) -> RuntimeCall:  # noqa: A002
        """Make a call that is part of this one."""
        return self.session.call(name, input, parent=self, **options)


def _is_diff_of(item: ToolCallContent, path: str) -> bool:
    """Whether an item is an earlier diff of the same file, which the new one takes the place of."""
    return type(item) is DiffContent and [change.path for change in item.changes] == [path]
