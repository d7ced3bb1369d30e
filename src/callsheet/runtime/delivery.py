"""How changes of calls are stored and passed to the consumers, in one order for all.

Two ways
--------
Nearly all calls are announced, started and ended, and nothing else. Such a call is *plain*. One consumer
is *direct*: the first of the v1 peers that are shown calls as they are. Its lines are made of a plain call's
changes alone: nothing is compared, its view does not know the call, and the changes wait until somebody
reads the report (`CallState.unfolded`). All other consumers are passed reports.

Anything else makes a call plain no more: a title, progress, content before the end, live output, a pause.
From then on the direct consumer is passed its reports as well, and its view compares them with what the
peer has seen.

Handlers of signals
-------------------
The session's lock is re-entrant: a signal's handler, or a finaliser, may change a call while its thread
is in the midst of changing one. What it changes must not overtake what it interrupts: an older state
would be sent after a newer one, even after a final one. Python runs handlers only after calls of functions,
and in loops. So comparing a state, storing the next one and queueing it is done by a single call at its end.

Passing reports to consumers takes many calls. Whoever does that sets `is_busy`; what changes meanwhile is
queued in `changes`, in the order in which it was stored, and passed on afterwards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from callsheet.acp import v1
from callsheet.acp.codec import TAIL, Update
from callsheet.report.fields import CustomKind
from callsheet.report.json import EMPTY, JsonObject
from callsheet.report.report import ToolCallReport
from callsheet.report.status import MOVES, ToolCallStatus
from callsheet.runtime.call_state import settled
from callsheet.runtime.send_queue import SendQueue

if TYPE_CHECKING:
    from callsheet.runtime.call_state import CallState
    from callsheet.runtime.consumer import Consumer
    from callsheet.runtime.session import RuntimeSession

_encode = msgspec.json.Encoder().encode

Change: TypeAlias = "tuple[ToolCallReport, bool, ToolCallReport | None, tuple[Consumer, ...]]"
"""A call's new state, whether its status has changed, the state before, and who is passed it."""

_MOVES = {status: moves - {ToolCallStatus.PAUSED} for status, moves in MOVES.items()}
"""The changes of status that v1 can express by its own fields."""


class Delivery:
    """Stores the changes of a session's calls and notifies its consumers, under the session's lock."""

    def __init__(self, session: RuntimeSession) -> None:
        self.changes: deque[Change] = deque()
        self.is_busy: bool = False
        self.direct: Consumer | None = None
        # The consumers that are passed reports of plain calls.
        self.others: tuple[Consumer, ...] = ()
        self._session: RuntimeSession = session
        self._head: bytes = session.frames.head
        self._budget: int = session.frames.budget

    def add(self, consumer: Consumer) -> None:
        """Notify one more consumer. No call is plain that it should know already."""
        if consumer.queue.can_be_direct and self.direct is None:
            self.direct, consumer.is_direct = consumer, True
        else:
            self.others = (*self.others, consumer)

    def remove(self, consumer: Consumer) -> None:
        """Notify a consumer no longer."""
        if consumer is self.direct:
            self.direct = None
        self.others = tuple([other for other in self.others if other is not consumer])

    def announce(self, call: CallState, report: ToolCallReport) -> None:
        """Store a new call, and notify the consumers."""
        session, direct, line = self._session, self.direct, b""
        key, notes = report.tool_call_id, report.notes if report.meta else EMPTY
        is_plain = not (report.content or self.is_busy or type(report.kind) is CustomKind)
        if is_plain and direct is not None:
            line = self._line(v1.announce(report), direct.queue)
            is_plain = line is not None
        call.id, call.folded, call.current, call.notes = key, report, report.status, notes
        call.is_plain = is_plain
        session.calls[key] = call
        if not is_plain:
            self.changes.append((report, True, None, session.consumers))
            if call.output is not None:
                call.output.call_id = key
                session.notify_output(call.output, much=False)
            self.run()
        elif direct is not None:
            queue = direct.queue
            queue.lines.append(line)
            if not direct.is_called or queue.is_long:
                direct.wake()
        if notes:
            session.index.relink(None, report)
        if is_plain and self.others:
            self._pass_on(call, report.status, None)

    def commit(
        self,
        call: CallState,
        fields: dict[str, Any],
        notes: JsonObject | None = None,
        meta: JsonObject | None = None,
        sealed: v1.SealedResult | None = None,
    ) -> None:
        """Change a call by sanitized values and notify the consumers.

        Args:
            call: The call.
            fields: The fields to set.
            notes: A patch for the notes.
            meta: A patch for `_meta`.
            sealed: The content and the raw output in `fields`, encoded.

        Raises:
            IllegalMove: The call has ended, or can't move to this status.
        """
        current, direct = call.current, self.direct
        status: Any = fields.get("status")
        if call.is_plain and meta is None and not self.is_busy and status in _MOVES[current]:
            before = call.report if self.others else None
            known, line = {**call.notes, **notes} if notes else call.notes, b""
            if direct is not None:
                update = v1.moved(call.id, status, fields, sealed, known if notes else EMPTY)
                line = self._line(update, direct.queue)
            if line is not None and call.current is current and call.is_plain:
                call.unfolded = (*call.unfolded, (fields, notes))
                call.current, call.notes = status, known
                if direct is not None:
                    queue = direct.queue
                    queue.lines.append(line)
                    if not direct.is_called or queue.is_long:
                        direct.wake()
                if self.others:
                    self._pass_on(call, status, before)
                return
        session = self._session
        if sealed is not None:
            fields = settled(fields)
        while True:
            if call.is_plain:
                self.pass_to_views(call)
            before = call.report
            changed = before.changed(fields, meta, notes)
            change = (changed, changed.status is not before.status, before, session.consumers)
            if call.folded is before and not call.unfolded:
                call.folded, call.current = changed, changed.status
                self.changes.append(change)
                break
        if meta or (notes and "alias" in notes):
            session.index.relink(before, changed)
        self.run()

    def _line(self, update: Update | None, queue: SendQueue) -> bytes | None:
        """Return the line of a plain call's change; None if the view has to find what can be sent of it."""
        if queue.waiting:
            with self.encoding():  # what happened before it is sent before it
                queue.encode_waiting()
        try:
            line = b"".join((self._head, _encode(update), TAIL))
        except Exception:  # noqa: BLE001 - whatever it is, the view sends as much of it as can be
            return None
        if update is None or len(line) > self._budget or queue.weight > queue.MAX_WEIGHT:
            return None
        queue.weight += len(line)
        return line

    def _pass_on(
        self, call: CallState, status: ToolCallStatus, before: ToolCallReport | None
    ) -> None:
        """Pass a plain call's new state to the consumers that take reports."""
        report = call.report
        if report.status is status:  # else a handler has changed it since, and has passed it on
            self.changes.append((report, True, before, self.others))
            self.run()

    def pass_to_views(self, call: CallState) -> None:
        """Let the direct consumer's view know a call as the peer was sent it: from now on, it compares."""
        was_busy, self.is_busy = self.is_busy, True
        try:
            if self.direct is not None:
                self.direct.view.saw(call.report)
            call.is_plain = False
        finally:
            self.is_busy = was_busy

    def run(self) -> None:
        """Notify all consumers of the changes that wait, unless that is just being done."""
        if self.is_busy:
            return
        self.is_busy = True
        change: Change | None = None
        try:
            while self.changes:
                change = self.changes.popleft()
                for consumer in change[3]:
                    consumer.put(change[0], change[1])
        except BaseException:  # raised by a handler: nobody knows how far the notification has come
            if change is not None:
                for consumer in change[3]:
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
