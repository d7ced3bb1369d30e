"""Raw inputs and outputs of calls that run: told when the call moves, not each time that they change.

Arguments come in pieces as a model writes them, and output as a command prints it. Who watches sees them in
the title and in the content. An input that grows no more is told though the call does not move: it may run
for long.
"""

from __future__ import annotations

from msgspec.json import encode
from msgspec.structs import replace

from callsheet.observe.repetition import grew
from callsheet.report.json import JsonValue
from callsheet.report.report import ToolCallReport

SMALL = 1024
"""Bytes of an input that may be told again: they cost little."""

STILL = 1.0
"""Seconds after which an input that has not grown any more is told. It doubles each time."""


class Growing:
    """What was told of the raw fields of one session's calls, and which inputs wait."""

    def __init__(self) -> None:
        self._told: dict[str, ToolCallReport] = {}
        self._waits: dict[str, tuple[float, ToolCallReport]] = {}
        self._patience: dict[str, float] = {}

    def whole(self, report: ToolCallReport) -> ToolCallReport:
        """Note that all of a call is told now."""
        key = report.tool_call_id
        self._waits.pop(key, None)
        if report.is_final:
            self._told.pop(key, None)
            self._patience.pop(key, None)
        else:
            self._told[key] = report
        return report

    def without(self, report: ToolCallReport, now: float) -> ToolCallReport:
        """Return a call with the raw output that was told, and the raw input, where that only grows."""
        key = report.tool_call_id
        told = self._told.get(key)
        if told is None:
            return self.whole(report)
        shown = report
        if report.raw_output is not told.raw_output:
            shown = replace(report, raw_output=told.raw_output)
        self._waits.pop(key, None)
        if _grows(told.raw_input, report.raw_input):
            self._waits[key] = (now + self._patience.get(key, STILL), report)
            shown = replace(shown, raw_input=told.raw_input)
        self._told[key] = shown
        return shown

    @property
    def due(self) -> float | None:
        """When something has waited for long enough, if at all."""
        return min((until for until, _ in self._waits.values()), default=None)

    def late(self, now: float) -> list[ToolCallReport]:
        """Return the calls whose inputs have waited for long enough, with these."""
        found = [report for until, report in self._waits.values() if until <= now]
        for report in found:
            key = report.tool_call_id
            self._patience[key] = 2 * self._patience.get(key, STILL)
        return [self.whole(report) for report in found]


def _grows(told: JsonValue, now: JsonValue) -> bool:
    if not told or now is told or now == told:
        return False
    return grew(told, now) and len(encode(now)) > SMALL
