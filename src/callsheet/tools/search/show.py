"""What was found, as people and models read it: short lines, grouped by file, and nothing without a bound."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Iterator

from .engine import Hits
from .fallback import Line
from .texts import Text, open_text

WIDTH = 300
"""Bytes of a line that are shown."""

MOST_CHARACTERS = 60_000
"""Characters of an output, about."""

_AROUND = 1 << 14
"""Bytes before and after a line in which the lines around it are looked for."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def show_name(path: str) -> str:
    """Write a path so that it takes one line, whatever is in it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        path = os.fsencode(path).decode("utf-8", "backslashreplace")
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], path)


def plural(count: int, word: str, many: str | None = None) -> str:
    """Write a number of things."""
    return f"{count:,} {word if count == 1 else many or word + 's'}"


def show_hits(
    found: list[Hits], context: int, show_path: Callable[[str], str]
) -> tuple[str, list[tuple[str, int]]]:
    """Write what was found, and give the lines that fitted: path and number."""
    blocks, shown, left = list[str](), list[tuple[str, int]](), MOST_CHARACTERS
    for hits in found:
        lines = dict[int, str]()
        for line in _lines_of(hits, context):
            new = {number: text for number, text in line.items() if _is_new(number, text, lines)}
            size = sum(map(len, new.values()))
            if shown and size > left:
                break
            left -= size
            lines |= new
            shown.append((hits.path, next(n for n, text in line.items() if text[0] == ":")))
        if lines:
            blocks.append(f"{show_name(show_path(hits.path))}\n{_joined(lines, context)}")
        if left <= 0:
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


def _lines_of(hits: Hits, context: int) -> Iterator[dict[int, str]]:
    """Return for each hit its line and those around it, by their numbers, marked `:` and `-`."""
    try:
        text = open_text(hits.path)
    except OSError as exc:
        yield from ({line.number: f": ({exc.strerror})"} for line in hits.lines)
        return
    try:
        for line in hits.lines:
            around = _around(text, line, context) if context else {}
            yield {**around, line.number: f": {cut(text, line)}"}
    finally:
        text.close()


def cut(text: Text, line: Line) -> str:
    """Read a line; of a long one, what is around the match."""
    before = line.column - 1
    begin = before - WIDTH // 3 if before > WIDTH * 2 // 3 else 0
    piece = text.read_at(line.offset + begin, WIDTH + 1)
    end = piece.find(b"\n")
    is_whole = end >= 0 or len(piece) <= WIDTH
    return _decoded(piece[:end] if end >= 0 else piece[:WIDTH], begin > 0, not is_whole)


def _decoded(piece: bytes, cut_before: bool, cut_after: bool) -> str:
    if cut_before:
        piece = piece.lstrip(bytes(range(0x80, 0xC0)))
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    chars = decoder.decode(piece, final=not cut_after)
    chars = chars if cut_after else chars.removesuffix("\r")
    return f"{'…' if cut_before else ''}{chars}{'…' if cut_after else ''}"


def _around(text: Text, line: Line, context: int) -> dict[int, str]:
    begin = max(0, line.offset - _AROUND)
    before = text.read_at(begin, line.offset - begin).split(b"\n")[:-1]
    first_is_cut = begin > 0
    lines = dict[int, str]()
    for back, piece in enumerate(reversed(before[-context:]), 1):
        is_cut = first_is_cut and back == len(before)
        lines[line.number - back] = f"- {_head(piece, is_cut)}"
    after = text.read_at(line.offset + line.column - 1, _AROUND)
    rest = after.partition(b"\n")[2].split(b"\n")
    if len(after) < _AROUND and rest[-1] == b"":
        rest.pop()
    for ahead, piece in enumerate(rest[:context], 1):
        lines[line.number + ahead] = f"- {_head(piece, False)}"
    return lines


def _head(piece: bytes, cut_before: bool) -> str:
    if cut_before:
        return _decoded(piece[-WIDTH:], True, False)
    return _decoded(piece[:WIDTH], False, len(piece) > WIDTH)
