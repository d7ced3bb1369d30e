"""A consumer that stores calls: it receives records instead of lines.

The beginning and the end of a call are sent at once, within the change and on the thread that makes it:
sending a record costs less than scheduling it. Of the states in between only the latest is sent, at a
limited rate; live output, at a slower one. So the sink must be fast, take everything, and never block.

`put` and `output` are called under the desk's lock by any thread; all else by the event loop's.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING, Any

from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus
from callsheet.report.terminal import CallRecord
from callsheet.runtime.clock import Timer
from callsheet.runtime.consumer import PACE, TRIES, TookNothing
from callsheet.runtime.live_output import Output
from callsheet.runtime.sinks import Sink

if TYPE_CHECKING:
    from callsheet.runtime.desk import Desk
    from callsheet.runtime.session import RuntimeSession

LIVE = 1.0
"""Seconds between two records of a call that puts something out, so that a crash does not take it."""

_BETWEEN = (ToolCallStatus.IN_PROGRESS, ToolCallStatus.PAUSED)
_log = logging.getLogger("callsheet")


class RecordConsumer:
    """One consumer that receives records, and what has not been sent to it yet."""

    wants_more: bool = False

    def __init__(
        self, session: RuntimeSession, sink: Sink, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.sink: Sink = sink
        self.is_dead: bool = False
        self._session: RuntimeSession = session
        self._desk: Desk = session.desk
        self._loop: asyncio.AbstractEventLoop = loop
        self._records: deque[CallRecord] = deque()
        self._changed: dict[str, ToolCallReport] = {}
        # A terminal lives while something refers to it; we do, until its call's end was sent.
        self._outputs: dict[str, Output] = {}
        self._is_planned: bool = False
        self._timer: Timer | None = None
        self._written: set[str] = set()
        self._live: Timer | None = None
        self._tries: int = 0

    # Under the desk's lock, from any thread

    def put(self, report: ToolCallReport, moved: bool) -> None:
        """Send a call's new state, or schedule it. `moved`: the call's status has changed."""
        if self.is_dead:
            return
        if moved and report.status not in _BETWEEN:
            if self._changed:
                self._changed.pop(report.tool_call_id, None)
            self._give(report)
        else:
            self._changed[report.tool_call_id] = report
            if not self._is_planned:
                self._is_planned = True
                self._soon(self._plan)

    def output(self, output: Output, _much: bool) -> None:
        """Hold a call's output. The record of the call's next state includes it, or a timer sends it."""
        if self.is_dead:
            return
        self._outputs[output.call_id] = output
        if not self._written:
            self._soon(self._plan_live)
        self._written.add(output.call_id)

    def _give(self, report: ToolCallReport) -> None:
        self._records.append(self._desk.record(report))
        if self._outputs and report.status.is_final:
            self._outputs.pop(report.tool_call_id, None)
        self._send()

    def _send(self) -> None:
        records = self._records
        try:
            self.sink.send(records)
            if records:
                raise TookNothing("its send() has left records")  # noqa: TRY301
            self._tries = 0
        except Exception as exc:  # noqa: BLE001 - whatever a consumer raises, the tool goes on
            self._failed(f"a consumer failed: {type(exc).__name__}: {exc}")

    def _failed(self, why: str) -> None:
        """Count a failed send. Records that were not taken stay queued, and go out with the next."""
        self._session.faults.count(why, failed=1)
        self._tries += 1
        if self._tries >= TRIES:
            self.is_dead = True
            self._soon(lambda: self._die(why))

    # On the loop's thread

    def _soon(self, what: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: what waits is handed over at the end
            if get_ident() == self._desk.thread:
                self._loop.call_soon(what)
            else:
                self._loop.call_soon_threadsafe(what)

    def _plan(self) -> None:
        if self._timer is None and not self.is_dead:
            self._timer = self._desk.clock.call_later(self._loop, PACE, self._paced)

    def _paced(self) -> None:
        self._timer, self._is_planned = None, False
        self._hand_over()

    def _plan_live(self) -> None:
        if self._live is None and not self.is_dead:
            self._live = self._desk.clock.call_later(self._loop, LIVE, self._show_live)

    def _show_live(self) -> None:
        """Send the live calls that have written output, with the end of that output."""
        self._live = None
        with self._desk.lock:
            written, self._written = self._written, set()
            for key in written:
                output, report = self._outputs.get(key), self._desk.ledger.get(key)
                if (
                    output is not None
                    and isinstance(report, ToolCallReport)
                    and not report.is_final
                ):
                    output.settle(self._desk.clock.monotonic())
                    self._changed[key] = report
        self._hand_over()

    def _hand_over(self) -> None:
        """Send what waits."""
        with self._desk.lock:
            if self.is_dead:
                return
            changed, self._changed = self._changed, {}
            for report in changed.values():
                if report.is_final or not self._has_ended(report.tool_call_id):
                    self._give(report)
            if self._records:
                self._send()

    def _has_ended(self, key: str) -> bool:
        """Whether a call's end was already sent: by a signal handler that interrupted an earlier change."""
        now = self._desk.ledger.get(key)
        return now is None or now.status.is_final

    def drain_hard(self, *, everything: bool = False) -> None:
        """Do nothing: records are sent as fast as they arrive."""

    def flush(self) -> None:
        """Send everything reported so far."""
        if self._changed or self._records:
            self._hand_over()

    def send_now(self, until: float) -> None:
        """Send what waits without an event loop. The sink may take until `until` (monotonic) to store it."""
        self._hand_over()
        finish: Any = getattr(self.sink, "send_now", None)
        if finish is not None and not self.is_dead:
            try:
                finish(self._records, until)
            except Exception as exc:  # noqa: BLE001 - nothing may disturb the end of a process
                self._session.faults.count(
                    f"a consumer failed: {type(exc).__name__}: {exc}", failed=1
                )
        self.is_dead = True

    def _die(self, why: str) -> None:
        said = self._session.faults.clean(why)
        _log.warning("session %s: a consumer is given up: %s", self._session.session_id, said)
        waited = self.forget()
        if waited:
            self._session.faults.tally(dropped=waited)
        self._session.lost(self, why)

    def forget(self) -> int:
        """Stop sending, and drop what waits. Return how many records and states that was."""
        self.is_dead = True
        for timer in (self._timer, self._live):
            if timer is not None:
                timer.cancel()
        self._timer = self._live = None
        waited = len(self._records) + len(self._changed)
        self._records.clear()
        self._changed.clear()
        self._outputs.clear()
        self._written.clear()
        return waited

    def close(self) -> None:
        """Close the sink. What still waits is not sent."""
        self.forget()
        with suppress(Exception):
            self.sink.close()
