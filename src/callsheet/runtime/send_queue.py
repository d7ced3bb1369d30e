"""What waits for one consumer, and how it becomes lines.

Status changes wait in the order in which they happened, across all calls. Of a call's other changes
the latest stands for all, and goes to the end of the line: so nothing is seen before what happened
before it. Whoever empties the queue takes all that waits, so no call waits for ever. Live output
waits in its terminal, which holds only so much of it.

A consumer that is far behind would hold the memory of everything that waits for it. So once more
than `NEAR` changes wait, the sizes of further status changes are added up; beyond `MAX_WEIGHT`, they
go without their content and raw output, and the consumer is abandoned. (Other changes need no such
care: of each call, there is only the latest, which the ledger holds anyway.)

A sink that stores calls takes records instead of lines. Of these it gets a call's beginning and its
end, and of all states between them the latest.

`put` and `output` are called under the session's lock by any thread; `fill` by whoever sends.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from msgspec import json
from msgspec.structs import replace

from callsheet.acp.codec import Update, UpdateFrames
from callsheet.acp.jsonrpc import UNENCODABLE
from callsheet.acp.peer import Peer
from callsheet.acp.views import View, view_for
from callsheet.acp.views.v1 import V1TextView
from callsheet.report.report import ToolCallReport
from callsheet.report.terminal import CallRecord
from callsheet.runtime.live_output import Output
from callsheet.runtime.sinks import Sink

if TYPE_CHECKING:
    from callsheet.runtime.session import RuntimeSession

BATCH = 256 * 1024
"""Bytes of lines that are made at once."""

NEAR = 64
"""Changes that may wait without being weighed."""

BASE = 1024
"""About what a report takes in memory besides its values."""

MAX_WEIGHT = 64 * 1024 * 1024
"""Bytes of changes that may wait for a consumer; one that is further behind is abandoned."""


def weight_of(report: ToolCallReport) -> int:
    """Return about how many bytes a report takes: those of its values as JSON."""
    values = (report.content, report.raw_input, report.raw_output, report.meta)
    try:
        return BASE + len(json.encode(values))
    except UNENCODABLE:  # a number beyond 64 bits, which JSON allows and msgspec doesn't
        return BASE + len(repr(values))


def slim(report: ToolCallReport) -> ToolCallReport:
    """Return a report without its content and its raw output."""
    heavy = report.content or report.raw_output
    return replace(report, content=(), raw_output=None) if heavy else report


class SendQueue:
    """What waits for one consumer."""

    def __init__(self, session: RuntimeSession, sink: Sink) -> None:
        peer = sink.peer
        self.view: View = view_for(
            peer or Peer(progress="meta"), session.terminals.get, session.words
        )
        self.takes_records: bool = peer is None and getattr(sink, "takes_records", False)
        # A text shows the beginning and the end of the output; the others want every byte.
        self.wants_all: bool = peer is not None and type(self.view) is not V1TextView
        self.lines: deque[Any] = deque()
        self.outputs: dict[str, Output] = {}
        self.is_soft: bool = False
        self.weight: int = 0
        self.put_count: int = 0
        self.taken_count: int = 0
        self._session: RuntimeSession = session
        self._peer: Peer | None = peer
        self._frames: UpdateFrames = UpdateFrames(session.session_id, budget=session.guard.frame)
        # Status changes under numbers, other changes under the ids of their calls; and what of them was
        # taken up, and is to become lines.
        self.waiting: dict[int | str, ToolCallReport] = {}
        self._number: int = 0
        self._due: dict[str, Output] = {}
        self._ahead: Counter[str] = Counter()
        self._written: dict[str, Output] = {}
        self.todo: deque[ToolCallReport] = deque()

    # Filling it

    def put(self, report: ToolCallReport, moved: bool) -> None:
        """Queue a call's new state. `moved`: the call's status has changed."""
        queue, key = self.waiting, report.tool_call_id
        if not moved and self._session.get(key) is not report:
            return  # a signal's handler has changed the call again, in the midst of this change
        self.put_count += 1
        if queue:
            queue.pop(key, None)
        if not moved:
            queue[key] = report
            self.is_soft = True
            return
        if len(queue) > NEAR:
            if self.weight > MAX_WEIGHT:
                report = slim(report)
                self._session.faults.tally(cut=1)
            self.weight += weight_of(report)
        queue[self._number] = report
        self._number += 1

    def output(self, output: Output) -> bool:
        """Queue a call's new output. Return whether none of this call was waiting before."""
        key = output.call_id
        if key in self.outputs:
            return False
        self._written[key] = self.outputs[key] = output
        self.put_count += 1
        return True

    def clear(self) -> int:
        """Drop everything. Return how many changes and lines that was."""
        count = len(self.waiting) + len(self.todo) + len(self.lines)
        self.weight = 0
        waiting = (self.waiting, self.outputs, self._due, self._written, self.todo, self.lines)
        for one in waiting:
            one.clear()
        return count

    # Emptying it

    def fill(self, outputs: bool, now: float) -> None:
        """Encode the next lines; with `outputs`, those of live output too."""
        todo, lines, size = self.todo, self.lines, 0
        if not todo:
            with self._session.lock:  # what comes from now on waits for the next turn
                self.taken_count = self.put_count
                todo.extend(self.waiting.values())
                self.waiting.clear()
                self.weight, self.is_soft = 0, False
                if outputs:  # together, so that a call is always sent before its output
                    self._due, self.outputs = self.outputs, self._due
            if self._written:
                self._ahead = Counter([report.tool_call_id for report in todo])
        line, call, plain = self._frames.line, self.view.call, self._peer and not self._written
        while todo and size < BATCH:
            report = todo.popleft()
            try:
                updates = call(report) if plain else self._updates(report, now)
            except Exception as exc:  # noqa: BLE001 - whatever it is, the call's end must be sent
                self._session.faults.count(f"call {report.tool_call_id}: {exc}", degraded=1)
                updates = [self.view.least(report)]
            for update in updates:
                try:
                    made = line(update)
                except Exception:  # noqa: BLE001
                    made = self._small_line(update)
                lines.append(made)
                size += len(made)
        if self._due and not todo:
            self._fill_outputs(now)

    def insist(self, *, whatever_it_costs: bool = False) -> None:
        """Make lines of what the view held back."""
        with self._session.lock:
            updates = self.view.insist(whatever_it_costs=whatever_it_costs)
        self.lines.extend(map(self._small_line, updates))

    def _fill_outputs(self, now: float) -> None:
        for output in self._due.values():
            with self._session.lock:
                if output.settle(now):
                    self.outputs[output.call_id] = output  # ask again: it holds something back
                updates = self.view.terminal(output.state) if self._peer else ()
                live = self._session.get(output.call_id) if self.takes_records else None
                if live is not None and not live.is_final:
                    self.lines.append(CallRecord.of(live, self._session.terminals.get))
            self.lines.extend(map(self._small_line, updates))
        self._due.clear()
        self._count_left_out()

    def _updates(self, report: ToolCallReport, now: float) -> list[Any]:
        """Return the updates for a call that may have live output."""
        key = report.tool_call_id
        with self._session.lock:
            output = self._written.get(key)
            if output is not None and key in self._due and output.settle(now):
                self.outputs[key] = output  # ask again: it holds something back
            self._ahead[key] -= 1
            last = self._ahead[key] <= 0  # output waits for the states that come before it
            updates = self.view.call(report, output=last) if self._peer else self._stored(report)
            if last:
                self._due.pop(key, None)
            if report.status.is_final:
                self._written.pop(key, None)
                self.outputs.pop(key, None)
        self._count_left_out()
        return updates

    def _stored(self, report: ToolCallReport) -> list[Any]:
        """Queue a call for a consumer that takes records, or reports with their output as text."""
        if self.takes_records:
            self.lines.append(CallRecord.of(report, self._session.terminals.get))
        else:
            self.lines.append(self.view.shown(report) if report.status.is_final else report)
        return []

    def _small_line(self, update: Update) -> bytes:
        """Return the line of an update, with as much of it as fits."""
        made, wrong = self._frames.fitting(update)
        if wrong is not None:
            self._session.faults.count(f"an update could not be sent whole: {wrong}", cut=1)
        return made

    def _count_left_out(self) -> None:
        view = self.view
        if view.left_out:
            count = f"{view.left_out} bytes of output came too fast for a peer"
            self._session.faults.count(count, cut=1)
            view.left_out = 0
