"""The state of a live call: its report, how that is changed without losing a change, and how it ends.

What takes time (looking for secrets, cutting, writing files) is done without the session's lock. If the
call has changed meanwhile, it is done again: see `_change`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from callsheet.acp.v1 import SealedResult
from callsheet.describe import fit_title
from callsheet.report.content import TextContent, ToolCallContent
from callsheet.report.errors import LateUpdate, ReportError
from callsheet.report.events import ExitStatus
from callsheet.report.fields import SETTLE, check_reason
from callsheet.report.json import EMPTY, JsonObject, JsonValue
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason, ToolCallStatus, to_reason
from callsheet.runtime.clock import Stopwatch
from callsheet.runtime.endings import Ending, exit_text
from callsheet.runtime.health import Misuse
from callsheet.runtime.live_output import Output
from callsheet.runtime.options import CallSpec

if TYPE_CHECKING:
    from callsheet.runtime.session import RuntimeSession

_PENDING = ToolCallStatus.PENDING
_IN_PROGRESS = ToolCallStatus.IN_PROGRESS
_PAUSED = ToolCallStatus.PAUSED
_COMPLETED = ToolCallStatus.COMPLETED
_CANCELLED = ToolCallStatus.CANCELLED

TRIES = 3
"""Attempts to prepare a change without the lock; the next one holds it, so that a call can't starve."""

Fields: TypeAlias = dict[str, Any]

Unfolded: TypeAlias = tuple[tuple[Fields, JsonObject | None], ...]
"""Changes of a call that its report lacks: fields and notes."""


def settled(fields: Fields) -> Fields:
    """Return fields with items for content that is just a text."""
    content = fields.get("content")
    return {**fields, "content": (TextContent(content),)} if type(content) is str else fields


