"""Some lines of a file of any size, as a model is shown them: numbered, long ones cut, bounded as a whole.

The file is never loaded. Where a line begins is found by counting newlines, a block at a time; nothing
behind the wanted lines is read, unless counting the rest is cheap. Where the last range of a file began is
remembered, so that reading on in a huge file, unchanged since, begins there and not at the top.

A line looks like `12→text`: its number, an arrow, and from there on the line exactly as it is, so that
it can be copied into an edit. Indentation is never followed by something that looks like it. Where the
numbers are unknown, because the lines were looked for from the end of a huge file, they count from the
end: -1 is the last line.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from io import BytesIO, FileIO
from itertools import islice
from threading import Lock
from typing import NamedTuple, TypeAlias

from callsheet.tools.errors import InvalidArguments, IOFailed
from callsheet.tools.files.text_encoding import (
    TextCodec,
    codec_of,
    codec_of_bom,
    name_endings,
    presentable,
)

MAX_LINE = 2000
"""Maximum number of characters of a line that are shown."""

MAX_BYTES = 100_000
"""Maximum number of bytes of lines that are shown."""

CHEAP = 256 << 20
"""Bytes that are counted to know how many lines there are: about a tenth of a second."""

BLOCK = 1 << 18
"""Bytes that are looked at in one go; a processor's cache holds them."""

_KEEP = 4 * (MAX_LINE + 1)
"""Bytes of a line that hold at least one character more than is shown, in any encoding."""

_SETTLED = 100_000_000
"""Nanoseconds. A file that changed later than that may change again without a newer time."""


class FileBytes:
    """The bytes of an open file, or of one in memory. Its size is what it was when it was opened.

    Args:
        file: The file.
        size: Its bytes.
        check: Called before each read; raises if the result is no longer needed.
    """

    def __init__(self, file: FileIO | BytesIO, size: int, check: Callable[[], None]) -> None:
        self._file: FileIO | BytesIO = file
        self.size: int = size
        self._check: Callable[[], None] = check

    @classmethod
    def of_bytes(cls, data: bytes | bytearray) -> FileBytes:
        """Return a source in memory."""
        return cls(BytesIO(data), len(data), lambda: None)

    def fill(self, buffer: bytearray, offset: int, end: int) -> int:
        """Read up to `end`, or as much as the buffer holds. Returns how much that is."""
        self._check()
        wanted = min(len(buffer), end - offset)
        view, filled = memoryview(buffer), 0
        self._file.seek(offset)
        while filled < wanted:
            got = self._file.readinto(view[filled:wanted])
            if not got:
                raise IOFailed("the file became shorter while it was read; read it again")
            filled += got
        return filled

    def read(self, offset: int, length: int) -> bytes:
        """Return a part."""
        buffer = bytearray(max(0, min(length, self.size - offset)))
        self.fill(buffer, offset, self.size)
        return bytes(buffer)


# Where lines are


class LinePlace(NamedTuple):
    """Where a line begins: its number, from the end if it is negative, and its byte."""

    line: int
    offset: int


TOP = LinePlace(1, 0)


class _Line(NamedTuple):
    """A line's first bytes, how long it is as a whole without its newline, and where it ends."""

    start: bytes
    size: int
    end: int
    has_newline: bool

    @property
    def is_whole(self) -> bool:
        """Whether its first bytes are all."""
        return len(self.start) == self.size


