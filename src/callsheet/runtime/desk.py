"""The desk of a session: change, then tell.

One lock is held around both, so what each consumer is told has one order, and calls may be changed
from any thread. Under it nothing waits and nothing is encoded.

Reporting never breaks a tool: what can't be reported as it is given is left out, and counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import PurePath
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakValueDictionary

from callsheet.describe import Describer, Description
from callsheet.report.errors import CallsheetError, LateUpdate, ReportError
from callsheet.report.fields import SETTLE, check_reason, settle_meta, settle_notes
from callsheet.report.ids import check_id
from callsheet.report.ledger import Ledger
from callsheet.report.locations import ToolCallLocation
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason, ToolCallStatus, to_reason
from callsheet.report.terminals import TerminalState
from callsheet.report.values import JsonObject, JsonValue
from callsheet.wire.words import Words

from .clock import Clock
from .faults import Faults
from .ids import new_call_id
from .words import Spoken

if TYPE_CHECKING:
    from .call import Call
    from .outbox import Outbox

Opening: TypeAlias = tuple[str, JsonValue, str | None, Any, Sequence[Any] | None, dict[str, Any]]
"""What a call is announced with: name, input, title, kind, locations, and the rest by name."""

_JUDGES: dict[str, Callable[[Any], Any]] = {
    **SETTLE,
    "alias": check_id,
    "batch": check_id,
    "meta": settle_meta,
    "notes": settle_notes,
}


class Desk:
    """Where a session's calls are changed, and everybody is told."""

    def __init__(
        self, session_id: str, cwd: str, describer: Describer, clock: Clock, faults: Faults
    ) -> None:
        self.session_id: str = session_id
        self.cwd: str = cwd
        self.describer: Describer = describer
        self.words: Words = Spoken(describer)
        self.clock: Clock = clock
        self.faults: Faults = faults
        self.lock: Lock = Lock()
        self.thread: int = 0
        self.is_behind: bool = False
        self.ledger: Ledger = Ledger(session_id, new_call_id)
        self.outboxes: tuple[Outbox, ...] = ()
        self.terminals: WeakValueDictionary[str, TerminalState] = WeakValueDictionary()
        self.calls: dict[str, Call] = {}

    # Changes; the lock is held by the caller unless it says otherwise

    def open(self, call: Call, opening: Opening) -> ToolCallReport:
        """Announce a call. Takes the lock itself."""
        name, raw_input, title, kind, locations, links = opening
        if kind is not None:
            kind = self.fit("kind", kind, None)
        found = self.describer(name, raw_input, kind=kind, title=title, locations=locations)
        with self.lock:
            try:
                report = self.ledger.open(
                    name,
                    title=found.title,
                    kind=found.kind,
                    raw_input=raw_input,
                    locations=found.locations,
                    **links,
                )
            except CallsheetError as exc:
                if self.faults.strict:
                    raise
                report = self._open_anyway(opening, found, exc)
            self.calls[report.tool_call_id] = call
            return self._tell(report, True)

    def change(
        self,
        report: ToolCallReport,
        fields: dict[str, Any],
        notes: JsonObject | None = None,
        meta: JsonObject | None = None,
    ) -> ToolCallReport:
        """Change a call and tell everybody. Gives the report as it is then."""
        try:
            changed = self.ledger.update(report.tool_call_id, notes=notes, meta=meta, **fields)
        except LateUpdate as exc:
            self.faults.late(str(exc))
            return report
        except CallsheetError as exc:
            self.faults.degraded(exc)
            changed = self._change_anyway(report, fields, notes, meta)
        return self._tell(changed, changed.status is not report.status)

    def move(
        self, report: ToolCallReport, fields: dict[str, Any], notes: JsonObject | None
    ) -> ToolCallReport:
        """Move a call to another status by settled values, and tell everybody."""
        try:
            changed = self.ledger.amend(report, fields, notes)
        except LateUpdate as exc:
            self.faults.late(str(exc))
            return report
        return self._tell(changed, True)

    def output(self, tool_call_id: str, state: TerminalState, much: bool) -> None:
        """Tell everybody that a call has new output."""
        for outbox in self.outboxes:
            outbox.output(tool_call_id, state, much)

    def _tell(self, report: ToolCallReport, moved: bool) -> ToolCallReport:
        for outbox in self.outboxes:
            outbox.put(report, moved)
        return report

    def _open_anyway(
        self, opening: Opening, found: Description, exc: CallsheetError
    ) -> ToolCallReport:
        """Announce a call without what can't be reported of it."""
        good: dict[str, Any] = {
            "title": found.title,
            "kind": found.kind,
            "locations": found.locations,
        }
        for name, value in {"name": opening[0], "raw_input": opening[1], **opening[-1]}.items():
            try:
                good[name] = self._judge(name, value)
            except CallsheetError as fault:
                exc = fault
        self.faults.degraded(exc)
        return self.ledger.open(**good)

    def _judge(self, name: str, value: Any) -> Any:
        """Give back what may be said of a new call, or raise."""
        if name == "parent":
            return self.ledger[value].tool_call_id
        if name == "depends_on":
            return [key for key in value if key in self.ledger]
        return _JUDGES[name](value)

    def _change_anyway(
        self,
        report: ToolCallReport,
        fields: dict[str, Any],
        notes: JsonObject | None,
        meta: JsonObject | None,
    ) -> ToolCallReport:
        """Change what can be changed, field by field, and the status last."""
        key = report.tool_call_id
        steps: list[dict[str, Any]] = [{n: value} for n, value in fields.items() if n != "status"]
        steps += [{"meta": meta}, {"status": fields.get("status"), "notes": notes}]
        for step in steps:
            with suppress(CallsheetError):
                report = self.ledger.update(key, **step)
        return report

    # Without the lock

    def keep_up(self) -> None:
        """Send now, if the event loop is held up by the very one who has so much to say."""
        if get_ident() == self.thread:
            everything, self.is_behind = self.is_behind, False
            for outbox in self.outboxes:
                outbox.drain_hard(everything=everything)

    def new_terminal(self, keep: int) -> TerminalState:
        """Make a terminal for a call's live output. It is known while somebody holds it."""
        state = TerminalState("term_" + new_call_id().removeprefix("call_"), keep=keep)
        self.terminals[state.terminal_id] = state
        return state

    def place(self, path: Any, line: int | None) -> ToolCallLocation | None:
        """Give a location; a relative path is meant from the session's directory."""

        if isinstance(path, str):
            path = os.path.join(self.cwd, path)  # noqa: PTH118
        elif isinstance(path, PurePath):
            path = str(self.cwd / path)
        return self.faults.attempt(lambda: ToolCallLocation(path, line))

    def fit(self, field: str, value: Any, otherwise: Any) -> Any:
        """Give a field's value, settled, if it can be reported, else `otherwise`."""
        try:
            return SETTLE[field](value)
        except ReportError as exc:
            self.faults.degraded(exc)
            return otherwise

    def reason(self, reason: Reason | str, status: ToolCallStatus) -> str:
        """Give a reason that fits the status."""
        try:
            found = to_reason(reason)
            check_reason(found.value, status)
        except ReportError as exc:
            self.faults.degraded(exc)
            found = Reason.CANCELLED if status is ToolCallStatus.CANCELLED else Reason.TOOL_ERROR
        return found.value

    def phrase(self, key: str, **values: str | float) -> str:
        """Give one of the fixed phrases, in the user's language."""
        return self.describer.phrase(key, **values)

    def after_fork(self) -> None:
        """Begin with locks that nobody holds, and nobody to tell."""
        self.lock = Lock()
        self.faults.after_fork()
        self.outboxes = ()