class CallState:
    """The report of one call, as it changes."""

    id: str = ""
    current: ToolCallStatus | None = None
    output: Output | None = None
    # Whether nothing but the status has changed since the call was announced (`runtime.delivery`). Then
    # changes wait in `unfolded`, and `folded` becomes the current report when that is read.
    is_plain: bool = False
    folded: ToolCallReport | None = None
    unfolded: Unfolded = ()
    notes: JsonObject = EMPTY
    _exit: ExitStatus | None = None
    _timeout: asyncio.Timeout | None = None
    # The originals of what was cut: the input to show when asking for approval, the content to cut
    # again when more of it comes, and how many items it had when it was cut last.
    whole_input: JsonValue = None
    _whole: tuple[ToolCallContent, ...] | None = None
    _cut_at: int = 0

    def __init__(self, session: RuntimeSession, spec: CallSpec, timeout: float | None) -> None:
        self.session: RuntimeSession = session
        # What the call is announced with; None afterwards.
        self.spec: CallSpec | None = spec
        self._seconds: float | None = timeout
        self._watch: Stopwatch = Stopwatch(session.clock, session.clock.monotonic())
        # How it was approved: the next change of its status takes that along.
        self._decision: JsonObject = EMPTY

    @property
    def report(self) -> ToolCallReport:
        """The current report. It is immutable: read this property again for a later one."""
        if self.folded is None:
            message = "the call is not announced yet; enter it first: async with session.call(…)"
            raise Misuse(message)
        while self.unfolded:
            with self.session.lock:
                report = before = self.folded
                changes = self.unfolded
                for fields, notes in changes:
                    report = report.changed(settled(fields), None, notes)
                # A signal's handler may have changed it meanwhile; but none runs from here on.
                if self.folded is before and self.unfolded is changes:
                    self.folded, self.unfolded = report, ()
        return self.folded

    @property
    def status(self) -> ToolCallStatus:
        """Where the call is in its life."""
        return self.current or self.report.status

    @property
    def has_ended(self) -> bool:
        """Whether the call has ended."""
        return self.current is not None and self.current.is_final

    # Changing it

    def _started(self, since: float | None = None) -> None:
        """Commit that the tool is running, or has run since a monotonic time; under the lock."""
        notes = self._watch.start(since)
        if self._decision:
            notes, self._decision = {**(notes or EMPTY), **self._decision}, EMPTY
        self.session.delivery.commit(self, {"status": _IN_PROGRESS}, notes)

    def _change(
        self,
        make: Callable[[ToolCallReport], Fields],
        found: int = 0,
        *,
        meta: JsonObject | None = None,
        ending: Ending | None = None,
        raw: JsonValue = None,
    ) -> None:
        """Change the call, or end it: prepare the fields without the lock, and commit them under it.

        Preparing may take time (cutting, writing files). If the call has changed meanwhile, it is
        done again, so that no change is lost.

        Args:
            make: Returns the sanitized fields to set, from the current report.
            found: How many secrets were redacted in them.
            meta: A sanitized patch for `_meta`.
            ending: How the call ends, if it does.
            raw: The raw output of a call that ends.
        """
        session, lock = self.session, self.session.lock
        for left in range(TRIES, -1, -1):
            if not left:
                lock.acquire()
            try:
                report = self.report
                fields, notes = session.guard.bounded(make(report), report, found)
                with lock:
                    if self.report is not report:
                        continue
                    if ending is None:
                        session.delivery.commit(self, fields, notes, meta)
                    else:
                        self._ended(ending, raw, fields, notes)
                    return
            finally:
                if not left:
                    lock.release()

    def _sanitized(self, fields: Fields) -> tuple[Fields, int]:
        """Return fields that a user sets, made safe; those that can't be are left out, and counted."""
        guard, faults = self.session.guard, self.session.faults
        good: Fields = {}
        total = 0
        for name, given in fields.items():
            value, found = given, 0
            if name in ("raw_input", "raw_output"):
                value, found = guard.value(given, runs=name == "raw_input")
            elif name == "content":
                value, found = guard.items(given)
            elif name in ("title", "name"):
                value, found = guard.text(given, runs=name == "title")
                value = fit_title(value) if name == "title" else value
            if name not in SETTLE:
                faults.degraded(ValueError(f"a report has no field {name!r} to set"))
                continue
            try:
                settled = SETTLE[name](value)
            except ReportError as exc:
                faults.degraded(exc)
                continue
            good[name] = guard.places(settled) if name == "locations" else settled
            total += found
        return good, total

    def whole_content(self, report: ToolCallReport) -> tuple[ToolCallContent, ...]:
        """Return the content as it was before it was cut."""
        return report.content if self._whole is None else self._whole

    def _live_output(self) -> Output:
        """Return the call's output, under the lock; at first, it is added to the content."""
        report, output = self.report, self.output
        if report.status.is_final:
            raise self._too_late("output")
        if output is None:
            output = self.output = Output(self.session, self.id, report.raw_input)
            self.session.notify_output(output, much=False)
            fields = {"content": (*report.content, output.item)}
            self.session.delivery.commit(self, fields)
        return output

    def _too_late(self, what: str) -> LateUpdate:
        message = f"call {self.id}, {what}: the call has ended; a final state is final"
        return LateUpdate(message, old=self.status.value, new=None)

    # Ending it

    def _end(self, ending: Ending, raw: JsonValue = None) -> None:
        """End the call. An end is sent even if what it should show can't be."""
        if self.current is None or self.current.is_final:
            raise self._too_late(ending.status.value)
        session, live = self.session, self.output
        try:
            sealed = session.guard.sealed_result(ending.output, raw)
            if sealed is not None and "truncated" not in self.notes:
                with session.lock:
                    if self.is_plain:  # nearly always: there is no content that could change this
                        self._ended(ending, None, sealed.fields, {}, sealed)
                        return
            if sealed is None:
                items, raw, found = session.guard.result(ending.output, raw)
            else:
                (items, raw), found = settled(sealed.fields).values(), 0
            fields = partial(self._last_fields, items, raw)
            self._change(fields, found, ending=ending, raw=raw)
        except Exception:
            if not self.has_ended:
                with session.lock:
                    self._ended(ending, None, {}, {})
            raise
        finally:
            if self.current.is_final:
                session.ended(self)
            del live  # until here, its terminal can be looked at

    def _last_fields(
        self, items: tuple[ToolCallContent, ...], raw: JsonValue, report: ToolCallReport
    ) -> Fields:
        """Return the fields of a call's end, with what its output and its exit add to them."""
        output, content = self.output, self._whole or report.content
        if output is not None:
            with self.session.lock:
                output.settle(float("inf"))
                if not output.state.total and output.state.shown_as is None:
                    content = tuple([item for item in content if item != output.item])
                elif len(items) == 1 and output.is_just(items[0]):
                    items = ()
        if not items and self._exit is not None:
            text = exit_text(self._exit, self.session.phrase)
            items = (TextContent(text),) if text else ()
        fields: Fields = {}
        if items or content is not report.content:
            fields["content"] = (*content, *items)
        if raw is not None:
            fields["raw_output"] = raw
        return fields

    def _ended(
        self,
        ending: Ending,
        raw: JsonValue,
        fields: Fields,
        notes: JsonObject,
        sealed: SealedResult | None = None,
    ) -> None:
        """Commit the end of the call, under the lock."""
        session, status, current = self.session, ending.status, self.current
        if current is _PAUSED or (current is _PENDING and status is _COMPLETED):
            # The ledger knows the call as running from here on, whatever comes of its end.
            self._started(since=self._watch.made)
        if self.output is not None:
            self.output.state.exit_status = self._exit
            found = self.output.close(raw)
            if found:
                known = notes.get("redactions") or self.report.notes.get("redactions") or 0
                session.faults.tally(redacted=found)
                notes["redactions"] = known + found
            self.output = None
        self._watch.end(notes)
        if self._decision:
            notes |= self._decision
        if ending.reason is not None:
            notes["reason"] = self._reason(ending.reason, status)
        fields["status"] = status
        session.delivery.commit(self, fields, notes, sealed=sealed)

    def _reason(self, given: Reason | str, status: ToolCallStatus) -> str:
        """Return a reason that fits the status."""
        try:
            reason = to_reason(given)
            check_reason(reason.value, status)
        except ReportError as exc:
            self.session.faults.degraded(exc)
            reason = Reason.CANCELLED if status is _CANCELLED else Reason.TOOL_ERROR
        return reason.value