class FileLines:
    """Finds, counts and reads the lines of a source in one encoding.

    Args:
        source: The bytes.
        codec: Their encoding, which determines the bytes of a newline.
        known: Where some line is known to begin. It follows what is found.
    """

    def __init__(self, source: FileBytes, codec: TextCodec, known: LinePlace = TOP) -> None:
        self.source: FileBytes = source
        self.known: LinePlace = known
        self.codec: TextCodec = codec
        self._newline: bytes = "\n".encode(codec.name)
        self._total: int | None = None

    @property
    def rest(self) -> int:
        """Bytes that have to be read to know how many lines there are."""
        return self.source.size - self.known.offset if self._total is None else 0

    def find(self, line: int) -> LinePlace | None:
        """Return where a line begins, counted from 1; None if the file has fewer."""
        near = self.known if self.known.line <= line else TOP
        wanted = line - near.line
        for offset, block in self._blocks(near.offset) if wanted else ():
            count = self._count(block)
            if count >= wanted:
                place = LinePlace(line, offset + self._after(block, wanted))
                break
            wanted -= count
        else:
            if wanted:
                self._total = line - 1 - wanted + self.ends_open()
                return None
            place = near
        if place.offset >= self.source.size:
            return None
        self.known = place
        return place

    def total(self) -> int:
        """Return the number of lines; counts them from the known place on."""
        if self._total is None:
            newlines = sum(self._count(block) for _, block in self._blocks(self.known.offset))
            self._total = self.known.line - 1 + newlines + self.ends_open()
        return self._total

    def tail(self, lines: int) -> int:
        """Return the offset at which the last `lines` lines begin, searching backwards from the end."""
        wanted = lines + (not self.ends_open())
        buffer, end = bytearray(BLOCK), self.source.size
        while end > 0:
            begin = (end - 1) // BLOCK * BLOCK
            block = memoryview(buffer)[: self.source.fill(buffer, begin, end)]
            count = self._count(block)
            if count >= wanted:
                return begin + self._after(block, count - wanted + 1)
            wanted -= count
            end = begin
        return 0

    def ends_open(self) -> bool:
        """Return whether the last line has no newline."""
        width, size = len(self._newline), self.source.size
        return size > 0 and self.source.read(size - width, width) != self._newline

    def lines(self, offset: int, keep: int) -> Iterator[_Line]:
        """Return the lines from a place on, of each at most `keep` bytes; one of any length is passed."""
        start, begin, width = b"", offset, len(self._newline)  # of the line that has begun
        for place, block in self._blocks(offset):
            data, at = bytes(block), 0
            while (found := self._find(data, at)) >= 0:
                start += data[at : min(found, at + keep - len(start))]
                end = place + found + width
                yield _Line(start, end - width - begin, end, True)
                start, at, begin = b"", found + width, end
            start += data[at : at + keep - len(start)]
        if begin < self.source.size:
            yield _Line(start, self.source.size - begin, self.source.size, False)

    def _blocks(self, offset: int) -> Iterator[tuple[int, memoryview]]:
        """Return the bytes from a place on, in blocks that are good until the next one is taken."""
        size = self.source.size
        buffer = bytearray(max(0, min(BLOCK, size - offset)))
        while offset < size:
            filled = self.source.fill(buffer, offset, size)
            yield offset, memoryview(buffer)[:filled]
            offset += filled

    def _count(self, block: memoryview) -> int:
        if len(self._newline) == 1:
            data = block.obj
            assert isinstance(data, bytearray)
            return data.count(b"\n", 0, len(block))
        return self.codec.decode_part(bytes(block)).count("\n")

    def _after(self, block: memoryview, wanted: int) -> int:
        """Return the place behind a block's newline number `wanted`, which must be there."""
        data, at = bytes(block), 0
        for _ in range(wanted):
            at = self._find(data, at) + len(self._newline)
        return at

    def _find(self, data: bytes, at: int) -> int:
        """Return where the next newline begins, or -1."""
        found = data.find(self._newline, at)
        while found >= 0 and found % len(self._newline):  # it is made of halves of two characters
            found = data.find(self._newline, found + 1)
        return found


# Places that are remembered

_State: TypeAlias = tuple[int, int, int, int, int]


class PlaceCache:
    """Where a line begins in each of the files that were read last, as long as the file stays as it is."""

    def __init__(self, limit: int = 32) -> None:
        self._limit: int = limit
        self._places: OrderedDict[_State, LinePlace] = OrderedDict()
        self._lock: Lock = Lock()

    def get(self, state: os.stat_result) -> LinePlace:
        """Return a place in a file that is in this state."""
        with self._lock:
            return self._places.get(_key(state), TOP)

    def put(self, state: os.stat_result, place: LinePlace) -> None:
        """Remember a place. One in a file that has changed just now is not: it may change unnoticed."""
        if time.time_ns() - state.st_ctime_ns < _SETTLED:
            return
        with self._lock:
            self._places[_key(state)] = place
            self._places.move_to_end(_key(state))
            while len(self._places) > self._limit:
                self._places.popitem(last=False)


def _key(state: os.stat_result) -> _State:
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


PLACES = PlaceCache()


# Ranges of lines


class LineRange(NamedTuple):
    """The lines that are shown."""

    text: str
    first: int
    lines: int
    cut_lines: int
    is_bounded: bool
    at_end: bool
    begin: int
    end: int
    codec: TextCodec
    endings: str | None

    @property
    def last(self) -> int:
        """The number of the last line."""
        return self.first + self.lines - 1


