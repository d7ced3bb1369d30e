"""JSON values within a limit. They stay valid JSON of the same shape.

A list stays a list, an object an object with the same keys at the top, a text a text. Long texts
keep head and tail; long lists keep their first and last items; what lies deep gets the smallest
share. A number is never cut: it stays whole, or goes with what is around it.

`share_out` computes how much each member of a list or an object gets. Small members stay whole, and
large ones get equal shares of what is left. Where that leaves too little for each to be of use,
members in the middle are left out, so that those at both ends can be read.

Values here are what `jsonsafe` returns.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from callsheet.limits.text import (
    ELLIPSIS,
    SMALLEST,
    Bounded,
    Phrases,
    bound_text,
    say,
    size_of,
    text_fits,
)
from callsheet.report.json import JsonObject, JsonValue


class Member(Struct):
    """What a member takes whole, what it must get at least, and what stands beside it (its key)."""

    size: int
    least: int
    beside: int = 1


class Shares(Struct, frozen=True):
    """What each member gets; None for those that are left out, which all lie together."""

    room: list[int | None]
    left_out: range


def share_out(
    members: Sequence[Member], room: int, notice: int, *, keep_all: bool = False
) -> Shares:
    """Share `room` bytes out. Where members are left out, a notice takes `notice` bytes.

    With `keep_all`, as many members as fit stay, from the start, however little each of them gets.
    """
    if sum(member.least + member.beside for member in members) <= room:
        return _filled(members, room, range(0))
    room -= notice
    head, tail = 0, len(members)
    while head < tail:
        from_tail = not keep_all and head > len(members) - tail
        member = members[tail - 1 if from_tail else head]
        room -= member.least + member.beside
        if room < 0:
            room += member.least + member.beside
            break
        head, tail = (head, tail - 1) if from_tail else (head + 1, tail)
    gone = range(head, tail)
    kept = [member for index, member in enumerate(members) if index not in gone]
    spent = sum(member.least + member.beside for member in kept)
    return _filled(members, room + spent, gone)


def _filled(members: Sequence[Member], room: int, gone: range) -> Shares:
    """Raise the shares of all that stay to one level, as water fills a vessel."""
    kept = [member for index, member in enumerate(members) if index not in gone]
    room -= sum(member.beside for member in kept)

    def taken(level: int) -> int:
        return sum(max(member.least, min(member.size, level)) for member in kept)

    top = max((member.size for member in kept), default=0)
    level = bisect_right(range(1, top + 1), room, key=taken)
    return Shares(
        [
            None if index in gone else max(member.least, min(member.size, level))
            for index, member in enumerate(members)
        ],
        gone,
    )


DEEPEST = 32
"""Below this, a value that has to be cut is left out as a whole."""

_TINY = len(ELLIPSIS.encode()) + 2
_BRACKETS = 2
_COMMA = 1
_COLON = 1


def value_fits(value: JsonValue, limit: int) -> bool:
    """Return whether a JSON value is within a limit."""
    if type(value) is str:
        return text_fits(value, limit)
    return size_of(value) <= limit


def bound_value(value: JsonValue, limit: int, *, phrases: Phrases = None) -> Bounded:
    """Return a JSON value that takes at most `limit` bytes: the same, or cut to the same shape."""
    if type(value) is str:
        return bound_text(value, limit, phrases=phrases)
    total = size_of(value)
    if total <= limit:
        return Bounded(value, total, total)
    cut = _shrink(value, max(limit, SMALLEST), 0, phrases)
    return Bounded(cut, size_of(cut), total)


def _shrink(value: Any, room: int, depth: int, phrases: Phrases) -> JsonValue:
    """Cut a value to a room of at least two bytes."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is str:
        return bound_text(value, room, phrases=phrases).value
    if size_of(value) <= room:
        return value
    if kind is list:
        return _shrink_list(value, room, depth, phrases)
    if kind is dict:
        return _shrink_object(value, room, depth, phrases)
    return ELLIPSIS if room >= _TINY else ""


def _shrink_list(items: list[Any], room: int, depth: int, phrases: Phrases) -> list[Any]:
    notice = say(phrases, "items_cut", count=len(items))
    kept: list[Any] = []
    if depth < DEEPEST:
        low = _least(room)
        members = [_member(item, low, _COMMA) for item in items]
        shares = share_out(members, room - _BRACKETS, size_of(notice) + _COMMA)
        kept = [
            _shrink(item, share, depth + 1, phrases)
            for item, share in zip(items, shares.room, strict=True)
            if share is not None
        ]
        if not shares.left_out:
            return kept
        notice = say(phrases, "items_cut", count=len(shares.left_out))
        shown = [*kept[: shares.left_out.start], notice, *kept[shares.left_out.start :]]
    else:
        shown = [notice]
    return shown if size_of(shown) <= room else kept


def _shrink_object(fields: JsonObject, room: int, depth: int, phrases: Phrases) -> JsonObject:
    notice = say(phrases, "keys_cut", count=len(fields))
    mark = free_key(fields)
    spare = size_of(mark) + size_of(notice) + _COLON + _COMMA
    kept: JsonObject = {}
    gone = len(fields)
    if depth < DEEPEST:
        low = _TINY if depth == 0 else _least(room)
        members = [
            _member(value, low, size_of(key) + _COLON + _COMMA) for key, value in fields.items()
        ]
        shares = share_out(members, room - _BRACKETS, spare, keep_all=True)
        for (key, value), share in zip(fields.items(), shares.room, strict=True):
            if share is not None:
                kept[key] = _shrink(value, share, depth + 1, phrases)
        gone = len(shares.left_out)
    if gone:
        shown = {**kept, mark: say(phrases, "keys_cut", count=gone)}
        return shown if size_of(shown) <= room else kept
    return kept


def free_key(fields: JsonObject, wanted: str = ELLIPSIS) -> str:
    """Return a key that an object doesn't have yet."""
    key, number = wanted, 2
    while key in fields:
        key, number = f"{wanted} ({number})", number + 1
    return key


def _member(value: Any, low: int, beside: int) -> Member:
    size = size_of(value)
    return Member(size, min(size, low) if type(value) in (str, list, dict) else size, beside)


def _least(room: int) -> int:
    """Return the least that is worth keeping of one member among many."""
    return max(_TINY, min(1024, room // 8))
