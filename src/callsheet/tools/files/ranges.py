"""Some lines of a file as a model is shown them: numbered, long ones cut, bounded as a whole.

A line looks like `12→text`: its number, an arrow, and from there on the line exactly as it is, so that
it can be copied into an edit. Indentation is never followed by something that looks like it. Where the
numbers are unknown, because the lines were looked for from the end of a huge file, they count from the
end: -1 is the last line.
"""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from callsheet.tools.errors import InvalidArguments

from .lines import Line, LineIndex, Source, lines_from, start_of_tail
from .text import Codec, codec_of, codec_of_bom, name_endings, presentable

LONGEST_LINE = 2000
"""Characters of a line that are shown."""

MOST_BYTES = 100_000
"""Bytes of lines that are shown."""

CHEAP = 256 << 20
"""Bytes that are counted to know how many lines there are: about a tenth of a second."""

_KEEP = 4 * (LONGEST_LINE + 1)
"""Bytes of a line that hold at least one character more than is shown, in any encoding."""


class Start(NamedTuple):
    """Where the wanted lines begin: a line's number, from the end if it is negative, and its place."""

    line: int
    offset: int


class Range(NamedTuple):
    """The lines that are shown."""

    text: str
    first: int
    lines: int
    cut_lines: int
    is_bounded: bool
    at_end: bool
    begin: int
    end: int
    codec: Codec
    endings: str | None

    @property
    def last(self) -> int:
        """The number of the last line."""
        return self.first + self.lines - 1


def find_start(source: Source, index: LineIndex, offset: int, shown: str) -> Start | None:
    """Find the line that `offset` means; None if the file is empty. Raises if the file has fewer."""
    if not source.size and offset in (0, 1, -1):
        return None
    if offset < 0:
        return _from_end(source, index, -offset)
    line = max(1, offset)
    place = index.start_of(source, line)
    if place is None:
        total = index.total(source)
        count = "it is empty" if not total else f"it has {total:,} line{'s' if total > 1 else ''}"
        raise InvalidArguments(
            f"offset {offset:,} is beyond the end of {shown}: {count}", total_lines=total
        )
    return Start(line, place)


def _from_end(source: Source, index: LineIndex, lines: int) -> Start | None:
    if not source.size:
        return None
    if index.size - index.seen <= CHEAP:
        line = max(1, index.total(source) - lines + 1)
        return Start(line, index.start_of(source, line) or 0)
    place = start_of_tail(source, index.newlines, lines)
    return Start(-lines if place else 1, place)


def read_range(source: Source, index: LineIndex, start: Start, limit: int, head: bytes) -> Range:
    """Read up to `limit` lines from a start on."""
    lines = _collect(source, index, start.offset, limit)
    told = codec_of_bom(head)
    if start.offset == 0 and told is not None:
        lines[0] = lines[0]._replace(
            kept=lines[0].kept.removeprefix(told.bom), size=lines[0].size - len(told.bom)
        )
    codec = told or codec_of(b"\n".join([_whole_lines(head), *map(_whole_characters, lines)]))
    texts, cut = _shown(lines, start.line, codec)
    last = lines[len(texts) - 1]
    stopped = len(texts) < len(lines) or (len(lines) < limit and last.end < source.size)
    return Range(
        text="\n".join(texts),
        first=start.line,
        lines=len(texts),
        cut_lines=cut,
        is_bounded=stopped,
        at_end=last.end >= source.size,
        begin=start.offset,
        end=last.end,
        codec=codec,
        endings=_endings(lines[: len(texts)], codec),
    )


def _whole_lines(head: bytes) -> bytes:
    """Return first bytes of a file without a character that may be cut."""
    return head[: head.rfind(b"\n") + 1]


def _whole_characters(line: Line) -> bytes:
    """Return what was kept of a line without a character that may be cut."""
    if len(line.kept) == line.size:
        return line.kept
    end = len(line.kept)
    while end and len(line.kept) - end < 4 and line.kept[end - 1] & 0xC0 == 0x80:
        end -= 1
    return line.kept[: end - 1]


def _collect(source: Source, index: LineIndex, offset: int, limit: int) -> list[Line]:
    """Take lines until there are enough, or more bytes than can be shown."""
    lines: list[Line] = []
    size = 0
    most = min(limit, MOST_BYTES)
    for line in islice(lines_from(source, index.newlines, offset, _KEEP), most):
        lines.append(line)
        size += len(line.kept) // index.newlines.width
        if size > MOST_BYTES:
            break
    return lines


def _shown(lines: list[Line], first: int, codec: Codec) -> tuple[list[str], int]:
    """Return the lines as they are shown, as many as fit, and how many of them are cut."""
    texts: list[str] = []
    room, cut = MOST_BYTES, 0
    for number, line in enumerate(lines, first):
        text = codec.decode_part(line.kept)
        is_cut = len(text) > LONGEST_LINE
        text = _cut(text, line, codec) if is_cut else text.removesuffix("\r")
        text = f"{number}→{presentable(text)}"
        room -= len(text.encode()) + 1
        if room < 0 and texts:
            break
        texts.append(text)
        cut += is_cut
    return texts, cut


def _cut(text: str, line: Line, codec: Codec) -> str:
    kept = text[:LONGEST_LINE]
    return f"{kept}… [{line.size - codec.size_of(kept):,} more bytes in this line]"


def _endings(lines: list[Line], codec: Codec) -> str | None:
    """Name the line endings of those lines that were kept as a whole."""
    ended = [line.kept for line in lines if line.has_newline and len(line.kept) == line.size]
    windows = sum(kept.endswith("\r".encode(codec.name)) for kept in ended)
    return name_endings(windows, len(ended) - windows)


class Total(NamedTuple):
    """How many lines a file has; `is_exact` says whether they were counted."""

    lines: int
    is_exact: bool


def total_of(source: Source, index: LineIndex, shown: Range) -> Total:
    """Count the lines of a file where that is cheap, else estimate them from those that were passed."""
    if shown.at_end and shown.first > 0:
        return Total(shown.last, True)
    if index.size - index.seen <= CHEAP:
        return Total(index.total(source), True)
    passed = shown.last if shown.first > 0 else shown.lines
    size = shown.end - (0 if shown.first > 0 else shown.begin)
    return Total(round(passed * source.size / size), False)
