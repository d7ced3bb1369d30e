"""A command as a title shows it. What is too long keeps the beginning of each of its parts.

A cut in the middle would hide `rm -rf x` between two long harmless parts. So the parts that aren't known
to be harmless come first, and what is left out is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .commands import is_harmless
from .paths import Workspace
from .text import LINE_BREAK, cut, cut_end, isolate, one_line, width

_TOKEN = re.compile(r"\\.|'[^']*'|[<>]&|&>|\$\(|[`;|&()\"]")
_SHOWN = 5
_JUDGED = 200
"""Parts that are judged. What comes after them counts as not harmless."""

_SEPARATOR = " · "
_MAX_LENGTH = 200_000


def say_command(command: str, limit: int, workspace: Workspace) -> str:
    """Give a command on one line of at most `limit` columns, without hiding a part that may do harm."""
    if (
        len(command) <= limit
        and command.isascii()
        and command.isprintable()
        and "  " not in command
    ):
        return command.strip()
    command = workspace.clean(command)
    if len(command) <= limit * 8:
        line = one_line(command, LINE_BREAK)
        if width(line) <= limit:
            return isolate(cut(line, limit))
    parts = [one_line(part) for part in _parts(command[:_MAX_LENGTH])]
    parts = [part for part in parts if part]
    if len(parts) < 2:
        return workspace.say(command, limit, LINE_BREAK)
    return isolate(_shown(parts, limit))


def _shown(parts: list[str], limit: int) -> str:
    safe = [place < _JUDGED and is_harmless(part) for place, part in enumerate(parts)]
    order = sorted(range(len(parts)), key=safe.__getitem__)[:_SHOWN]
    left_out = len(parts) - len(order)
    rest = f"{_SEPARATOR}… +{left_out}" if left_out else ""
    room = limit - width(rest) - len(_SEPARATOR) * (len(order) - 1)
    shares: dict[int, int] = {}
    for place, which in enumerate(sorted(order, key=lambda which: width(parts[which]))):
        shares[which] = min(room // (len(order) - place), width(parts[which]))
        room -= shares[which]
    return _SEPARATOR.join(cut_end(parts[which], shares[which]) for which in order) + rest


def _parts(command: str) -> Iterator[str]:
    """Cut a command where another may begin. Quotes end with their line: a lone one hides nothing."""
    for line in re.split(r"[\n\r]", command):
        begin, quoted = 0, False
        at = 0
        while match := _TOKEN.search(line, at):
            token, at = match[0], match.end()
            if token == '"':
                quoted = not quoted
            elif quoted and token[0] == "'":
                at = match.start() + 1
            elif token in ("$(", "`") or (len(token) == 1 and not quoted):
                yield line[begin : match.start()]
                begin = at
        yield line[begin:]
