"""Search for secrets in encoded JSON: the patterns of the gate, rewritten for bytes that were encoded.

Encoding a text as JSON replaces each character by itself or by its escape. A pattern whose atoms are
replaced in the same way matches in the JSON whatever the pattern matches in the text. So a value that
was encoded once can be searched as it is, by one search, without visiting its texts one by one.

What is secret by its place, not by its looks, has a name beside it, and the name is a string of its own
or ends one: `"apiKey":`, `{"name":"API_KEY","value":`, `["tool","--password",`. So `secret_names` looks
for strings that end with such a name.

The patterns match at least wherever `Redactor.value` would change something, and sometimes where it
would not. All of this holds for JSON as msgspec writes it: no spaces, and nothing escaped that need
not be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from callsheet.redaction.rules import KeyTable

_ATOM = re.compile(
    r"(?P<syntax>\(\?[a-zA-Z]*:|[()|]|(?:[*+?]|\{\d+(?:,\d*)?\})\??)"
    r"|(?P<anchor>[$^]|\\[bB])"
    r"|\[\^?\]?(?:\\.|[^\]\\])*\]|\\x[0-9a-fA-F]{2}|\\?.",
    re.DOTALL,
)
_SHORT = {0x22: '"', 0x5C: r"\\", 0x08: "b", 0x09: "t", 0x0A: "n", 0x0C: "f", 0x0D: "r"}
_ALL = bytes(range(256))
_FEW = 9
_ESCAPED = frozenset(range(0x20)) | frozenset(b'"\\')

UNCERTAIN = (rb"\\u001b", rb"%[0-9A-Fa-f]{2}", rb"\[\d{1,3}(?:,(?:\d{1,3}|true|false)){7}")
"""Colours, codes as in a URL, a list of bytes: what has to be decoded before one can say more."""


def in_json(pattern: bytes) -> bytes:
    """Return the pattern that finds in JSON what this one finds in text. Anchors match anywhere."""

    def rewrite(atom: re.Match[str]) -> str:
        if atom["anchor"]:
            return ""
        return atom[0] if atom["syntax"] else _encoded(atom[0])

    return _ATOM.sub(rewrite, pattern.decode("latin-1")).encode("latin-1")


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
