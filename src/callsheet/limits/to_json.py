"""Any Python value as a JSON value that a report accepts. Never raises.

Most values are clean already, and come back as they are: the same object. Others are copied, and in
the copy everything is one of JSON's own: objects become dicts or text (see `plain`), keys become text
and stay apart, what is no number for JSON becomes text, and lone surrogates become U+FFFD.

Depth and size are bounded, so that neither a cycle nor a list of lists of lists of the same thing
can do harm. These are the limits of what can be handled; those of what is shown are `bound`'s.
"""

# Anything at all passes here, of types that nobody can know.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from math import isfinite
from typing import Any

import msgspec

from callsheet.limits.phrases import ELLIPSIS, Phrases, say
from callsheet.limits.plain import MAX_ITEMS, name_of, step
from callsheet.limits.text import SMALLEST, WIDEST, size_of
from callsheet.limits.values import bound_value, free_key
from callsheet.report.json import MAX_DEPTH, MAX_INT_BITS, JsonObject, JsonValue

MAX_BYTES = 16 * 1024 * 1024
"""Bytes, as JSON, of a value at most, unless told otherwise. It is also the most that a spill holds."""

_encode = msgspec.json.Encoder().encode
_INT_END = 1 << 64
_LONGEST_SCALAR = 24
"""Bytes that a number (of 64 bits), true, false or null takes at most, with its comma."""

_STEPS = 6
_KEY_DEPTH = 4
_OWN = frozenset({dict, list, str, int, float, bool, type(None)})


def jsonsafe(
    value: Any,
    *,
    max_depth: int = MAX_DEPTH,
    max_bytes: int = MAX_BYTES,
    phrases: Phrases = None,
) -> JsonValue:
    """Return a JSON value for any value, nested and sized within limits. Clean ones come back as they are."""
    if type(value) is dict and max_depth > 0 and _is_flat_and_small(value, max_bytes):
        return value
    return _jsonsafe(value, min(max_depth, MAX_DEPTH), max(max_bytes, SMALLEST), phrases)


def _is_flat_and_small(fields: dict[Any, Any], room: int) -> bool:
    """See quickly what is nearly always so: a few fields of plain text and numbers."""
    try:
        for key, item in fields.items():
            kind = type(item)
            if type(key) is not str or not key.isascii():
                return False
            if kind is str and item.isascii():
                room -= (len(key) + len(item) + 2) * WIDEST
            elif kind is bool or item is None or (kind is int and -_INT_END < item < _INT_END):
                room -= len(key) * WIDEST + _LONGEST_SCALAR + 4
            else:
                return False
    except RuntimeError:  # another thread changes it
        return False
    return room > SMALLEST


