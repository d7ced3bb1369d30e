"""How the room of a list or an object is shared out among its members.

Small members are kept whole, and large ones get equal shares of what is left. Where even that
leaves too little for each to be of use, members in the middle are left out, so that those at both
ends can be read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct


class Member(Struct):
    """What a member takes whole, what it must be given at least, and what stands beside it (its key)."""

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
    """Share `room` bytes out. Where members are left out, `notice` bytes are needed to say so.

    With `keep_all`, as many as fit are kept from the start, however little each of them gets.
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
