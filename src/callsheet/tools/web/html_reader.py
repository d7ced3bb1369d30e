"""HTML as text that is good to read: headings, lists, links, quotes and code in the manner of Markdown.

What is not for reading is left out: scripts, styles, navigation, and what the page itself hides. A row of a
table is a line, with `|` between its cells; since many tables only arrange a page, no table is drawn. The
work grows with the size of the page only, however broken or hostile it is.

Python's parser reports tags and text. The text of a block is gathered in `_parts`; where the block ends,
it becomes lines (`_flush`), each behind the marks of the lists and quotes around it (`_put`).
"""

from __future__ import annotations

import os.path
import re
from html import unescape
from html.parser import HTMLParser
from typing import NamedTuple, TypeAlias
from urllib.parse import urljoin, urlsplit

from callsheet.report.patterns import lazy


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DROPPED = _names(
    "script style noscript template svg canvas iframe object nav select datalist textarea "
    "button dialog noframes noembed audio video map math"
)
_BLOCKS = _names(
    "address article aside body caption center details dd div dl dt fieldset figcaption figure footer form "
    "h1 h2 h3 h4 h5 h6 header hgroup html legend main p search section summary table"
)
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_AROUND = {"ul": "  ", "ol": "  ", "menu": "  ", "blockquote": "> "}
"""Elements that stand around blocks, and what each puts before their lines."""

_VOID = _names("area base br col embed frame hr img input link meta param source track wbr")
# Elements that end without a tag of their own: where a hidden one ends is unknown, so none is hidden.
_IMPLIED_END = _names("p li dt dd tr td th thead tbody tfoot option html body head")
_HIDDEN = lazy(r"(display\s*:\s*none|visibility\s*:\s*hidden)", re.I)
_LANGUAGE = lazy(r"(?:^|\s)(?:language|lang|highlight-source)-([A-Za-z0-9_+#-]{1,30})")
# What is not parsed as HTML inside: scripts and the like, comments, declarations. One that never ends takes
# the whole rest, as in a browser. Nothing here goes back over what it has matched (`++`, `*+`).
_UNPARSED = lazy(
    r"<(script|style|textarea|iframe|noframes|noembed)\b(?:[^<]++|<(?!/\1\b))*+(?:</\1\b[^>]*+>?)?"
    r"|<!--(?:-?>|(?:[^-]++|-(?!->))*+(?:-->)?)"
    r"|<[!?][^>]*+>?",
    re.I,
)
_SPACE = lazy(r"[ \t\n\r\f\v\u00a0]+")
_BREAK = "\x00"  # where a line break stands while the line is made; no text has it
_DEEPEST = 8
"""Levels of lists and quotes that are shown; each costs space on every line."""

_MAX_REPAIRED = 10_000_000  # characters that are read again, in all
_MAX_TAGS = 400_000
_MAX_LINK = 500

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
    reader = _read(markup, base_url, limit, _DROPPED)
    if reader.has_dropped and not reader.lines:
        # An element that is left out was never closed, or held it all.
        shown = _names("nav dialog noscript button")
        reader = _read(markup, base_url, limit, _DROPPED - shown)
    text = "\n".join(reader.lines).strip("\n")
    title = " ".join("".join(reader.titles).split())
    return ReadablePage(title, text[:limit], reader.is_full or len(text) > limit)


def without_unparsed(html: str) -> str:
    """Remove comments, declarations, scripts and the like: what is not parsed as HTML inside."""
    return _UNPARSED.sub("", html)


def _read(markup: str, base_url: str, limit: int, dropped: frozenset[str]) -> _PageReader:
    reader = _PageReader(base_url, limit, dropped)
    try:
        reader.feed(markup)
        # What is left begins with a tag that never ends. Browsers drop it all; a few repairs are cheap.
        again = 0
        while (rest := reader.rawdata) and (again := again + len(rest)) < _MAX_REPAIRED:
            reader.rawdata = ""
            reader.handle_data(unescape(rest[0]))
            reader.feed(rest[1:])
        reader.handle_data(unescape(reader.rawdata))
    except _Enough:
        reader.is_full = True
    reader.end_code()
    reader.block()
    return reader


