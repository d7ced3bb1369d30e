"""A store: one history in SQLite or PostgreSQL, chosen by its URL.

`Store` is what both have in common: all of reading, recovering and removing, over the tables and statements
of `database`, `queries` and `retention`. An engine adds how it is opened and closed, what a transaction is,
how it sees that a process is gone, and its upkeep. Get one by `callsheet.history.store_at(url)`.

Methods are async so that an engine may wait for a server. SQLite's does not wait: it works in the thread of
whoever calls it, and `History` gives it a thread of its own.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from callsheet.history import queries, retention
from callsheet.history.call_records import abandoned, news_of_closed
from callsheet.history.codec import Codec, shipped_dictionary
from callsheet.history.database import Database
from callsheet.history.rows import (
    Fill,
    Head,
    Pruned,
    Query,
    Retention,
    RowBatch,
    Stats,
    StoredCall,
    StoredMessage,
    StoredSession,
    Vacuumed,
)
from callsheet.history.store_errors import StoreUnavailable

_T = TypeVar("_T")

Work = Callable[[Database], Awaitable[_T]]


class Writers(ABC):
    """The processes that write to a store, and which of them are gone.

    A process that writes has a row, and holds a lock for as long as it lives, which the system or the server
    releases however it ends. An open call belongs to a writer: when that is gone, nobody will end the call.
    """

    def __init__(self) -> None:
        self.me: str = ""
        self.pid: int = 0

    @abstractmethod
    async def enter(self, db: Database) -> None:
        """Note that this process writes from now on, within a transaction."""

    async def leave(self, db: Database) -> None:
        """Note that this process writes no more."""
        await self.forget(db, self.me)

    async def seen(self, db: Database, now: float) -> None:
        """Note that this process writes, within a transaction."""
        await db.fetch(
            "INSERT INTO writers VALUES (?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at",
            self.me,
            self.pid,
            now,
            now,
        )

    async def gone(self, db: Database) -> list[tuple[str, float]]:
        """Return the writers that are gone, and when each was last seen, within a transaction.

        Those that have left calls open without having a row are among them.
        """
        known = await db.fetch(
            "SELECT id, seen_at FROM writers UNION ALL SELECT DISTINCT writer, 0.0 FROM calls "
            "WHERE writer > '' AND writer NOT IN (SELECT id FROM writers)"
        )
        return [
            (key, seen)
            for key, seen in sorted(tuple(row) for row in known)
            if key != self.me and await self._is_gone(db, key, seen)
        ]

    @abstractmethod
    async def _is_gone(self, db: Database, key: str, seen: float) -> bool: ...

    async def forget(self, db: Database, key: str) -> None:
        """Remove the row of a writer that is gone."""
        await db.fetch("DELETE FROM writers WHERE id = ?", key)


class Store(ABC):
    """One history. Errors are `HistoryError`s: `StoreUnavailable` means that it may work later.

    `StoreDamaged` means that it is to be closed and opened anew. A bare `HistoryError`, or a `ValueError` or
    `TypeError`, means that what was to be written is at fault, and would be again.
    """

    def __init__(self, url: str, writers: Writers) -> None:
        self.url: str = url
        """Where it is, without a password."""
        self.writers: Writers = writers
        self.codec: Codec = Codec()
        """What payloads are made with."""
        # Calls that this process has written as open, with blobs: their next state may not use these.
        self._with_blobs: set[tuple[str, str]] = set()

    # Opening and writing

    @abstractmethod
    async def open(self, *, write: bool = True) -> list[str]:
        """Open it, and make or migrate it.

        Args:
            write: Note this process as one that writes, and close calls as abandoned whose processes are
                gone. Without it, the store is only read.

        Returns:
            What users should know: what was wrong and was mended.

        Raises:
            NotKept: There is no history, and it was to be read only.
        """

    @abstractmethod
    async def close(self) -> None:
        """Let go of it."""

    @abstractmethod
    async def write(self, batch: RowBatch, writer: str | None = None) -> None:
        """Write all of a batch, or nothing. When this returns, it is durable.

        The same row again changes nothing. A call that has ended does not open again; one that was closed
        as abandoned by mistake gets its true end.

        Args:
            batch: The rows. A call whose id another call of its session has is renamed in it.
            writer: Whom the open calls belong to; by default, this process.
        """

    def _note_blobs(self, batch: RowBatch) -> None:
        """Note that a batch is durable."""
        known = self._with_blobs
        for row in batch.calls:
            if row.is_open and row.blobs:
                known.add((row.session_id, row.owner))
            elif known and not row.is_open:
                known.discard((row.session_id, row.owner))

    @abstractmethod
    async def _run(self, work: Work[_T]) -> _T:
        """Do something with the connection."""

    @abstractmethod
    async def _transact(self, work: Work[_T]) -> _T:
        """Do something in one transaction."""

    async def _read(self, work: Work[_T]) -> _T:
        """Read several things as they are at one moment, where that makes a difference."""
        return await self._run(work)

    async def _load_dictionaries(self, db: Database, *, write: bool) -> None:
        """Make all payloads of the store readable, and those that are written now."""
        if write:
            await db.fetch(
                "INSERT INTO dictionaries VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                self.codec.dictionary_id,
                shipped_dictionary(),
                time.time(),
                "shipped",
            )
        for (data,) in await db.fetch("SELECT data FROM dictionaries"):
            self.codec.add_dictionary(data)

    async def _recovery_news(self) -> list[str]:
        closed = await self.recover()
        return [news_of_closed(closed)] if closed else []

    async def recover(self) -> int:
        """Close the calls of processes that are gone as abandoned. Return how many there were."""
        return await self._transact(self._recover)

    async def _recover(self, db: Database) -> int:
        count = 0
        for key, seen in await self.writers.gone(db):
            for call in await queries.calls_of_writer(db, key):
                count += await self._abandon(db, call, seen)
            await self.writers.forget(db, key)
        return count

    async def _abandon(self, db: Database, call: StoredCall, seen: float) -> int:
        head = call.head
        session = await queries.session(db, head.session_id)
        locale = session.info.get("locale") if session else None
        record = abandoned(call.record, seen or head.updated_at, locale)
        report, encoded = record.report, self.codec.encode(record)
        await db.store_blobs(encoded.blobs)
        closed = await db.fetch(
            "UPDATE calls SET status = ?, reason = ?, duration_ms = ?, writer = NULL, size = ?, payload = ? "
            "WHERE session_id = ? AND call_id = ? AND writer IS NOT NULL RETURNING key",
            report.status.value,
            report.notes.get("reason"),
            report.notes.get("durationMs"),
            encoded.size,
            encoded.payload,
            head.session_id,
            head.call_id,
        )
        blobs = [blob.hash for blob in encoded.blobs]
        await db.use_blobs([(head.session_id, key, blobs) for (key,) in closed])
        return len(closed)

    # Reading

    async def heads(self, query: Query) -> list[Head]:
        """Return the calls that are asked for, the newest first, as a list shows them."""
        await self._index_for(query)
        return await self._run(lambda db: queries.heads(db, query))

    async def calls(self, query: Query) -> list[StoredCall]:
        """Return the calls that are asked for, the newest first, whole."""
        await self._index_for(query)
        return await self._read(lambda db: queries.calls(db, query))

    async def session(self, session_id: str) -> StoredSession | None:
        """Return a session, or None if there is no such."""
        return await self._run(lambda db: queries.session(db, session_id))

    async def sessions(
        self,
        *,
        cwd: str | None = None,
        before: tuple[float, str] | None = None,
        limit: int = 50,
    ) -> list[StoredSession]:
        """Return sessions, the one that was used last first.

        Args:
            cwd: Only those of this directory.
            before: Where an earlier page ended: the `updated_at` and id of its last session.
            limit: How many, at most.
        """
        return await self._run(lambda db: queries.sessions(db, cwd, before, limit))

    async def timeline(
        self, session_id: str, *, after: int = -1, limit: int = 100
    ) -> Sequence[StoredCall | StoredMessage]:
        """Return a session's messages and calls after a position, in order."""
        return await self._read(lambda db: queries.timeline(db, session_id, after, limit))

    async def last_position(self, session_id: str) -> int:
        """Return the position of the last entry of a session's timeline, or -1."""
        return await self._run(lambda db: queries.last_position(db, session_id))

    async def stats(self, query: Query) -> Stats:
        """Count calls, failures, durations and bytes, of the calls that are asked for.

        `file_bytes` and `indexed` are those of the whole store.
        """
        await self._index_for(query)
        return await self._read(lambda db: queries.stats(db, query))

    async def count(self, query: Query) -> int:
        """Return how many calls are asked for."""
        await self._index_for(query)
        return await self._run(lambda db: queries.count(db, query))

    async def fill(self, limit: int) -> Fill:
        """Return how full it is, and what goes if it may have so many bytes."""
        return await self._run(lambda db: db.fill(limit))

    # Upkeep

    async def _index_for(self, query: Query) -> None:
        """Before a search, index what is not indexed yet, as far as this process may."""
        if query.search is not None:
            with suppress(StoreUnavailable):
                while await self.index(wait=True):
                    pass

    @abstractmethod
    async def index(self, limit: int = 200, *, wait: bool = False) -> int:
        """Index so many calls for the search, at most. Return how many it were; 0: all are.

        Without `wait`, another process that does it just now is left to it.
        """

    async def prune(self, keep: Retention, *, now: float | None = None, most: int = 500) -> Pruned:
        """Remove some of what is not to be kept, `most` calls at once, and give the space back.

        Without `now`, how old calls are is judged by the calls themselves, and not by the clock alone.

        Returns:
            What was removed. No calls and no messages: nothing is left to be removed.
        """
        return await self._transact(lambda db: retention.prune(db, keep, now, most))

    async def forget(self, session_id: str) -> Pruned:
        """Remove a session, with its calls and messages."""
        return await self._transact(lambda db: retention.forget(db, session_id))

    @abstractmethod
    async def vacuum(self) -> Vacuumed:
        """Make the store as small as it can be."""
