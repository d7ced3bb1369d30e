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
from typing import Any, NamedTuple

from callsheet.limits.text import (
    ELLIPSIS,
    SMALLEST,
    Bounded,
    Phrases,
    bound_text,
    localized,
    size_of,
)
from callsheet.report.json import JsonObject, JsonValue

DEEPEST = 32
"""Below this, a value that has to be cut is left out as a whole."""

_TINY = len(ELLIPSIS.encode()) + 2
_BRACKETS = 2


class Member(NamedTuple):
    """What a member takes whole, what it must get at least, and what stands beside it (its key)."""

    size: int
    least: int
    beside: int = 1


def share_out(
    members: Sequence[Member], room: int, notice: int, *, keep_all: bool = False
) -> list[int | None]:
    """Share `room` bytes out; None for members that are left out, which all lie together.

    Where members are left out, a notice takes `notice` bytes. With `keep_all`, as many members as fit
    stay, from the start, however little each of them gets.
    """
    head, tail = 0, len(members)
    if sum(member.least + member.beside for member in members) > room:
        room -= notice
        left = room
        while head < tail:
            from_tail = not keep_all and head > len(members) - tail
            member = members[tail - 1 if from_tail else head]
            left -= member.least + member.beside
            if left < 0:
                break
            head, tail = (head, tail - 1) if from_tail else (head + 1, tail)
    else:
        head = tail
    kept = [*members[:head], *members[tail:]]
    shares: list[int | None] = [*_filled(kept, room)]
    shares[head:head] = [None] * (tail - head)
    return shares


def _filled(members: list[Member], room: int) -> list[int]:
    """Raise the shares of all members to one level, as water fills a vessel."""
    room -= sum(member.beside for member in members)

    def shares(level: int) -> list[int]:
        return [max(member.least, min(member.size, level)) for member in members]

    top = max((member.size for member in members), default=0)
    return shares(bisect_right(range(1, top + 1), room, key=lambda level: sum(shares(level))))


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
    if kind is list or kind is dict:
        return _shrink_members(value, room, depth, phrases)
    return ELLIPSIS if room >= _TINY else ""


def _shrink_members(
    value: list[Any] | JsonObject, room: int, depth: int, phrases: Phrases
) -> list[Any] | JsonObject:
    """Cut a list or an object: its members, and if there are too many, all but some of them."""
    is_object = isinstance(value, dict)
    pairs = list(value.items()) if is_object else [("", item) for item in value]
    mark = free_key(value) if is_object else ""
    phrase = "keys_cut" if is_object else "items_cut"
    shares: list[int | None] = [None] * len(pairs)
    if depth < DEEPEST:
        # Of an object's own members each is shown, however little; elsewhere a part must be of use.
        low = _TINY if is_object and depth == 0 else max(_TINY, min(1024, room // 8))
        members = [_member(key, item, low, is_object) for key, item in pairs]
        notice = _member(mark, localized(phrases, phrase, count=len(pairs)), 0, is_object)
        spare = notice.size + notice.beside
        shares = share_out(members, room - _BRACKETS, spare, keep_all=is_object)
    kept = [
        (key, _shrink(item, share, depth + 1, phrases))
        for (key, item), share in zip(pairs, shares, strict=True)
        if share is not None
    ]
    gone = shares.count(None)
    shown = kept.copy()
    if gone:
        at = len(kept) if is_object else shares.index(None)
        shown.insert(at, (mark, localized(phrases, phrase, count=gone)))
    for found in (shown, kept):
        cut = dict(found) if is_object else [item for _, item in found]
        if size_of(cut) <= room:
            break
    return cut


def _member(key: str, value: Any, low: int, is_object: bool) -> Member:
    size = size_of(value)
    least = min(size, low) if type(value) in (str, list, dict) else size
    return Member(size, least, size_of(key) + 2 if is_object else 1)


def free_key(fields: JsonObject) -> str:
    """Return a key for a notice that an object doesn't have yet."""
    key, number = ELLIPSIS, 2
    while key in fields:
        key, number = f"{ELLIPSIS} ({number})", number + 1
    return key
