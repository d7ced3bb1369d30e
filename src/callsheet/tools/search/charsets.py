"""Sets of characters, as ranges: what `\\w`, `[a-z&&[^e]]` or `\\p{Lu}` stand for in ripgrep's patterns."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TypeAlias

Ranges: TypeAlias = "tuple[tuple[int, int], ...]"
"""Ranges of code points, sorted and apart. Ends are included."""

LAST = 0x10FFFF
ALL: Ranges = ((0, 0xD7FF), (0xE000, LAST))
"""Every character. Bytes that aren't UTF-8 are kept as lone surrogates, so nothing here matches them."""
ASCII: Ranges = ((0, 127),)
IN_A_LINE: Ranges = ((0, 9), (11, 0xD7FF), (0xE000, LAST))

_CASED = 0x1F000
"""Above this, no character has another case."""

SPACE: Ranges = (
    (9, 13), (32, 32), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A),
    (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000),
)  # fmt: skip

# Letters in circles and squares: alphabetic, though symbols.
_ALPHABETIC_SYMBOLS: Ranges = (
    (0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189),
)  # fmt: skip
_JOINERS: Ranges = ((0x200C, 0x200D),)

_POSIX: dict[str, str] = {
    "alnum": "09AZaz", "alpha": "AZaz", "ascii": "\0\x7f", "blank": "\t\t  ", "cntrl": "\0\x1f\x7f\x7f",
    "digit": "09", "graph": "!~", "lower": "az", "print": " ~", "punct": "!/:@[`{~", "space": "\t\r  ",
    "upper": "AZ", "word": "09AZ__az", "xdigit": "09AFaf",
}  # fmt: skip

_LONG = {
    "letter": "L", "uppercaseletter": "Lu", "lowercaseletter": "Ll", "titlecaseletter": "Lt",
    "modifierletter": "Lm", "otherletter": "Lo", "mark": "M", "nonspacingmark": "Mn",
    "spacingmark": "Mc", "enclosingmark": "Me", "number": "N", "decimalnumber": "Nd", "digit": "Nd",
    "letternumber": "Nl", "othernumber": "No", "punctuation": "P", "punct": "P",
    "connectorpunctuation": "Pc", "dashpunctuation": "Pd", "openpunctuation": "Ps",
    "closepunctuation": "Pe", "initialpunctuation": "Pi", "finalpunctuation": "Pf",
    "otherpunctuation": "Po", "symbol": "S", "mathsymbol": "Sm", "currencysymbol": "Sc",
    "modifiersymbol": "Sk", "othersymbol": "So", "separator": "Z", "spaceseparator": "Zs",
    "lineseparator": "Zl", "paragraphseparator": "Zp", "control": "Cc", "cntrl": "Cc",
    "format": "Cf", "privateuse": "Co",
}  # fmt: skip
_SHORT = {
    name.lower(): name
    for name in (
        *("L", "M", "N", "P", "S", "Z"),
        *("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe"),
        *("Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co"),
    )
}


def union(*sets: Iterable[tuple[int, int]]) -> Ranges:
    """Put sets together."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(each for one in sets for each in one):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(high, joined[-1][1])
        else:
            joined.append((low, high))
    return tuple(joined)


def negate(ranges: Ranges) -> Ranges:
    """Return all other characters."""
    return minus(ALL, ranges)


def minus(one: Ranges, other: Ranges) -> Ranges:
    """Return what is in one set but not in the other."""
    left: list[tuple[int, int]] = []
    for low, high in one:
        at = low
        for begin, end in other:
            if end < at:
                continue
            if begin > high:
                break
            if begin > at:
                left.append((at, begin - 1))
            at = end + 1
        if at <= high:
            left.append((at, high))
    return tuple(left)


def both(one: Ranges, other: Ranges) -> Ranges:
    """Return what is in both sets."""
    return minus(one, minus(one, other))


def posix(name: str) -> Ranges | None:
    """Return what `[:name:]` stands for."""
    text = _POSIX.get(name)
    return text if text is None else _pairs(text)


def _pairs(text: str) -> Ranges:
    return union((ord(low), ord(high)) for low, high in zip(text[::2], text[1::2], strict=True))


def unicode_property(name: str) -> Ranges | None:
    """Return what `\\p{name}` stands for, if it is a general category; else None."""
    plain = name.lower().replace("_", "").replace(" ", "").replace("-", "")
    if plain == "any":
        return ALL
    if plain == "ascii":
        return ASCII
    category = _LONG.get(plain) or _SHORT.get(plain)
    if category is None:
        return None
    return _of_categories(lambda found: found.startswith(category))


@cache
def digit(ascii_only: bool) -> Ranges:
    """Return what `\\d` stands for."""
    return _pairs("09") if ascii_only else _of_categories(lambda found: found == "Nd")


@cache
def word(ascii_only: bool) -> Ranges:
    """Return what `\\w` stands for."""
    if ascii_only:
        return _pairs(_POSIX["word"])
    kinds = ("L", "M")
    return union(
        _of_categories(lambda found: found[0] in kinds or found in ("Nd", "Nl", "Pc")),
        _ALPHABETIC_SYMBOLS,
        _JOINERS,
    )


def _of_categories(wanted: Callable[[str], bool]) -> Ranges:
    return union((first, last) for category, first, last in _categories() if wanted(category))


@cache
def _categories() -> Sequence[tuple[str, int, int]]:
    """Return the general category of every character, in runs."""
    runs, category = list[tuple[str, int, int]](), unicodedata.category
    begin, kind = 0, category("\0")
    for point in range(1, LAST + 2):
        found = category(chr(point)) if point <= LAST else ""
        if found != kind:
            runs.append((kind, begin, point - 1))
            begin, kind = point, found
    return [run for run in runs if run[0] != "Cs"]


# Case


def fold(ranges: Ranges, ascii_only: bool) -> Ranges:
    """Add to a set the other cases of all that is in it."""
    if ascii_only and all(high < 128 for _, high in ranges):
        swapped = [
            (max(low, begin) + shift, min(high, end) + shift)
            for low, high in ranges
            for begin, end, shift in ((65, 90, 32), (97, 122, -32))
            if low <= end and high >= begin
        ]
        return union(ranges, swapped)
    others = _cases()
    more = [
        (other, other)
        for low, high in ranges
        for point in (range(low, high + 1) if high - low < len(others) else others)
        if low <= point <= high
        for other in others.get(point, ())
    ]
    return union(ranges, more)


@cache
def _cases() -> dict[int, tuple[int, ...]]:
    """Return for each cased character those that differ from it only in case, itself among them."""
    alike: dict[str, list[int]] = {}
    for point in range(_CASED):
        char = chr(point)
        if not char.isalnum() and not unicodedata.category(char).startswith(("M", "So")):
            continue
        alike.setdefault(_folded(char), []).append(point)
    return {point: tuple(each) for each in alike.values() if len(each) > 1 for point in each}


def _folded(char: str) -> str:
    """Return the simple case folding of a character: always one character."""
    for folded in (char.casefold(), char.lower()):
        if len(folded) == 1:
            return folded
    return char
