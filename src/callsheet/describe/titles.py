"""How text looks in a title: clean, within a visible width, never cut inside a character.

Widths are counted in graphemes (`report.graphemes`), here called clusters, and cuts are made between them.

A title is plain text. It may have one code span, a command between backticks: "Running `pytest -q`".
What a client makes of that depends on the call's kind. Zed, the strictest that we know, shows the
titles of `execute` as plain text, escapes those of `edit` itself, and renders all others as Markdown.
So only the others are escaped (`escape_title`), and a code span there becomes a real one, whatever
backticks the command has. For an unknown client a title must read well either way: what Markdown
would swallow is put between backticks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Literal

from callsheet.report.graphemes import graphemes, is_flag_letter
from callsheet.report.patterns import lazy

ELLIPSIS = "…"
LINE_BREAK = " ⏎ "
"""Replaces a line break inside a command, where a space would change its apparent meaning."""

MAX_CLUSTER = 32
"""Code points in one cluster. Real ones have fewer; what has more is an attack on the reader."""

WINDOW = 4096
"""Code points at either end of a long text that are looked at. The cut leaves far fewer."""

_ESCAPES = lazy(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_BREAKS = lazy(r"(?<![ \t])[ \t]*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029][\s\x1c-\x1e]*")
_BLANKS = lazy(r"[\s\x1c-\x1f]+")
# Controls, the marks that reorder text (a file name must not read backwards), invisible blanks.
_UNSEEN = lazy(r"[\x00-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
PICTURES = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n\v\f\r"},
    0x7F: 0x2421,
    **dict.fromkeys((*range(0x80, 0x85), *range(0x86, 0xA0)), 0xFFFD),
    **dict.fromkeys((0x200B, *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0xFEFF), 0xFFFD),
}
"""Signs for what can't be seen in a command: a shell reads on where a terminal shows nothing."""

_SURROGATES = lazy(r"[\ud800-\udfff]")

# Text of which each character is one column and stands alone: most titles of Europe.
_NARROW = lazy("[ -~\xa1-\xac\xae-\u02ff\u2010-\u2027\u2190-\u21ff⏎]*")

_ZWJ = "\u200d"
_EMOJI_STYLE = "\ufe0f"


