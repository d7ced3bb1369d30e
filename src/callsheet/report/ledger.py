"""The ledger: which calls a session has, and what is known of each.

It is the only place that folds events into reports, correlates ids and aliases, and forgets. Three
rules:

1. **One id space.** An id is used once in the life of a session. A second call that arrives under a
   taken id gets a fresh one; the id it came with becomes its alias. An alias names its latest
   holder, so later events that use it reach the right call.
2. **Refused means unchanged.** An event that is illegal or unknown raises, and the ledger is as it
   was.
3. **Bounded.** A call that has ended stays whole for a while, then shrinks to a summary, then
   leaves. What remains of it is that its id is taken (`_is_taken`).

The reports that it gives out are its own state: read them, and change them through the ledger. A
ledger has one owner at a time; whoever shares one between threads takes a lock around it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from .content import ContentLike
from .errors import CorrelationError, InvalidId, InvalidValue, LateUpdate
from .events import (
    CallChanged,
    CallOpened,
    ContentAppended,
    Event,
    TerminalChanged,
    TerminalOutput,
)
from .fields import NOTES, settle, settle_meta, settle_notes, to_items, to_locations
from .ids import check_id, is_ours
from .kinds import Kind, ToolKind, to_kind
from .locations import ToolCallLocation
from .report import SETTLED, ToolCallReport, reasoned
from .status import Reason, ToolCallStatus, to_reason, to_status
from .terminals import TerminalState
from .values import EMPTY, JsonObject, JsonValue, check_text, freeze, is_list, patched

_Links: TypeAlias = dict[str, dict[str, None]]
"""From a call to the calls that name it, in order; a dict because leaving must be as cheap as joining."""


_SHRINK_BY = 32
"""Forgetting is done for so many calls at once, which is cheaper than one by one."""


class CallSummary(Struct, frozen=True):
    """What stays of an ended call for a while after its report has gone."""

    tool_call_id: str
    name: str
    title: str
    kind: Kind
    status: ToolCallStatus
    notes: JsonObject

    @property
    def is_final(self) -> bool:
        """Only ended calls have summaries."""
        return True


class LedgerCounts(Struct):
    """How many, over the whole life of the session."""

    opened: int = 0
    ended: int = 0
    collisions: int = 0


class Ledger:
    """All calls of one session. `new_id` makes ids that strictly increase (`IdFactory`)."""

    def __init__(
        self,
        session_id: str,
        new_id: Callable[[], str],
        *,
        keep_reports: int = 256,
        keep_summaries: int = 4096,
        keep_terminals: int = 256,
    ) -> None:
        self.session_id: str = session_id
        self.counts: LedgerCounts = LedgerCounts()
        self._new_id: Callable[[], str] = new_id
        self._keep_reports: int = keep_reports
        self._keep_summaries: int = keep_summaries
        self._keep_terminals: int = keep_terminals
        self._calls: dict[str, ToolCallReport | CallSummary] = {}
        self._ended: deque[str] = deque()
        self._summarised: deque[str] = deque()
        self._aliases: dict[str, str] = {}
        self._children: _Links = {}
        self._dependents: _Links = {}
        self._terminals: dict[str, TerminalState] = {}
        self._foreign: set[str] = set()
        self._came_as: dict[str, str] = {}
        self._terminal_epoch: int = 0
        self._first_own: str = ""
        self._last_own: str = ""
        self._taken: _Taken = _Taken()

    # Look-up

    def __getitem__(self, key: str) -> ToolCallReport | CallSummary:
        """Give the call with this id or alias, or raise `CorrelationError`."""
        found = self.get(key)
        if found is None:
            raise CorrelationError(key, self.session_id)
        return found

    def get(self, key: str) -> ToolCallReport | CallSummary | None:
        """Give the call with this id or alias, if it is still known."""
        if type(key) is not str:
            key = check_id(key)
        return self._calls.get(self._aliases.get(key, key))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.get(key) is not None

    def __len__(self) -> int:
        """Count the calls that are still known, summaries included."""
        return len(self._calls)

    def __iter__(self) -> Iterator[ToolCallReport]:
        """Give the reports that are still whole, in the order they were opened."""
        return iter([call for call in self._calls.values() if type(call) is ToolCallReport])

    def live(self) -> list[ToolCallReport]:
        """Give the reports of calls that have not ended, in the order they were opened."""
        return [report for report in self if not report.is_final]

    def children(self, key: str) -> tuple[str, ...]:
        """Give the ids of the calls whose parent this is, in the order they were opened."""
        return tuple(self._children.get(self._aliases.get(key, key), ()))

    def dependents(self, key: str) -> tuple[str, ...]:
        """Give the ids of the calls that depend on this one."""
        return tuple(self._dependents.get(self._aliases.get(key, key), ()))

    def terminal(self, terminal_id: str) -> TerminalState | None:
        """Give the state of an agent's terminal, if it is still known."""
        return self._terminals.get(terminal_id)

    # Change

    def open(
        self,
        name: str = "",
        *,
        title: str = "",
        kind: Kind | str = ToolKind.OTHER,
        status: ToolCallStatus | str = ToolCallStatus.PENDING,
        content: Sequence[ContentLike] = (),
        locations: Sequence[ToolCallLocation | str] = (),
        raw_input: JsonValue = None,
        raw_output: JsonValue = None,
        meta: JsonObject = EMPTY,
        notes: JsonObject = EMPTY,
        tool_call_id: str | None = None,
        alias: str | None = None,
        parent: str | None = None,
        depends_on: Sequence[str] = (),
        batch: str | None = None,
    ) -> ToolCallReport:
        """Announce a call of our own.

        A title left out is the tool's name. `parent` and `depends_on` name calls of this session by
        id or alias.
        """
        # Every call comes through here, so the usual cases are told apart in place.
        if type(name) is not str or not name.isascii():
            name = check_text(name, "name")
        if not title:
            title = name
        elif type(title) is not str or not title.isascii():
            title = check_text(title, "title")
        if type(status) is not ToolCallStatus:
            status = to_status(status)
        if (
            meta is not EMPTY or notes is not EMPTY
            or alias or parent or depends_on or batch or status.is_final
        ):  # fmt: skip
            notes = self._notes(notes, alias, parent, depends_on, batch)
            meta = self._opening_meta(meta, notes, status)
        report = ToolCallReport(
            self._new_id() if tool_call_id is None else check_id(tool_call_id),
            name,
            title,
            kind if type(kind) is ToolKind else to_kind(kind),
            status,
            to_items(content) if content else (),
            to_locations(locations) if locations else (),
            None if raw_input is None else freeze(raw_input, "raw_input"),
            None if raw_output is None else freeze(raw_output, "raw_output"),
            meta,
            SETTLED,
        )
        return self._open(report, tool_call_id is not None)

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
        if fields:
            settle(fields)
        if status is not None:
            fields["status"] = status if type(status) is ToolCallStatus else to_status(status)
        if meta is not None:
            meta = settle_meta(meta)
        if notes is not None:
            notes = settle_notes(notes)
        report = self._find_live(key)
        return self._commit(report.changed(fields, meta, notes), meta or notes)

    def append(self, key: str, *items: ContentLike) -> ToolCallReport:
        """Add items to what a call shows."""
        report = self._find_live(key)
        return self._commit(report.changed({"content": (*report.content, *to_items(items))}), None)

    def apply(self, event: Event) -> ToolCallReport | TerminalState:
        """Fold any event. Gives the call's new report, or the terminal's state."""
        fold = self._FOLD.get(type(event))
        if fold is None:
            raise InvalidValue(f"expected an event, got {type(event).__name__}")
        return fold(self, event)

    # The folds

    def _fold_opened(self, event: CallOpened) -> ToolCallReport:
        return self._open(event.report.owned(), foreign=True)

    def _fold_changed(self, event: CallChanged) -> ToolCallReport:
        if event.upsert and self.get(event.tool_call_id) is None:
            return self._open(report_of(event).owned(), foreign=True)
        report = self._find_live(event.tool_call_id)
        meta, notes = event.meta, event.notes
        report = report.changed(event.fields, meta, notes, event.extra, event.clear_meta)
        return self._commit(report, meta or notes)

    def _fold_appended(self, event: ContentAppended) -> ToolCallReport:
        report = self._find_live(event.tool_call_id)
        return self._commit(report.changed({"content": (*report.content, event.item)}), None)

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

    def _open(self, report: ToolCallReport, foreign: bool) -> ToolCallReport:
        tool_call_id = report.tool_call_id
        if not foreign:
            self._last_own = tool_call_id
            self._first_own = self._first_own or tool_call_id
        else:
            if self._is_taken(tool_call_id):
                report = self._rename(report)
                tool_call_id = report.tool_call_id
            self._foreign.add(tool_call_id)
        self._calls[tool_call_id] = report
        self.counts.opened += 1
        if report.meta:
            self._link(report)
        if report.status.is_final:
            self._end(tool_call_id)
        return report

    def _find_live(self, key: str) -> ToolCallReport:
        call = self.get(key)
        if type(call) is ToolCallReport and not call.status.is_final:
            return call
        if call is None:
            raise CorrelationError(key, self.session_id)
        raise LateUpdate(
            f"call {key} has ended ({call.status.value}); a final state is final",
            old=call.status.value,
            new=None,
        )

    def _commit(self, report: ToolCallReport, news: JsonObject | None) -> ToolCallReport:
        """Let a changed report take the place of the one we have."""
        if news:
            self._unlink(self._calls[report.tool_call_id])
            self._link(report)
        self._calls[report.tool_call_id] = report
        if report.status.is_final:
            self._end(report.tool_call_id)
        return report

    def _is_taken(self, tool_call_id: str) -> bool:
        """Whether an id was ever used here. Our own increase, so the first and the last say it for all."""
        return (
            tool_call_id in self._calls
            or (self._first_own <= tool_call_id <= self._last_own and is_ours(tool_call_id))
            or tool_call_id in self._aliases
            or tool_call_id in self._taken
        )

    def _rename(self, report: ToolCallReport) -> ToolCallReport:
        """Give a call that came under a taken id one of its own, findable under the old."""
        self.counts.collisions += 1
        old, new = report.tool_call_id, self._new_id()
        self._came_as[new] = old
        self._add_alias(old, new)
        meta = {**report.meta, NOTES: {"alias": old, **report.notes}}
        return replace(report, tool_call_id=new, meta=meta).owned()

    def _link(self, report: ToolCallReport) -> None:
        """Make a call findable by its alias, and from the calls that it stands under or waits for."""
        tool_call_id, notes = report.tool_call_id, report.notes
        alias, parent = notes.get("alias"), notes.get("parentId")
        if isinstance(alias, str) and alias != tool_call_id:
            self._add_alias(alias, tool_call_id)
        if isinstance(parent, str):
            key = self._aliases.get(parent, parent)
            self._children.setdefault(key, {})[tool_call_id] = None
        for other in _dependencies(notes):
            key = self._aliases.get(other, other)
            self._dependents.setdefault(key, {})[tool_call_id] = None

    def _add_alias(self, alias: str, tool_call_id: str) -> None:
        """Let an alias name its latest holder.

        Whoever holds one of our own ids reaches that call, whatever aliases a model makes up.
        """
        if not (alias in self._calls and is_ours(alias)):
            self._aliases[alias] = tool_call_id

    def _notes(
        self,
        notes: JsonObject,
        alias: str | None,
        parent: str | None,
        depends_on: Sequence[str],
        batch: str | None,
    ) -> JsonObject:
        notes = dict(settle_notes(notes))
        if alias is not None:
            notes["alias"] = check_id(alias, "alias")
        if parent is not None:
            notes["parentId"] = self._known(parent, "parent")
        if isinstance(depends_on, str):
            raise InvalidId(f"depends_on: expected a list of ids, got the text {depends_on!r}")
        if depends_on:
            notes["dependsOn"] = [self._known(key, "dependency") for key in depends_on]
        if batch is not None:
            notes["batchId"] = check_id(batch, "batch id")
        return notes

    def _opening_meta(
        self, meta: JsonObject, notes: JsonObject, status: ToolCallStatus
    ) -> JsonObject:
        settled = patched(EMPTY, settle_meta(meta))
        if notes:
            settled = {**settled, NOTES: {**(settled.get(NOTES) or EMPTY), **notes}}
        return reasoned(settled, status)

    def _known(self, key: str, role: str) -> str:
        found = self.get(key)
        if found is None:
            raise CorrelationError(key, self.session_id, role=role)
        return found.tool_call_id

    def _terminal_of(self, terminal_id: str) -> TerminalState:
        state = self._terminals.get(terminal_id)
        if state is None:
            state = self._terminals[terminal_id] = TerminalState(terminal_id, self._terminal_epoch)
            self._forget_terminals()
        return state

    # Forgetting

    def _end(self, tool_call_id: str) -> None:
        self.counts.ended += 1
        self._ended.append(tool_call_id)
        if len(self._ended) >= self._keep_reports + _SHRINK_BY:
            self._shrink()

    def _shrink(self) -> None:
        """Let the oldest ended calls shrink to summaries, and the oldest summaries leave."""
        calls, ended, summarised = self._calls, self._ended, self._summarised
        while len(ended) > self._keep_reports:
            key = ended.popleft()
            call = calls[key]
            calls[key] = CallSummary(key, call.name, call.title, call.kind, call.status, call.notes)
            summarised.append(key)
        tidy = self._foreign or self._children or self._dependents or self._aliases
        while len(summarised) > self._keep_summaries:
            call = calls.pop(summarised.popleft())
            if tidy:
                self._forget(call)

    def _forget(self, call: ToolCallReport | CallSummary) -> None:
        tool_call_id = call.tool_call_id
        self._unlink(call)
        self._children.pop(tool_call_id, None)
        self._dependents.pop(tool_call_id, None)
        if tool_call_id in self._foreign:
            self._foreign.remove(tool_call_id)
            self._taken.add(tool_call_id)
        came_as = self._came_as.pop(tool_call_id, None)
        if came_as is not None and self._aliases.get(came_as) == tool_call_id:
            del self._aliases[came_as]

    def _unlink(self, call: ToolCallReport | CallSummary) -> None:
        """Take a call out of the indexes that its notes put it in."""
        tool_call_id, notes = call.tool_call_id, call.notes
        alias, parent = notes.get("alias"), notes.get("parentId")
        if isinstance(parent, str):
            _drop(self._children, self._aliases.get(parent, parent), tool_call_id)
        for other in _dependencies(notes):
            _drop(self._dependents, self._aliases.get(other, other), tool_call_id)
        if isinstance(alias, str) and self._aliases.get(alias) == tool_call_id:
            del self._aliases[alias]

    def _forget_terminals(self) -> None:
        """Once there are too many terminals, drop the oldest that have exited, else the oldest."""
        if len(self._terminals) > self._keep_terminals:
            exited = (key for key, state in self._terminals.items() if state.exit_status)
            gone = self._terminals.pop(next(exited, next(iter(self._terminals))))
            # If it speaks again it begins anew, which a view must be able to tell.
            self._terminal_epoch = max(self._terminal_epoch, gone.epoch + 1)


