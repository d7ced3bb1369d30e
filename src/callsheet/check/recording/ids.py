"""Which ids were used, in memory that does not grow for ever."""

from __future__ import annotations

EXACT = 200_000
"""Ids that are known. Of more, the oldest half is forgotten."""


class UsedIds:
    """The ids of calls, by session."""

    def __init__(self) -> None:
        self._new: set[int] = set()
        self._old: set[int] = set()

    def add(self, session: str, key: str) -> None:
        """Note that an id was used."""
        self._new.add(hash((session, key)))
        if len(self._new) > EXACT // 2:
            self._old, self._new = self._new, set()

    def has(self, session: str, key: str) -> bool:
        """Whether an id was used."""
        found = hash((session, key))
        return found in self._new or found in self._old
