"""HTML as text that is good to read: headings, lists, links, code and tables in the manner of Markdown.

What is not for reading is left out: scripts, styles, navigation, and what the page itself hides. The work
grows with the size of the page only, however broken or hostile it is.

Python's parser reports tags and text; `_PageReader` turns them into calls of a `Layout`, most of them by the
tables `_START` and `_END`. A table that only arranges a page is taken apart into paragraphs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from html import unescape
from html.parser import HTMLParser
from typing import NamedTuple, TypeAlias
from urllib.parse import urljoin, urlsplit

from callsheet.tools.web.text_layout import Layout


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DROPPED = _names(
    "script style noscript template svg canvas iframe object nav select datalist textarea "
    "button dialog noframes noembed audio video map math"
)
_BLOCKS = _names(
    "address article aside body center details dd div dl dt fieldset figcaption figure footer form "
    "header hgroup html legend main p search section summary"
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_VOID = _names("area base br col embed frame hr img input link meta param source track wbr")
# Elements that end without a tag of their own: where a hidden one ends is unknown, so none is hidden.
_IMPLIED_END = _names("p li dt dd tr td th thead tbody tfoot option html body head")
_HIDDEN = re.compile(r"(display\s*:\s*none|visibility\s*:\s*hidden)", re.I)
_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight-source)-([A-Za-z0-9_+#-]{1,30})")
_UNPARSED = re.compile(r"<!--|<!|<\?|<(script|style|textarea|iframe|noframes|noembed)\b", re.I)
_MAX_REPAIRED = 10_000_000  # characters that are read again, in all
_MAX_TAGS = 400_000
_MAX_LINK = 500

# What elements do that need nothing but the layout.
_START: dict[str, Callable[[Layout], object]] = {
    **dict.fromkeys((*_BLOCKS, "caption"), Layout.block),
    **{name: partial(Layout.heading, level=level) for name, level in _HEADINGS.items()},
    "blockquote": Layout.begin_quote,
    "br": Layout.line_break,
    "li": Layout.item,
    "menu": partial(Layout.begin_list, number=None),
    "ul": partial(Layout.begin_list, number=None),
}
_END: dict[str, Callable[[Layout], object]] = {
    **dict.fromkeys((*_BLOCKS, *_HEADINGS, "caption"), Layout.block),
    "blockquote": Layout.end_quote,
    "code": Layout.end_span,
    "li": Layout.end_item,
    "menu": Layout.end_list,
    "ol": Layout.end_list,
    "pre": Layout.end_code,
    "ul": Layout.end_list,
}


_Attributes: TypeAlias = "dict[str, str | None]"


class ReadablePage(NamedTuple):
    """A page as text."""

    title: str
    text: str
    truncated: bool


class _Enough(Exception):
    """There is as much text as is wanted."""


def readable(html: str, base_url: str = "", limit: int = 1_000_000) -> ReadablePage:
    """Return a page as text.

    Args:
        html: The page.
        base_url: Where it is, which its links are relative to.
        limit: Characters to return at most.
    """
    markup = without_unparsed(html)
    reader = _read(markup, base_url, limit, frozenset())
    if (
        reader.has_dropped and not reader.layout.has_text
    ):  # an element that is left out was never closed, or held it all
        reader = _read(markup, base_url, limit, frozenset({"nav", "dialog", "noscript", "button"}))
    text = reader.layout.text()
    return ReadablePage(reader.title, text[:limit], reader.is_full or len(text) > limit)


def without_unparsed(html: str) -> str:
    """Remove comments, declarations, scripts and the like: what is not parsed as HTML inside.

    Like a browser, this removes the whole rest where one of them never ends.
    """
    parts: list[str] = []
    at = 0
    while found := _UNPARSED.search(html, at):
        parts.append(html[at : found.start()])
        if found[1]:
            closing = re.compile(rf"</{found[1]}\b", re.I).search(html, found.end())
            end = html.find(">", closing.end()) + 1 if closing else 0
        elif found[0] == "<!--":
            end = html.find("-->", found.start() + 2)
            end = end + 3 if end >= 0 else 0
        else:
            end = html.find(">", found.end()) + 1
        if not end:
            return "".join(parts)
        at = end
    parts.append(html[at:])
    return "".join(parts)


def _read(markup: str, base_url: str, limit: int, wanted: frozenset[str]) -> _PageReader:
    reader = _PageReader(base_url, limit, _DROPPED - wanted)
    try:
        reader.feed(markup)
        # What is left begins with a tag that never ends. Browsers drop it all; a few repairs are cheap.
        again = 0
        while (rest := reader.rawdata) and (again := again + len(rest)) < _MAX_REPAIRED:
            reader.reset_markup()
            reader.handle_data(unescape(rest[0]))
            reader.feed(rest[1:])
        reader.handle_data(unescape(reader.rawdata))
    except _Enough:
        reader.is_full = True
    reader.finish()
    return reader


class _PageReader(HTMLParser):
    def __init__(self, base_url: str, limit: int, dropped: frozenset[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.layout: Layout = Layout()
        self.is_full: bool = False
        self.has_dropped: bool = False
        self._limit: int = limit
        self._tags: int = 0
        self._base: str = base_url
        self._dropped: frozenset[str] = dropped
        self._skipping: str = ""
        self._skip_depth: int = 0
        self._title: list[str] | None = None
        self._titles: list[str] = []
        self._links: list[tuple[str, int] | None] = []
        self._tables: list[_HtmlTable] = []

    @property
    def title(self) -> str:
        """The page's title, on one line."""
        return " ".join("".join(self._titles).split())

    def reset_markup(self) -> None:
        """Forget the markup that is not parsed yet."""
        self.rawdata: str = ""

    def finish(self) -> None:
        """Close what is still open."""
        while self._tables:
            self.end_table()
        self.layout.finish()

    # What the parser calls

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element."""
        self._tags += 1
        if self._tags > _MAX_TAGS:
            raise _Enough
        if self._skipping:
            self._skip_depth += tag == self._skipping
            return
        attributes = dict(attrs)
        if tag not in _VOID and (tag in self._dropped or _is_hidden(tag, attributes)):
            self._skipping, self._skip_depth, self.has_dropped = tag, 1, True
            return
        handle = getattr(self, f"start_{tag}", None)
        if handle is not None:
            handle(attributes)
        elif tag in _START:
            _START[tag](self.layout)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take an element that closes itself. In HTML only the void ones do."""
        self.handle_starttag(tag, attrs)
        if self._skipping == tag and self._skip_depth == 1 and tag == "svg":
            self._skipping = ""

    def handle_endtag(self, tag: str) -> None:
        """End an element."""
        if self._skipping:
            self._skip_depth -= tag == self._skipping
            if not self._skip_depth:
                self._skipping = ""
            return
        handle = getattr(self, f"end_{tag}", None)
        if handle is not None:
            handle()
        elif tag in _END:
            _END[tag](self.layout)

    def handle_data(self, data: str) -> None:
        """Take text."""
        if self._skipping:
            return
        if self._title is not None:
            self._title.append(data)
            return
        if self._tables and self._tables[-1].is_between_cells and not data.strip():
            return
        self.layout.add(data)
        if self.layout.size > self._limit:
            raise _Enough

    # Elements

    def start_title(self, _: _Attributes) -> None:
        self._title = []

    def end_title(self) -> None:
        if self._title and not self._titles:
            self._titles = self._title
        self._title = None

    def start_base(self, attributes: _Attributes) -> None:
        self._base = _joined(self._base, attributes.get("href") or "") or self._base

    def start_hr(self, _: _Attributes) -> None:
        self.layout.block()
        self.layout.add("---")
        self.layout.block()

    def start_img(self, attributes: _Attributes) -> None:
        alt = " ".join((attributes.get("alt") or "").split())
        if alt:
            self.layout.add(f"[image: {alt[:300]}]")

    def start_a(self, attributes: _Attributes) -> None:
        self.end_a()  # links don't nest
        url = _joined(self._base, attributes.get("href") or "")
        self._links.append((url, self.layout.mark()) if url else None)

    def end_a(self) -> None:
        link = self._links.pop() if self._links else None
        if link is not None:
            self.layout.link(*link)

    def start_pre(self, attributes: _Attributes) -> None:
        found = _LANGUAGE.search(attributes.get("class") or "")
        self.layout.begin_code(found[1] if found else "")

    def start_code(self, attributes: _Attributes) -> None:
        found = _LANGUAGE.search(attributes.get("class") or "")
        self.layout.begin_span(found[1] if found else "")

    def start_ol(self, attributes: _Attributes) -> None:
        start = attributes.get("start") or ""
        is_number = len(start) < 9 and start.isascii() and start.isdigit()
        self.layout.begin_list(int(start) if is_number else 1)

    # Tables

    def start_table(self, _: _Attributes) -> None:
        if self._tables:
            self._tables[-1].flatten(self.layout)  # one that holds another is there for the looks
        self.layout.block()
        self._tables.append(_HtmlTable())

    def end_table(self) -> None:
        if self._tables:
            self._tables.pop().end(self.layout)

    def start_tr(self, _: _Attributes) -> None:
        if self._tables:
            self._tables[-1].row(self.layout)

    def end_tr(self) -> None:
        self.start_tr({})

    end_thead = end_tbody = end_tr

    def start_td(self, _: _Attributes) -> None:
        if self._tables:
            self._tables[-1].cell(self.layout, is_head=False)

    def start_th(self, _: _Attributes) -> None:
        if self._tables:
            self._tables[-1].cell(self.layout, is_head=True)

    def end_td(self) -> None:
        if self._tables:
            self._tables[-1].end_cell(self.layout)

    end_th = end_td


