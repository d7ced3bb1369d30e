"""What waits for one consumer, and how it becomes lines.

Status changes wait in the order in which they happened, across all calls. Of a call's other changes
the latest stands for all, and goes to the end of the line: so nothing is seen before what happened
before it. Whoever empties the queue takes all that waits, so no call waits for ever. Live output
waits in its terminal, which holds only so much of it.

A consumer that is far behind would hold the memory of everything that waits for it. So once more
than `NEAR` changes wait, their sizes are added up; beyond `MAX_WEIGHT`, changes go without their
content and raw output, and the consumer is abandoned.

`put` and `output` are called under the desk's lock by any thread; `fill` by the event loop's.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

from msgspec import json
from msgspec.structs import replace

from callsheet.acp.codec import Update, UpdateFrames
from callsheet.acp.jsonrpc import UNENCODABLE
from callsheet.acp.peer import Peer
from callsheet.acp.views import View, view_for
from callsheet.acp.views.v1 import V1TextView
from callsheet.report.report import ToolCallReport
from callsheet.runtime.desk import Desk
from callsheet.runtime.live_output import Output

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

    def __init__(self, desk: Desk, peer: Peer | None) -> None:
        self.view: View = view_for(peer or Peer(progress="meta"), desk.terminals.get, desk.words)
        # A text shows the beginning and the end of the output; the others want every byte.
        self.wants_all: bool = peer is not None and type(self.view) is not V1TextView
        self.lines: deque[Any] = deque()
        self.outputs: dict[str, Output] = {}
        self.is_soft: bool = False
        self.weight: int = 0
        self.put_count: int = 0
        self.taken_count: int = 0
        self._desk: Desk = desk
        self._peer: Peer | None = peer
        budget = desk.guard.frame
        self._frames: UpdateFrames = (
            UpdateFrames(desk.session_id)
            if budget is None
            else UpdateFrames(desk.session_id, budget=budget)
        )
        # Status changes under numbers, other changes under the ids of their calls.
        self._queue: dict[int | str, ToolCallReport] = {}
        self._weights: dict[int | str, int] = {}
        self._number: int = 0
        self._due: dict[str, Output] = {}
        self._ahead: Counter[str] = Counter()
        self._written: dict[str, Output] = {}
        self._todo: deque[ToolCallReport] = deque()

    # Filling it

    def put(self, report: ToolCallReport, moved: bool) -> None:
        """Queue a call's new state. `moved`: the call's status has changed."""
        queue, key = self._queue, report.tool_call_id
        self.put_count += 1
        if queue and queue.pop(key, None) is not None and self._weights:
            self.weight -= self._weights.pop(key, 0)
        if moved:
            queue[self._number] = report
            if len(queue) > NEAR:
                self._weigh(self._number, report)
            self._number += 1
        else:
            queue[key] = report
            self.is_soft = True
            if len(queue) > NEAR:
                self._weigh(key, report)

    def _weigh(self, key: int | str, report: ToolCallReport) -> None:
        if self.weight > MAX_WEIGHT:
            self._queue[key] = report = slim(report)
            self._desk.faults.tally(cut=1)
        self._weights[key] = weight = weight_of(report)
        self.weight += weight

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
        count = len(self._queue) + len(self._todo) + len(self.lines)
        for waiting in (
            self._queue,
            self.outputs,
            self._due,
            self._written,
            self._todo,
            self.lines,
        ):
            waiting.clear()
        self._weights.clear()
        self.weight = 0
        return count

    # Emptying it

    @property
    def is_done(self) -> bool:
        """Whether everything that was taken up has become lines."""
        return not self._todo

    def has_more(self) -> bool:
        """Whether there is anything that could become lines."""
        return bool(self._queue or self._todo or self.outputs)

    def fill(self, outputs: bool, now: float) -> None:
        """Encode the next lines; with `outputs`, those of live output too."""
        todo, lines, size = self._todo, self.lines, 0
        if not todo:
            with self._desk.lock:  # what comes from now on waits for the next turn
                self.taken_count = self.put_count
                todo.extend(self._queue.values())
                self._queue.clear()
                self._weights.clear()
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
                self._desk.faults.count(f"call {report.tool_call_id}: {exc}", degraded=1)
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
        with self._desk.lock:
            updates = self.view.insist(whatever_it_costs=whatever_it_costs)
        self.lines.extend(map(self._small_line, updates))

    def _fill_outputs(self, now: float) -> None:
        for output in self._due.values():
            with self._desk.lock:
                if output.settle(now):
                    self.outputs[output.call_id] = output  # ask again: it holds something back
                updates = self.view.terminal(output.state) if self._peer else ()
            self.lines.extend(map(self._small_line, updates))
        self._due.clear()
        self._say_left_out()

    def _updates(self, report: ToolCallReport, now: float) -> list[Any]:
        """Return the updates for a call that may have live output."""
        key = report.tool_call_id
        with self._desk.lock:
            output = self._written.get(key)
            if output is not None and key in self._due and output.settle(now):
                self.outputs[key] = output  # ask again: it holds something back
            self._ahead[key] -= 1
            last = self._ahead[key] <= 0  # output waits for the states that come before it
            updates = self.view.call(report, output=last) if self._peer else self._kept(report)
            if last:
                self._due.pop(key, None)
            if report.status.is_final:
                self._written.pop(key, None)
                self.outputs.pop(key, None)
        self._say_left_out()
        return updates

    def _kept(self, report: ToolCallReport) -> list[Any]:
        """Queue a call for a consumer that takes reports. At its end, it has its output as text."""
        self.lines.append(self.view.shown(report) if report.status.is_final else report)
        return []

    def _small_line(self, update: Update) -> bytes:
        """Return the line of an update, with as much of it as fits."""
        made, wrong = self._frames.fitting(update)
        if wrong is not None:
            self._desk.faults.count(f"an update could not be sent whole: {wrong}", cut=1)
        return made

    def _say_left_out(self) -> None:
        view = self.view
        if view.left_out:
            count = f"{view.left_out} bytes of output came too fast for a peer"
            self._desk.faults.count(count, cut=1)
            view.left_out = 0
