"""A command as a title shows it: as it was written, on one line.

What is too long is shortened within its parts, in place: a cut at the end would hide `rm -rf x` behind a long
harmless part. Parts that are known to be harmless are left out first.
"""

from __future__ import annotations

from typing import NamedTuple

from callsheet.describe.paths import PathContext
from callsheet.describe.shell.judge import is_harmless
from callsheet.describe.titles import (
    ELLIPSIS,
    LINE_BREAK,
    PICTURES,
    cut_end,
    isolate,
    one_line,
    width,
)
from callsheet.report.patterns import lazy

_TOKEN = lazy(r"\\.|'[^'⏎]*'|[<>]&|&>|\$\(|[`;|&()\"⏎]")
_SHOWN = 5
_LEAST = 8
"""Columns that a part has at least, or fewer parts are shown."""
_JUDGED = 200
"""Parts that are judged. What comes after them counts as not harmless."""
_MAX_LENGTH = 200_000


class Part(NamedTuple):
    """A simple command as it is written, and the operators before it."""

    glue: str
    text: str


def show_command(command: str, limit: int, workspace: PathContext) -> str:
    """Return a command on one line of at most `limit` columns, without hiding a part that may do harm."""
    if (
        len(command) <= limit
        and command.isascii()
        and command.isprintable()
        and "  " not in command
    ):
        return command.strip()
    command = workspace.clean(command).translate(PICTURES)
    line = one_line(command[:_MAX_LENGTH], LINE_BREAK)
    if len(command) > _MAX_LENGTH:
        line += ELLIPSIS
    if width(line) > limit:
        line = _shortened(_parts(line), limit) or cut_end(line, limit)
    return isolate(line)


def _shortened(parts: list[Part], limit: int) -> str:
    """Return the parts in their order, the long ones shortened; "" if there is no room for that."""
    if len(parts) < 2:
        return ""
    safe = [place < _JUDGED and is_harmless(part.text) for place, part in enumerate(parts)]
    by_harm = sorted(range(len(parts)), key=safe.__getitem__)
    for count in range(min(_SHOWN, len(parts)), 0, -1):
        pieces = _with_gaps(parts, by_harm[:count])
        room = limit - sum(width(piece.glue) + (piece.text == ELLIPSIS) for piece in pieces)
        if room < _LEAST * count:
            continue
        widths = [width(piece.text) for piece in pieces if piece.text != ELLIPSIS]
        # The short parts are whole, and the long ones share the rest.
        share = next(n for n in range(room, 0, -1) if sum(min(n, one) for one in widths) <= room)
        return "".join(piece.glue + cut_end(piece.text, share) for piece in pieces)
    return ""


def _with_gaps(parts: list[Part], shown: list[int]) -> list[Part]:
    """Return the parts that are shown, and one ellipsis for all that are left out between two of them."""
    pieces: list[Part] = []
    for place, part in enumerate(parts):
        if place in shown:
            pieces.append(part)
        elif place == 0 or place - 1 in shown:
            pieces.append(Part(part.glue, ELLIPSIS))
    return pieces


def _parts(line: str) -> list[Part]:
    """Cut a line where another command may begin. Quotes end with their line: a lone one hides nothing."""
    parts: list[Part] = []
    glue, begin, at, quoted = "", 0, 0, False

    def add(end: int, operator: str) -> None:
        nonlocal glue
        text = line[begin:end]
        if not text.strip():
            glue += text + operator
            return
        bare = text.lstrip()
        parts.append(Part(glue + text[: len(text) - len(bare)], bare.rstrip()))
        glue = bare[len(bare.rstrip()) :] + operator

    while match := _TOKEN.search(line, at):
        token, at = match[0], match.end()
        if token == '"':
            quoted = not quoted
        elif quoted and token[0] == "'":
            at = match.start() + 1
        elif token in ("$(", "`", "⏎") or (len(token) == 1 and not quoted):
            add(match.start(), token)
            begin, quoted = at, quoted and token != "⏎"
    add(len(line), "")
    if glue and parts:
        parts[-1] = Part(parts[-1].glue, parts[-1].text + glue)
    return parts
