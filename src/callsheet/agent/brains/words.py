"""The words of a typed line, one at a time.

Much like a shell, but made for patterns and prose: a quote counts only where a word or a value begins,
and a backslash stands for itself unless a space, a quote or a backslash follows. So `don't` and
`\\bfoo\\b` are words.
"""

from __future__ import annotations

import re
from typing import NamedTuple

QUOTES = ("'", '"')
_SPACES = (" ", "\t")
_KEY = re.compile(r"([A-Za-z_][\w.-]*)=").match


class Word(NamedTuple):
    """A word as it is meant, the key before it, and where it ends in the line."""

    key: str | None
    text: str
    end: int


class Unclosed(ValueError):
    """A quote has no end."""


def key_at(line: str, place: int) -> str | None:
    """Return the key of the `key=value` that begins here."""
    found = _KEY(line, place)
    return found.group(1) if found else None


def word_at(line: str, place: int) -> Word:
    """Read the word that begins here."""
    key = key_at(line, place)
    parts: list[str] = []
    place += 0 if key is None else len(key) + 1
    opens = True
    while place < len(line) and line[place] not in _SPACES:
        if opens and line[place] in QUOTES:
            text, place = _quoted(line, place)
            parts.append(text)
            continue
        opens = False
        if line[place] == "\\" and line[place + 1 : place + 2] in (*_SPACES, *QUOTES, "\\"):
            place += 1
        parts.append(line[place])
        place += 1
    return Word(key, "".join(parts), place)


def skip(line: str, place: int) -> int:
    """Return where the next word begins."""
    while place < len(line) and line[place] in _SPACES:
        place += 1
    return place


def _quoted(line: str, start: int) -> tuple[str, int]:
    quote, parts, place = line[start], list[str](), start + 1
    while place < len(line):
        if line[place] == quote:
            return "".join(parts), place + 1
        if quote == '"' and line[place] == "\\" and line[place + 1 : place + 2] in ('"', "\\"):
            place += 1
        parts.append(line[place])
        place += 1
    raise Unclosed(f"the quote {quote} at character {start + 1} is not closed")
