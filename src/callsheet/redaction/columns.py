"""What stands before the text of each line: the numbers of a listing, a path, the time, quotes, `+`, `>`."""

from __future__ import annotations

import re

_LOOK_BACK = 200

_PLAIN = re.compile(
    rb"""[^A-Za-z\n]{0,40}"""  # numbers and signs: `12→`, `[3] `, `> > `, `"`
    rb"""|[^\s"'()]{1,150}[:-][0-9]{1,7}[:-]"""  # `path:12:`, `path-12-`
    rb"""|[^\s"'()]{1,150}\.[a-z0-9]{1,8}:"""  # `file.env:`
    rb"""|[^A-Za-z\n]{0,8}[A-Za-z][0-9]{1,7}[:.|)\]]?"""  # `L12:`
    rb"""|[0-9][0-9TZ:.,+/-]{7,}"""  # a time
)
_SPACE = re.compile(rb"[ \t]+")
_NUMBER = re.compile(rb"\b[a-f]*[0-9][0-9a-f]*\b|\b[a-f]{7,}\b|[0-9]+")


def begins_line(data: bytes, place: int) -> bool:
    """Whether nothing stands before this place in its line, or only what stands before every line.

    That is what numbers and signs are made of, or what the line before begins with too, numbers aside.
    """
    low = max(0, place - _LOOK_BACK)
    line = data.rfind(b"\n", low, place) + 1
    if not line and low:
        return False
    before = data[line:place].rstrip(b" \t\"'")
    if not before or _PLAIN.fullmatch(before):
        return True
    if before[-1:].isalpha() or not line:
        return False
    start = data.rfind(b"\n", max(0, line - 1 - 2 * _LOOK_BACK), line - 1) + 1
    return _shape(data[start : line - 1]).startswith(_shape(before))


def _shape(text: bytes) -> bytes:
    """Return the text with all numbers and gaps alike."""
    return _SPACE.sub(b" ", _NUMBER.sub(b"0", text))
