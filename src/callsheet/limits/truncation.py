"""What was cut from a report, and how the whole of it can be had: from a file, or page by page.

This package is pure, so it only plans. A `CutPlan` has the bounded fields and the cuts. The runtime
writes each cut's `spill` to a file, where it can, and asks `CutPlan.finish` for the fields with those
files: linked from the content, named in `_meta.callsheet.truncated`. Without a file there is no
link and no name.

`pages` divides a long text: each page is within a limit, all of them together are the whole. Pages
end at line ends where they can, and between graphemes elsewhere. A single grapheme or escape
sequence that is longer than a page is the one thing that has to be cut, since a page must fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from callsheet.limits.text import WIDEST, Phrases, cut_before, fitting_head, localized, size_of
from callsheet.report.content import ResourceLink, ToolCallContent
from callsheet.report.json import JsonObject, JsonValue

LINK_ROOM = 512
"""Bytes that a link to a spill takes at most. A longer one is left out of the content."""

_MOST_OTHERS = 4
_SUFFIXES = {
    "text/plain": ".txt",
    "application/json": ".json",
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "image/svg+xml": ".svg",
    "audio/wav": ".wav",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "application/pdf": ".pdf",
}


class Spill(Struct, frozen=True):
    """A value to be stored whole: text, bytes, or JSON."""

    body: JsonValue | bytes
    mime_type: str = "text/plain"

    @property
    def data(self) -> bytes:
        """The bytes of its file."""
        if isinstance(self.body, bytes):
            return self.body
        return self.body.encode() if isinstance(self.body, str) else msgspec.json.encode(self.body)

    @property
    def suffix(self) -> str:
        """The end of its file's name."""
        return _SUFFIXES.get(self.mime_type, ".bin" if isinstance(self.body, bytes) else ".txt")


class Cut(Struct, frozen=True, kw_only=True):
    """What was left out of one field, in the names of the wire. For content, `item` is the item's index.

    `at` is where the item is in the bounded content, None for what isn't linked; `instead` is true if
    a link takes its place.
    """

    field: str
    kept_bytes: int
    spill: Spill
    item: int | None = None
    at: int | None = None
    instead: bool = False

    @property
    def total_bytes(self) -> int:
        """The bytes of the whole: of a text its own UTF-8, of other values their JSON."""
        return len(self.spill.data)

    def record(self, path: str | None) -> JsonObject:
        """Return the record of this cut for `_meta.callsheet.truncated`."""
        record: JsonObject = {
            "field": self.field,
            "keptBytes": self.kept_bytes,
            "totalBytes": self.total_bytes,
        }
        if self.item is not None:
            record["item"] = self.item
        return record if path is None else {**record, "spill": path}


class CutPlan(Struct, frozen=True):
    """Bounded fields, and what was cut out of them."""

    fields: Mapping[str, Any]
    cuts: tuple[Cut, ...] = ()

    def finish(
        self, paths: Sequence[str | None] = (), *, phrases: Phrases = None
    ) -> tuple[Mapping[str, Any], list[JsonObject]]:
        """Return the fields, and the records of the cuts, with the files that exist.

        `paths` are those of the cuts' spills, in order; None for one that could not be written.
        """
        stored = [*paths, *[None] * (len(self.cuts) - len(paths))]
        pairs = list(zip(self.cuts, stored, strict=True))
        records = [cut.record(path) for cut, path in pairs]
        links = {
            id(cut): link
            for cut, path in pairs
            if path is not None and cut.at is not None and (link := _link(cut, path, phrases))
        }
        if not links:
            return self.fields, records
        content: list[ToolCallContent] = []
        for index, item in enumerate(self.fields["content"]):
            here = [cut for cut in self.cuts if cut.at == index and id(cut) in links]
            if not any(cut.instead for cut in here):
                content.append(item)
            content += [links[id(cut)] for cut in here]
        return {**self.fields, "content": tuple(content)}, records


def truncated(
    records: Sequence[JsonObject],
    before: JsonObject | None = None,
    fields: Iterable[str] = (),
) -> JsonObject | None:
    """Return the note for these records, and for those of `before` whose fields were not set anew.

    `fields` are the wire's names of those that were. The first record is the note; further ones
    are in its `others`. None if there are no records.
    """
    anew = {*fields, *(record["field"] for record in records)}
    old = [] if before is None else [before, *before.get("others", ())]
    kept = [
        {key: value for key, value in record.items() if key != "others"}
        for record in old
        if record["field"] not in anew
    ]
    noted = [*records, *kept]
    if not noted:
        return None
    others = noted[1 : 1 + _MOST_OTHERS]
    return {**noted[0], "others": others} if others else noted[0]


def file_uri(path: str) -> str:
    """Return the `file:` URI of an absolute path, POSIX or Windows."""
    path = path if path.startswith("/") else path.replace("\\", "/")
    return f"file://{'' if path.startswith('/') else '/'}{quote(path, safe='/:')}"


def _link(cut: Cut, path: str, phrases: Phrases) -> ResourceLink | None:
    name = localized(phrases, "link_name", field=cut.field, bytes=cut.total_bytes)
    mime_type = cut.spill.mime_type
    link = ResourceLink(file_uri(path), name, None, None, mime_type, cut.total_bytes)
    return link if size_of(link) <= LINK_ROOM - 64 else None


SMALLEST_PAGE = 2 + WIDEST
"""The least that a page can be: one character. Smaller limits are taken as this."""


class TextPage(Struct, frozen=True):
    """One page of a text. Pages are counted from 0."""

    text: str
    index: int
    count: int

    def note(self, field: str) -> JsonObject:
        """Return `_meta.callsheet.page` for the field (as the wire names it) that holds it."""
        return {"field": field, "index": self.index, "count": self.count}


def pages(text: str, limit: int) -> list[str]:
    """Return all pages of a text, each of at most `limit` bytes as JSON. An empty text has one."""
    room, start = max(limit, SMALLEST_PAGE) - 2, 0
    found: list[str] = []
    while start < len(text) or not found:
        end = _page_end(text, start, room)
        found.append(text[start:end])
        start = end
    return found


def page(text: str, index: int, limit: int) -> TextPage | None:
    """Return one page of a text, or None if there is no such page."""
    all_pages = pages(text, limit)
    if not 0 <= index < len(all_pages):
        return None
    return TextPage(all_pages[index], index, len(all_pages))


def _page_end(text: str, start: int, room: int) -> int:
    """Return the end of the page that begins at `start`."""
    fitting = fitting_head(text, start, room)
    if fitting == len(text):
        return fitting
    line_end = text.rfind("\n", start, fitting) + 1
    ends = (cut_before(text, line_end), cut_before(text, fitting), fitting)
    return next(end for end in ends if end > start)
