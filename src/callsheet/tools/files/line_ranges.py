"""Some lines of a file of any size, as a model is shown them: numbered, long ones cut, bounded as a whole.

The file is never loaded. Where a line begins is found by counting newlines, a block at a time; nothing
behind the wanted lines is read, unless counting the rest is cheap.

A line looks like `12→text`: its number, an arrow, and from there on the line exactly as it is, so that
it can be copied into an edit. Indentation is never followed by something that looks like it.

Newlines are single bytes here. UTF-16, where they are not, has to be recoded to UTF-8 first.
"""

from __future__ import annotations

import codecs
import os
from bisect import bisect
from collections.abc import Callable
from itertools import accumulate
from typing import BinaryIO, NamedTuple

from callsheet.report.humanize import plural
from callsheet.tools.errors import InvalidArguments
from callsheet.tools.files.text_encoding import TextCodec, codec_of, presentable

MAX_LINE = 2000
"""Maximum number of characters of a line that are shown."""

MAX_BYTES = 100_000
"""Maximum number of bytes of lines that are shown."""

CHEAP = 256 << 20
"""Bytes behind the shown lines that are counted to know how many lines there are: a tenth of a second."""

BLOCK = 1 << 18
"""Bytes that are looked at in one go; a processor's cache holds them."""

_KEEP = 4 * (MAX_LINE + 1)
"""Bytes of a line that hold at least one character more than is shown, in any encoding."""


class LineRange(NamedTuple):
    """The lines that are shown. `total` is None if the file is too large to be counted."""

    text: str
    first: int
    lines: int
    total: int | None
    is_cut: bool
    """Whether a line was cut, or fewer lines are shown than were wanted."""
    at_end: bool
    ends_open: bool
    """Whether the last line of the file is shown, and has no newline."""
    codec: TextCodec
    endings: str | None
    """lf, crlf or mixed; None if no line has an ending."""

    @property
    def last(self) -> int:
        """The number of the last line."""
        return self.first + self.lines - 1


class LineReader:
    """Reads lines of a file.

    Args:
        file: The file, at the beginning of its first line.
        size: How many bytes it has.
        codec: The encoding that the file declares, if it does.
        check: Called before each block is read; raises if the result is no longer needed.
    """

    def __init__(
        self, file: BinaryIO, size: int, codec: TextCodec | None, check: Callable[[], None]
    ) -> None:
        self._file: BinaryIO = file
        self._size: int = size
        self._codec: TextCodec | None = codec
        self._check: Callable[[], None] = check
        self._begin: int = file.tell()

    def read(self, offset: int, limit: int, shown: str) -> LineRange | None:
        """Return up to `limit` lines from line `offset` on, or None if the file is empty.

        Args:
            offset: The first line, counted from 1, or from the end if it is negative.
            limit: How many lines.
            shown: How error messages call the file.

        Raises:
            InvalidArguments: The file has fewer lines.
        """
        first = max(1, offset)
        if offset < 0:
            first = max(1, self._skip(None) + offset + 1)
            self._file.seek(self._begin)
        passed = self._skip(first - 1)
        if passed == first - 1 and (found := self._collect(limit))[0]:
            return self._rendered(*found, first, limit)
        if first == 1:
            return None
        count = f"it has {plural(passed, 'line')}" if passed else "it is empty"
        message = f"offset {offset:,} is beyond the end of {shown}: {count}"
        raise InvalidArguments(message, total_lines=passed)

    def _skip(self, lines: int | None) -> int:
        """Pass by lines, all that there are if `lines` is None, and return how many that were."""
        passed, block = 0, b""
        while lines is None or passed < lines:
            self._check()
            if not (more := self._file.read(BLOCK)):
                return passed + (block != b"" and not block.endswith(b"\n"))
            block, count = more, more.count(b"\n")
            if lines is not None and passed + count >= lines:
                end = -1
                for _ in range(lines - passed):
                    end = block.index(b"\n", end + 1)
                self._file.seek(end + 1 - len(block), os.SEEK_CUR)
                return lines
            passed += count
        return passed

    def _collect(self, limit: int) -> tuple[list[bytes], dict[int, int], bool]:
        """Take lines until there are enough, or more bytes than can be shown.

        Returns:
            The lines, of one that is too long only the start; the sizes of those, by index; and whether the
            last one has no newline.
        """
        if len(data := self._file.read(MAX_BYTES + 1)) <= MAX_BYTES:  # that is all there is
            *lines, rest = data.split(b"\n", limit)
            if len(lines) == limit:
                self._file.seek(-len(rest), os.SEEK_CUR)
                rest = b""
            return [*lines, rest] if rest else lines, {}, rest != b""
        self._file.seek(-len(data), os.SEEK_CUR)
        lines = list[bytes]()
        sizes: dict[int, int] = {}
        room, piece = MAX_BYTES, b"\n"
        while len(lines) < limit and room >= 0 and (start := self._file.readline(_KEEP)):
            piece, size = start, len(start)
            while not piece.endswith(b"\n") and (more := self._file.readline(BLOCK)):
                self._check()
                piece, size = more, size + len(more)
            room -= len(start)
            size -= piece.endswith(b"\n")
            if len(start) < size:  # its last character may be incomplete
                sizes[len(lines)] = size
                start = start[: codecs.utf_8_decode(start, "replace", False)[1]]
            lines.append(start.removesuffix(b"\n"))
        return lines, sizes, not piece.endswith(b"\n")

    def _rendered(
        self, lines: list[bytes], sizes: dict[int, int], is_open: bool, first: int, limit: int
    ) -> LineRange:
        data = b"\n".join(lines)
        codec = self._codec or codec_of(data)
        text = presentable(data.decode(codec.name, "surrogateescape"))
        shown = text.replace("\r\n", "\n").removesuffix("\r").split("\n")
        for at in [at for at, line in enumerate(shown) if len(line) > MAX_LINE]:
            kept = lines[at].decode(codec.name, "surrogateescape")[:MAX_LINE]
            size = sizes.setdefault(at, len(lines[at]))
            left = size - len(kept.encode(codec.name, "surrogateescape"))
            shown[at] = f"{shown[at][:MAX_LINE]}… [{left:,} more bytes in this line]"
        shown = [f"{number}→{line}" for number, line in enumerate(shown, first)]
        text = "\n".join(shown)
        count = len(shown)
        if len(text.encode()) >= MAX_BYTES:
            ends = list(accumulate(len(line.encode()) + 1 for line in shown))
            count = max(1, bisect(ends, MAX_BYTES))
            text = "\n".join(shown[:count])
        windows = sum(line.endswith(b"\r") for line in lines[:count]) if b"\r" in data else 0
        total: int | None = first - 1 + len(lines)
        more = self._file.read(1)
        if more:
            self._file.seek(-1, os.SEEK_CUR)
            is_cheap = self._size - self._file.tell() <= CHEAP
            total = total + self._skip(None) if is_cheap else None
        at_end = not more and count == len(lines)
        ends_open = at_end and is_open
        if ends_open:  # what is behind the last newline has no ending
            windows -= lines[-1].endswith(b"\r")
        return LineRange(
            text=text,
            first=first,
            lines=count,
            total=total,
            is_cut=any(at < count for at in sizes) or (count < limit and not at_end),
            at_end=at_end,
            ends_open=ends_open,
            codec=codec,
            endings=_endings(windows, count - ends_open),
        )


def _endings(windows: int, lines: int) -> str | None:
    if 0 < windows < lines:
        return "mixed"
    return ("crlf" if windows else "lf") if lines else None
