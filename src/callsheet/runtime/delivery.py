"""How changes of calls are stored and passed to the consumers, in one order for all.

Two ways
--------
Nearly all calls are announced, started and ended, and nothing else. Such a call is *plain*: its lines are
made of its changes alone, for all v1 peers that are shown calls as they are. Nothing is compared, no
view knows of the call, and its changes wait until somebody reads its report (`CallState.unfolded`).

Anything else makes a call plain no more: a title, progress, content before the end, live output, a pause.
From then on its reports go to the consumers' views, which compare them with what their peers have seen.
Consumers that need a translation, or take reports, are passed reports from the beginning.

Handlers of signals
-------------------
The session's lock is re-entrant: a signal's handler, or a finaliser, may change a call while its thread
is in the midst of changing one. What it changes must not overtake what it interrupts: an older state
would be sent after a newer one, even after a final one. So whoever notifies consumers sets `is_busy`;
changes that come meanwhile are queued in the order in which they were stored, and notified afterwards.
Python runs handlers only after calls of functions, and in loops. Comparing a state and storing the next
one is done without either.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from callsheet.acp import v1
from callsheet.acp.codec import TAIL, Update
from callsheet.report.content import TerminalContent
from callsheet.report.fields import CustomKind
from callsheet.report.json import EMPTY, JsonObject
from callsheet.report.report import ToolCallReport
from callsheet.report.status import MOVES, ToolCallStatus

if TYPE_CHECKING:
    from callsheet.runtime.call_state import CallState
    from callsheet.runtime.consumer import Consumer
    from callsheet.runtime.sanitizer import SealedResult
    from callsheet.runtime.session import RuntimeSession

_encode = msgspec.json.Encoder().encode

Change: TypeAlias = tuple[ToolCallReport, bool, ToolCallReport | None]
"""A call's new state, whether its status has changed, and the state before."""

Unfolded: TypeAlias = tuple[tuple[JsonObject, JsonObject | None], ...]
"""Changes of a call that its report lacks: fields and notes."""

_MOVES = {status: moves - {ToolCallStatus.PAUSED} for status, moves in MOVES.items()}
"""The changes of status that v1 can express by its own fields."""


def fold(report: ToolCallReport, changes: Unfolded) -> ToolCallReport:
    """Return the report that results from some changes."""
    for fields, notes in changes:
        report = report.changed(fields, None, notes)
    return report


