"""Texts within a limit, counted on what they take as JSON, in UTF-8, quotes and escapes included.

What is kept is head and tail; between them stands how much was left out. A cut falls at the end of
a line where one is near, and never inside a grapheme or an escape sequence.
"""

from __future__ import annotations

from bisect import bisect_right

import msgspec
from msgspec import Struct

from callsheet.limits.cuts import cut_after, cut_before
from callsheet.limits.phrases import ELLIPSIS, Phrases, say
from callsheet.report.json import JsonValue

_encode = msgspec.json.Encoder().encode

SMALLEST = 2
"""The least that a limit can be: the bytes of an empty text. Smaller limits are taken as this."""

WIDEST = 6
"""Bytes that one character takes as JSON at most."""

_QUOTES = 2
_TRIES = 4


class Bounded(Struct, frozen=True):
    """A value within its limit.

    For text, the bytes are those of the text itself in UTF-8, and `kept_bytes` are those that are
    still there. For other values they are those of the JSON, before and after.
    """

    value: JsonValue
    kept_bytes: int
    total_bytes: int
    left_out_lines: int = 0

    @property
    def is_cut(self) -> bool:
        """Whether anything was left out."""
        return self.kept_bytes < self.total_bytes

    @property
    def left_out_bytes(self) -> int:
        """How many bytes were left out."""
        return self.total_bytes - self.kept_bytes


def size_of(value: JsonValue) -> int:
    """Return the bytes that a JSON value takes on the wire."""
    return len(_encode(value))


def text_fits(text: str, limit: int) -> bool:
    """Whether a text is within a limit. Most are so small that this needs no encoding."""
    length = len(text)
    return length * WIDEST + _QUOTES <= limit or (length < limit and size_of(text) <= limit)


def utf8_size(text: str) -> int:
    """Return the bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def bound_text(text: str, limit: int, *, phrases: Phrases = None) -> Bounded:
    """Return a text that takes at most `limit` bytes as JSON: the same, or its head and tail."""
    total = utf8_size(text)
    if text_fits(text, limit):
        return Bounded(text, total, total)
    room = max(limit, SMALLEST) - _QUOTES
    notice = _notice(phrases, total, text.count("\n"))
    spare = _escaped_size(notice) + 4  # the line ends around it
    for _ in range(_TRIES):
        if spare > room:
            break
        found = _head_and_tail(text, room - spare, total, phrases)
        over = size_of(found.value) - _QUOTES - room
        if over <= 0:
            return found
        spare += over  # a phrase may be longer for a smaller number
    return Bounded(ELLIPSIS if room >= len(ELLIPSIS.encode()) else "", 0, total, text.count("\n"))


def bound_line(text: str, limit: int) -> str:
    """Return a text on one line within a limit, with an ellipsis in its middle where it was cut."""
    if text_fits(text, limit):
        return text
    room = max(limit, SMALLEST) - _QUOTES - len(ELLIPSIS.encode())
    if room < 0:
        return ""
    head = cut_before(text, fitting_head(text, 0, room // 2))
    tail = cut_after(text, _fitting_tail(text, room - _escaped_size(text[:head])))
    return text[:head] + ELLIPSIS + text[max(head, tail) :]


def fitting_head(text: str, start: int, room: int) -> int:
    """Return the end of the longest piece from `start` on that takes at most `room` bytes."""
    longest = min(len(text) - start, room)
    if longest <= 0:
        return start
    sizes = range(1, longest + 1)
    return start + bisect_right(
        sizes, room, key=lambda length: _escaped_size(text[start : start + length])
    )


def _fitting_tail(text: str, room: int) -> int:
    """Return the start of the longest piece at the end that takes at most `room` bytes."""
    longest = min(len(text), room)
    if longest <= 0:
        return len(text)
    sizes = range(1, longest + 1)
    return len(text) - bisect_right(sizes, room, key=lambda length: _escaped_size(text[-length:]))


def _head_and_tail(text: str, room: int, total: int, phrases: Phrases) -> Bounded:
    head = fitting_head(text, 0, room // 2)
    head = cut_before(text, _line_end_before(text, head))
    tail = _fitting_tail(text, room - _escaped_size(text[:head]))
    tail = max(cut_after(text, _line_end_after(text, tail)), head)
    gone = text[head:tail]
    gone_bytes, gone_lines = utf8_size(gone), gone.count("\n")
    glue = "\n" if head and text[head - 1] != "\n" else ""
    notice = _notice(phrases, gone_bytes, gone_lines)
    value = f"{text[:head]}{glue}{notice}\n{text[tail:]}"
    return Bounded(value, total - gone_bytes, total, gone_lines)


def _line_end_before(text: str, at: int) -> int:
    """Move a cut back to the end of a line, if there is one in the last half of what is kept."""
    if text[at : at + 1] == "\n":
        return at + 1  # there is room for it, since the notice needs a line end before it anyway
    found = text.rfind("\n", at - at // 2, at)
    return found + 1 if found >= 0 else at


def _line_end_after(text: str, at: int) -> int:
    """Move a cut on to the start of a line, if there is one in the first half of what is kept."""
    if text[at - 1 : at] == "\n":
        return at
    found = text.find("\n", at, at + (len(text) - at) // 2)
    return found + 1 if found >= 0 else at


def _notice(phrases: Phrases, gone_bytes: int, gone_lines: int) -> str:
    if gone_lines:
        return say(phrases, "lines_cut", bytes=gone_bytes, lines=gone_lines)
    return say(phrases, "text_cut", bytes=gone_bytes)


def _escaped_size(text: str) -> int:
    return size_of(text) - _QUOTES
