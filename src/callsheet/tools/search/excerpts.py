"""Render matches for users and models: short lines, grouped by file, with everything bounded.

Ripgrep only reports where the lines are. They are read here, from files that are opened without following a
link, and decoded as ripgrep does: a byte order mark is removed, UTF-16 becomes UTF-8, a NUL makes a file
binary. Of a long line, the part around the match is shown.
"""

from __future__ import annotations

import codecs
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import BinaryIO

from callsheet.tools.fs.dirfd import Descent
from callsheet.tools.search.matches import FileMatches, MatchedLine

WIDTH = 300
"""Bytes of a line that are shown."""

MAX_CHARACTERS = 60_000
"""Characters of an output, about."""

_AROUND = 1 << 14
"""Bytes before and after a line in which the lines around it are looked for."""

_BLOCK = 1 << 20
_SPOOLED = 16 << 20
"""Bytes of a file in UTF-16 that are held in memory; more than that go to the disk."""

_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CONTINUATION = bytes(range(0x80, 0xC0))


def escape_name(path: str) -> str:
    """Return a path that takes one line, whatever characters are in it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        path = os.fsencode(path).decode("utf-8", "backslashreplace")
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], path)


def plural(count: int, noun: str, many: str | None = None) -> str:
    """Return a number of things: "1 file", "2 files"."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


class SearchedText:
    """A file, open as UTF-8 text. Offsets are those of the text, after any byte order mark.

    Args:
        path: An absolute path without links, of a regular file. Anything else raises `OSError`.
    """

    def __init__(self, path: str) -> None:
        with Descent("/") as descent:
            self._file: BinaryIO = open(descent.open(path.lstrip("/")), "rb")  # noqa: PTH123, SIM115
        self._begin: int = 0
        head = self._file.read(3)
        if head == codecs.BOM_UTF8:
            self._begin = len(head)
        elif encoding := _UTF16.get(head[:2]):
            with self._file as file:
                file.seek(2)
                self._file = _transcoded(file, encoding)

    def __enter__(self) -> SearchedText:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._file.close()

    def read_at(self, offset: int, size: int) -> bytes:
        """Return a part of the text."""
        self._file.seek(self._begin + offset)
        return self._file.read(size)

    def is_binary(self) -> bool:
        """Return whether there is a NUL anywhere in it."""
        self._file.seek(self._begin)
        while piece := self._file.read(_BLOCK):
            if b"\0" in piece:
                return True
        return False


def _transcoded(file: BinaryIO, encoding: str) -> BinaryIO:
    spool = tempfile.SpooledTemporaryFile(_SPOOLED)  # noqa: SIM115
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    while piece := file.read(_BLOCK):
        spool.write(decoder.decode(piece).encode())
    spool.write(decoder.decode(b"", final=True).encode())
    spool.seek(0)
    return spool  # pyright: ignore[reportReturnType]


# Lines


def render(
    found: Sequence[FileMatches], context: int, show_path: Callable[[str], str]
) -> tuple[str, list[tuple[str, int]]]:
    """Return matches as text, and the lines that fitted into it: path and number.

    Args:
        found: The matches of each file.
        context: Lines to show before and after each match.
        show_path: Returns a path as it is shown.
    """
    blocks, shown, room = list[str](), list[tuple[str, int]](), MAX_CHARACTERS
    for matches in found:
        lines = dict[int, str]()
        for line in _lines_of(matches, context):
            new = {number: text for number, text in line.items() if _is_new(number, text, lines)}
            size = sum(map(len, new.values()))
            if shown and size > room:
                break
            room -= size
            lines |= new
            shown.append((matches.path, next(n for n, text in line.items() if text[0] == ":")))
        if lines:
            blocks.append(f"{escape_name(show_path(matches.path))}\n{_joined(lines, context)}")
        if room <= 0:
            break
    return "\n\n".join(blocks), shown


def _is_new(number: int, text: str, lines: dict[int, str]) -> bool:
    return number not in lines or text[0] == ":"


def _joined(lines: dict[int, str], context: int) -> str:
    written, last = list[str](), None
    for number in sorted(lines):
        if context and last is not None and number > last + 1:
            written.append("--")
        written.append(f"{number}{lines[number]}")
        last = number
    return "\n".join(written)


def _lines_of(matches: FileMatches, context: int) -> Iterator[dict[int, str]]:
    """Return for each match its line and those around it, by their numbers, marked `:` and `-`."""
    try:
        text = SearchedText(matches.path)
    except OSError as exc:
        yield from ({line.number: f": ({exc.strerror})"} for line in matches.lines)
        return
    with text:
        for line in matches.lines:
            around = _around(text, line, context) if context else {}
            yield {**around, line.number: f": {_excerpt(text, line)}"}


def _excerpt(text: SearchedText, line: MatchedLine) -> str:
    """Return a line; of a long one, what is around the match."""
    before = line.column - 1
    begin = before - WIDTH // 3 if before > WIDTH * 2 // 3 else 0
    piece = text.read_at(line.offset + begin, WIDTH + 1)
    end = piece.find(b"\n")
    is_whole = end >= 0 or len(piece) <= WIDTH
    return _decoded(piece[:end] if end >= 0 else piece[:WIDTH], begin > 0, not is_whole)


def _decoded(piece: bytes, cut_before: bool, cut_after: bool) -> str:
    if cut_before:
        piece = piece.lstrip(_CONTINUATION)  # the rest of a character that is cut
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    chars = decoder.decode(piece, final=not cut_after)
    chars = chars if cut_after else chars.removesuffix("\r")
    return f"{'…' if cut_before else ''}{chars}{'…' if cut_after else ''}"


def _around(text: SearchedText, line: MatchedLine, context: int) -> dict[int, str]:
    begin = max(0, line.offset - _AROUND)
    before = text.read_at(begin, line.offset - begin).split(b"\n")[:-1]
    first_is_cut = begin > 0
    lines = dict[int, str]()
    for back, piece in enumerate(reversed(before[-context:]), 1):
        is_cut = first_is_cut and back == len(before)
        lines[line.number - back] = f"- {_start(piece, is_cut)}"
    after = text.read_at(line.offset + line.column - 1, _AROUND)
    rest = after.partition(b"\n")[2].split(b"\n")
    if len(after) < _AROUND and rest[-1] == b"":
        rest.pop()
    for ahead, piece in enumerate(rest[:context], 1):
        lines[line.number + ahead] = f"- {_start(piece, False)}"
    return lines


def _start(piece: bytes, cut_before: bool) -> str:
    if cut_before:
        return _decoded(piece[-WIDTH:], True, False)
    return _decoded(piece[:WIDTH], False, len(piece) > WIDTH)
