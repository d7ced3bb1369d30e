"""A long text in pages: each within a limit, all of them together the whole.

Pages end at line ends where they can, and between graphemes elsewhere. A single grapheme or escape
sequence that is longer than a page is the one thing that has to be cut, since a page must fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from callsheet.limits.cuts import cut_before
from callsheet.limits.text import WIDEST, fitting_head
from callsheet.report.json import JsonObject

PAGE = "page"
"""The note that says which page a field holds."""

SMALLEST_PAGE = 2 + WIDEST
"""The least that a page can be: one character. Smaller limits are taken as this."""


class Page(Struct, frozen=True):
    """One page of a text. Pages are counted from 0."""

    text: str
    index: int
    count: int

    def note(self, field: str) -> JsonObject:
        """Return `_meta.callsheet.page` for the field (as the wire names it) that holds it."""
        return {"field": field, "index": self.index, "count": self.count}


def pages(text: str, limit: int) -> list[str]:
    """Return all pages of a text, each of at most `limit` bytes as JSON. An empty text has one."""
    ends = [0, *_ends(text, limit)]
    return [text[start:end] for start, end in pairwise(ends)] or [""]


def page(text: str, index: int, limit: int) -> Page | None:
    """Return one page of a text, or None if there is no such page."""
    all_pages = pages(text, limit)
    if not 0 <= index < len(all_pages):
        return None
    return Page(all_pages[index], index, len(all_pages))


def _ends(text: str, limit: int) -> Iterator[int]:
    room, start = max(limit, SMALLEST_PAGE) - 2, 0
    while start < len(text):
        start = _end(text, start, room)
        yield start


def _end(text: str, start: int, room: int) -> int:
    """Return the end of the page that begins at `start`."""
    fitting = fitting_head(text, start, room)
    if fitting == len(text):
        return fitting
    line_end = text.rfind("\n", start, fitting) + 1
    if line_end > start and (end := cut_before(text, line_end)) > start:
        return end
    end = cut_before(text, fitting)
    return end if end > start else fitting