def find_start(reader: FileLines, offset: int, shown: str) -> LinePlace | None:
    """Find the line that `offset` means, from the end if it is negative; None if the file is empty.

    Raises:
        InvalidArguments: The file, which is called `shown`, has fewer lines.
    """
    if not reader.source.size and offset in (0, 1, -1):
        return None
    if offset < 0:
        return _from_end(reader, -offset)
    place = reader.find(max(1, offset)) if reader.source.size else None
    if place is None:
        total = reader.total()
        count = "it is empty" if not total else f"it has {total:,} line{'s' if total > 1 else ''}"
        raise InvalidArguments(
            f"offset {offset:,} is beyond the end of {shown}: {count}", total_lines=total
        )
    return place


def _from_end(reader: FileLines, lines: int) -> LinePlace | None:
    if not reader.source.size:
        return None
    if reader.rest <= CHEAP:
        return reader.find(max(1, reader.total() - lines + 1))
    offset = reader.tail(lines)
    return LinePlace(-lines if offset else 1, offset)


def read_range(reader: FileLines, start: LinePlace, limit: int, head: bytes) -> LineRange:
    """Return up to `limit` lines from a place on. `head` has the first bytes of the file."""
    lines = _collect(reader, start.offset, limit)
    declared = codec_of_bom(head)
    if start.offset == 0 and declared is not None:
        first = lines[0].start.removeprefix(declared.bom)
        lines[0] = lines[0]._replace(start=first, size=lines[0].size - len(declared.bom))
    codec = declared or codec_of(b"\n".join([_whole_lines(head), *map(_whole_characters, lines)]))
    texts, cut = _shown(lines, start.line, codec)
    last, size = lines[len(texts) - 1], reader.source.size
    return LineRange(
        text="\n".join(texts),
        first=start.line,
        lines=len(texts),
        cut_lines=cut,
        is_bounded=len(texts) < len(lines) or (len(lines) < limit and last.end < size),
        at_end=last.end >= size,
        begin=start.offset,
        end=last.end,
        codec=codec,
        endings=_endings(lines[: len(texts)], codec),
    )


def _whole_lines(head: bytes) -> bytes:
    """Return first bytes of a file without a character that may be cut."""
    return head[: head.rfind(b"\n") + 1]


def _whole_characters(line: _Line) -> bytes:
    """Return a line's first bytes without a character that may be cut."""
    if line.is_whole:
        return line.start
    end = len(line.start)
    while end and len(line.start) - end < 4 and line.start[end - 1] & 0xC0 == 0x80:
        end -= 1
    return line.start[: end - 1]


def _collect(reader: FileLines, offset: int, limit: int) -> list[_Line]:
    """Take lines until there are enough, or more bytes than can be shown."""
    lines: list[_Line] = []
    size, width = 0, len("\n".encode(reader.codec.name))
    for line in islice(reader.lines(offset, _KEEP), min(limit, MAX_BYTES)):
        lines.append(line)
        size += len(line.start) // width
        if size > MAX_BYTES:
            break
    return lines


def _shown(lines: list[_Line], first: int, codec: TextCodec) -> tuple[list[str], int]:
    """Return the lines as they are shown, as many as fit, and how many of them are cut."""
    texts: list[str] = []
    room, cut = MAX_BYTES, 0
    for number, line in enumerate(lines, first):
        text = codec.decode_part(line.start)
        is_cut = len(text) > MAX_LINE
        text = _cut(text, line, codec) if is_cut else text.removesuffix("\r")
        text = f"{number}→{presentable(text)}"
        room -= len(text.encode()) + 1
        if room < 0 and texts:
            break
        texts.append(text)
        cut += is_cut
    return texts, cut


def _cut(text: str, line: _Line, codec: TextCodec) -> str:
    start = text[:MAX_LINE]
    return f"{start}… [{line.size - codec.size_of(start):,} more bytes in this line]"


def _endings(lines: list[_Line], codec: TextCodec) -> str | None:
    """Return the name of the line endings of those lines that are complete."""
    ended = [line.start for line in lines if line.has_newline and line.is_whole]
    windows = sum(start.endswith("\r".encode(codec.name)) for start in ended)
    return name_endings(windows, len(ended) - windows)


class Total(NamedTuple):
    """The number of lines of a file; `is_exact` states whether they were counted or estimated."""

    lines: int
    is_exact: bool


def total_of(reader: FileLines, shown: LineRange) -> Total:
    """Return the number of lines of a file: counted if that is cheap, else estimated from those passed."""
    if shown.at_end and shown.first > 0:
        return Total(shown.last, True)
    if reader.rest <= CHEAP:
        return Total(reader.total(), True)
    passed = shown.last if shown.first > 0 else shown.lines
    size = shown.end - (0 if shown.first > 0 else shown.begin)
    return Total(round(passed * reader.source.size / size), False)