class Delivery:
    """Stores the changes of a session's calls and notifies its consumers, under the session's lock."""

    def __init__(self, session: RuntimeSession) -> None:
        self.changes: deque[Change] = deque()
        self.is_busy: bool = False
        self._session: RuntimeSession = session
        self._head: bytes = session.frames.head
        self._budget: int = session.frames.budget

    def announce(self, call: CallState, fields: dict[str, Any]) -> None:
        """Store a new call, and notify the consumers."""
        session = self._session
        report = session.ledger.add(fields)
        if not (report.content or self.is_busy or type(report.kind) is CustomKind):
            notes = report.notes if report.meta else EMPTY
            if self._notify(call, v1.announce(report), notes, report):
                return
        call.id = key = report.tool_call_id
        call.folded, call.current = report, report.status
        session.calls[key] = call
        self.changes.append((report, True, None))
        if call.output is not None:
            call.output.call_id = key
            session.notify_output(call.output, much=False)
        self.run()

    def commit(
        self,
        call: CallState,
        fields: dict[str, Any],
        notes: JsonObject | None = None,
        meta: JsonObject | None = None,
        sealed: SealedResult | None = None,
    ) -> None:
        """Change a call by sanitized values and notify the consumers.

        Args:
            call: The call.
            fields: The fields to set.
            notes: A patch for the notes.
            meta: A patch for `_meta`.
            sealed: The bytes of the content and the raw output in `fields`, if they are known.

        Raises:
            IllegalMove: The call has ended, or can't move to this status.
        """
        if call.is_plain and meta is None and self._move(call, fields, notes, sealed):
            return
        ledger, key = self._session.ledger, call.id
        while True:
            if call.is_plain:
                self.pass_to_views(call)
            before = call.report
            changed = before.changed(fields, meta, notes)
            change = (changed, changed.status is not before.status, before)
            if call.folded is before and not call.unfolded:
                call.folded = ledger.calls[key] = changed
                call.current = changed.status
                self.changes.append(change)
                break
        if meta or (notes and "alias" in notes):
            ledger.relink(before, changed)
        if changed.status.is_final:
            ledger.end(key)
        self.run()

    def _move(
        self,
        call: CallState,
        fields: dict[str, Any],
        notes: JsonObject | None,
        sealed: SealedResult | None,
    ) -> bool:
        """Change the status of a plain call. Return False if the change makes it plain no more."""
        status: Any = fields.get("status")
        known, current = call.notes, call.current
        if status not in _MOVES[current] or self.is_busy:
            return False
        if notes:
            notes = known = {**known, **notes}
        if sealed is not None:
            update = v1.ended(call.id, status, sealed.text, sealed.raw_output, known)
        else:
            for item in fields.get("content", ()):
                if type(item) is TerminalContent:
                    return False
            update = v1.moved(call.id, status, fields, notes)
        if not self._notify(call, update, known, None, current, (fields, notes)):
            return False
        if status.is_final:
            self._session.ledger.end(call.id)
        return True

    def _notify(
        self,
        call: CallState,
        update: Update,
        notes: JsonObject,
        opened: ToolCallReport | None,
        current: ToolCallStatus | None = None,
        change: tuple[JsonObject, JsonObject | None] = ({}, None),
    ) -> bool:
        """Store a plain call, or a change of it, and pass its line to the consumers.

        Return False, with nothing done, if the line is too large, or if a handler has changed the call
        meanwhile: a plain call that still is `current` was not changed, since no status comes twice.

        Args:
            call: The call.
            update: What is sent.
            notes: All notes of the call.
            opened: The report of a new call; None for a change.
            current: The status before the change.
            change: Its fields and notes.
        """
        session = self._session
        try:
            line = b"".join((self._head, _encode(update), TAIL))
        except Exception:  # noqa: BLE001 - whatever it is, views send as much of it as can be
            return False
        if len(line) > self._budget or session.is_behind:
            return False
        self.is_busy = True
        report, before, consumers = call.folded, call.unfolded, session.consumers
        try:
            if opened is not None:
                call.id, call.folded, call.current = opened.tool_call_id, opened, opened.status
                call.notes, call.is_plain = notes, True
                session.calls[opened.tool_call_id] = call
            elif call.current is not current or not call.is_plain:
                return False
            else:
                call.unfolded = (*before, change)
                call.current, call.notes = change[0]["status"], notes
            for consumer in consumers:
                if consumer.is_direct:
                    consumer.add(line)
                else:
                    consumer.put(call.report, True)
        except BaseException:  # raised by a handler: nobody knows how far the notification has come
            if call.is_plain:
                call.is_plain = False
                since = None if report is None else fold(report, before)
                for consumer in consumers:
                    consumer.put_again(call.report, since)
            raise
        finally:
            self.is_busy = False
        if self.changes:
            self.run()
        return True

    def pass_to_views(self, call: CallState) -> None:
        """Let the views know a call as their peers were sent it: from now on, they compare."""
        was_busy, self.is_busy = self.is_busy, True
        try:
            for consumer in self._session.consumers:
                if consumer.is_direct:
                    consumer.view.saw(call.report)
            call.is_plain = False
        finally:
            self.is_busy = was_busy

    def run(self) -> None:
        """Notify all consumers of the changes that wait, unless that is just being done."""
        if self.is_busy:
            return
        self.is_busy = True
        change: Change | None = None
        consumers: tuple[Consumer, ...] = self._session.consumers
        try:
            while self.changes:
                change = self.changes.popleft()
                for consumer in consumers:
                    consumer.put(change[0], change[1])
        except BaseException:  # raised by a handler: nobody knows how far the notification has come
            if change is not None:
                for consumer in consumers:
                    consumer.put_again(change[0], change[2])
            raise
        finally:
            self.is_busy = False

    @contextmanager
    def encoding(self) -> Generator[None]:
        """Hold the session's lock while lines are made. Changes of handlers come after these lines."""
        with self._session.lock:
            was_busy, self.is_busy = self.is_busy, True
            try:
                yield
            finally:
                self.is_busy = was_busy
                self.run()
