"""Texts within a limit: where they may be cut, and what stands in the place of what was left out.

Limits count bytes as JSON takes them, in UTF-8, quotes and escapes included. A text that is too
long keeps its head and its tail; between them a notice states how much was left out. A cut falls at
the end of a line where one is near, and never inside a terminal's escape sequence or a grapheme
(`report.graphemes`).

Notices are English, unless the caller passes `phrases`: a function that returns the phrase for a
key and its numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import TypeAlias

import msgspec
from msgspec import Struct

from callsheet.report.graphemes import joined
from callsheet.report.humanize import plural
from callsheet.report.json import JsonValue
from callsheet.report.patterns import lazy

Phrases: TypeAlias = Callable[..., str] | None
"""Returns the phrase for a key of `ENGLISH` and its values, in another language."""

ELLIPSIS = "…"
"""The notice where there is no room for more. Also the key, in an object, of what was left out of it."""

ENGLISH: dict[str, str] = {
    "text_cut": "… {bytes} left out …",
    "lines_cut": "… {bytes} ({lines}) left out …",
    "items_cut": "… {count} left out …",
    "keys_cut": "… {count} left out …",
    "too_deep": "… nested too deep …",
    "cycle": "… contains itself …",
    "data_cut": "{mime}: {bytes} left out",
    "link_name": "the whole {field} ({bytes})",
}
"""Every key, with the values that its phrase takes."""


def localized(phrases: Phrases, key: str, **values: int | str) -> str:
    """Return the phrase for a key."""
    return (phrases or english)(key, **values)


def english(key: str, **values: int | str) -> str:
    """Return the English phrase for a key."""
    nouns = {"bytes": "byte", "lines": "line", "count": "key" if key == "keys_cut" else "item"}
    written = {
        name: plural(value, nouns[name]) if isinstance(value, int) else value
        for name, value in values.items()
    }
    return ENGLISH[key].format(**written)


_ESCAPE = lazy(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, moves
    r"|\x1b[\]PX^_]"  # OSC, DCS, SOS, PM, APC: strings that have an end, or are left at a line's end
    r"(?:[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)|[^\x07\x1b\x80-\x9f\n]*)"
    r"|[\x90\x98\x9d-\x9f][^\x07\x1b\x80-\x9f\n]*(?:\x07|\x1b\\|\x9c)?"  # the same, in one byte
    r"|\x1b[ -/]+[0-~]?"
    r"|\x1b[0-~]?"
)
_ONE_BYTE = "\x90\x98\x9b\x9d\x9e\x9f"


def cut_before(text: str, at: int) -> int:
    """Return the last place up to `at` where the text may be cut."""
    return _cut_near(text, at, -1)


def cut_after(text: str, at: int) -> int:
    """Return the first place from `at` on where the text may be cut."""
    return _cut_near(text, at, 1)


def _cut_near(text: str, at: int, step: int) -> int:
    at, before = min(max(at, 0), len(text)), -1
    while at != before:  # leaving a grapheme may lead into an escape sequence, and so on
        before, at = at, _escape_around(text, at)[step > 0]
        while 0 < at < len(text) and joined(text, at):
            at += step
    return at


def _escape_around(text: str, at: int) -> tuple[int, int]:
    """Return the ends of the escape sequence that a place lies in, or the place itself twice."""
    start = text.rfind("\x1b", 0, at)
    if not text.isascii():
        line = max(start, text.rfind("\n", 0, at)) + 1
        start = max(start, *(text.rfind(sign, line, at) for sign in _ONE_BYTE))
    if start >= 0 and (found := _ESCAPE.match(text, start)) and found.end() > at:
        return start, found.end()
    return at, at


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


def size_of(value: JsonValue) -> int:
    """Return the bytes that a JSON value takes on the wire."""
    return len(_encode(value))


def utf8_size(text: str) -> int:
    """Return the bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def bound_text(text: str, limit: int, *, phrases: Phrases = None) -> Bounded:
    """Return a text that takes at most `limit` bytes as JSON: the same, or its head and tail."""
    total = utf8_size(text)
    if size_of(text) <= limit:
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
    return Bounded(ELLIPSIS if room >= len(ELLIPSIS.encode()) else "", 0, total)


def bound_line(text: str, limit: int) -> str:
    """Return a text on one line within a limit, with an ellipsis in its middle where it was cut."""
    if size_of(text) <= limit:
        return text
    room = max(limit, SMALLEST) - _QUOTES - len(ELLIPSIS.encode())
    if room < 0:
        return ""
    head = cut_before(text, fitting_head(text, 0, room // 2))
    tail = cut_after(text, _fitting_tail(text, room - _escaped_size(text[:head])))
    return text[:head] + ELLIPSIS + text[max(head, tail) :]


def fitting_head(text: str, start: int, room: int) -> int:
    """Return the end of the longest piece from `start` on that takes at most `room` bytes."""
    sizes = range(1, min(len(text) - start, room) + 1)
    return start + bisect_right(
        sizes, room, key=lambda length: _escaped_size(text[start : start + length])
    )


def _fitting_tail(text: str, room: int) -> int:
    """Return the start of the longest piece at the end that takes at most `room` bytes."""
    sizes = range(1, min(len(text), room) + 1)
    return len(text) - bisect_right(sizes, room, key=lambda length: _escaped_size(text[-length:]))


def _head_and_tail(text: str, room: int, total: int, phrases: Phrases) -> Bounded:
    head = fitting_head(text, 0, room // 2)
    head = cut_before(text, _line_end_before(text, head))
    tail = _fitting_tail(text, room - _escaped_size(text[:head]))
    tail = max(cut_after(text, _line_end_after(text, tail)), head)
    gone = text[head:tail]
    gone_bytes = utf8_size(gone)
    glue = "\n" if head and text[head - 1] != "\n" else ""
    notice = _notice(phrases, gone_bytes, gone.count("\n"))
    value = f"{text[:head]}{glue}{notice}\n{text[tail:]}"
    return Bounded(value, total - gone_bytes, total)


def _line_end_before(text: str, at: int) -> int:
    """Move a cut back to the end of a line, if there is one in the last half of what remains."""
    if text[at : at + 1] == "\n":
        return at + 1  # there is room for it, since the notice needs a line end before it anyway
    found = text.rfind("\n", at - at // 2, at)
    return found + 1 if found >= 0 else at


def _line_end_after(text: str, at: int) -> int:
    """Move a cut on to the start of a line, if there is one in the first half of what remains."""
    if text[at - 1 : at] == "\n":
        return at
    found = text.find("\n", at, at + (len(text) - at) // 2)
    return found + 1 if found >= 0 else at


def _notice(phrases: Phrases, gone_bytes: int, gone_lines: int) -> str:
    if gone_lines:
        return localized(phrases, "lines_cut", bytes=gone_bytes, lines=gone_lines)
    return localized(phrases, "text_cut", bytes=gone_bytes)


def _escaped_size(text: str) -> int:
    return size_of(text) - _QUOTES


_PICTURES = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n\r"},
    0x7F: 0x2421,
    **{code: 0xFFFD for code in range(0x80, 0xA0) if code != 0x85},
}


def visible(text: str) -> str:
    """Return a text as it can be shown anywhere: `␛[31m` for what would have been red."""
    # Five searches for a character take a twentieth of one for a set of them.
    if "\x1b" in text or "\0" in text or "\b" in text or "\x7f" in text or "\x9b" in text:
        return text.translate(_PICTURES)
    return text
