"""How much work a text may cause. Where there is far more to look at than in any real text, looking ends.

Most places that are looked at cost a few microseconds, and real texts have some dozens of them in a
megabyte. A text that has one every few bytes would take minutes. So each text, each nested value and each
stream has a budget; it grows with what is read, and when it is used up, what may be secret is hidden unread.
"""

from __future__ import annotations

FREE = 2048
"""Places that are looked at in any text, however short; and the most that can be saved up."""

EVERY = 16_384
"""Bytes that pay for one more place."""

LEAST = 64
"""What must be left to go on."""

UNSEARCHED = "unsearched"
"""The rule that stands in the mark of what was hidden unread."""


class Budget:
    """Counts what is left to spend."""

    __slots__ = ("_bytes", "left")

    def __init__(self) -> None:
        self.left: int = FREE
        self._bytes = 0

    @property
    def is_spent(self) -> bool:
        """Whether no more may be looked at for now."""
        return self.left < LEAST

    def earn(self, size: int) -> None:
        """Add what so many new bytes pay for."""
        places, self._bytes = divmod(self._bytes + size, EVERY)
        self.left = min(FREE, self.left + places)

    def spend(self, places: int) -> None:
        """Take off what was looked at."""
        self.left -= places
