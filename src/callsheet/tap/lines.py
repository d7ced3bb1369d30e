"""Pieces of bytes in, whole lines out. A line that is too long is cut, and says how long it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

LONGEST = 64 * 1024 * 1024
"""Bytes that are kept of a line."""


class Line(NamedTuple):
    """One line, without its end. `size` is more than there is of it if it was cut."""

    data: bytes
    size: int


class Lines:
    """The lines of one side."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest: int = longest
        self._rest: list[bytes] = []
        self._kept: int = 0
        self._size: int = 0
        self._is_broken: bool = False

    def take(self, data: bytes) -> Iterator[Line]:
        """Take the next piece, and give the lines that end in it."""
        *ended, last = data.split(b"\n")
        for part in ended:
            self._add(part)
            line = self._line()
            if not self._is_broken:
                yield line
            self._is_broken = False
        self._add(last)

    def end(self) -> Iterator[Line]:
        """Return what had no end."""
        line = self._line()
        if line.size and not self._is_broken:
            yield line

    def lose(self) -> None:
        """Pass over the line that is under way: pieces of it are missing."""
        self._line()
        self._is_broken = True

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        room = self._longest - self._kept
        if part and room > 0:
            self._rest.append(part[:room])
            self._kept += len(self._rest[-1])

    def _line(self) -> Line:
        data = self._rest[0] if len(self._rest) == 1 else b"".join(self._rest)
        line = Line(data, self._size)
        self._rest, self._kept, self._size = [], 0, 0
        return line
