"""A store: one history in SQLite or PostgreSQL, chosen by its URL.

`Store` is what both have in common: all of reading, recovering and removing, over the tables and statements
of `database`, `queries` and `retention`. An engine adds how it is opened and closed, what a transaction is,
how it sees that a process is gone, and its upkeep. Get one by `callsheet.history.store_at(url)`.

Methods are async so that an engine can wait for a server. SQLite's never suspends: it works in the calling
thread, and blocks it. `History` therefore runs it in its own thread.
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
    """One stored history: open it, query it or write to it, and close it.

    Methods raise `HistoryError`s. `StoreUnavailable` means that the operation may succeed later.
    `StoreDamaged` means that the store must be closed and opened again. A bare `HistoryError`, a `ValueError`
    or a `TypeError` means that the data to write is at fault: trying again would fail again.
    """

    def __init__(self, url: str, writers: Writers) -> None:
        self.url: str = url
        """Where the store is, without a password."""
        self.writers: Writers = writers
        self.codec: Codec = Codec()
        """The codec of the payloads."""
        # Calls that this process has written as open, with blobs. Their next state may no longer use the
        # blobs, which must then be released.
        self._with_blobs: set[tuple[str, str]] = set()

    # Opening and writing

    @abstractmethod
    async def open(self, *, write: bool = True) -> list[str]:
        """Open the store, and create or migrate it.

        Args:
            write: Register this process as a writer, and close calls as abandoned whose processes are gone.
                If false, the store is only read.

        Returns:
            Messages for users: what was wrong and was repaired.

        Raises:
            NotKept: There is no history, and `write` is false.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the store."""

    @abstractmethod
    async def write(self, batch: RowBatch, writer: str | None = None) -> None:
        """Write all of a batch, or nothing. When this returns, the batch is durable.

        Writing the same row again changes nothing. A call that has ended does not open again; one that was
        closed as abandoned by mistake gets its real end.

        Args:
            batch: The rows. A call whose id is taken by another call of its session is renamed in it.
            writer: The process that the open calls belong to. Default: this one.
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
        """Return the summaries of the calls that a query selects, the newest first."""
        await self._index_for(query)
        return await self._run(lambda db: queries.heads(db, query))

    async def calls(self, query: Query) -> list[StoredCall]:
        """Return the complete calls that a query selects, the newest first."""
        await self._index_for(query)
        return await self._read(lambda db: queries.calls(db, query))

    async def session(self, session_id: str) -> StoredSession | None:
        """Return a session, or None if there is none with that id."""
        return await self._run(lambda db: queries.session(db, session_id))

    async def sessions(
        self,
        *,
        cwd: str | None = None,
        before: tuple[float, str] | None = None,
        limit: int = 50,
    ) -> list[StoredSession]:
        """Return sessions, the most recently used first.

        Args:
            cwd: Return only the sessions of this directory.
            before: Where an earlier page ended: the `updated_at` and id of its last session.
            limit: How many sessions to return at most.
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
        """Return counts, failures, durations and bytes of the calls that a query selects.

        `file_bytes` and `indexed` are those of the whole store.
        """
        await self._index_for(query)
        return await self._read(lambda db: queries.stats(db, query))

    async def count(self, query: Query) -> int:
        """Return how many calls a query selects."""
        await self._index_for(query)
        return await self._run(lambda db: queries.count(db, query))

    async def fill(self, limit: int) -> Fill:
        """Return how full the store is, and how many calls must go to meet a limit of bytes."""
        return await self._run(lambda db: db.fill(limit))

    # Upkeep

    async def _index_for(self, query: Query) -> None:
        """Index what is not indexed yet, if the query is a search. A process that can't write skips it."""
        if query.search is not None:
            with suppress(StoreUnavailable):
                while await self.index(wait=True):
                    pass

    @abstractmethod
    async def index(self, limit: int = 200, *, wait: bool = False) -> int:
        """Index calls for the search.

        Args:
            limit: How many calls to index at most.
            wait: Wait for another process that is indexing; else leave the work to it.

        Returns:
            How many calls were handled. 0 means that nothing is left, or that it was left to another process.
        """

    async def prune(self, keep: Retention, *, now: float | None = None, most: int = 500) -> Pruned:
        """Remove some of what exceeds the limits, and release the space. Call it until it removes nothing.

        Args:
            keep: The limits.
            now: The time that ages are measured from. Default: derived from the calls, as a clock may jump.
            most: How many calls to remove at once.

        Returns:
            What was removed. If that is no calls and no messages, nothing is left to remove, or another
            process is doing it.
        """
        return await self._transact(lambda db: retention.prune(db, keep, now, most))

    async def forget(self, session_id: str) -> Pruned:
        """Remove a session, with its calls and messages."""
        return await self._transact(lambda db: retention.forget(db, session_id))

    @abstractmethod
    async def vacuum(self) -> Vacuumed:
        """Make the store as small as it can be."""
