"""Which processes write to a server, and which of them are gone.

Each holds an advisory lock for as long as its connection lives: the server lets go of it however the process
ends. A process that has lost its connection takes the lock again with the next one.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from secrets import token_hex
from typing import Any


class Writers:
    """The writers of one database, and which of them is us."""

    def __init__(self) -> None:
        self._pid: int = os.getpid()
        self._has_lock: bool = False
        self.me: str = f"{self._pid}-{token_hex(6)}"

    async def enter(self, db: Any, now: float) -> None:
        """Note that this process writes, by a connection that was just made."""
        self._has_lock = False
        await self.seen(db, now)

    async def seen(self, db: Any, now: float) -> None:
        """Note that this process still writes."""
        # A connection of ours that the server has not yet given up may still have the lock.
        if not self._has_lock:
            self._has_lock = await db.fetchval("SELECT pg_try_advisory_lock($1)", lock_of(self.me))
        await db.execute(
            "INSERT INTO callsheet.writers VALUES ($1, $2, $3, $3) "
            "ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at",
            self.me,
            self._pid,
            now,
        )

    async def leave(self, db: Any) -> None:
        """Note that this process writes no more."""
        await self.forget(db, self.me)

    async def gone(self, db: Any) -> list[tuple[str, float]]:
        """Return the writers that live no more, and when each was last seen. Called within a transaction.

        Those that have left calls open without being known as writers are among them. Until the transaction
        ends, nobody else takes care of the same.
        """
        known = await db.fetch(
            "SELECT id, seen_at FROM callsheet.writers UNION ALL "
            "SELECT DISTINCT writer, 0.0 FROM callsheet.calls "
            "WHERE writer IS NOT NULL AND writer NOT IN (SELECT id FROM callsheet.writers)"
        )
        return [
            (key, seen)
            for key, seen in sorted(tuple(row) for row in known)
            if key != self.me
            and await db.fetchval("SELECT pg_try_advisory_xact_lock($1)", lock_of(key))
        ]

    async def forget(self, db: Any, key: str) -> None:
        """Forget a writer that is gone."""
        await db.execute("DELETE FROM callsheet.writers WHERE id = $1", key)


def lock_of(key: str) -> int:
    """Return the number of a writer's lock."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), signed=True)
