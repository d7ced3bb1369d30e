"""Patterns: joined to gates, and rewritten for encoded JSON.

A **gate** is made of patterns that match at least wherever the rules do, and RE2 searches for all
of them at once, in linear time: its automaton reads each byte once, so whole rules cost no more
than their first letters, and have far fewer false hits.

Encoding a text as JSON replaces each character by itself or by its escape. A pattern whose atoms are
replaced in the same way (`in_json`) matches in the JSON whatever the pattern matches in the text. So a
value that was encoded once can be searched as it is, by one search, without visiting its texts one by
one. What is secret by its place, not by its looks, has a name beside it, and the name is a string of its
own or ends one: `"apiKey":`, `{"name":"API_KEY","value":`, `["tool","--password",`. So `secret_names`
looks for strings that end with such a name. All of this holds for JSON as msgspec writes it: no spaces,
and nothing escaped that need not be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache, cached_property, lru_cache
from importlib import import_module
from typing import Any

from callsheet.redaction.rules import TOKEN, InvalidRule, KeyTable

REACH = 1024
"""Bytes within which everything that identifies a secret must be."""

_BLOCK = 8192


@lru_cache(maxsize=16)
def make_gate(patterns: tuple[bytes, ...]) -> Gate:
    """Return the gate for these patterns. Sessions share it, since compiling takes milliseconds."""
    return Gate(patterns)


class Gate:
    """All patterns in one automaton. A `Set` finds whether one matches; a search finds where."""

    def __init__(self, patterns: Iterable[bytes]) -> None:
        re2 = _re2()
        self._options = re2.Options()
        self._options.encoding = re2.Options.Encoding.LATIN1
        self._options.never_capture = True
        self._options.log_errors = False
        self._options.max_mem = 64 << 20
        self._union = b"|".join(b"(?:" + one + b")" for one in patterns) or rb"[^\x00-\xff]"
        gate = re2.Set.SearchSet(self._options)
        try:
            gate.Add(self._union)
        except re2.error as error:
            raise InvalidRule(f"the rules don't work in re2: {_text(error)}") from None
        gate.Compile()
        self.match: Callable[[bytes], object] = gate.Match
        """Returns None if no pattern matches anywhere."""

    def finds(self, data: bytes) -> bool:
        """Return whether a pattern matches anywhere."""
        return self.match(data) is not None

    def next(self, data: bytes, place: int) -> int:
        """Return the next place from here on where a pattern matches; -1 if there is none.

        It reads no more than a block at once, and so far that everything that begins in the block is
        found. Without that bound, what never ends would be read anew from each place.
        """
        while place < len(data):
            after = place + _BLOCK
            match = self._search(data, place, after + REACH)
            if match is not None and match.start() < after:
                return match.start()
            place = after
        return -1

    @cached_property
    def _search(self) -> Any:
        """The search that finds where. Compiled on first use: most processes never find anything."""
        return _re2().compile(self._union, self._options).search


def _re2() -> Any:
    """Import RE2 when the first gate is made: starting a process should not wait for it."""
    return import_module("re2")


def _text(error: Exception) -> str:
    return str(error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else error)


_REPEAT = re.compile(rb"(?<!\\)\{(\d+)(,?)(\d*)\}\??")

_ENOUGH = 20


def simplified(pattern: bytes) -> bytes:
    """Return a pattern with its long repeats made endless and lazy.

    That makes a smaller automaton, which matches at least as often and reads no further than it
    must.
    """

    def widen(match: re.Match[bytes]) -> bytes:
        low, comma, high = int(match[1]), match[2], match[3]
        endless = comma and not high
        if low > _ENOUGH or endless or (high and int(high) > 2 * _ENOUGH):
            return b"{%d,}?" % min(low, _ENOUGH)
        return match[0]

    return _REPEAT.sub(widen, pattern)


_SHORT = {0x22: '"', 0x5C: r"\\", 0x08: "b", 0x09: "t", 0x0A: "n", 0x0C: "f", 0x0D: "r"}
_ALL = bytes(range(256))
_FEW = 9
_ESCAPED = frozenset(range(0x20)) | frozenset(b'"\\')

UNCERTAIN = (rb"\\u001b", rb"%[0-9A-Fa-f]{2}", rb"\[\d{1,3}(?:,(?:\d{1,3}|true|false)){7}")
"""Colours, codes as in a URL, a list of bytes: what has to be decoded before it can be judged."""


def in_json(pattern: bytes) -> bytes:
    """Return the pattern that finds in JSON what this one finds in text. Anchors match anywhere."""

    def rewrite(atom: re.Match[str]) -> str:
        if atom["anchor"]:
            return ""
        return atom[0] if atom["group"] or atom["repeat"] else _encoded(atom[0])

    return TOKEN.sub(rewrite, pattern.decode("latin-1")).encode("latin-1")


@cache
def _encoded(atom: str) -> str:
    """Return a pattern for each character that an atom of a pattern matches, as JSON has it."""
    if atom.isalnum():
        return atom
    codes = set(b"".join(re.findall(atom.encode("latin-1"), _ALL, re.DOTALL)))
    forms = [f"[{_ranges(codes - _ESCAPED)}]"] if codes - _ESCAPED else []
    if short := codes & _SHORT.keys():
        forms.append(rf"\\[{''.join(_SHORT[code] for code in sorted(short))}]")
    if controls := sorted(f"{code:02x}" for code in (codes & _ESCAPED) - _SHORT.keys()):
        # Nearly always it is all of them or a few.
        forms.append(rf"\\u00(?:{'|'.join(controls) if len(controls) < _FEW else '[01].'})")
    return f"(?:{'|'.join(forms)})"


def _ranges(codes: set[int]) -> str:
    firsts = sorted(code for code in codes if code - 1 not in codes)
    lasts = sorted(code for code in codes if code + 1 not in codes)
    return "".join(rf"\x{a:02x}-\x{b:02x}" for a, b in zip(firsts, lasts, strict=True))


def secret_names(names: KeyTable, flags: Iterable[str]) -> bytes:
    """Return a pattern for strings that end with a secret name, or that are one of some flags."""
    phrases = {*names.suffixes}
    for group in (names.families, names.second):
        phrases.update(word for words in group.values() for word in words)
    ends = sorted(one for one in phrases if not any(one != o and one.endswith(o) for o in phrases))
    # A name is split into words at anything but letters, so that may stand between any two letters.
    spelled = ["[^A-Za-z]*".join(f"[{c.upper()}{c}]" for c in word) for word in ends]
    neutral = "|".join(sorted(names.neutral))
    name = f"(?:{'|'.join(spelled)})(?:[^A-Za-z]|(?i:{neutral}))*"
    return in_json(name.encode()) + b'"|"(?:' + "|".join(sorted(flags)).encode() + b')"'