def one_line(text: str, line_break: str = " ") -> str:
    """Return `text` on one line: no controls, no escape sequences, single blanks, valid Unicode."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    text = _ESCAPES.sub("", text)
    text = _BREAKS.sub(line_break, text.strip())
    text = _UNSEEN.sub("", _BLANKS.sub(" ", text))
    return _SURROGATES.sub("\ufffd", text).strip()


def fit(text: str, limit: int, line_break: str = " ") -> str:
    """Return `text` on one line of at most `limit` columns, cut in the middle."""
    if len(text) > 2 * WINDOW:
        text = f"{text[:WINDOW]}{text[-WINDOW:]}"
    return cut(one_line(text, line_break), limit)


def cut(text: str, limit: int) -> str:
    """Cut a line in the middle so that it takes at most `limit` columns."""
    if (text.isascii() or _NARROW.fullmatch(text)) and len(text) <= limit:
        return text
    parts = clusters(text)
    if sum(map(cluster_width, parts)) <= limit:
        return "".join(parts)
    room = limit - 1
    head = _prefix(parts, room // 2)
    tail = _prefix(reversed(parts), room - sum(map(cluster_width, head)))
    return "".join([*head, ELLIPSIS, *reversed(tail)])


def cut_end(text: str, limit: int) -> str:
    """Cut a line at its end so that it takes at most `limit` columns."""
    if width(text) <= limit:
        return text
    return "".join([*_prefix(clusters(text), limit - 1), ELLIPSIS])


def _prefix(parts: Iterable[str], room: int) -> list[str]:
    taken: list[str] = []
    for part in parts:
        room -= cluster_width(part)
        if room < 0:
            break
        taken.append(part)
    return taken


def width(text: str) -> int:
    """Return how many columns a line takes."""
    if text.isascii() or _NARROW.fullmatch(text):
        return len(text)
    return sum(map(cluster_width, clusters(text)))


def clusters(text: str) -> list[str]:
    """Cut text into graphemes. Each one that is too long to be honest becomes U+FFFD."""
    return [part if len(part) <= MAX_CLUSTER else "\ufffd" for part in graphemes(text)]


def cluster_width(cluster: str) -> int:
    """Return how many columns a cluster takes: its parts, but one picture for what is joined."""
    if _EMOJI_STYLE in cluster or (len(cluster) > 1 and is_flag_letter(cluster[0])):
        return 2 if len(cluster) > 1 else 0
    widths = [_char_width(char) for char in cluster]
    return max(widths) if _ZWJ in cluster else sum(widths)


def _char_width(char: str) -> int:
    if char.isascii():
        return 1
    category = unicodedata.category(char)
    is_skin_tone = "\U0001f3fb" <= char <= "\U0001f3ff"
    if category in ("Mn", "Me", "Cf") or "\u1160" <= char <= "\u11ff" or is_skin_tone:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def isolate(text: str) -> str:
    """Keep right-to-left text from reordering what stands around it, as in "Moving א → ב"."""
    if (
        text.isascii()
        or _NARROW.fullmatch(text)
        or not any(unicodedata.bidirectional(char) in _RIGHT_TO_LEFT for char in text)
    ):
        return text
    return f"\u2068{text}\u2069"


_RIGHT_TO_LEFT = frozenset(("R", "AL", "AN"))

Redact = Callable[[str], str]
"""What takes secrets out of a text. It must run before a cut, or half a secret may stay."""


Rendering = Literal["markdown", "plain", "either"]

_SPAN = lazy(r"(?:(?<=\s)|^)`(?P<value>.*)`(?=\s|$)")
_QUOTED = lazy(r"(?:(?:(?<=\s)|^)'|„|«\s?|「|‘|“)(?P<value>\S.*?\S|\S)(?:'(?=\s|$)|\s?»|“|」|’|”)")
"""A value between the quotation marks of our messages, in any of their languages."""
_ALWAYS = lazy(r"[\\`*\[\]<~|$]|&(?=#?\w+;)")
_UNDERSCORE = lazy(r"(?<![^\W_])_|_(?![^\W_])")
"""Underscores inside a word (`my_file.py`) mean nothing in Markdown and stay readable."""
_START = lazy(r"^(\d{1,9})(?=[.)](?:\s|$))|^(?=[#>+=\-])")
_SIGNS = lazy(f"{_ALWAYS.pattern}|{_UNDERSCORE.pattern}|{_START.pattern}")
_RUNS = lazy(r"`+")
_SWALLOWED = lazy(
    r"[*~](?=\S).*\S[*~]|(?<![^\W_])_(?=\S).*\S_(?![^\W_])|`.*`|\\[!-/:-@\[-`{-~]|<[a-zA-Z/!?]|\]\("
    r"|&#?\w+;|^(?:[#>+=*[-]|_ |\d{1,9}[.)](?:\s|$))"
)
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
    before, code, after = title, "", ""
    if span is not None:
        before, code, after = title[: span.start()], _fence(span[1]), title[span.end() :]
    # The first characters must not make a heading, a list or a quotation.
    begin = _START.sub(r"\1\\", _escape(before))
    return f"{begin}{code}{_escape(after)}"


def _between_backticks(title: str, span: re.Match[str] | None) -> str:
    """Return a title with what Markdown would swallow in code spans. A quoted value is quoted by its span."""
    found = span or _QUOTED.search(title)
    if found is None or not (span or _SIGNS.search(found["value"])):
        return _fence_words(title) if _SWALLOWED.search(title) else title
    if span is None and not _SWALLOWED.search(title):
        return title
    before, after = title[: found.start()], title[found.end() :]
    if _SWALLOWED.search(f"{before} {after}"):
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


def _fence(code: str) -> str:
    """Put code between more backticks than it has in a row."""
    longest = max(map(len, _RUNS.findall(code)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if code[0] in "` " or code[-1] in "` " else ""
    return f"{fence}{pad}{code}{pad}{fence}"


# Names of tools, as identifiers and in readable form

_WORD = lazy(r"[A-Z]+(?![a-z])|[A-Z][a-z]+|[a-z]+|[^\W\d_]+|\d+")
_SEPARATORS = lazy(r"[\s_./:-]+")


def words_of(name: str) -> list[str]:
    """Cut a name into its words, as they are written: snake_case, kebab-case, camelCase."""
    return _WORD.findall(name)


def humanise(name: str) -> str:
    """Return a name as a person would write it: `create_issue` is "Create issue", `getURL` "Get URL"."""
    words = [word if len(word) > 1 and word.isupper() else word.lower() for word in words_of(name)]
    text = " ".join(words)
    return text[:1].upper() + text[1:]


def squash(name: str) -> str:
    """Return a name without case and separators."""
    return _SEPARATORS.sub("", name).lower()
