"""The queue of updates for the client, one per session: what is to be sent, and when.

Status changes are sent at once and in order. Other changes are merged, so that only the latest state is
sent, at most once per `PACE`. An announcement that may soon be more complete waits a little (`hold.py`
has the reasons). There is no clock here: times are passed in.
"""

from __future__ import annotations

from collections.abc import Callable

from callsheet.acp.codec import Update, UpdateFrames
from callsheet.acp.views import View
from callsheet.report.report import ToolCallReport
from callsheet.report.terminal import TerminalState
from callsheet.tap.hold import LONGEST, PACE, RETRY, GrowingFields


class Post:
    """The outgoing updates of one session.

    `send` receives encoded lines. `shown` returns a report as it is to be encoded for this client.
    """

    def __init__(
        self,
        view: View,
        frames: UpdateFrames,
        send: Callable[[bytes], None],
        shown: Callable[[ToolCallReport], ToolCallReport],
    ) -> None:
        self._view: View = view
        self._frames: UpdateFrames = frames
        self._send: Callable[[bytes], None] = send
        self._shown: Callable[[ToolCallReport], ToolCallReport] = shown
        # What waits, in order: moves under numbers, other changes under the ids of calls and terminals.
        self._queue: dict[int | str, ToolCallReport | TerminalState] = {}
        self._number: int = 0
        # Announcements that wait: until when, with which report, and since when.
        self._held: dict[str, tuple[float, ToolCallReport, float]] = {}
        self._next: float = float("-inf")
        self._insist_at: float | None = None
        self._growing: GrowingFields = GrowingFields()
        self.cut: int = 0

    # Putting in

    def hold(self, report: ToolCallReport, now: float, patience: float) -> None:
        """Hold an announcement for what it lacks, for `patience` seconds. Its place in the order stays."""
        held = self._held.get(report.tool_call_id)
        since = now if held is None else held[2]
        until = min(now + patience, since + LONGEST)
        self._held[report.tool_call_id] = (until, report, since)

    def held(self, tool_call_id: str) -> bool:
        """Whether a call's announcement waits."""
        return tool_call_id in self._held

    def open(self, report: ToolCallReport, now: float) -> None:
        """Send an announcement. Those that wait come before it: cards stand in the order of the calls."""
        for other in list(self._held):
            self._move(self._held.pop(other)[1])
        self._move(report)
        self._flush(now)

    def announce(self, report: ToolCallReport, now: float) -> None:
        """Send an announcement that waited, as it is now, after those that wait before it."""
        key = report.tool_call_id
        for other in list(self._held):
            held = self._held.pop(other)[1]
            self._move(report if other == key else held)
            if other == key:
                break
        self._flush(now)

    def put(self, report: ToolCallReport, *, moved: bool, now: float) -> None:
        """Send a call's state: at once if its status has changed (`moved`), else merged with later ones."""
        if moved:
            self._queue.pop(report.tool_call_id, None)
            self._move(report)
            self._flush(now)
        else:
            self._queue.pop(report.tool_call_id, None)
            self._queue[report.tool_call_id] = report
            self._soft(now)

    def terminal(self, state: TerminalState, now: float) -> None:
        """Send a terminal's new state, merged with later ones."""
        key = f"\0{state.terminal_id}"
        self._queue.pop(key, None)
        self._queue[key] = state
        self._soft(now)

    def _move(self, report: ToolCallReport) -> None:
        self._queue[self._number] = report
        self._number += 1

    def _soft(self, now: float) -> None:
        if now >= self._next:
            self._flush(now)

    # Taking out

    @property
    def due(self) -> float | None:
        """When there is something to do, if at all."""
        times = [until for until, _, _ in self._held.values()]
        if self._queue:
            times.append(self._next)
        if self._insist_at is not None:
            times.append(self._insist_at)
        if (until := self._growing.due) is not None:
            times.append(until)
        return min(times, default=None)

    def tick(self, now: float) -> None:
        """Do what is due."""
        late = [report for until, report, _ in self._held.values() if until <= now]
        if late:
            self.announce(late[-1], now)
        if self._queue and now >= self._next:
            self._flush(now)
        if self._insist_at is not None and now >= self._insist_at:
            self._insist_at = None  # first, so that one that raises is not retried forever
            self._lines(self._view.insist())
            if self._view.waits:
                self._insist_at = now + RETRY
        for report in self._growing.late(now):
            self._lines(self._view.call(self._shown(report)))

    def release(self, now: float, last: str | None = None) -> None:
        """Send all that waits, because the caller sends something that must not overtake it.

        Args:
            now: The time.
            last: The call that the caller's message is about, if it is about one. Calls that were
                announced after it may go on waiting.
        """
        if self._held and last is None:
            self.announce(next(reversed(self._held.values()))[1], now)
        elif last in self._held:
            self.announce(self._held[last][1], now)
        if self._queue:
            self._flush(now)

    def _flush(self, now: float) -> None:
        while self._queue:  # one that fails must not take the others with it
            key = next(iter(self._queue))
            state = self._queue.pop(key)
            if isinstance(state, TerminalState):
                self._lines(self._view.terminal(state))
                continue
            moves = isinstance(key, int)
            report = self._growing.whole(state) if moves else self._growing.without(state, now)
            self._lines(self._view.call(self._shown(report)))
        self._next = now + PACE
        self._insist_at = now + RETRY if self._view.waits else None

    def _lines(self, updates: list[Update]) -> None:
        for update in updates:
            line, fault = self._frames.fitting(update)
            self.cut += fault is not None
            self._send(line)
