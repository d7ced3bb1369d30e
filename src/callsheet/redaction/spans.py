"""Spans of secrets: how those that meet become one, and how marks are left alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from callsheet.redaction.budget import UNSEARCHED
from callsheet.redaction.marks import MARK, mark_around, only_marks


class Span(NamedTuple):
    """Where a secret stands, the rule that found it, and the secret that it stands for."""

    start: int
    end: int
    rule: str
    rank: int
    """Of two for the same place, the lower counts: known values, then patterns for the secret itself, then
    those for what is around it, then telling names."""
    secret: bytes = b""

    def moved(self, by: int) -> Span:
        """Return the same, so much further on."""
        return self._replace(start=self.start + by, end=self.end + by)


NEAR = 2048
"""So much of a long line around a secret is looked at again."""


def groups(data: bytes, spans: Sequence[Span]) -> list[tuple[int, int, list[Span]]]:
    """Return where the text around spans begins and ends, whole lines if not long, and the spans in it."""
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
    """Whether nothing is glued to it, so that nothing new can stand out once it is gone."""
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
    ends: list[int] = []
    for span in found:
        if joined and span.start < ends[-1]:
            ends[-1] = max(ends[-1], span.end)
        else:
            joined.append(span)
            ends.append(span.end)
    return [
        span if span.end == end else span._replace(end=end, secret=data[span.start : end])
        for span, end in zip(joined, ends, strict=True)
    ]


_A_MARK = b"[redacted:x]"


def with_marks(data: bytes, spans: Sequence[Span]) -> tuple[bytes, list[tuple[int, int]]]:
    """Put marks in place of secrets. Beside the text: where each mark ends there, and its secret here."""
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
    kept: list[Span] = []
    for span in spans:
        start, end = mark_around(data, span.start), span.end
        cut = MARK.match(data, mark_around(data, end))
        if cut is not None and cut.start() < end:
            end = cut.end()
        if end - start > NEAR or not only_marks(data[start:end]):
            kept.append(span._replace(start=start, end=end))
    return merged(data, kept)
