"""Why a text can't be replaced, said so that the next try is right: where it almost is, or all places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from .matching import Finder, Span
from .near import Miss, near_misses
from .text import presentable

_PLACES = 10
_LINES = 24
"""Lines that are shown of one near miss."""

_WIDTH = 300


def not_unique(finder: Finder, spans: Sequence[Span], shown: str) -> str:
    """Say where a text is that should be there once."""
    lines = finder.text.split("\n")
    numbers = [finder.line(span) for span in spans[:_PLACES]]
    places = [f"{number}→{_short(lines[number - 1])}" for number in numbers]
    if len(spans) > _PLACES:
        places.append(f"… and {len(spans) - _PLACES:,} more")
    return "\n".join(
        [
            f"old_text is in {shown} {len(spans):,} times, so it is not clear which is meant. Give more of "
            "the lines around it, or set replace_all. It begins in these lines:",
            *places,
        ]
    )


def not_found(flat: str, wanted: str, shown: str) -> str:
    """Say that a text is not in a file, and where something like it is. The file's text has LF only."""
    wanted = wanted.replace("\r\n", "\n")
    misses = near_misses(flat, wanted)
    if not misses:
        return f"old_text is not in {shown}, and nothing is much like it. Read the file to see what is there"
    told = list(_told(misses[0], wanted))
    if len(misses) > 1:
        told.append(f"Much the same: {', '.join(map(_where, misses[1:]))}.")
    return "\n".join([f"old_text is not in {shown}.", *told])


def _where(miss: Miss) -> str:
    if miss.first == miss.last:
        return f"line {miss.first:,}"
    return f"lines {miss.first:,}–{miss.last:,}"


def _told(miss: Miss, wanted: str) -> Iterator[str]:
    where = _where(miss)
    if miss.differs:
        yield f"It is almost at {where}; it differs in {' and '.join(miss.differs)}."
    else:
        yield f"The nearest is at {where} ({miss.alike:.0%} alike)."
    yield "In old_text (-) and in the file (+):"
    yield from _compared(wanted.strip("\n").split("\n"), miss)


def _compared(wanted: list[str], miss: Miss) -> Iterator[str]:
    found = miss.found.strip("\n").split("\n")
    left = _LINES
    for mark, line in _marked(wanted, found):
        if not left:
            yield "…"
            return
        left -= 1
        yield f"{mark} {_visible(line) if miss.differs and mark != ' ' else _short(line)}"


def _marked(wanted: list[str], found: list[str]) -> Iterator[tuple[str, str]]:
    """Return the lines of both, each marked with where it is."""
    matcher = SequenceMatcher(None, wanted, found, autojunk=False)
    for what, a, b, c, d in matcher.get_opcodes():
        if what == "equal":
            yield from ((" ", line) for line in found[c:d])
            continue
        yield from (("-", line) for line in wanted[a:b])
        yield from (("+", line) for line in found[c:d])


def _short(line: str) -> str:
    line = presentable(line.removesuffix("\r"))
    return (
        line
        if len(line) <= _WIDTH
        else f"{line[:_WIDTH]}… [{len(line) - _WIDTH:,} more characters]"
    )


def _visible(line: str) -> str:
    """Return a line in quotes, so that white space at its ends is seen, and tabs as they are written."""
    return f'"{_short(line)}"'.replace("\t", "\\t").replace("\u00a0", "\\u00a0")