def _is_hidden(tag: str, attributes: _Attributes) -> bool:
    if tag in _IMPLIED_END:
        return False
    return (
        "hidden" in attributes
        or (attributes.get("aria-hidden") or "").lower() == "true"
        or _HIDDEN.search(attributes.get("style") or "") is not None
    )


def _joined(base: str, href: str) -> str:
    """Return the whole URL of a link that is worth showing; of others, nothing."""
    href = href.strip()
    if not href or href.startswith("#") or len(href) > _MAX_LINK:
        return ""
    try:
        url = urljoin(base, href)
        scheme = urlsplit(url).scheme
    except ValueError:
        return ""
    return url if scheme in ("http", "https", "mailto", "") and not re.search(r"\s", url) else ""


class _HtmlTable:
    """One table while it is read."""

    def __init__(self) -> None:
        self._rows: list[list[str]] = []
        self._row: list[str] = []
        self._has_head: bool = False
        self._is_flat: bool = False
        self.is_between_cells: bool = True

    def row(self, layout: Layout) -> None:
        """Begin or end a row."""
        self.end_cell(layout)
        if self._row:
            self._rows.append(self._row)
            self._row = []
        if self._is_flat:
            layout.block()

    def cell(self, layout: Layout, *, is_head: bool) -> None:
        """Begin a cell."""
        self.end_cell(layout)
        if not self._is_flat and self.is_between_cells:
            layout.block()  # whatever stands outside of all cells
        self._has_head = self._has_head or (is_head and not self._rows)
        self.is_between_cells = False

    def end_cell(self, layout: Layout) -> None:
        """End a cell, if one is open."""
        if self.is_between_cells:
            return
        self.is_between_cells = True
        if self._is_flat:
            layout.add(" ")
        else:
            self._row.append(layout.take())

    def flatten(self, layout: Layout) -> None:
        """Be paragraphs from now on: another table stands inside."""
        if self._is_flat:
            return
        self._is_flat = True
        here = layout.take()
        for row in [*self._rows, self._row]:
            layout.add(" ".join(filter(None, row)))
            layout.block()
        layout.add(here)
        self._rows, self._row = [], []

    def end(self, layout: Layout) -> None:
        """End the table."""
        self.row(layout)
        if self._is_flat:
            layout.block()
            return
        rows = [row for row in self._rows if any(row)]
        if len(rows) == 1 or all(len(row) == 1 for row in rows):
            for row in rows:
                layout.add("  ".join(filter(None, row)))
                layout.block()
            return
        layout.rows(self._lines(rows))

    def _lines(self, rows: list[list[str]]) -> list[str]:
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        if self._has_head and lines:
            lines.insert(1, "|" + " --- |" * len(rows[0]))
        return lines
