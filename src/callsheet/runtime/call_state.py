"""The state of a live call: its report, how that is changed without losing a change, and how it ends.

What takes time (looking for secrets, cutting, writing files) is done without the desk's lock. If
the call has changed meanwhile, it is done again: see `_optimistically`.

`ending_of` maps the way in which a call's scope is left (return, exception, cancellation, timeout)
to the status and reason with which the call ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from callsheet.describe import fit_title
from callsheet.report.content import ContentLike, DiffContent, ToolCallContent
from callsheet.report.events import ExitStatus
from callsheet.report.fields import SETTLE
from callsheet.report.json import JsonObject, JsonValue
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason, ToolCallStatus
from callsheet.runtime.desk import Desk
from callsheet.runtime.health import Misuse, PermissionDenied, short_message

if TYPE_CHECKING:
    from callsheet.runtime.session import RuntimeSession


_FAILED = ToolCallStatus.FAILED


class Ending(NamedTuple):
    """Status and reason of a call's end, and what it shows besides."""

    status: ToolCallStatus
    reason: Reason | str | None
    output: ContentLike | Sequence[ContentLike] | None


def ending_of(
    exc: BaseException | None,
    phrase: Callable[..., str],
    clean: Callable[[str], str],
    timed_out: float | None,
) -> Ending:
    """Return the ending for what left the scope.

    `clean` takes secrets out of a text; `timed_out` are the seconds of the call's own timeout.
    """
    from asyncio import CancelledError  # it takes long, and a tap has no loop

    if exc is None:
        return Ending(_FAILED, Reason.ABANDONED, phrase("abandoned"))
    if timed_out is not None and isinstance(exc, TimeoutError):
        return Ending(_FAILED, Reason.TIMEOUT, phrase("timed_out", seconds=timed_out))
    if isinstance(exc, PermissionDenied):
        return Ending(_FAILED, Reason.DENIED, str(exc))
    if isinstance(exc, (CancelledError, KeyboardInterrupt, GeneratorExit)):
        return Ending(ToolCallStatus.CANCELLED, Reason.CANCELLED, phrase("cancelled"))
    if isinstance(exc, SystemExit):
        return Ending(_FAILED, Reason.ABANDONED, phrase("interrupted"))
    if isinstance(exc, TimeoutError):
        text = short_message(exc, clean) if str(exc) else phrase("timed_out_bare")
        return Ending(_FAILED, Reason.TIMEOUT, text)
    return Ending(_FAILED, Reason.EXCEPTION, short_message(exc, clean))


def exit_ending(ended: ExitStatus) -> Ending:
    """Return the ending of a call that reported nothing but its command's exit."""
    if ended.exit_code == 0 and ended.signal is None:
        return Ending(ToolCallStatus.COMPLETED, None, None)
    return Ending(_FAILED, Reason.EXIT_CODE, None)


def exit_text(ended: ExitStatus, phrase: Callable[..., str]) -> str | None:
    """Return what is shown of a command's exit, if it was not a good one."""
    if ended.signal is not None:
        return phrase("signal", signal=ended.signal)
    return phrase("exit_code", code=ended.exit_code) if ended.exit_code else None


Made: TypeAlias = tuple[dict[str, Any], JsonObject]
"""Fields and notes that are to be set."""


