"""The desk of a session: it sanitizes, describes and changes calls, and notifies the consumers.

One lock is held around each change and its notifications, so every consumer receives them in the same
order, and calls may be changed from any thread. Nothing blocks under the lock; slow work is done before.

Reporting never breaks a tool: a value that can't be reported as it is gets left out, and counted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import PurePath
from threading import RLock, get_ident
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakValueDictionary

from callsheet.acp.peer import Phrases
from callsheet.describe import Describer
from callsheet.report.errors import CallsheetError, LateUpdate, ReportError
from callsheet.report.fields import (
    SETTLE,
    ToolCallLocation,
    ToolKind,
    check_reason,
    settle_meta,
    settle_notes,
)
from callsheet.report.ids import check_id
from callsheet.report.json import JsonObject, JsonValue
from callsheet.report.ledger import Ledger
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason, ToolCallStatus, to_reason
from callsheet.report.terminal import (
    KEEP_LIVE,
    KEEP_WHOLE,
    CallRecord,
    TerminalRecord,
    TerminalState,
    terminal_ids,
)
from callsheet.runtime.clock import Clock, new_call_id
from callsheet.runtime.health import Faults
from callsheet.runtime.live_output import LAGGING, Output
from callsheet.runtime.sanitizer import Sanitizer

if TYPE_CHECKING:
    from callsheet.runtime.call import RuntimeCall
    from callsheet.runtime.consumer import Consumer
    from callsheet.runtime.record_consumer import RecordConsumer


Opening: TypeAlias = tuple[Any, JsonValue, str | None, Any, Sequence[Any] | None, dict[str, Any]]
"""What a call is announced with: name, input, title, kind, locations, and the rest by name."""

MOST_NAMES = 1000
MOST_LINKS = 100
"""Most dependencies of a call that are reported."""

_JUDGES: dict[str, Callable[[Any], Any]] = {
    **SETTLE,
    "alias": check_id,
    "batch": check_id,
    "meta": settle_meta,
    "notes": settle_notes,
}


class Desk:
    """The place where a session's calls are changed and its consumers notified."""

    def __init__(
        self,
        session_id: str,
        cwd: str,
        describer: Describer,
        words: Phrases,
        guard: Sanitizer,
        clock: Clock,
        faults: Faults,
    ) -> None:
        self.session_id: str = session_id
        self.cwd: str = cwd
        self.describer: Describer = describer
        self.words: Phrases = words
        self.guard: Sanitizer = guard
        self.clock: Clock = clock
        self.faults: Faults = faults
        # Re-entrant, because a signal's handler or a finaliser may report in the midst of a report.
        self.lock: RLock = RLock()
        self.thread: int = 0
        self.is_closed: bool = False
        self.is_behind: bool = False
        self.ledger: Ledger = Ledger(session_id, new_call_id)
        self.consumers: tuple[Consumer | RecordConsumer, ...] = ()
        self.terminals: WeakValueDictionary[str, TerminalState] = WeakValueDictionary()
        self.calls: dict[str, RuntimeCall] = {}
        self._names: dict[str, str] = {}

    # Announcing

    def open(self, call: RuntimeCall, opening: Opening) -> None:
        """Announce a call. Takes the lock itself."""
        try:
            fields = self._described(call, opening)
        except Exception as exc:  # noqa: BLE001 - whatever is wrong with a call, it is announced
            self.faults.degraded(exc)
            name = self._clean_name(opening[0]) if isinstance(opening[0], str) else ""
            fields = dict[str, Any](name=name, title=self.phrase("unknown_tool"))
        output = self._output_for(fields)
        with self.lock:
            try:
                report = self.ledger.open(**fields)
            except Exception as exc:  # noqa: BLE001
                report = self._open_anyway(fields, exc)
            call.opened(report, output)
            if self.is_closed:
                self.faults.count(f"call {report.name!r}: the session is closed", dropped=1)
                return
            self.calls[report.tool_call_id] = call
            if output is not None:
                output.call_id = report.tool_call_id
                self.output(output, much=False)
            self._tell(report, True)

    def _described(self, call: RuntimeCall, opening: Opening) -> dict[str, Any]:
        """Return what is announced: guarded, described, bounded."""
        name, raw_input, title, kind, locations, links = opening
        hints = links.pop("annotations", None) if links else None
        guard, found, given = self.guard, 0, raw_input
        if raw_input is not None:
            raw_input, found = guard.value(raw_input, runs=True)
        if kind is not None:
            kind = self.fit("kind", kind, None)
        if title is not None:
            title = guard.command(title)
        if isinstance(name, str):
            name = self._clean_name(name)
        if found and kind is None:  # a mark may stand where a command's dangerous part was
            kind = self.describer(name, guard.json(given)).kind
        seen = self.describer(
            name, raw_input, kind=kind, title=title, locations=locations, annotations=hints
        )
        fields: dict[str, Any] = {
            "name": name,
            "title": seen.title,
            "kind": seen.kind,
            # What was found in the input has passed the guard already.
            "locations": seen.locations if locations is None else guard.places(seen.locations),
            "raw_input": raw_input,
        }
        notes: JsonObject = {}
        if links:
            found += self._link(fields, links)
        guard.notes(notes, None, found)
        bounded = guard.bounded(fields, None, notes)
        call.whole_input = raw_input
        if notes:
            bounded["notes"] = {**bounded.get("notes", {}), **notes}
        return bounded

    def _clean_name(self, name: str) -> str:
        """Return a tool's name without secrets. A session has few names, and they come again and again."""
        clean = self._names.get(name)
        if clean is None:
            clean = self.guard.clean(name)
            if len(self._names) < MOST_NAMES:
                self._names[name] = clean
        return clean

    def _link(self, fields: dict[str, Any], links: dict[str, Any]) -> int:
        """Add a call's links, notes and `_meta`, sanitized. Return how many secrets were in them."""
        found = 0
        for name, value in links.items():
            if name in ("notes", "meta"):
                fields[name], more = self.guard.value(value)
                found += more
            elif name in ("alias", "batch") and isinstance(value, str):
                fields[name] = self.guard.clean(value)
            else:
                fields[name] = value[:MOST_LINKS] if name == "depends_on" else value
        return found

    def _output_for(self, fields: dict[str, Any]) -> Output | None:
        """Return a terminal for a command, if a client needs to know it when the call is announced."""
        if fields.get("kind") is not ToolKind.EXECUTE:
            return None
        for consumer in self.consumers:
            peer = consumer.sink.peer
            if peer is not None and peer.version == 1 and peer.terminals == "meta":
                output = Output(self, "", None)
                output.about(fields.get("raw_input"))
                fields["content"] = (output.item,)
                return output
        return None

    def _open_anyway(self, fields: dict[str, Any], exc: Exception) -> ToolCallReport:
        """Announce a call without what can't be reported of it."""
        if self.faults.strict:
            raise exc
        good: dict[str, Any] = {}
        for name, value in fields.items():
            try:
                good[name] = self._judge(name, value)
            except Exception as fault:  # noqa: BLE001
                exc = fault
        self.faults.degraded(exc)
        try:
            return self.ledger.open(**good)
        except Exception:  # noqa: BLE001 - each was good, but not together
            return self.ledger.open(title=fields["title"])

    def _judge(self, name: str, value: Any) -> Any:
        """Return the value of a new call's field as it may be reported, or raise."""
        if name == "parent":
            return self.ledger[value].tool_call_id
        if name == "depends_on":
            return [key for key in value if key in self.ledger]
        return _JUDGES[name](value)

    # Changing; the lock is held by the caller

    def change(
        self,
        report: ToolCallReport,
        fields: dict[str, Any],
        notes: JsonObject | None = None,
        meta: JsonObject | None = None,
    ) -> ToolCallReport:
        """Change a call and notify all consumers. Return the new report."""
        try:
            changed = self.ledger.update(report.tool_call_id, notes=notes, meta=meta, **fields)
        except LateUpdate as exc:
            self.faults.late(str(exc))
            return report
        except CallsheetError as exc:
            self.faults.degraded(exc)
            changed = self._change_anyway(report, fields, notes, meta)
        return self._tell(changed, changed.status is not report.status)

    def amend(
        self, report: ToolCallReport, fields: dict[str, Any], notes: JsonObject | None
    ) -> ToolCallReport:
        """Change a call by values that are already checked, and notify all consumers."""
        try:
            changed = self.ledger.amend(report, fields, notes)
        except LateUpdate as exc:
            self.faults.late(str(exc))
            return report
        except CallsheetError as exc:
            self.faults.degraded(exc)
            return report
        return self._tell(changed, changed.status is not report.status)

    def output(self, output: Output, *, much: bool) -> None:
        """Notify all consumers that a call has new output."""
        for consumer in self.consumers:
            consumer.output(output, much)

    def _tell(self, report: ToolCallReport, moved: bool) -> ToolCallReport:
        for consumer in self.consumers:
            consumer.put(report, moved)
        return report

    def _change_anyway(
        self,
        report: ToolCallReport,
        fields: dict[str, Any],
        notes: JsonObject | None,
        meta: JsonObject | None,
    ) -> ToolCallReport:
        """Change what can be changed, field by field."""
        key = report.tool_call_id
        steps: list[dict[str, Any]] = [{name: value} for name, value in fields.items()]
        steps.append({"meta": meta})
        for step in steps:
            with suppress(CallsheetError):
                report = self.ledger.update(key, **step)
        for name, note in (notes or {}).items():
            with suppress(CallsheetError):
                report = self.ledger.update(key, notes={name: note})
        return report

    # Without the lock

    def keep_up(self, output: Output | None = None) -> None:
        """Send everything that waits, if a tool that reports so much is blocking the event loop."""
        if get_ident() == self.thread:
            everything, self.is_behind = self.is_behind, False
            for consumer in self.consumers:
                consumer.drain_hard(everything=everything)
        elif output is not None and not output.is_alone:
            self._let_the_loop_turn(output)

    def _let_the_loop_turn(self, output: Output) -> None:
        """Yield for some milliseconds, in case only the interpreter's lock keeps the loop from running.

        If that doesn't help, the loop is blocked by something else, and the tool must not wait for it.
        """
        for _ in range(20):
            if output.unsent < LAGGING or not any(box.wants_more for box in self.consumers):
                return
            time.sleep(0.0005)
        output.is_alone = True

    def new_terminal(self, keep: int) -> TerminalState:
        """Make a terminal for a call's live output. It is known while something refers to it."""
        state = TerminalState("term_" + new_call_id().removeprefix("call_"), keep=keep)
        self.terminals[state.terminal_id] = state
        return state

    def record(self, report: ToolCallReport) -> CallRecord:
        """Return a call as it is stored: with the terminals that it shows."""
        if not report.content:
            return CallRecord(report)
        keep = KEEP_WHOLE if report.status.is_final else KEEP_LIVE
        found = [self.terminals.get(key) for key in terminal_ids(report)]
        return CallRecord(report, tuple([TerminalRecord.of(one, keep) for one in found if one]))

    def place(self, path: Any, line: int | None) -> ToolCallLocation | None:
        """Return a location; a relative path is meant from the session's directory."""
        if isinstance(path, PurePath):
            path = str(path)
        if isinstance(path, str):
            path = os.path.normpath(os.path.join(self.cwd, self.guard.clean(path)))  # noqa: PTH118
        return self.faults.attempt(lambda: ToolCallLocation(path, line))

    def fit(self, field: str, value: Any, otherwise: Any) -> Any:
        """Return a field's value, settled, if it can be reported, else `otherwise`."""
        try:
            return SETTLE[field](value)
        except ReportError as exc:
            self.faults.degraded(exc)
            return otherwise

    def reason(self, reason: Reason | str, status: ToolCallStatus) -> str:
        """Return a reason that fits the status."""
        try:
            found = to_reason(reason)
            check_reason(found.value, status)
        except ReportError as exc:
            self.faults.degraded(exc)
            found = Reason.CANCELLED if status is ToolCallStatus.CANCELLED else Reason.TOOL_ERROR
        return found.value

    def phrase(self, key: str, **values: str | float) -> str:
        """Return one of the fixed phrases, in the user's language."""
        return self.describer.phrase(key, **values)

    def after_fork(self) -> None:
        """Close the desk in a forked child, with a fresh lock and no consumers."""
        self.lock = RLock()  # another thread may have held the old one, and does not exist here
        self.is_closed = True
        self.faults.after_fork()
        for consumer in self.consumers:
            consumer.forget()
        self.consumers = ()
