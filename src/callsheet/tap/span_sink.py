"""Spans of the sessions behind a tap: its reports and turns, on their way to `callsheet.telemetry`.

A `traceparent` of the client is passed on to the agent as it came. The tap does none of the work, and the
agent's own spans must not hang on ours, which may be sent elsewhere, or not at all.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from callsheet.history.rows import name_and_version
from callsheet.report.terminal import CallRecord

if TYPE_CHECKING:
    from callsheet.report.usage import TokenUsage
    from callsheet.telemetry.otel import OtelSink

MOST = 64
"""Sessions whose spans are open at once."""


class SpanSink:
    """Makes spans of what a tap reports. `agent` is the agent's name and version, once it has said them."""

    def __init__(self) -> None:
        self.agent: str = ""
        self._sinks: dict[str, OtelSink] = {}

    def call(self, session: str, record: CallRecord) -> None:
        """Take a call as it is now."""
        self._sink(session).send(deque([record]))

    def begin_turn(self, session: str, key: str, meta: object) -> None:
        """Begin a turn, with its key in the history and the `_meta` of the client's prompt."""
        self._sink(session).begin_turn(key, meta)

    def set_usage(self, session: str, usage: TokenUsage) -> None:
        """Note what a turn has used so far."""
        if session in self._sinks:
            self._sinks[session].set_usage(usage)

    def end_turn(self, session: str, stop_reason: str | None, usage: TokenUsage) -> None:
        """End a turn."""
        if session in self._sinks:
            self._sinks[session].end_turn(stop_reason, usage)

    def close(self) -> None:
        """End what is open. It is sent when the process ends."""
        while self._sinks:
            self._sinks.popitem()[1].close()

    def _sink(self, session: str) -> OtelSink:
        sink = self._sinks.get(session)
        if sink is None:
            from callsheet.telemetry.otel import OtelSink  # with the first call, not before

            sink = self._sinks[session] = OtelSink(session_id=session)
            if len(self._sinks) > MOST:
                self._sinks.pop(next(iter(self._sinks))).close()
        sink.describe(*name_and_version(self.agent))
        return sink
