"""Where secrets stand (`Span`), and what stands in their place (`Marks`).

A mark is `[redacted:RULE]`, and `[redacted:RULE#2]` for a second secret. Nothing in a mark is
derived from the secret, so nothing can be guessed from it. To use the same mark for the same secret
again, only its hash is stored, and Python's hashes are keyed anew in each process. `MARKS` is
shared by all redactors of a process, so that one secret has one mark in every field and session,
whichever rule finds it.

Spans that meet become one, and marks that are in a text already stay as they are: redacting twice
changes nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

from callsheet.report.patterns import lazy

LIMIT = 10_000
"""So many secrets have marks of their own. Those that come later share their rule's last mark."""

IDENTITY = 4096
"""Bytes that are enough to distinguish a secret from others; a stream needn't store more of it."""

UNSEARCHED = "unsearched"
"""The rule in the mark of what was hidden unread, because a text had too much to look at."""

MARK = lazy(rb"\[redacted:[A-Za-z0-9][A-Za-z0-9_.-]{0,63}(?:#(?:\d{1,9}|more))?\]")

OPENING = b"[redacted:"


class Marks:
    """Hands out marks, and remembers which secret has which."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._known: dict[int, bytes] = {}
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    def mark(self, rule: str, secret: bytes) -> bytes:
        """Return the mark of a secret: the one it has, or a new one with this rule's name."""
        key = hash(secret[:IDENTITY])
        found = self._known.get(key)
        if found is not None:
            return found
        with self._lock:
            if key not in self._known:
                if len(self._known) >= self._limit:
                    return f"[redacted:{rule}#more]".encode()
                self._counts[rule] += 1
                count = self._counts[rule]
                number = f"#{count}" if count > 1 else ""
                self._known[key] = f"[redacted:{rule}{number}]".encode()
            return self._known[key]


MARKS = Marks()


def mark_around(data: bytes, place: int) -> int:
    """Return where the mark around this place begins, or the place itself: no mark is cut."""
    start = data.rfind(OPENING, max(0, place - 84), place + len(OPENING))
    mark = MARK.match(data, start) if start >= 0 else None
    return start if mark and mark.end() > place > start else place


def alike(data: bytes) -> bytes:
    """Return the data with all marks alike, so that no judgement depends on the number in one."""
    return MARK.sub(b"[redacted:x]", data) if OPENING in data else data


def only_marks(secret: bytes) -> bool:
    """Whether nothing secret is left: there are marks, and around them at most what joins words."""
    return OPENING in secret and not MARK.sub(b"", secret).strip(b" \t,;:=&/.\"'")


class Span(NamedTuple):
    """Where a secret stands, the rule that found it, and the secret that it stands for."""

    start: int
    end: int
    rule: str
    rank: int
    """Of two for the same place, the lower counts: known values, then patterns for the secret
    itself, then those for what is around it, then secret names."""
    secret: bytes = b""

    def moved(self, by: int) -> Span:
        """Return the same, so much further on."""
        return self._replace(start=self.start + by, end=self.end + by)


NEAR = 2048
"""So much of a long line around a secret is looked at again."""


def groups(data: bytes, spans: Sequence[Span]) -> list[tuple[int, int, list[Span]]]:
    """Return the lines around spans, shortened if very long: start, end, and the spans inside."""
    found: list[tuple[int, int, list[Span]]] = []
    for span in spans:
        low = max(0, span.start - NEAR)
        start = data.rfind(b"\n", low, span.start) + 1 or low
        end = data.find(b"\n", span.end, span.end + NEAR)
        end = min(len(data), span.end + NEAR) if end < 0 else end
        if found and start < found[-1][1]:
            start, before, inside = found.pop()
            inside.append(span)
            found.append((start, max(before, end), inside))
        else:
            found.append((start, end, [span]))
    return found


def stands_alone(data: bytes, span: Span) -> bool:
    """Return whether nothing is glued to it, so that nothing new can stand out once it is gone."""
    if span.rule == UNSEARCHED:
        return True
    before, after = data[span.start - 1 : span.start], data[span.end : span.end + 1]
    return before in _BEFORE and after in _AFTER


_BEFORE = frozenset((b"", b"\n", b" ", b"\t", b"=", b'"', b"'"))
_AFTER = frozenset((b"", b"\n", b" ", b"\t", b"\r", b'"', b"'"))


def merged(data: bytes, found: list[Span]) -> list[Span]:
    """Join what overlaps, the wider span's rule first."""
    found.sort(key=lambda span: (span.start, -span.end, span.rank))
    joined: list[Span] = []
    for span in found:
        last = joined[-1] if joined else None
        if last is None or span.start >= last.end:
            joined.append(span)
        elif span.end > last.end:
            joined[-1] = last._replace(end=span.end, secret=data[last.start : span.end])
    return joined


_A_MARK = b"[redacted:x]"


def with_marks(data: bytes, spans: Sequence[Span]) -> tuple[bytes, list[tuple[int, int]]]:
    """Put marks in place of secrets.

    Beside the text: where each mark ends there, and its secret here.
    """
    parts: list[bytes] = []
    ends: list[tuple[int, int]] = [(0, 0)]
    place = size = 0
    for span in spans:
        parts += (data[place : span.start], _A_MARK)
        size += span.start - place + len(_A_MARK)
        place = span.end
        ends.append((size, place))
    return b"".join([*parts, data[place:]]), ends


def mapped(data: bytes, span: Span, ends: list[tuple[int, int]]) -> Span:
    """Find a span of the text with marks in the data without."""
    start, end = (
        here + place - there
        for place in (span.start, span.end)
        for there, here in [ends[bisect_right(ends, place, key=lambda pair: pair[0]) - 1]]
    )
    whole = data[start:end]
    secret = span.secret if len(span.secret) == len(whole) else whole
    return span._replace(start=start, end=end, secret=secret)


def beside_marks(data: bytes, spans: list[Span]) -> list[Span]:
    """Drop what lies in marks; widen what touches one, so that none is cut in two."""
    found: list[Span] = []
    for span in spans:
        start, end = mark_around(data, span.start), span.end
        cut = MARK.match(data, mark_around(data, end))
        if cut is not None and cut.start() < end:
            end = cut.end()
        if end - start > NEAR or not only_marks(data[start:end]):
            found.append(span._replace(start=start, end=end))
    return merged(data, found)
