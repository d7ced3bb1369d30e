"""Lines of a file of any size, read without loading it.

Where a line begins is found by counting newlines, a block at a time. The counts are kept at checkpoints,
so that the next look into the same file, unchanged, begins nearby. Nothing behind the wanted lines is
read, unless their total is asked for.
"""

from __future__ import annotations

import os
import time
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator
from io import BytesIO, FileIO
from threading import Lock, RLock
from typing import NamedTuple, TypeAlias

from callsheet.tools.errors import IOFailed

from .text import Codec

BLOCK = 1 << 18
"""Bytes that are looked at in one go; a processor's cache holds them."""

_STRIDE = 1 << 20
"""Bytes between two checkpoints, at least."""

_CHECKPOINTS = 1 << 14
"""Checkpoints of one file, at most; with it, its index stays below 128 KiB."""

_KEPT_INDEXES = 32
_SMALL = 4 * _STRIDE
"""Files up to this size are counted anew; that takes a millisecond."""

_SETTLED = 100_000_000
"""Nanoseconds. A file that changed later than that may change again without a newer time."""

_NEAR = 4096

Alive: TypeAlias = Callable[[], None]
"""Raises if nobody waits for the answer any more."""


class Newlines:
    """Counts and finds newlines in blocks of bytes, in one encoding."""

    def __init__(self, codec: Codec) -> None:
        self.width: int = codec.width
        self.mark: bytes = "\n".encode(codec.name)
        self._codec: Codec = codec

    def count(self, data: bytearray, begin: int, end: int) -> int:
        """Count the newlines of a part."""
        if self.width == 1:
            return data.count(b"\n", begin, end)
        return self._codec.decode_part(bytes(memoryview(data)[begin:end])).count("\n")

    def find(self, data: bytes | bytearray, begin: int, end: int) -> int:
        """Return where the next newline begins, or -1."""
        found = data.find(self.mark, begin, end)
        while found >= 0 and found % self.width:  # it is made of halves of two characters
            found = data.find(self.mark, found + 1, end)
        return found

    def after(self, data: bytearray, begin: int, end: int, wanted: int) -> int:
        """Return the place behind a part's newline number `wanted`, which must be there."""
        while end - begin > _NEAR:
            middle = (begin + end) // 2 // self.width * self.width
            first_half = self.count(data, begin, middle)
            if first_half >= wanted:
                end = middle
            else:
                begin, wanted = middle, wanted - first_half
        for _ in range(wanted):
            begin = self.find(data, begin, end) + self.width
        return begin


class Source:
    """A file that is open, as bytes at places. Its size is what it was when it was opened."""

    def __init__(self, file: FileIO | BytesIO, size: int, alive: Alive) -> None:
        self._file: FileIO | BytesIO = file
        self.size: int = size
        self._alive: Alive = alive

    def fill(self, buffer: bytearray, offset: int, end: int) -> int:
        """Read up to `end`, or as much as the buffer holds. Gives how much that is."""
        self._alive()
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
        """Read a part."""
        buffer = bytearray(max(0, min(length, self.size - offset)))
        self.fill(buffer, offset, self.size)
        return bytes(buffer)


