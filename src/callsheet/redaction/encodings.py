"""Views of a text in which an encoding is undone: colours stripped, `%20` and base64 decoded.

A view is searched like any other text, and what is found in it is mapped back to the text that was
encoded. Base64 of plain text differs from other long words: the first bit of every byte is 0,
so three of each four letters are of half the alphabet. The pattern for it is a part of the gate, so
that looking for it is free; the others are asked for by a character that most texts have not.
"""

from __future__ import annotations

import binascii
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from callsheet.redaction.spans import Span
from callsheet.report.patterns import lazy

if TYPE_CHECKING:
    from callsheet.redaction.scanner import Budget

ENCODED = 4
"""The rank of what was found in base64. In text that may be run it is shown: nobody could read what
runs."""

_FOUR = rb"[A-Za-f][A-HQ-Xg-nw-z0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]"
BASE64 = rb"(?:^|[^A-Za-z0-9+/_-]|\\[nr])(?:%b){6}" % _FOUR
"""Where text in base64 may begin: what stands before it, and 18 bytes of it."""
BASE64_BEGUN = rb"(?:^|[^A-Za-z0-9+/_-]|\\[nr])(?:%b){2,5}[A-Za-z0-9+/_-]{0,3}$" % _FOUR

_BASE64 = lazy(BASE64)
_BEGUN = lazy(rb"(?:\A|(?<![A-Za-z0-9+/_-])|(?<=\\[nr]))(?:%b){2}" % _FOUR)
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
_LETTER = rb"[A-Za-z0-9+/_-]"
_BREAK = lazy(rb"\r?\n|(?:\\{1,7}r)?\\{1,7}n")
_RUN = lazy(rb"%b+(?:(?:%b)(?=%b{4})%b+)*={0,2}" % (_LETTER, _BREAK.pattern, _LETTER, _LETTER))
_OPEN_RUN = lazy(rb"%b*(?:(?:%b)%b+)*={0,2}[\r\n\\]*" % (_LETTER, _BREAK.pattern, _LETTER))
_UNPRINTABLE = lazy(rb"[\x00-\x08\x0e-\x1a\x7f-\xff]")
_STANDARD = bytes.maketrans(b"-_", b"+/")

_COLOUR = lazy(rb"\x1b(?:\[[0-9;:]*(?:[A-Za-z]|\Z)|\Z)")
CODE_BEGUN = rb"\x1b(?:\[[0-9;:]*)?$"
_ESCAPE = lazy(rb"%([0-9A-Fa-f]{2})")
_BYTES = {b"%02x" % n: bytes([n]) for n in range(256)}

_CHEAP_LETTERS = 8
_ESCAPED_BREAK = 32
"""Codes that the end of a line is worth that is escaped."""
_LOOKED_BACK = 16_384
_CHEAP = 256
"""Codes that are undone for the price of one place."""


class DecodedView(NamedTuple):
    """A text without its encoding, and where its bytes stand in the data, piece by piece."""

    text: bytes
    edges: Callable[[], list[tuple[int, int]]]
    """For the first byte of each piece of the view, in order: its place there, and in the data."""
    four_for_three: bool = False

    def origin(self, place: int, edges: list[tuple[int, int]]) -> int:
        """Return where the byte at a place of the view stands in the data."""
        place = place // 3 * 4 if self.four_for_three else place
        there, here = edges[bisect_right(edges, place, key=lambda edge: edge[0]) - 1]
        return here + place - there

    def mapped(self, data: bytes, spans: Sequence[Span]) -> list[Span]:
        """Return what was found in the view as spans of the data."""
        edges = self.edges() if spans else []
        found: list[Span] = []
        for span in spans:
            start, last = self.origin(span.start, edges), self.origin(span.end - 1, edges)
            size = 4 if self.four_for_three else 3 if _ESCAPE.match(data, last) else 1
            rank = ENCODED if self.four_for_three else span.rank
            found.append(span._replace(start=start, end=min(len(data), last + size), rank=rank))
        return found


def views(data: bytes, budget: Budget) -> Iterator[DecodedView]:
    """Yield the text without colours, and with the codes of URLs undone, if there are any."""
    for sign, codes, written in ((b"\x1b", _COLOUR, _nothing), (b"%", _ESCAPE, _decoded)):
        if sign in data and codes.search(data) and _affords(budget, data.count(sign)):
            yield DecodedView(codes.sub(written, data), partial(_edges, data, codes, written))


def _nothing(_: re.Match[bytes]) -> bytes:
    return b""


def _decoded(code: re.Match[bytes]) -> bytes:
    return _BYTES[code[1].lower()]


def _affords(budget: Budget, codes: int) -> bool:
    """Spend what it takes to undo so many codes.

    Where there are too many, they stay as they are.
    """
    if budget.is_spent or codes // _CHEAP > budget.left:
        return False
    budget.spend(codes // _CHEAP)
    return True


def _edges(
    data: bytes, codes: re.Pattern[bytes], written: Callable[[re.Match[bytes]], bytes]
) -> list[tuple[int, int]]:
    """Return where each piece between codes begins: in the view, and in the data."""
    found, gone = [(0, 0)], 0
    for code in codes.finditer(data):
        gone += code.end() - code.start() - len(written(code))
        found.append((code.end() - gone, code.end()))
    return found


def run_at(data: bytes, place: int) -> tuple[int, int] | None:
    """Return where the base64 begins and ends that the gate found at this place."""
    first = _BASE64.match(data, place)
    run = _RUN.match(data, first.end() - 24) if first else None
    return run.span() if run else None


def from_base64(data: bytes, start: int, end: int, budget: Budget) -> DecodedView | None:
    """Decode a run of base64, if there is text in it and the budget allows it."""
    run = data[start:end]
    if not _affords(budget, len(run) // _CHEAP_LETTERS + run.count(b"\\") * _ESCAPED_BREAK):
        return None
    if b"\\" in run:
        letters = _BREAK.sub(b"", run).translate(_STANDARD, b"=")
    else:
        letters = run.translate(_STANDARD, b"\r\n=")
    letters = letters[: len(letters) - (len(letters) % 4 == 1)]
    text = binascii.a2b_base64(letters + b"=" * (-len(letters) % 4))
    if _UNPRINTABLE.search(text, 0, 18):
        return None
    edges = lambda: [(there, start + here) for there, here in _edges(run, _BREAK, _nothing)]  # noqa: E731
    return DecodedView(text, edges, four_for_three=True)


def base64_begun(data: bytes) -> int:
    """Return where base64 begins that may go on beyond the end of the data, or the end."""
    low = max(0, len(data) - _LOOKED_BACK)
    low += len(data[low:].rstrip(_LETTERS + b"=\r\n\\"))
    for first in _BEGUN.finditer(data, low):
        if _OPEN_RUN.fullmatch(data, first.start()):
            return first.start()
    return len(data)
