"""Raw inputs and outputs that are told again and again, each time with more at their end: they wait.

Arguments come in pieces as a model writes them, and output as a command prints it. Who watches sees them
in the title and in the content; what is raw comes whole when the call moves, or when it grows no more.
"""

from __future__ import annotations

from msgspec.json import encode
from msgspec.structs import replace

from callsheet.check.recording.again import grew
from callsheet.report.report import ToolCallReport
from callsheet.report.values import JsonValue

SMALL = 1024
"""Bytes that may be told again: they cost little."""

STILL = 1.0
"""Seconds after which what has not grown any more is told."""


class Growing:
    """What was told of the raw fields of one session's calls, and what waits."""

    def __init__(self) -> None:
        self._told: dict[str, ToolCallReport] = {}
        self._waits: dict[str, tuple[float, ToolCallReport]] = {}

    def whole(self, report: ToolCallReport) -> ToolCallReport:
        """Note that all of a call is told now."""
        key = report.tool_call_id
        self._waits.pop(key, None)
        if report.is_final:
            self._told.pop(key, None)
        else:
            self._told[key] = report
        return report

    def without(self, report: ToolCallReport, now: float) -> ToolCallReport:
        """Give a call with the raw fields that were told, where they only grow."""
        told = self._told.get(report.tool_call_id)
        if told is None:
            return self.whole(report)
        waits_in = _grows(told.raw_input, report.raw_input)
        waits_out = _grows(told.raw_output, report.raw_output)
        if not waits_in and not waits_out:
            return self.whole(report)
        self._waits[report.tool_call_id] = (now + STILL, report)
        shown = replace(
            report,
            raw_input=told.raw_input if waits_in else report.raw_input,
            raw_output=told.raw_output if waits_out else report.raw_output,
        )
        self._told[report.tool_call_id] = shown
        return shown

    @property
    def due(self) -> float | None:
        """When something has waited for long enough, if at all."""
        return min((until for until, _ in self._waits.values()), default=None)

    def late(self, now: float) -> list[ToolCallReport]:
        """Give the calls that have waited for long enough, whole."""
        found = [report for until, report in self._waits.values() if until <= now]
        return [self.whole(report) for report in found]


def _grows(told: JsonValue, now: JsonValue) -> bool:
    if not told or now is told or now == told:
        return False
    return grew(told, now) and len(encode(now)) > SMALL
