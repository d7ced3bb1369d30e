"""What a command printed, as a model gets it: plain text of bounded size, whatever was printed.

Its beginning and its end, and between them how much was left out; without the sequences that colour a
terminal or move its cursor, and without what a terminal would have overwritten.
"""

from __future__ import annotations

from callsheet.report.events import ExitStatus
from callsheet.report.terminals import TerminalState
from callsheet.wire.plaintext import render_plain

LIMIT = 30_000
"""Bytes that a model gets at most."""


class Kept:
    """As much of a command's output as is needed. It takes the same memory however much comes."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit: int = limit
        self._state: TerminalState = TerminalState("kept", keep=2 * limit)

    def add(self, data: bytes) -> None:
        """Take in more. A character may be split over two of them."""
        self._state.write(data)

    @property
    def total(self) -> int:
        """How many bytes there were."""
        return self._state.total

    @property
    def is_cut(self) -> bool:
        """Whether there were more than a model gets."""
        return self._state.total > self._limit

    def text(self) -> str:
        """Give the text, when nothing more will come."""
        self._state.exit_status = ExitStatus()
        return render_plain(self._state, self._limit)
