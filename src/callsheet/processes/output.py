"""What a command printed, as a model gets it: plain text of bounded size, whatever was printed.

Its beginning and its end, and between them how much was left out; without the sequences that colour a
terminal or move its cursor, and without what a terminal would have overwritten.
"""

from __future__ import annotations

from callsheet.acp.terminal_text import render_plain
from callsheet.report.events import ExitStatus
from callsheet.report.terminal import TerminalState

LIMIT = 30_000
"""Bytes that a model gets at most."""

_SAMPLE = 8192
_MOST_WRONG = 20


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
        """Whether a model does not get all of it."""
        return self._state.total > self._limit or not self._is_text()

    def text(self) -> str:
        """Return the text, when nothing more will come."""
        if not self._is_text():
            return f"[{self.total} bytes that are no text]"
        self._state.exit_status = ExitStatus()
        return render_plain(self._state, self._limit)

    def _is_text(self) -> bool:
        """Tell text from other data: a model can make nothing of that, and it would take much room."""
        sample = self._state.tail(_SAMPLE)
        wrong = sample.decode(errors="replace").count("\ufffd")
        return b"\0" not in sample or wrong * _MOST_WRONG < len(sample)
