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
from collections.abc import Callable, Iterator
from itertools import islice
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


class _Line(NamedTuple):
    """A line's first bytes, how many it has as a whole without its newline, and whether it has one."""

    start: bytes
    size: int
    has_newline: bool


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
        lines = self._collect(limit) if passed == first - 1 else []
        if lines:
            return self._rendered(lines, first, limit)
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

    def _collect(self, limit: int) -> list[_Line]:
        """Take lines until there are enough, or more bytes than can be shown."""
        lines: list[_Line] = []
        size = 0
        for line in islice(self._lines(), min(limit, MAX_BYTES)):
            lines.append(line)
            size += len(line.start)
            if size > MAX_BYTES:
                break
        return lines

    def _lines(self) -> Iterator[_Line]:
        """Return the next lines; of one that is too long only the start is kept."""
        while piece := self._file.readline(_KEEP):
            start, size = piece, len(piece)
            while not piece.endswith(b"\n") and (piece := self._file.readline(BLOCK)):
                self._check()
                size += len(piece)
            has_newline = (piece or start).endswith(b"\n")
            size -= has_newline
            if len(start) < size:  # its last character may be incomplete
                start = start[: codecs.utf_8_decode(start, "replace", False)[1]]
            yield _Line(start.removesuffix(b"\n"), size, has_newline)

    def _rendered(self, lines: list[_Line], first: int, limit: int) -> LineRange:
        codec = self._codec or codec_of(b"\n".join(line.start for line in lines))
        texts, is_cut = _shown(lines, first, codec)
        total: int | None = first - 1 + len(lines)
        more = self._file.read(1)
        if more:
            self._file.seek(-1, os.SEEK_CUR)
            is_cheap = self._size - self._file.tell() <= CHEAP
            total = total + self._skip(None) if is_cheap else None
        at_end = not more and len(texts) == len(lines)
        ended = [line.start for line in lines[: len(texts)] if line.has_newline]
        return LineRange(
            text="\n".join(texts),
            first=first,
            lines=len(texts),
            total=total,
            is_cut=is_cut or (len(texts) < limit and not at_end),
            at_end=at_end,
            ends_open=at_end and not lines[-1].has_newline,
            codec=codec,
            endings=_endings(ended),
        )


def _shown(lines: list[_Line], first: int, codec: TextCodec) -> tuple[list[str], bool]:
    """Return the lines as they are shown, as many as fit, and whether one of them is cut."""
    texts: list[str] = []
    room, is_cut = MAX_BYTES, False
    for number, line in enumerate(lines, first):
        text = line.start.decode(codec.name, "surrogateescape").removesuffix("\r")
        is_long = len(text) > MAX_LINE
        if is_long:
            text = text[:MAX_LINE]
            left = line.size - len(text.encode(codec.name, "surrogateescape"))
            text += f"… [{left:,} more bytes in this line]"
        text = f"{number}→{presentable(text)}"
        room -= len(text.encode()) + 1
        if room < 0 and texts:
            break
        texts.append(text)
        is_cut = is_cut or is_long
    return texts, is_cut


def _endings(ended: list[bytes]) -> str | None:
    windows = sum(start.endswith(b"\r") for start in ended)
    if windows and windows < len(ended):
        return "mixed"
    return ("crlf" if windows else "lf") if ended else None
