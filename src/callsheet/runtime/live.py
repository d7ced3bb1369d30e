"""What is reported of a live call now, and how that is changed: guarded, and without losing a change.

What takes time (looking for secrets, cutting, writing files) is done without the desk's lock. If
the call has changed meanwhile, it is done again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from callsheet.report.content import ToolCallContent
from callsheet.report.fields import SETTLE
from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus
from callsheet.report.values import JsonObject, JsonValue

from .desk import Desk
from .safely import Misuse

if TYPE_CHECKING:
    from .session import Session

Made: TypeAlias = tuple[dict[str, Any], JsonObject]
"""Fields and notes that are to be set."""


class Live:
    """The report of one call, as it changes."""

    __slots__ = ("_desk", "_report", "id", "session")

    def __init__(self, session: Session) -> None:
        self.id: str = ""
        self.session: Session = session
        self._desk: Desk = session.desk
        self._report: ToolCallReport | None = None

    @property
    def report(self) -> ToolCallReport:
        """The report as it is now. It never changes; ask again for the next."""
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
        self._apply(lambda report: ({}, self._desk.guard.notes({key: safe}, report, found)))

    def _guarded(self, fields: dict[str, Any], report: ToolCallReport) -> Made:
        """Give fields that a user sets, made safe; those that can't be are left out."""
        desk, good, found = self._desk, dict[str, Any](), 0
        for name, value in fields.items():
            more = 0
            if name in ("raw_input", "raw_output"):
                value, more = desk.guard.value(value)  # noqa: PLW2901
            elif name == "content":
                value, more = self._items(value)  # noqa: PLW2901
            elif name in ("title", "name"):
                value, more = desk.guard.text(value)  # noqa: PLW2901
            if name in SETTLE:
                kept = desk.fit(name, value, getattr(report, name))
                good[name], found = kept, found + more
            else:
                desk.faults.degraded(ValueError(f"a report has no field {name!r} to set"))
        return self._bounded(good, report, found)

    def _bounded(self, fields: dict[str, Any], report: ToolCallReport, found: int) -> Made:
        notes = self._desk.guard.notes({}, report, found)
        return self._desk.guard.bounded(fields, report, notes) if fields else fields, notes

    def _apply(
        self, make: Callable[[ToolCallReport], Made], meta: JsonObject | None = None
    ) -> None:
        if meta:
            meta = self._desk.guard.value(meta)[0]
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
