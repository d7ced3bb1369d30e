"""Spans of secrets: how those that meet become one, and how marks are left alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from .marks import MARK, only_marks


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
        """Give the same, so much further on."""
        return self._replace(start=self.start + by, end=self.end + by)


def by_lines(data: bytes, spans: Sequence[Span]) -> list[tuple[int, int, list[Span]]]:
    """Give the whole lines that spans stand in, where they begin and end, and the spans in each."""
    found: list[tuple[int, int, list[Span]]] = []
    start, end = 0, -1
    inside: list[Span] = []
    for span in spans:
        if span.start > end:
            start, inside = data.rfind(b"\n", 0, span.start) + 1, []
        inside.append(span)
        if span.end > end:
            end = data.find(b"\n", span.end)
            end = len(data) if end < 0 else end
        if len(inside) > 1:
            found.pop()
        found.append((start, end, inside))
    return found


def stands_alone(data: bytes, span: Span) -> bool:
    """Whether nothing is glued to it, so that nothing new can stand out once it is gone."""
    before, after = data[span.start - 1 : span.start], data[span.end : span.end + 1]
    return before in _BEFORE and after in _AFTER


_BEFORE = frozenset((b"", b" ", b"\t", b"=", b'"', b"'"))
_AFTER = frozenset((b"", b" ", b"\t", b"\r", b'"', b"'"))


def merged(data: bytes, found: list[Span]) -> list[Span]:
    """Join what overlaps, the wider span's rule first."""
    found.sort(key=lambda span: (span.start, -span.end, span.rank))
    joined: list[Span] = []
    for span in found:
        if joined and span.start < joined[-1].end:
            last = joined[-1]
            if span.end > last.end:
                whole = data[last.start : span.end]
                joined[-1] = last._replace(end=span.end, secret=whole)
        else:
            joined.append(span)
    return joined


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
    marks = [match.span() for match in MARK.finditer(data)]
    kept: list[Span] = []
    for span in spans:
        touched = [mark for mark in marks if mark[0] < span.end and span.start < mark[1]]
        start = min([span.start, *(mark[0] for mark in touched)])
        end = max([span.end, *(mark[1] for mark in touched)])
        if not only_marks(data[start:end]):
            kept.append(span._replace(start=start, end=end) if touched else span)
    return merged(data, kept)