class _Level:
    """A list or a quote that is open. `number` is that of the next item, if they are counted."""

    __slots__ = ("has_items", "number", "prefix", "tag")

    def __init__(self, tag: str, number: int | None) -> None:
        self.tag: str = tag
        self.prefix: str = _AROUND[tag]
        self.number: int | None = number
        self.has_items: bool = False


class _PageReader(HTMLParser):
    def __init__(self, base_url: str, limit: int, dropped: frozenset[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.rawdata: str  # what the parser could not parse yet
        self.lines: list[str] = []
        self.titles: list[str] = []
        self.is_full: bool = False
        self.has_dropped: bool = False
        self._limit: int = limit
        self._size: int = 0
        self._tags: int = 0
        self._base: str = base_url
        self._dropped: frozenset[str] = dropped
        self._skipping: str = ""
        self._skip_depth: int = 0
        self._in_title: bool = False
        self._parts: list[str] = []
        self._link: tuple[str, int] | None = None
        self._span: int | None = None
        self._code: list[str] | None = None
        self._language: str = ""
        self._heading: str = ""
        self._bullet: str = ""
        self._levels: list[_Level] = []
        self._before: str = ""
        self._is_apart: bool = False
        self._is_first_cell: bool = True

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
        else:
            self._start(tag, attributes)

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
        else:
            self._end(tag)

    def handle_data(self, data: str) -> None:
        """Take text."""
        if self._skipping:
            return
        if self._in_title:
            self.titles.append(data)
            return
        self._size += len(data)
        (self._parts if self._code is None else self._code).append(data.replace(_BREAK, "\ufffd"))
        if self._size > self._limit:
            raise _Enough

    # Elements

    def _start(self, tag: str, attributes: _Attributes) -> None:
        if tag in _VOID:
            self._add_void(tag, attributes)
        elif tag in _BLOCKS:
            self.block()
            self._heading = _HEADINGS.get(tag, "")
        elif tag in _AROUND:
            self._begin_level(tag, attributes)
        elif tag in ("td", "th"):
            self._parts.append("" if self._is_first_cell else " | ")
            self._is_first_cell = False
        elif tag in ("pre", "code"):
            self._begin_code(tag, attributes)
        elif tag == "tr":
            self._end_row()
        elif tag == "li":
            self._begin_item()
        elif tag == "a":
            self._end_link()  # links don't nest
            url = _joined(self._base, attributes.get("href") or "")
            self._link = (url, len(self._parts)) if url else None
        elif tag == "title":
            self._in_title = not self.titles

    def _end(self, tag: str) -> None:
        if tag in _BLOCKS:
            self.block()
        elif tag in _AROUND:
            self._end_level(tag)
        elif tag == "tr":
            self._end_row()
        elif tag == "li":
            self.block()
            self._is_apart, self._bullet = not self._levels, ""
        elif tag == "a":
            self._end_link()
        elif tag == "code":
            self._end_span()
        elif tag == "pre":
            self.end_code()
        elif tag == "title":
            self._in_title = False

    def _add_void(self, tag: str, attributes: _Attributes) -> None:
        if tag == "br" and self._code is None:
            self._parts.append(_BREAK)
        elif tag == "br":
            self.handle_data("\n")
        elif tag == "img":
            alt = " ".join((attributes.get("alt") or "").split())
            self.handle_data(f"[image: {alt[:300]}]" if alt else "")
        elif tag == "hr":
            self.block()
            self.handle_data("---")
            self.block()
        elif tag == "base":
            self._base = _joined(self._base, attributes.get("href") or "") or self._base

    def _end_link(self) -> None:
        """Make what came since a link began a link, if it is still in one block and has text."""
        link, self._link = self._link, None
        if link is None or self._code is not None or self._span is not None:
            return
        url, begin = link
        text = _one_line(self._parts[begin:])
        if text:
            before = " " if self._parts[begin][:1].isspace() else ""
            after = " " if self._parts[-1][-1:].isspace() else ""
            shown = f"<{url}>" if text == url else f"[{text}]({url})"
            self._parts[begin:] = [f"{before}{shown}{after}"]
            self._size += len(url)

    def _begin_code(self, tag: str, attributes: _Attributes) -> None:
        """Begin a block of code, where white space counts, or code within a line."""
        found = _LANGUAGE.search(attributes.get("class") or "")
        language = found[1] if found else ""
        if self._code is not None:  # `code` in `pre` may name the language
            self._language = self._language or language
        elif tag == "code":
            self._span = len(self._parts)
        else:
            self.block()
            self._code, self._language = [], language

    def _end_span(self) -> None:
        begin, self._span = self._span, None
        if begin is None or self._code is not None:
            return
        text = _one_line(self._parts[begin:])
        if text:
            ticks = "`" * (_longest_run(text) + 1)
            pad = " " if text[0] == "`" or text[-1] == "`" else ""
            self._parts[begin:] = [f"{ticks}{pad}{text}{pad}{ticks}"]

    def end_code(self) -> None:
        """End a block of code, if one is open."""
        text = "".join(self._code or ())
        self._code = None
        if text.strip():
            fence = "`" * max(3, _longest_run(text) + 1)
            lines = text.replace("\r\n", "\n").strip("\n").split("\n")
            for line in (fence + self._language, *lines, fence):
                self._put(line)
        self._is_apart = True

    def _begin_level(self, tag: str, attributes: _Attributes) -> None:
        self.block()
        start = attributes.get("start") or ""
        is_number = len(start) < 9 and start.isascii() and start.isdigit()
        number = int(start) if is_number else 1
        # A list in a list stands close to its item.
        self._is_apart = not self._levels or tag == "blockquote"
        self._levels.append(_Level(tag, number if tag == "ol" else None))

    def _end_level(self, tag: str) -> None:
        """End a list or quote, and what is open in it. An end without a beginning means nothing."""
        self.block()
        if any(level.tag == tag for level in self._levels[-_DEEPEST:]):
            while self._levels.pop().tag != tag:
                pass
        self._is_apart, self._bullet = not self._levels or tag == "blockquote", ""

    def _begin_item(self) -> None:
        was_apart = self._is_apart
        self.block()
        self._bullet = "- "
        level = self._levels[-1] if self._levels else None
        if level is not None and level.tag != "blockquote":
            # Items stand together; the first one stands apart from what is before the list.
            self._is_apart = was_apart and not level.has_items
            level.has_items = True
            if level.number is not None:
                self._bullet = f"{level.number}. "
                level.number += 1

    # Lines

    def block(self) -> None:
        """End the block, if one has begun."""
        if self._code is None:
            self._flush()
            self._heading, self._is_apart = "", True

    def _end_row(self) -> None:
        """End a row of a table. Rows stand together."""
        if self._code is None and self._flush():
            self._is_apart = False

    def _flush(self) -> bool:
        """Put the text of the block into lines, and return whether there was any."""
        text = _SPACE.sub(" ", "".join(self._parts))
        self._parts, self._span, self._link, self._is_first_cell = [], None, None, True
        lines = [line.strip(" ") for line in text.split(_BREAK)]
        # Of empty lines, one is enough, and none at either end.
        lines = [line for at, line in enumerate(lines) if line or (at and lines[at - 1])]
        if lines and not lines[-1]:
            lines.pop()
        if self._heading and lines:
            lines = [self._heading + " ".join(filter(None, lines))]
        for line in lines if text.strip(f" |{_BREAK}") else ():
            self._put(line)
        return bool(lines)

    def _put(self, line: str) -> None:
        around = self._levels[:_DEEPEST]
        rest = "".join([level.prefix for level in around])
        is_item = bool(self._bullet and around and around[-1].tag != "blockquote")
        first = (rest[:-2] if is_item else rest) + self._bullet
        if self._is_apart and self.lines:
            # What is around both lines is around the empty one between them, too.
            shared = os.path.commonprefix([rest, self._before])  # noqa: RUF071 - characters are meant
            self.lines.append(shared.rstrip())
        self._is_apart, self._before, self._bullet = False, rest, ""
        self.lines.append((first + line).rstrip())
        self._size += len(first) + 1


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


def _one_line(parts: list[str]) -> str:
    return _SPACE.sub(" ", "".join(parts).replace(_BREAK, " ")).strip()


def _longest_run(text: str) -> int:
    """Return the length of the longest run of backticks."""
    return max(map(len, re.findall("`+", text)), default=0)
