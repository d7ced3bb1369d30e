"""The ledger: which calls a session has, and what is known of each.

It is the only place that folds events into reports, correlates ids and aliases, and forgets. Three
rules:

1. **One id space.** An id is used once in the life of a session. A second call that arrives under a
   taken id gets a fresh one; the id it came with becomes its alias. An alias names its latest
   holder, so later events that use it reach the right call.
2. **Refused means unchanged.** An event that is illegal or unknown raises, and the ledger is as it
   was.
3. **Bounded.** A call that has ended stays for a while, then leaves. What remains of it is that its
   id is used up (`ids.py`).

The reports that it returns are its own state: read them, and change them through the ledger. A
ledger has one owner at a time; to share one between threads, hold a lock around it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from callsheet.report.errors import CorrelationError, InvalidValue
from callsheet.report.events import (
    CallChanged,
    CallOpened,
    ContentAppended,
    Event,
    TerminalChanged,
    TerminalOutput,
)
from callsheet.report.fields import NOTES, settle, settle_meta, settle_notes
from callsheet.report.ids import CallIndex, check_id
from callsheet.report.json import EMPTY, JsonObject, JsonValue, patched
from callsheet.report.report import SETTLED, ToolCallReport, reasoned, report_of
from callsheet.report.status import Reason, ToolCallStatus, to_reason
from callsheet.report.terminal import TerminalState


class LedgerCounts(Struct):
    """How many, over the whole life of the session."""

    opened: int = 0
    ended: int = 0
    collisions: int = 0


_FORGET_AT_ONCE = 32
"""Forgetting is done for so many calls at once, which is cheaper than one by one."""


class Ledger:
    """All calls of one session. `new_id` makes ids that strictly increase (`IdFactory`)."""

    def __init__(
        self,
        session_id: str,
        new_id: Callable[[], str],
        *,
        keep_reports: int = 256,
        keep_terminals: int = 256,
    ) -> None:
        self.session_id: str = session_id
        self.counts: LedgerCounts = LedgerCounts()
        self._new_id: Callable[[], str] = new_id
        self._keep_reports: int = keep_reports
        self._keep_terminals: int = keep_terminals
        self._calls: dict[str, ToolCallReport] = {}
        self._ended: deque[str] = deque()
        self._terminals: dict[str, TerminalState] = {}
        self._terminal_epoch: int = 0
        self._names: CallIndex = CallIndex(self._calls)
        self._aliases: dict[str, str] = self._names.aliases

    # Look-up

    def __getitem__(self, key: str) -> ToolCallReport:
        """Return the call with this id or alias, or raise `CorrelationError`."""
        found = self.get(key)
        if found is None:
            raise CorrelationError(key, self.session_id)
        return found

    def get(self, key: str) -> ToolCallReport | None:
        """Return the call with this id or alias, if it is still known."""
        if type(key) is not str:
            key = check_id(key)
        return self._calls.get(self._aliases.get(key, key))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.get(key) is not None

    def __len__(self) -> int:
        """Count the calls that are still known."""
        return len(self._calls)

    def __iter__(self) -> Iterator[ToolCallReport]:
        """Return the reports of all calls that are still known, in the order they were opened."""
        return iter(list(self._calls.values()))

    def terminal(self, terminal_id: str) -> TerminalState | None:
        """Return the state of an agent's terminal, if it is still known."""
        return self._terminals.get(terminal_id)

    # Change

    def open(
        self,
        name: str = "",
        *,
        title: str = "",
        tool_call_id: str | None = None,
        meta: JsonObject = EMPTY,
        notes: JsonObject = EMPTY,
        **fields: JsonValue,
    ) -> ToolCallReport:
        """Announce a call. A title left out is the tool's name; an id left out is a new one.

        `fields` are those of `ToolCallReport`. `notes` are the keys of `_meta.callsheet`: with an
        `alias` among them, the call is found by that, too.
        """
        fields = settle({"name": name, "title": title or name, **fields})
        if meta is not EMPTY or notes is not EMPTY or "status" in fields:
            meta = patched(EMPTY, settle_meta(meta))
            if notes:
                meta = {**meta, NOTES: {**(meta.get(NOTES) or EMPTY), **settle_notes(notes)}}
            meta = reasoned(meta, fields.get("status", ToolCallStatus.PENDING))
        if tool_call_id is not None:
            own = check_id(tool_call_id)
            return self._open(ToolCallReport(own, meta=meta, extra=SETTLED, **fields))
        return self._store(
            ToolCallReport(self._names.note_own(self._new_id()), meta=meta, extra=SETTLED, **fields)
        )

    def update(
        self,
        key: str,
        status: ToolCallStatus | str | None = None,
        *,
        reason: Reason | str | None = None,
        meta: JsonObject | None = None,
        notes: JsonObject | None = None,
        **fields: JsonValue,
    ) -> ToolCallReport:
        """Move a call to another status and set fields of it: all of them, or, if one is refused, none.

        `fields` are those of `ToolCallReport`; `content` and `locations` take the place of what was
        there. `meta` and `notes` (the keys of `_meta.callsheet`) are patches: None removes a key.
        """
        if reason is not None:
            notes = {**(notes or EMPTY), "reason": to_reason(reason).value}
        if status is not None:
            fields["status"] = status
        if meta is not None:
            meta = settle_meta(meta)
        if notes is not None:
            notes = settle_notes(notes)
        report = self[key].changed(settle(fields), meta, notes)
        return self._commit(report, bool(meta or notes))

    def apply(self, event: Event) -> ToolCallReport | TerminalState:
        """Fold any event. Return the call's new report, or the terminal's state."""
        fold = self._FOLD.get(type(event))
        if fold is None:
            raise InvalidValue(f"expected an event, got {type(event).__name__}")
        return fold(self, event)

    # The folds

    def _fold_opened(self, event: CallOpened) -> ToolCallReport:
        return self._open(event.report.owned())

    def _fold_changed(self, event: CallChanged) -> ToolCallReport:
        if event.upsert and self.get(event.tool_call_id) is None:
            # Of a call that ended so long ago that it is forgotten, no second one is made.
            if self._names.is_used(event.tool_call_id):
                raise CorrelationError(event.tool_call_id, self.session_id)
            return self._open(report_of(event).owned())
        report = self[event.tool_call_id]
        meta, notes = event.meta, event.notes
        report = report.changed(event.fields, meta, notes, event.extra, event.clear_meta)
        return self._commit(report, bool(meta or notes or event.clear_meta))

    def _fold_appended(self, event: ContentAppended) -> ToolCallReport:
        report = self[event.tool_call_id]
        return self._commit(report.changed({"content": (*report.content, event.item)}), False)

    def _fold_terminal(self, event: TerminalChanged) -> TerminalState:
        state = self._terminal_of(event.terminal_id)
        state.apply(event)
        return state

    def _fold_output(self, event: TerminalOutput) -> TerminalState:
        state = self._terminal_of(event.terminal_id)
        state.append(event)
        return state

    _FOLD: ClassVar[dict[type, Callable[[Any, Any], ToolCallReport | TerminalState]]] = {
        CallOpened: _fold_opened,
        CallChanged: _fold_changed,
        ContentAppended: _fold_appended,
        TerminalChanged: _fold_terminal,
        TerminalOutput: _fold_output,
    }

    # Helpers

    def _open(self, report: ToolCallReport) -> ToolCallReport:
        """Store a call that came from outside, under an id of its own if it came under a used one."""
        self._names.use_foreign()
        return self._store(
            self._rename(report) if self._names.is_used(report.tool_call_id) else report
        )

    def _store(self, report: ToolCallReport) -> ToolCallReport:
        """Store a new call."""
        self.counts.opened += 1
        return self._commit(report, bool(report.meta))

    def _commit(self, report: ToolCallReport, relink: bool) -> ToolCallReport:
        """Store a report in place of the one before it, if there is one."""
        key = report.tool_call_id
        if relink:
            self._names.relink(self._calls.get(key), report)
        self._calls[key] = report
        if report.status.is_final:
            self._end(key)
        return report

    def _rename(self, report: ToolCallReport) -> ToolCallReport:
        """Return a call that came under a taken id one of its own, findable under the old."""
        self.counts.collisions += 1
        old, new = report.tool_call_id, self._names.note_own(self._new_id())
        self._names.rename(old, new)
        meta = {**report.meta, NOTES: {"alias": old, **report.notes}}
        return replace(report, tool_call_id=new, meta=meta).owned()

    def _terminal_of(self, terminal_id: str) -> TerminalState:
        state = self._terminals.get(terminal_id)
        if state is None:
            state = self._terminals[terminal_id] = TerminalState(terminal_id, self._terminal_epoch)
            self._forget_terminals()
        return state

    # Forgetting

    def _end(self, tool_call_id: str) -> None:
        """Note that a call has ended. The oldest that have are forgotten."""
        self.counts.ended += 1
        self._ended.append(tool_call_id)
        if len(self._ended) >= self._keep_reports + _FORGET_AT_ONCE:
            self._forget_calls()

    def _forget_calls(self) -> None:
        """Drop the oldest calls that have ended."""
        surplus = len(self._ended) - self._keep_reports
        self._names.forget([self._calls.pop(self._ended.popleft()) for _ in range(surplus)])

    def _forget_terminals(self) -> None:
        """Once there are too many terminals, drop the oldest that have exited, else the oldest."""
        if len(self._terminals) > self._keep_terminals:
            exited = (key for key, state in self._terminals.items() if state.exit_status)
            gone = self._terminals.pop(next(exited, next(iter(self._terminals))))
            # If it sends output again it starts over, and a view must be able to detect that.
            self._terminal_epoch = max(self._terminal_epoch, gone.epoch + 1)
