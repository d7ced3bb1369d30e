"""Rows at the bottom of a terminal that are drawn anew in place, and text above them.

Each drawing is one write, and terminals that can are asked to show it as a whole: nothing flickers.
A terminal that was made narrower has broken the old rows meanwhile; that is reckoned with.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.text import Text

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_HIDE, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_ERASE_BELOW = "\x1b[J"
_ERASE_LINE = "\x1b[K"


class Region:
    """The rows that are drawn now. The cursor stands under them."""

    def __init__(self, console: Console, stream: TextIO) -> None:
        self._console: Console = console
        self._stream: TextIO = stream
        self._widths: list[int] = []

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows that may be drawn. The last of each is left free, so nothing wraps or scrolls."""
        columns, rows = self._size()
        return max(2, columns - 1), max(1, rows - 1)

    def _size(self) -> tuple[int, int]:
        """Ask the terminal itself: stdout may be another's by now, and the terminal of another size."""
        try:
            columns, rows = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            columns = rows = 0
        size = self._console.size
        return (columns, rows) if columns and rows else (size.width, size.height)

    def draw(self, rows: Sequence[Text]) -> None:
        """Draw these rows where the old ones are."""
        if rows or self._widths:
            self._write([], rows)

    def print(self, rows: Sequence[Text]) -> None:
        """Print rows that stay, above those that are drawn, which go until they are drawn again."""
        self._write(rows, [])

    def clear(self) -> None:
        """Take the rows away."""
        self.draw([])

    def _write(self, lasting: Sequence[Text], drawn: Sequence[Text]) -> None:
        back = self._height()
        cursor = (_HIDE if drawn else "") if not self._widths else ("" if drawn else SHOW_CURSOR)
        parts = [cursor, _BEGIN, "\r", f"\x1b[{back}A" if back else ""]
        if lasting:
            parts += [_ERASE_BELOW, *[self._styled(row) for row in lasting]]
        parts += [_ERASE_LINE + self._styled(row) for row in drawn]
        parts += [_ERASE_BELOW if back or lasting else "", _END]
        self._widths = [row.cell_len for row in drawn]
        self._stream.write("".join(parts))
        self._stream.flush()

    def _height(self) -> int:
        """Count the rows of the terminal that the drawn ones take now."""
        width = max(1, self._size()[0])
        return sum(max(1, -(-cells // width)) for cells in self._widths)

    def _styled(self, row: Text) -> str:
        with self._console.capture() as captured:
            self._console.print(row, soft_wrap=True, highlight=False, markup=False, emoji=False)
        return captured.get()