class _Taken:
    """Which ids from outside were used by calls that have left, in fixed memory.

    A Bloom filter: it never forgets an id, and at worst takes a new one for taken. That costs such
    a call nothing but a fresh id; using an id twice would make editors rewrite the card of an old
    call.
    """

    BITS = 1 << 24  # 2 MiB: one wrong "taken" in 1,700 after a million ids
    PROBES = 7

    def __init__(self) -> None:
        self._bits: bytearray | None = None

    def add(self, tool_call_id: str) -> None:
        if self._bits is None:
            self._bits = bytearray(self.BITS // 8)
        for bit in self._probe(tool_call_id):
            self._bits[bit >> 3] |= 1 << (bit & 7)

    def __contains__(self, tool_call_id: str) -> bool:
        bits = self._bits
        return bits is not None and all(
            bits[bit >> 3] >> (bit & 7) & 1 for bit in self._probe(tool_call_id)
        )

    def _probe(self, tool_call_id: str) -> Iterator[int]:
        bit, step = hash(tool_call_id), hash((tool_call_id,)) | 1
        for _ in range(self.PROBES):
            yield bit % self.BITS
            bit += step


def report_of(event: CallChanged) -> ToolCallReport:
    """Make the report that an upsert of an unknown call stands for."""
    meta = event.meta or EMPTY
    if event.notes:
        meta = {**meta, NOTES: event.notes}
    extra = patched(EMPTY, event.extra or EMPTY)
    return ToolCallReport(tool_call_id=event.tool_call_id, meta=meta, extra=extra, **event.fields)


def _dependencies(notes: JsonObject) -> list[str]:
    others = notes.get("dependsOn")
    return [other for other in others if isinstance(other, str)] if is_list(others) else []


def _drop(links: _Links, key: str, tool_call_id: str) -> None:
    linked = links.get(key)
    if linked is not None:
        linked.pop(tool_call_id, None)
        if not linked:
            del links[key]