class CallState:
    """The report of one call, as it changes."""

    __slots__ = ("_bounded_at", "_desk", "_items_whole", "_report", "id", "session", "whole_input")

    def __init__(self, session: RuntimeSession) -> None:
        self.id: str = ""
        self.session: RuntimeSession = session
        self._desk: Desk = session.desk
        self._report: ToolCallReport | None = None
        # The originals of what was cut: the input to show when asking for approval, the content to cut again.
        self.whole_input: JsonValue = None
        self._items_whole: tuple[ToolCallContent, ...] | None = None
        self._bounded_at: int = 0

    @property
    def report(self) -> ToolCallReport:
        """The current report. It is immutable: read this property again for a later one."""
        if self._report is None:
            raise Misuse(
                "the call is not announced yet; enter it first: async with session.call(…)"
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

    def _note(self, key: str, value: JsonValue) -> None:
        safe, found = self._desk.guard.value(value)

        def make(report: ToolCallReport) -> Made:
            fields, notes = self._bounded({"notes": {key: safe}}, report, found)
            return {}, {**fields.pop("notes"), **notes}

        self._apply(make)

    def _guarded(self, fields: dict[str, Any], report: ToolCallReport) -> Made:
        """Return fields that a user sets, made safe; those that can't be are left out."""
        desk, good, found = self._desk, dict[str, Any](), 0
        for name, value in fields.items():
            more = 0
            if name in ("raw_input", "raw_output"):
                value, more = desk.guard.value(value, runs=name == "raw_input")  # noqa: PLW2901
            elif name == "content":
                value, more = self._items(value)  # noqa: PLW2901
            elif name in ("title", "name"):
                value, more = desk.guard.text(value, runs=name == "title")  # noqa: PLW2901
                value = fit_title(value) if name == "title" else value  # noqa: PLW2901
            if name in SETTLE:
                kept = desk.fit(name, value, getattr(report, name))
                if name == "locations":
                    kept = desk.guard.places(kept)
                good[name], found = kept, found + more
            else:
                desk.faults.degraded(ValueError(f"a report has no field {name!r} to set"))
        made = self._bounded(good, report, found)
        if "raw_input" in good:
            self.whole_input = good["raw_input"]
        if "content" in good:
            self._items_whole = None
        return made

    def whole_content(self, report: ToolCallReport) -> tuple[ToolCallContent, ...]:
        """Return the content as it was before it was cut."""
        return report.content if self._items_whole is None else self._items_whole

    def _with_items(
        self, report: ToolCallReport, new: tuple[ToolCallContent, ...], found: int
    ) -> Made:
        """Add items to the content, under the lock. What is too much is cut anew from the whole."""
        whole = (*self.whole_content(report), *new)
        notes = self._desk.guard.notes({}, report, found)
        if self._items_whole is not None and len(whole) < 1.25 * self._bounded_at:
            self._items_whole = whole
            return {}, notes
        fields = self._desk.guard.bounded({"content": whole}, report, notes, keep=False)
        cut = fields["content"] is not whole
        self._items_whole, self._bounded_at = (whole if cut else None), len(whole)
        return fields, notes

    def _bounded(self, fields: dict[str, Any], report: ToolCallReport, found: int) -> Made:
        notes = self._desk.guard.notes({}, report, found)
        return self._desk.guard.bounded(fields, report, notes) if fields else fields, notes

    def _apply(
        self, make: Callable[[ToolCallReport], Made], meta: JsonObject | None = None
    ) -> None:
        if meta:
            safe = self._desk.guard.value(meta)[0]
            meta = self._desk.guard.bounded({"meta": safe}, None, {})["meta"]
        self._optimistically(
            make, lambda report, made: self._desk.change(report, made[0], made[1] or None, meta)
        )

    def _optimistically(
        self,
        make: Callable[[ToolCallReport], Made],
        commit: Callable[[ToolCallReport, Made], ToolCallReport],
    ) -> None:
        """Make a change without the lock, which may take time, and commit it if nothing came between."""
        for _ in range(3):
            report = self.report
            made = make(report)
            with self._desk.lock:
                if self._report is report:
                    self._report = commit(report, made)
                    return
        with self._desk.lock:
            report = self.report
            self._report = commit(report, make(report))

    def _items(self, output: Any) -> tuple[tuple[ToolCallContent, ...], int]:
        try:
            return self._desk.guard.items(output)
        except Exception as exc:  # noqa: BLE001 - without its words, a call still ends
            self._desk.faults.degraded(exc)
            return (), 0


def is_about(item: object, path: str) -> bool:
    """Whether an item is an earlier diff of the same file, which the new one takes the place of."""
    return type(item) is DiffContent and [change.path for change in item.changes] == [path]
