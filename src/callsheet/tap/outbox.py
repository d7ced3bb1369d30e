"""The queue of updates for the client, one per session: what is to be sent, and when.

Status changes are sent at once and in order. Other changes are merged, so that only the latest state is
sent, at most once per `PACE`. An announcement that may soon be more complete waits a little (`hold.py`
has the reasons). There is no clock here: times are passed in.

Raw inputs and outputs of a running call may grow for long: arguments arrive in pieces as a model writes
them, and output as a command prints it. The user sees both in the title and in the content, so the raw
fields are sent only when the call's status changes. An input that has stopped growing is sent without
that, because the call may run for long.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.json import encode
from msgspec.structs import replace

from callsheet.acp.codec import Update, UpdateFrames
from callsheet.acp.views import View
from callsheet.observe.repetition import grew
from callsheet.report.json import JsonValue
from callsheet.report.report import ToolCallReport
from callsheet.report.terminal import TerminalState
from callsheet.tap.hold import LONGEST, PACE, RETRY, STILL, Waits, Why

SMALL = 1024
"""Bytes of a raw input that may be sent again each time it grows: they cost little."""


class Outbox:
    """The outgoing updates of one session.

    `send` receives encoded lines. `shown` returns a report as it is to be encoded for this client.
    """

    def __init__(
        self,
        view: View,
        frames: UpdateFrames,
        send: Callable[[bytes], None],
        shown: Callable[[ToolCallReport], ToolCallReport],
        waits: Waits,
    ) -> None:
        self._view: View = view
        self._frames: UpdateFrames = frames
        self._send: Callable[[bytes], None] = send
        self._shown: Callable[[ToolCallReport], ToolCallReport] = shown
        self._waits: Waits = waits
        # What waits, in order: moves under numbers, other changes under the ids of calls and terminals.
        self._queue: dict[int | str, ToolCallReport | TerminalState] = {}
        self._number: int = 0
        # Announcements that wait, in the order of their calls: the report, and since when it waits.
        self._held: dict[str, tuple[ToolCallReport, float]] = {}
        self._next: float = float("-inf")
        # What was sent last of each call that runs.
        self._sent: dict[str, ToolCallReport] = {}

    # Putting in

    def hold(self, report: ToolCallReport, now: float, patience: float) -> None:
        """Hold an announcement for what it lacks, for `patience` seconds. Its place in the order stays."""
        key = report.tool_call_id
        _, since = self._held.get(key, (report, now))
        self._held[key] = report, since
        until = min(now + patience, since + LONGEST)
        self._waits.hold(Why.ANNOUNCEMENT, key, until, lambda now: self.release(now, key))

    def held(self, tool_call_id: str) -> bool:
        """Whether a call's announcement waits."""
        return tool_call_id in self._held

    def open(self, report: ToolCallReport, now: float) -> None:
        """Send an announcement. Those that wait come before it: cards stand in the order of the calls."""
        self._announce(None)
        self._move(report)
        self._flush(now)

    def announce(self, report: ToolCallReport, now: float) -> None:
        """Send an announcement that waited, as it is now, after those that wait before it."""
        self._held[report.tool_call_id] = report, now
        self._announce(report.tool_call_id)
        self._flush(now)

    def put(self, report: ToolCallReport, *, moved: bool, now: float) -> None:
        """Send a call's state: at once if its status has changed (`moved`), else merged with later ones."""
        self._queue.pop(report.tool_call_id, None)
        if moved:
            self._move(report)
            self._flush(now)
        else:
            self._queue[report.tool_call_id] = report
            self._soft(now)

    def terminal(self, state: TerminalState, now: float) -> None:
        """Send a terminal's new state, merged with later ones."""
        key = f"\0{state.terminal_id}"
        self._queue.pop(key, None)
        self._queue[key] = state
        self._soft(now)

    def release(self, now: float, last: str | None = None) -> None:
        """Send all that waits, because the caller sends something that must not overtake it.

        Args:
            now: The time.
            last: The call that the caller's message is about, if it is about one. Calls that were
                announced after it may go on waiting.
        """
        if last is None or last in self._held:
            self._announce(last)
        if self._queue:
            self._flush(now)

    def _announce(self, last: str | None) -> None:
        """Queue the announcements that wait, up to that of a call, or all."""
        for key in list(self._held):
            self._waits.drop(Why.ANNOUNCEMENT, key)
            self._move(self._held.pop(key)[0])
            if key == last:
                break

    def _move(self, report: ToolCallReport) -> None:
        self._queue[self._number] = report
        self._number += 1

    def _soft(self, now: float) -> None:
        if now >= self._next:
            self._flush(now)
        else:
            self._waits.hold(Why.CHANGE, "", self._next, self._flush)

    # Taking out

    def _flush(self, now: float) -> None:
        try:
            while self._queue:
                key = next(iter(self._queue))
                state = self._queue.pop(key)
                if isinstance(state, TerminalState):
                    self._lines(self._view.terminal(state))
                else:
                    is_move = isinstance(key, int)
                    self._call(self._whole(state) if is_move else self._without_growth(state, now))
        finally:
            self._next = now + PACE
            if self._queue:  # one has failed: it must not take the others with it
                self._waits.hold(Why.CHANGE, "", now, self._flush)
            else:
                self._waits.drop(Why.CHANGE, "")
        self._retry_later(now)

    def _retry_later(self, now: float) -> None:
        if self._view.waits:
            self._waits.hold(Why.RESEND, "", now + RETRY, self._resend)
        else:
            self._waits.drop(Why.RESEND, "")

    def _resend(self, now: float) -> None:
        """Send what the view's resend budget held back, as far as it allows that now."""
        self._lines(self._view.insist())
        self._retry_later(now)

    def _call(self, report: ToolCallReport) -> None:
        self._lines(self._view.call(self._shown(report)))

    def _lines(self, updates: list[Update]) -> None:
        for update in updates:
            self._send(self._frames.fitting(update)[0])

    # Raw fields that grow

    def _whole(self, report: ToolCallReport) -> ToolCallReport:
        """Note that all of a call is sent now."""
        key = report.tool_call_id
        self._waits.drop(Why.INPUT, key)
        self._sent[key] = report
        if report.is_final:
            del self._sent[key]
        return report

    def _without_growth(self, report: ToolCallReport, now: float) -> ToolCallReport:
        """Return a call with the raw output that was sent, and the raw input, where that only grows."""
        key = report.tool_call_id
        before = self._sent.get(key)
        if before is None:
            return self._whole(report)
        shown = report
        if report.raw_output is not before.raw_output:
            shown = replace(report, raw_output=before.raw_output)
        self._waits.drop(Why.INPUT, key)
        if _grows(before.raw_input, report.raw_input):
            self._waits.hold(Why.INPUT, key, now + STILL, lambda _: self._call(self._whole(report)))
            shown = replace(shown, raw_input=before.raw_input)
        self._sent[key] = shown
        return shown


def _grows(sent: JsonValue, now: JsonValue) -> bool:
    if not sent or now is sent or now == sent:
        return False
    return grew(sent, now) and len(encode(now)) > SMALL
