"""Which ids were used, in memory that does not grow for ever, and grows little before."""

from __future__ import annotations

from array import array

EXACT = 1 << 17
"""Ids that are known. Of more, the oldest half is forgotten."""

_FIRST, _MORE = 1 << 8, 1 << 3
"""Room for hashes at first, and how many times more each time. Few sizes leave few holes in memory."""


class UsedIds:
    """The ids of calls, by session."""

    def __init__(self) -> None:
        self._new: _Hashes = _Hashes()
        self._old: _Hashes = _Hashes()

    def add(self, session: str, key: str) -> None:
        """Note that an id was used."""
        self._new.add(hash((session, key)))
        if self._new.count == EXACT // 2:
            self._old, self._new = self._new, self._old
            self._new.clear()

    def has(self, session: str, key: str) -> bool:
        """Whether an id was used."""
        found = hash((session, key))
        return self._new.has(found) or self._old.has(found)


class _Hashes:
    """A set of hashes, of 16 bytes each when it is full. A set of Python's takes some 80."""

    def __init__(self) -> None:
        self.count: int = 0
        self._slots: array[int] = array("q", [0]) * _FIRST

    def has(self, value: int) -> bool:
        """Whether a hash is there."""
        return self._slots[self._place(value)] != 0

    def add(self, value: int) -> None:
        """Put in a hash, if it is not there."""
        place = self._place(value)
        if self._slots[place]:
            return
        self._slots[place] = value or 1
        self.count += 1
        if 2 * self.count > len(self._slots):
            known, self._slots = self._slots, array("q", [0]) * (_MORE * len(self._slots))
            for one in known:
                if one:
                    self._slots[self._place(one)] = one

    def clear(self) -> None:
        """Forget all of them. The room stays: there will be as many again."""
        self.count = 0
        nothing = array("q", [0]) * _FIRST
        for place in range(0, len(self._slots), _FIRST):
            self._slots[place : place + _FIRST] = nothing

    def _place(self, value: int) -> int:
        """Return where a hash is, or would be: the first room from its own on that nobody else has."""
        value, slots = value or 1, self._slots
        last = len(slots) - 1
        place = value & last
        while (found := slots[place]) and found != value:
            place = (place + 1) & last
        return place