def fix_text(text: str) -> str:
    """Return text that can be written as UTF-8: pairs of surrogates become one, lone ones U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _jsonsafe(value: Any, max_depth: int, max_bytes: int, phrases: Phrases) -> JsonValue:
    try:
        if _is_clean(value, max_depth, max_bytes):
            return value
    except RuntimeError:  # no stack left for the encoder; or another thread changes the value
        pass
    for depth in (max_depth, max_depth // 4, 1):  # near the end of the stack, less must do
        try:
            safe = _Copy(depth, max_bytes, phrases).of(value, depth)
            return bound_value(safe, max_bytes, phrases=phrases).value
        except Exception:  # noqa: BLE001 - whatever it is, a report goes on
            continue
    return ELLIPSIS if max_bytes >= size_of(ELLIPSIS) else ""


def _is_clean(value: Any, max_depth: int, max_bytes: int) -> bool:
    """Whether a value is plain JSON within the limits. Goes level by level: cycles end at `max_depth`."""
    level, least = [value], 0
    for left in range(max_depth, -1, -1):
        deeper: list[Any] = []
        length = _clean_length(level, deeper, left)
        least += len(level) + length
        if length < 0 or least + len(deeper) > max_bytes:
            return False
        if not deeper:
            return least * _LONGEST_SCALAR <= max_bytes or size_of(value) <= max_bytes
        level = deeper
    return False


def _clean_length(level: list[Any], deeper: list[Any], left: int) -> int:
    """Return the length of a level's texts, -1 if it isn't clean. What is below goes into `deeper`."""
    length = 0
    for item in level:
        kind = type(item)
        if kind is str:
            if not item.isascii() and not _is_unicode(item):
                return -1
            length += len(item)
        elif kind is dict and left:
            for key in item:
                if type(key) is not str or not (key.isascii() or _is_unicode(key)):
                    return -1
                length += len(key)
            deeper.extend(item.values())
        elif kind is list and left:
            deeper.extend(item)
        elif not _is_clean_scalar(item):
            return -1
    return length


def _is_clean_scalar(item: Any) -> bool:
    kind = type(item)
    if kind is int:
        return -_INT_END < item < _INT_END or item.bit_length() <= MAX_INT_BITS
    return kind is bool or item is None or (kind is float and isfinite(item))


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Copy:
    """One walk through a value. `room` and `items` are what is left; then it stops."""

    def __init__(self, depth: int, max_bytes: int, phrases: Phrases) -> None:
        self.max_depth: int = depth
        self.room: int = max_bytes
        self.items: int = MAX_ITEMS
        self.phrases: Phrases = phrases
        self.open: set[int] = set()

    def of(self, value: Any, depth: int) -> JsonValue:
        """Return the copy of a value that may hold `depth` levels of lists and objects."""
        if id(value) in self.open:
            return say(self.phrases, "cycle")
        opened: list[Any] = []  # kept, so that no id is used again while it counts
        try:
            for _ in range(_STEPS):
                if type(value) in _OWN:
                    return self._own(value, depth)
                opened.append(value)
                self.open.add(id(value))
                value = step(value, max(self.room, 0))
                if id(value) in self.open:
                    return say(self.phrases, "cycle")
            return self._own(name_of(type(value)), depth)
        finally:
            self.open.difference_update(map(id, opened))

    def _own(self, value: Any, depth: int) -> JsonValue:
        """Copy a value of one of JSON's own types."""
        kind = type(value)
        self.room -= 1
        self.items -= 1
        if kind is str:
            self.room -= len(value)
            return fix_text(value)
        if kind is dict or kind is list:
            if depth <= 0:
                return say(self.phrases, "too_deep")
            self.open.add(id(value))
            try:
                return self._object(value, depth) if kind is dict else self._list(value, depth)
            finally:
                self.open.discard(id(value))
        if kind is int and not -_INT_END < value < _INT_END:
            return self._large(value)
        if kind is float and not isfinite(value):
            return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        return value

    def _large(self, value: int) -> JsonValue:
        """Return a whole number that is too long for many readers as text."""
        bits = value.bit_length()
        if bits <= MAX_INT_BITS:
            return value
        if bits > 4 * max(self.room, 0):
            return f"<int of {bits:,} bits>"
        try:
            text = str(value)
        except ValueError:  # Python refuses to write very long ones as decimals
            text = hex(value)
        self.room -= len(text)
        return text

    def _list(self, items: list[Any], depth: int) -> list[JsonValue]:
        out: list[JsonValue] = []
        for item in items:
            if self.room < 0 or self.items < 0:
                out.append(say(self.phrases, "items_cut", count=max(len(items) - len(out), 1)))
                break
            out.append(self.of(item, depth - 1))
        return out

    def _object(self, fields: dict[Any, Any], depth: int) -> JsonObject:
        out: JsonObject = {}
        taken: dict[str, int] = {}
        for key, item in list(fields.items()):
            if self.room < 0 or self.items < 0:
                left = say(self.phrases, "keys_cut", count=len(fields) - len(out))
                out[free_key(out)] = left
                break
            name = key if type(key) is str and key.isascii() else self._key(key)
            self.room -= len(name)
            if name in out:
                name = _apart(name, out, taken)
            out[name] = self.of(item, depth - 1)
        return out

    def _key(self, key: Any) -> str:
        plain = self.of(key, _KEY_DEPTH)
        if type(plain) is str:
            return plain
        return _encode(plain).decode()


def _apart(name: str, out: JsonObject, taken: dict[str, int]) -> str:
    """Return another name for a key that is there already, so that neither value is lost."""
    number = taken.get(name, 1) + 1
    while f"{name} ({number})" in out:
        number += 1
    taken[name] = number
    return f"{name} ({number})"
