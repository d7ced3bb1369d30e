"""Blocks of lines: what a card's body is made of, and how a long one is made to fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from .words import bytes_text, lines_text

LEAST = 6
"""Rows that each block gets at least."""

Tone = Literal["", "dim", "note", "name", "add", "remove"]
"""What a line is, for whoever has colours."""


class Line(NamedTuple):
    """One line of a body. `lead` stands before it, once, however often the line is broken."""

    text: str
    tone: Tone = ""
    lead: str = ""


class Block(NamedTuple):
    """Lines that belong together. Between `head` and `tail` may be a gap of lines that are not known."""

    head: Sequence[Line]
    tail: Sequence[Line] = ()
    gap_lines: int = 0
    gap_bytes: int = 0

    @property
    def has_gap(self) -> bool:
        """Whether something is left out between the two parts."""
        return bool(self.gap_lines or self.gap_bytes)

    def lines(self) -> list[Line]:
        """Return all lines that are known, the gap said where it is."""
        return [*self.head, *self._notice(self.gap_lines), *self.tail]

    def fitted(self, most: int, rows_of: Callable[[Line], int]) -> list[Line]:
        """Return the beginning and the end of the block, in about `most` rows, and say what is left out."""
        if not self.has_gap:
            known = [*self.head, *self.tail]
            if sum(map(rows_of, known[: most + 1])) <= most and len(known) <= most:
                return known
            first = _taken(known, most // 3, rows_of)
            last = _taken(known[first:][::-1], most - most // 3 - 1, rows_of)
            head, tail, left = known[:first], known[len(known) - last :], len(known) - first - last
        else:
            first = _taken(self.head, most // 3, rows_of)
            last = _taken(self.tail[::-1], most - most // 3 - 1, rows_of)
            head, tail = self.head[:first], self.tail[len(self.tail) - last :]
            left = self.gap_lines + len(self.head) + len(self.tail) - first - last
        return [*head, *self._notice(left), *tail]

    def _notice(self, lines: int) -> list[Line]:
        if lines:
            return [Line(f"… {lines_text(lines)} left out …", "note")]
        return [Line(f"… {bytes_text(self.gap_bytes)} left out …", "note")] if self.has_gap else []


def block_of(texts: Sequence[str], tone: Tone = "") -> Block:
    """Return a block of lines that all are alike."""
    return Block([Line(text, tone) for text in texts])


def shared(most: int, wanted: Sequence[int]) -> list[int]:
    """Share rows out: who wants little gets all of that, and the others the same each."""
    shares = [LEAST] * len(wanted)
    for place, index in enumerate(sorted(range(len(wanted)), key=lambda index: wanted[index])):
        even = most // (len(wanted) - place)
        shares[index] = max(LEAST, min(wanted[index], even))
        most -= shares[index]
    return shares


def _taken(lines: Sequence[Line], most: int, rows_of: Callable[[Line], int]) -> int:
    """Count the first lines that take `most` rows at most; one is taken in any case."""
    rows = 0
    for count, line in enumerate(lines):
        rows += rows_of(line)
        if rows > most:
            return max(1, count)
    return len(lines)
