"""The store on a server: opening it, writing to it, closing it.

One connection does all of it; a batch is one transaction. Its tables can be distributed over a cluster: see
`schema`. A connection that was lost is made again when it is next needed; what then fails is
`StoreUnavailable`, and `History` tries it again.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from callsheet.history.abandoned import news_of_closed
from callsheet.history.errors import NotKept, StoreUnavailable
from callsheet.history.packing import Packer
from callsheet.history.places import without_password
from callsheet.history.rows import (
    Batch,
    Fill,
    Head,
    Pruned,
    Query,
    Retention,
    Stats,
    StoredCall,
    StoredMessage,
    StoredSession,
    Vacuumed,
)

from . import reading, schema, tidying, writing
from .connection import Connection, Taken, transaction
from .payloads import load_dictionaries
from .writers import Writers

_T = TypeVar("_T")

_SAME = "ISOLATION LEVEL REPEATABLE READ, READ ONLY"
"""Calls and their blobs are read as they were at one moment."""


class PostgresStore:
    """A history in a PostgreSQL database. It belongs to one event loop."""

    def __init__(self, url: str) -> None:
        self.url: str = without_password(url)
        self.packer: Packer = Packer()
        self._link: Connection = Connection(url, self._prepare)
        self._writers: Writers = Writers()
        self._is_open: bool = False
        self._writes: bool = False
        self._has_removed: bool = False
        self._with_blobs: set[tuple[str, str]] = set()

    # Opening and closing

    async def open(self, *, write: bool = True) -> list[str]:
        """Connect, and make or migrate the tables. Gives what people should know."""
        self._writes, self._is_open = write, True
        try:
            await self._run(_nothing)
            closed = await self.recover() if write else 0
        except BaseException:
            await self.close()
            raise
        if not closed:
            return []
        return [news_of_closed(closed)]

    async def _prepare(self, db: Any) -> None:
        """Make a new connection ready."""
        found = await schema.version(db)
        if found is None and not self._writes:
            raise NotKept(f"There is no history at {self.url} yet.")
        if found != schema.VERSION:
            await transaction(db, schema.prepare)
        if self._writes:
            await self._writers.enter(db, time.time())
            # Also those of another database: what waits to be written may have been made with them.
            for data in self.packer.known:
                await tidying.keep_dictionary(db, self.packer, data)
        await load_dictionaries(db, self.packer)

    async def close(self) -> None:
        """Let go of the connection."""
        if self._is_open and self._writes:
            with suppress(StoreUnavailable):
                await self._link.if_connected(self._writers.leave)
        self._is_open = False
        await self._link.close()

    # Writing

    async def write(self, batch: Batch, writer: str | None = None) -> None:
        """Write all of a batch, or nothing."""

        async def work(db: Any) -> None:
            if is_taken:
                await writing.rename_calls(db, batch.calls)
            await writing.write(db, batch, writer or self._writers.me, self._with_blobs)
            await self._writers.seen(db, time.time())

        is_taken = False
        try:
            await self._transact(work)
        except Taken:  # an id that another call has
            is_taken = True
            await self._transact(work)
        for row in batch.calls:
            key = (row.session_id, row.owner)
            if row.is_open and row.blobs:
                self._with_blobs.add(key)
            elif not row.is_open:
                self._with_blobs.discard(key)

    async def recover(self) -> int:
        """Close the calls of processes that are gone."""
        return await self._transact(self._recover)

    async def _recover(self, db: Any) -> int:
        count = 0
        for key, seen in await self._writers.gone(db):
            for call in await reading.calls_of_writer(db, self.packer, key):
                session = await reading.session(db, call.head.session_id)
                locale = session.info.get("locale") if session else None
                count += await writing.abandon(db, self.packer, call, seen, locale)
            await self._writers.forget(db, key)
        return count

    async def _run(self, work: Callable[[Any], Awaitable[_T]]) -> _T:
        return await self._opened().run(work)

    async def _transact(self, work: Callable[[Any], Awaitable[_T]], kind: str = "") -> _T:
        return await self._opened().transact(work, kind)

    def _opened(self) -> Connection:
        if not self._is_open:
            raise StoreUnavailable("The history is not open.")
        return self._link

    # Reading

    async def heads(self, query: Query) -> list[Head]:
        """Return the calls that are asked for, as a list shows them."""
        await self._index_all(query)
        return await self._run(lambda db: reading.heads(db, query))

    async def calls(self, query: Query) -> list[StoredCall]:
        """Return the calls that are asked for, whole."""
        await self._index_all(query)
        return await self._transact(lambda db: reading.calls(db, self.packer, query), _SAME)

    async def session(self, session_id: str) -> StoredSession | None:
        """Return a session."""
        return await self._run(lambda db: reading.session(db, session_id))

    async def sessions(
        self,
        *,
        cwd: str | None = None,
        before: tuple[float, str] | None = None,
        limit: int = 50,
    ) -> list[StoredSession]:
        """Return sessions, the one that was used last first."""
        return await self._run(lambda db: reading.sessions(db, cwd, before, limit))

    async def timeline(
        self, session_id: str, *, after: int = -1, limit: int = 100
    ) -> Sequence[StoredCall | StoredMessage]:
        """Return what a session has said and done after a position."""
        return await self._transact(
            lambda db: reading.timeline(db, self.packer, session_id, after, limit), _SAME
        )

    async def last_position(self, session_id: str) -> int:
        """Return the position of the last thing in a session's timeline, or -1."""
        return await self._run(lambda db: reading.last_position(db, session_id))

    async def stats(self, query: Query) -> Stats:
        """Count calls, failures, durations and bytes."""
        await self._index_all(query)
        return await self._transact(lambda db: reading.stats(db, query), _SAME)

    async def count(self, query: Query) -> int:
        """Return how many calls are asked for."""
        await self._index_all(query)
        return await self._run(lambda db: reading.count(db, query))

    async def fill(self, limit: int) -> Fill:
        """Return how full it is, and what goes if it may have so many bytes."""
        return await self._run(lambda db: tidying.fill(db, limit))

    # Tidying up

    async def _index_all(self, query: Query) -> None:
        """Before a search, index what is not indexed yet, as far as this process may."""
        if query.search is not None:
            with suppress(StoreUnavailable):
                while await self._index(1000, wait=True):
                    pass

    async def index(self, limit: int = 200) -> int:
        """Index so many calls for the search, at most."""
        return await self._index(limit, wait=False)

    async def _index(self, limit: int, *, wait: bool) -> int:
        return await self._transact(lambda db: tidying.index(db, self.packer, limit, wait=wait))

    async def prune(self, keep: Retention, *, now: float | None = None, most: int = 500) -> Pruned:
        """Remove some of what is not to be kept."""
        pruned = await self._transact(lambda db: tidying.prune(db, self.packer, keep, now, most))
        if pruned.calls or pruned.messages:
            self._has_removed = True
        elif self._has_removed:  # that was all of it
            await self._give_back()
        return pruned

    async def forget(self, session_id: str) -> Pruned:
        """Remove a session, with all that it has said and done.

        Whoever asks for it does not wait until its space is given back: the next `prune` does that.
        """
        pruned = await self._transact(lambda db: tidying.forget(db, self.packer, session_id))
        self._has_removed = True
        return pruned

    async def _give_back(self) -> None:
        await self._run(tidying.give_back)
        self._has_removed = False

    async def vacuum(self) -> Vacuumed:
        """Make the tables as small as they can be, and learn a better dictionary if there is one."""
        before = await self._bytes()
        learned = await self._run(lambda db: tidying.learn(db, self.packer))
        if learned is not None:  # it is kept before anything is made with it
            await self._run(lambda db: tidying.keep_dictionary(db, self.packer, learned))
            self.packer.use(learned)
        await self._transact(tidying.clear_leftovers)
        await self._run(tidying.vacuum)
        return Vacuumed(
            before, await self._bytes(), None if learned is None else self.packer.dictionary
        )

    async def _bytes(self) -> int:
        return await self._run(lambda db: db.fetchval(reading.BYTES))


async def _nothing(_db: Any) -> None:
    """Do nothing: to connect is enough."""
