"""Where text may be cut: between graphemes, and never inside a terminal's escape sequence.

A grapheme is what a reader takes for one character: a letter with its accents, a flag, a family of
emoji. Python's own tables know marks and their classes but not graphemes, so the rules here join a
little more than Unicode does (UAX 29). That is the safe side: a cut then falls earlier.
"""

from __future__ import annotations

import re
from unicodedata import category, combining

_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, moves
    r"|\x1b[\]PX^_]"  # OSC, DCS, SOS, PM, APC: strings that have an end, or are left at a line's end
    r"(?:[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)|[^\x07\x1b\x80-\x9f\n]*)"
    r"|[\x90\x98\x9d-\x9f][^\x07\x1b\x80-\x9f\n]*(?:\x07|\x1b\\|\x9c)?"  # the same, in one byte
    r"|\x1b[ -/]+[0-~]?"
    r"|\x1b[0-~]?"
)
_ONE_BYTE = "\x90\x98\x9b\x9d\x9e\x9f"

_ZWJ = "\u200d"
_FIRST_JOINER = "\u0300"
"""Nothing below this joins what stands before it, the line feed of CR LF apart."""

_MARKS = ("Mn", "Me", "Mc")
_MORE_MARKS = frozenset("\u200c\u200d\uff9e\uff9f\u0e33\u0eb3")
_PREPENDED = re.compile(
    "[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U000110bd\U000110cd\U000111c2\U000111c3"
    "\U000113d1\U0001193f\U00011941\U00011a3a\U00011a84-\U00011a89\U00011d46\U00011f02]"
)
_VIRAMA = 9


def cut_before(text: str, at: int) -> int:
    """Return the last place up to `at` where the text may be cut."""
    at = min(max(at, 0), len(text))
    while True:
        start, _ = _escape_around(text, at)
        while start > 0 and joined(text, start):
            start -= 1
        if start == at:
            return at
        at = start


def cut_after(text: str, at: int) -> int:
    """Return the first place from `at` on where the text may be cut."""
    at = min(max(at, 0), len(text))
    while True:
        _, end = _escape_around(text, at)
        while end < len(text) and joined(text, end):
            end += 1
        if end == at:
            return at
        at = end


def joined(text: str, at: int) -> bool:
    """Whether a cut at this place, inside the text, would fall into a grapheme."""
    if at == 0 or at == len(text):
        return False
    before, after = text[at - 1], text[at]
    if before < "\u0600" and after < _FIRST_JOINER:
        return before == "\r" and after == "\n"
    if before == "\n":
        return False
    return (
        _is_mark(after)
        or before == _ZWJ
        or (before >= "\u1100" and _hangul(before, after))
        or _PREPENDED.match(before) is not None
        or _half_of_a_flag(text, at)
        or _conjunct(text, at)
    )


def _escape_around(text: str, at: int) -> tuple[int, int]:
    """Return the ends of the escape sequence that a place lies in, or the place itself twice."""
    start = text.rfind("\x1b", 0, at)
    if not text.isascii():
        line = max(start, text.rfind("\n", 0, at)) + 1
        start = max(start, *(text.rfind(sign, line, at) for sign in _ONE_BYTE))
    if start >= 0 and (found := _ESCAPE.match(text, start)) and found.end() > at:
        return start, found.end()
    return at, at


def _is_mark(char: str) -> bool:
    return (
        category(char) in _MARKS
        or char in _MORE_MARKS
        or "\U0001f3fb" <= char <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= char <= "\U000e007f"  # tags, as in the flag of Wales
    )


def _hangul(before: str, after: str) -> bool:
    """Whether two parts of a Korean syllable stand side by side."""
    if "\u1160" <= after <= "\u11ff" or "\ud7b0" <= after <= "\ud7fb":
        return True
    leading = "\u1100" <= before <= "\u115f" or "\ua960" <= before <= "\ua97c"
    return leading and (
        "\u1100" <= after <= "\u115f"
        or "\ua960" <= after <= "\ua97c"
        or "\uac00" <= after <= "\ud7a3"
    )


def _half_of_a_flag(text: str, at: int) -> bool:
    """Whether a place is between the two regional indicators of one flag."""
    if not _is_indicator(text[at]):
        return False
    start = at
    while start > 0 and _is_indicator(text[start - 1]):
        start -= 1
    return (at - start) % 2 == 1


def _is_indicator(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _conjunct(text: str, at: int) -> bool:
    """Whether the letter at a place is bound to the one before by a virama (Devanagari, Bengali, …)."""
    while at > 0 and _is_mark(text[at - 1]):
        at -= 1
        if combining(text[at]) == _VIRAMA:
            return True
    return False
