"""Titles as peers render them.

A title is plain text. It may have one code span, a command between backticks: "Running `pytest -q`".
What a client makes of that depends on the call's kind. Zed, the strictest that we know, shows the
titles of `execute` as plain text, escapes those of `edit` by itself, and renders all others as
Markdown. So only the others are escaped here, and a code span there becomes a real one, whatever
backticks the command has. Of a client that nobody knows, a title must read well either way: what
Markdown would swallow stands between backticks.
"""

from __future__ import annotations

import re
from typing import Literal

Rendering = Literal["markdown", "plain", "either"]

_SPAN = re.compile(r"(?:(?<=\s)|^)`(?P<value>.*)`(?=\s|$)")
_QUOTED = re.compile(
    r"(?:(?:(?<=\s)|^)'|„|«\s?|「|‘|“)(?P<value>\S.*?\S|\S)(?:'(?=\s|$)|\s?»|“|」|’|”)"
).search
"""A value between the quotation marks of our messages, in any of their languages."""
_ALWAYS = re.compile(r"[\\`*\[\]<~|$]|&(?=#?\w+;)")
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
"""Underscores inside a word (`my_file.py`) mean nothing in Markdown and stay readable."""
_START = re.compile(r"^(\d{1,9})(?=[.)](?:\s|$))|^(?=[#>+=\-])")
_SIGNS = re.compile(f"{_ALWAYS.pattern}|{_UNDERSCORE.pattern}|{_START.pattern}")
_RUNS = re.compile(r"`+")
_SWALLOWED = re.compile(
    r"[*~](?=\S).*\S[*~]|(?<![^\W_])_(?=\S).*\S_(?![^\W_])|`.*`|\\[!-/:-@\[-`{-~]|<[a-zA-Z/!?]|\]\("
    r"|&#?\w+;|^(?:[#>+=*[-]|_ |\d{1,9}[.)](?:\s|$))"
).search
"""What Markdown makes something of. A sign for itself (`*.py`) it leaves alone."""


def escape_title(title: str, kind: str, rendering: Rendering = "markdown") -> str:
    """Return `title` so that a peer of this rendering shows the characters that it has."""
    if rendering == "plain" or kind in ("execute", "edit") or not _SIGNS.search(title):
        return title
    span = _SPAN.search(title)
    if span is not None and not span[1].strip():
        span = None
    if rendering == "either":
        return _between_backticks(title, span)
    if span is None:
        return _start(_escape(title))
    before, after = title[: span.start()], title[span.end() :]
    return f"{_start(_escape(before))}{_fence(span[1])}{_escape(after)}"


def _between_backticks(title: str, span: re.Match[str] | None) -> str:
    """Return a title with what Markdown would swallow in code spans. A quoted value is quoted by its span."""
    found = span or _QUOTED(title)
    if found is None or not (span or _SIGNS.search(found["value"])):
        return _fence_words(title) if _SWALLOWED(title) else title
    if span is None and not _SWALLOWED(title):
        return title
    before, after = title[: found.start()], title[found.end() :]
    if _SWALLOWED(f"{before} {after}"):
        before, after = _fence_words(before), _fence_words(after)
    return f"{before}{_fence(found['value'])}{after}"


def _fence_words(text: str) -> str:
    """Put the signs of Markdown in one code span, together with the words that they are in."""
    signs = [match.start() for match in _SIGNS.finditer(text)]
    if not signs:
        return text
    begin = text.rfind(" ", 0, signs[0]) + 1
    end = text.find(" ", signs[-1])
    end = len(text) if end < 0 else end
    return f"{text[:begin]}{_fence(text[begin:end])}{text[end:]}"


def _escape(text: str) -> str:
    return _UNDERSCORE.sub(r"\\_", _ALWAYS.sub(r"\\\g<0>", text))


def _start(text: str) -> str:
    """Keep the first characters from making a heading, a list or a quotation."""
    return _START.sub(r"\1\\", text)


def _fence(code: str) -> str:
    """Put code between more backticks than it has in a row."""
    longest = max(map(len, _RUNS.findall(code)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if code[0] in "` " or code[-1] in "` " else ""
    return f"{fence}{pad}{code}{pad}{fence}"
