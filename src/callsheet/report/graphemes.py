"""Graphemes: what a reader takes for one character: a letter with its accents, a flag, a family of emoji.

Python's tables know marks and their classes but not graphemes, so the rules here join a little more
than Unicode does (UAX 29). That is the safe side: a cut then falls earlier, and never inside one.
"""

from __future__ import annotations

from unicodedata import category, combining

from callsheet.report.patterns import lazy

_FIRST_JOINER = "\u0300"
"""Nothing below this joins what stands before it, the line feed of CR LF apart."""

_MARKS = ("Mn", "Me", "Mc")
_JOINS_BEFORE = lazy(
    "[\u200c\u200d\uff9e\uff9f\u0e33\u0eb3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\u1160-\u11ff\ud7b0-\ud7fb]"
)
"""Joiners, skin tones, tags (as in the flag of Wales), the later parts of a Korean syllable."""
_JOINS_AFTER = lazy(
    "[\u200d\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U000110bd\U000110cd\U000111c2\U000111c3"
    "\U000113d1\U0001193f\U00011941\U00011a3a\U00011a84-\U00011a89\U00011d46\U00011f02"
    "\u1100-\u115f\ua960-\ua97c]"
)
"""The joiner, signs before a number, the first part of a Korean syllable."""
_VIRAMA = 9


def joined(text: str, at: int) -> bool:
    """Return whether a cut at this place, inside the text, would fall into a grapheme."""
    if at == 0 or at == len(text):
        return False
    before, after = text[at - 1], text[at]
    if before < "\u0600" and after < _FIRST_JOINER:
        return before == "\r" and after == "\n"
    if before == "\n":
        return False
    return (
        _is_mark(after)
        or _JOINS_AFTER.match(before) is not None
        or _half_of_a_flag(text, at)
        or _conjunct(text, at)
    )


def graphemes(text: str) -> list[str]:
    """Return the graphemes of a text."""
    ends = [at for at in range(1, len(text)) if not joined(text, at)]
    return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True) if a < b]


def is_flag_letter(char: str) -> bool:
    """Return whether a character is one of the two that make a flag."""
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _is_mark(char: str) -> bool:
    return category(char) in _MARKS or _JOINS_BEFORE.match(char) is not None


def _half_of_a_flag(text: str, at: int) -> bool:
    """Return whether a place is between the two letters of one flag."""
    start = at
    while start > 0 and is_flag_letter(text[start - 1]):
        start -= 1
    return is_flag_letter(text[at]) and (at - start) % 2 == 1


def _conjunct(text: str, at: int) -> bool:
    """Return whether the letter at a place is bound to the one before by a virama (as in Devanagari)."""
    while at > 0 and _is_mark(text[at - 1]):
        at -= 1
        if combining(text[at]) == _VIRAMA:
            return True
    return False
