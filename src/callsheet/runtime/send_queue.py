"""What waits for one consumer, and how changes become lines.

A status change is encoded at once, under the session's lock, and its line joins the log (`lines`): so
lines stand in the order in which things happened, across all calls. Of a call's other changes the
latest stands for all, and is encoded when the consumer is due, or together with the next status
change of any call: nothing is seen before what happened before it. Live output waits in its
terminal, which holds only so much of it, and is encoded with the soft changes.

A consumer that is slow makes its log grow, up to `SendQueue.MAX_WEIGHT` bytes.

A sink that stores calls takes records instead of lines. Of these it gets a call's beginning and its
end, and of all states between them the latest.

All methods are called under the session's lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from callsheet.acp.codec import Update
from callsheet.acp.peer import Peer
from callsheet.acp.views import View, view_for
from callsheet.acp.views.v1 import V1TextView
from callsheet.report.report import ToolCallReport
from callsheet.report.terminal import CallRecord
from callsheet.runtime.live_output import Output
from callsheet.runtime.sinks import Sink

if TYPE_CHECKING:
    from callsheet.runtime.session import RuntimeSession

RECORD_WEIGHT = 4096
"""About what a report or a record that waits takes: most of its values are shared with the ledger."""


def slim(report: ToolCallReport) -> ToolCallReport:
    """Return a report without its content and its raw output."""
    heavy = report.content or report.raw_output
    return replace(report, content=(), raw_output=None) if heavy else report


class SendQueue:
    """What waits for one consumer. `weight` are the bytes of its lines.

    A consumer that is further behind than `MAX_WEIGHT` is abandoned. If it is not the consumer but the event
    loop that does not turn, the thread that blocks the loop sends what waits, from half of that on; what
    other threads report beyond it goes without its content and its raw output.
    """

    MAX_WEIGHT: ClassVar[int] = 64 * 1024 * 1024

    def __init__(self, session: RuntimeSession, sink: Sink) -> None:
        peer = sink.peer
        self.view: View = view_for(
            peer or Peer(progress="meta"), session.terminals.get, session.words
        )
        # Whether plain calls can be sent as they are: see `runtime.delivery`.
        self.can_be_direct: bool = peer is not None and peer.version == 1 and self.view.as_it_is
        self.takes_records: bool = peer is None and getattr(sink, "takes_records", False)
        # A text shows the beginning and the end of the output; the others want every byte.
        self.wants_all: bool = peer is not None and type(self.view) is not V1TextView
        self.lines: deque[Any] = deque()
        self.weight: int = 0
        # Soft changes by the ids of their calls, and the calls with new output.
        self.waiting: dict[str, ToolCallReport] = {}
        self.outputs: dict[str, Output] = {}
        self._written: dict[str, Output] = {}
        self._session: RuntimeSession = session
        self._peer: Peer | None = peer

    @property
    def is_long(self) -> bool:
        """Whether so much waits that it should be sent now, by whoever can."""
        return self.weight > self.MAX_WEIGHT // 2

    def put(self, report: ToolCallReport) -> bool:
        """Queue a soft change. Return whether it is still the latest of its call.

        It is not if a signal's handler has changed the call again, in the midst of this change.
        """
        key = report.tool_call_id
        if self._session.get(key) is not report:
            return False
        self.waiting.pop(key, None)  # it goes to the end: see the order above
        self.waiting[key] = report
        return True

    def output(self, output: Output) -> bool:
        """Queue a call's new output. Return whether none of this call was waiting before."""
        key = output.call_id
        if key in self.outputs:
            return False
        self._written[key] = self.outputs[key] = output
        return True

    def encode(self, report: ToolCallReport) -> None:
        """Put a call's new state into the log. Whatever is wrong with it, its status is sent."""
        if self._peer is None:
            self._store(report)
            return
        if self.weight > self.MAX_WEIGHT:
            report = slim(report)
            self._session.faults.tally(cut=1)
        try:
            updates = self.view.call(report)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the call's end must be sent
            self._session.faults.count(f"call {report.tool_call_id}: {exc}", degraded=1)
            updates = [self.view.least(report)]
        self._extend(updates)
        if self._written:
            self._count_left_out()
            self._forget_output(report)

    def encode_waiting(self) -> None:
        """Put all soft changes into the log."""
        for key in list(self.waiting):
            report = self.waiting.pop(key, None)
            if report is not None:
                self.encode(report)

    def encode_outputs(self, now: float) -> None:
        """Put all new output into the log, as far as it may be shown at the time `now`."""
        due, self.outputs = self.outputs, {}
        for key, output in due.items():
            if output.settle(now):
                self.outputs[key] = output  # ask again: it holds something back
            if self._peer is not None:
                self._extend(self.view.terminal(output.state))
            elif self.takes_records:
                live = self._session.get(key)
                if live is not None and not live.is_final:
                    self._store(live)
        self._count_left_out()

    def insist(self, *, whatever_it_costs: bool = False) -> None:
        """Put what the view held back into the log."""
        self._extend(self.view.insist(whatever_it_costs=whatever_it_costs))

    def clear(self) -> int:
        """Drop everything. Return how many changes and lines that was."""
        count = len(self.waiting) + len(self.lines)
        self.weight = 0
        for waiting in (self.waiting, self.outputs, self._written, self.lines):
            waiting.clear()
        return count

    def _extend(self, updates: Sequence[Update]) -> None:
        for update in updates:
            line = self._fitting_line(update)
            self.lines.append(line)
            self.weight += len(line)

    def _forget_output(self, report: ToolCallReport) -> None:
        """Forget the output of a call that has ended: it was put into the log with the end."""
        if report.status.is_final:
            self._written.pop(report.tool_call_id, None)
            self.outputs.pop(report.tool_call_id, None)

    def _store(self, report: ToolCallReport) -> None:
        """Queue a call for a consumer that takes records, or reports with their output as text."""
        stored: Any = self.view.shown(report) if report.status.is_final else report
        if self.takes_records:
            stored = CallRecord.of(report, self._session.terminals.get)
        self.lines.append(stored)
        self.weight += RECORD_WEIGHT
        self._forget_output(report)

    def _fitting_line(self, update: Update) -> bytes:
        """Return the line of an update, with as much of it as fits."""
        made, wrong = self._session.frames.fitting(update)
        if wrong is not None:
            self._session.faults.count(f"an update could not be sent whole: {wrong}", cut=1)
        return made

    def _count_left_out(self) -> None:
        view = self.view
        if view.left_out:
            count = f"{view.left_out} bytes of output came too fast for a peer"
            self._session.faults.count(count, cut=1)
            view.left_out = 0