class LineIndex:
    """How many newlines there are up to each checkpoint of one file, as far as it was looked at."""

    def __init__(self, size: int, newlines: Newlines) -> None:
        self.size: int = size
        self.newlines: Newlines = newlines
        strides = -(-size // _STRIDE)
        self._stride: int = _STRIDE * max(1, -(-strides // _CHECKPOINTS))
        self._counts: array[int] = array("Q")
        self._lock: RLock = RLock()

    @property
    def seen(self) -> int:
        """The bytes that were looked at, from the beginning."""
        return min(self.size, len(self._counts) * self._stride)

    def start_of(self, source: Source, line: int) -> int | None:
        """Return where a line begins, counted from 1; None if the file has fewer."""
        before = line - 1
        if not before:
            return 0 if self.size else None
        with self._lock:
            self._look_on(source, before)
            if self._last < before:
                return None
            stride = bisect_left(self._counts, before)
            passed = self._counts[stride - 1] if stride else 0
        start = self._find(source, stride * self._stride, before - passed)
        return start if start < self.size else None

    def total(self, source: Source) -> int:
        """Count all lines, from where the last look ended."""
        with self._lock:
            self._look_on(source)
            return self._last + ends_open(source, self.newlines)

    @property
    def _last(self) -> int:
        return self._counts[-1] if self._counts else 0

    def _look_on(self, source: Source, wanted: int | None = None) -> None:
        """Count on, up to a number of newlines or to the end, from checkpoint to checkpoint."""
        buffer, count = bytearray(BLOCK), self._last
        while self.seen < self.size and (wanted is None or count < wanted):
            offset = self.seen
            end = min(self.size, offset + self._stride)
            while offset < end:
                filled = source.fill(buffer, offset, end)
                count += self.newlines.count(buffer, 0, filled)
                offset += filled
            self._counts.append(count)

    def _find(self, source: Source, offset: int, wanted: int) -> int:
        """Return the place behind the newline number `wanted` from a checkpoint on."""
        buffer = bytearray(BLOCK)
        while True:
            filled = source.fill(buffer, offset, self.size)
            count = self.newlines.count(buffer, 0, filled)
            if count >= wanted:
                return offset + self.newlines.after(buffer, 0, filled, wanted)
            if not filled:
                raise IOFailed("the file changed while it was read; read it again")
            wanted -= count
            offset += filled


def ends_open(source: Source, newlines: Newlines) -> bool:
    """Whether the last line has no newline."""
    width = newlines.width
    return source.size > 0 and source.read(source.size - width, width) != newlines.mark


def start_of_tail(source: Source, newlines: Newlines, lines: int) -> int:
    """Return where the last so many lines begin, looking from the end of the file back."""
    wanted = lines + (not ends_open(source, newlines))
    buffer, end = bytearray(BLOCK), source.size
    while end > 0:
        begin = (end - 1) // BLOCK * BLOCK
        filled = source.fill(buffer, begin, end)
        count = newlines.count(buffer, 0, filled)
        if count >= wanted:
            return begin + newlines.after(buffer, 0, filled, count - wanted + 1)
        wanted -= count
        end = begin
    return 0


# Lines themselves


class Line(NamedTuple):
    """A line's first bytes, how long it is as a whole without its newline, and where it ends."""

    kept: bytes
    size: int
    end: int
    has_newline: bool


def lines_from(source: Source, newlines: Newlines, offset: int, keep: int) -> Iterator[Line]:
    """Return the lines from a place on, of each at most `keep` bytes. A line of any length is passed."""
    block = bytearray(max(0, min(BLOCK, source.size - offset)))
    kept, begin = b"", offset  # of the line that has begun
    while offset < source.size:
        filled = source.fill(block, offset, source.size)
        at = 0
        while (found := newlines.find(block, at, filled)) >= 0:
            kept += block[at : min(found, at + keep - len(kept))]
            end = offset + found + newlines.width
            yield Line(kept, offset + found - begin, end, True)
            kept, at, begin = b"", found + newlines.width, end
        kept += block[at : min(filled, at + keep - len(kept))]
        offset += filled
    if begin < source.size:
        yield Line(kept, source.size - begin, source.size, False)


# Indexes of files that were looked at

_Key: TypeAlias = tuple[int, int, int, int, int, str]


class IndexCache:
    """The indexes of the files that were read last, each as long as its file stays as it is."""

    def __init__(self, most: int = _KEPT_INDEXES) -> None:
        self._most: int = most
        self._indexes: OrderedDict[_Key, LineIndex] = OrderedDict()
        self._lock: Lock = Lock()

    def get(self, found: os.stat_result, codec: Codec) -> LineIndex:
        """Return the index of a file in the state that was found."""
        if found.st_size <= _SMALL or time.time_ns() - found.st_ctime_ns < _SETTLED:
            return LineIndex(found.st_size, Newlines(codec))
        key = (
            found.st_dev,
            found.st_ino,
            found.st_size,
            found.st_mtime_ns,
            found.st_ctime_ns,
            codec.name,
        )
        with self._lock:
            index = self._indexes.pop(key, None) or LineIndex(found.st_size, Newlines(codec))
            self._indexes[key] = index
            while len(self._indexes) > self._most:
                self._indexes.popitem(last=False)
        return index


INDEXES = IndexCache()
