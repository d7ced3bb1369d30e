"""What the traffic comes to: each call, and the bytes that were spent on it."""

from __future__ import annotations

from typing import NamedTuple

from callsheet.report.content import TerminalContent
from callsheet.report.report import ToolCallReport
from callsheet.testing import Frame, fold


class Tally(NamedTuple):
    """One call as the client knows it at the end."""

    report: ToolCallReport
    bytes: int

    @property
    def redactions(self) -> int:
        """How many secrets were taken out of it."""
        count = self.report.notes.get("redactions")
        return count if isinstance(count, int) else 0


def tally(traffic: list[Frame], version: int) -> list[Tally]:
    """Return the calls in the order of their announcement."""
    lines = [frame.line for frame in traffic if frame.way == "in"]
    return [Tally(report, _bytes(report, lines)) for report in fold(lines, version=version)]


def _bytes(report: ToolCallReport, lines: list[bytes]) -> int:
    """Count the lines that are about a call, and about the terminals that it shows."""
    keys = [report.tool_call_id.encode()]
    keys += [
        item.terminal_id.encode() for item in report.content if isinstance(item, TerminalContent)
    ]
    return sum(len(line) for line in lines if any(key in line for key in keys))
