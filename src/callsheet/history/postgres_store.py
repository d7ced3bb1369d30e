"""The store on a PostgreSQL server: its dialect, the processes that write to it, opening and closing.

One connection does all of it; a batch is one transaction. A connection that was lost is made again when it is
next needed; what then fails is `StoreUnavailable`, and `History` tries it again.

A blob that a row refers to is locked, in shared mode, until the row is committed. A transaction that removes
blobs locks them exclusively first, and then checks whether they are used. So no blob is removed that is used.
A process that writes only records the blobs that it uses no more, in `leftovers`; `prune` removes them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from itertools import count
from secrets import token_hex
from typing import Any, TypeVar

from callsheet.history import postgres_connection, queries, retention
from callsheet.history.codec import Codec
from callsheet.history.database import Database, Removed, Values, rename_calls, write_batch
from callsheet.history.postgres_connection import LONG, TABLES, Connection, Taken, transaction
from callsheet.history.rows import BlobRow, Fill, Pruned, Retention, RowBatch, Vacuumed
from callsheet.history.store import Store, Work, Writers
from callsheet.history.store_errors import NotKept, StoreUnavailable
from callsheet.history.url import without_password
from callsheet.report.terminal import CallRecord

_T = TypeVar("_T")

INDEX_LOCK = 0x63616C6C73680002
PRUNE_LOCK = 0x63616C6C73680003

ROW = 400
"""Bytes that a row takes besides its payload, with its indexes, more or less."""

FREE = 1 << 20
"""Bytes that may lie idle in a table."""

_SNAPSHOT = "ISOLATION LEVEL REPEATABLE READ, READ ONLY"
"""Calls and their blobs are read as they were at one moment."""

_SIZED = (("messages", "payload"), ("blobs", "data"), ("calls", "payload"))
"""The tables that grow, and the column that they grow by."""

_BYTES = """
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::int8
FROM pg_class WHERE relnamespace = 'callsheet'::regnamespace AND relkind = 'r'
"""


@lru_cache(maxsize=256)
def _numbered(sql: str) -> str:
    """Return a statement with PostgreSQL's `$1`, `$2`, … for each `?`."""
    first, *rest = sql.split("?")
    return first + "".join(f"${number}{part}" for number, part in zip(count(1), rest, strict=False))


class PostgresDatabase(Database):
    """A connection to a server."""

    for_update: str = " FOR UPDATE"
    indexed_calls: str = "calls_text"

    def __init__(self, db: Any, codec: Codec) -> None:
        super().__init__(codec)
        self.db: Any = db

    async def fetch(self, sql: str, *values: Any) -> Sequence[Values]:
        """Run a statement, and return its rows."""
        return await self.db.fetch(_numbered(sql), *self._row(values))

    async def execute_many(self, sql: str, rows: Sequence[Values]) -> None:
        """Run a statement once with each of these rows of values."""
        if rows:
            await self.db.executemany(_numbered(sql), [self._row(row) for row in rows])

    def _row(self, values: Values) -> list[Any]:
        return [self.storable(one) if isinstance(one, str) else one for one in values]

    def storable(self, text: str) -> str:
        """Return a text for a column, which has no place for NUL."""
        return text.replace("\0", "\ufffd") if "\0" in text else text

    # Blobs

    async def store_blobs(self, blobs: Iterable[BlobRow]) -> None:
        """Store blobs that are not there yet, and hold all of them until the transaction ends."""
        missing = {blob.hash: blob for blob in blobs}
        while missing:
            held = await self.fetch_in(
                "SELECT hash FROM blobs WHERE hash IN ({}) FOR KEY SHARE", list(missing)
            )
            for (key,) in held:
                del missing[key]
            rows = [missing[key] for key in sorted(missing)]
            await self.execute_many(
                "INSERT INTO blobs VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                [(blob.hash, blob.size, blob.data) for blob in rows],
            )

    async def release_blobs(self, hashes: Iterable[bytes]) -> None:
        """Record blobs that a row uses no more: `prune` removes them if no other row uses them."""
        await self.execute_many(
            "INSERT INTO leftovers VALUES (?) ON CONFLICT DO NOTHING", [(key,) for key in hashes]
        )

    async def clear_leftovers(self) -> None:
        """Remove the blobs that rows have used for a while, if nobody uses them now."""
        left = await self.fetch("DELETE FROM leftovers RETURNING hash")
        await self.remove_unused_blobs([key for (key,) in left])

    # The index of words

    def match(self, phrases: list[list[str]]) -> tuple[str, list[tuple[str, Values]]]:
        """Return what to join to calls, and conditions, for a search.

        The index knows which words there are. Their order is looked up in the texts, for phrases of several.
        """
        words = [f"'{word}'" for phrase in phrases for word in phrase]
        terms: list[tuple[str, Values]] = [
            ("t.words @@ ?::text::tsquery", [" & ".join(words) + ":*"])
        ]
        for number, phrase in enumerate(phrases, 1):
            if len(phrase) > 1:
                end = "" if number == len(phrases) else " "
                terms.append(("strpos(t.texts, ?) > 0", [f" {' '.join(phrase)}{end}"]))
        same = "t.session_id = c.session_id AND t.call_id = c.call_id"
        return f" JOIN calls_text t ON {same}", terms

    async def index(self, limit: int, *, wait: bool) -> int:
        """Index so many calls that have ended, at most. Return how many; one process does it at a time."""
        if wait:
            await self.fetch("SELECT pg_advisory_xact_lock(?)", INDEX_LOCK)
        elif not await self.fetch_value("SELECT pg_try_advisory_xact_lock(?)", INDEX_LOCK):
            return 0
        await self._begin_anew()
        queued = await self.fetch(
            "DELETE FROM unindexed WHERE (session_id, call_id) IN "
            "(SELECT session_id, call_id FROM unindexed LIMIT ?) RETURNING session_id, call_id",
            limit,
        )
        # Locked, so that nobody removes them before their words are there to be removed, too.
        rows = await self.fetch_in(
            "SELECT session_id, call_id, payload FROM calls WHERE (session_id, call_id) IN "
            "(VALUES {}) AND writer IS NULL FOR KEY SHARE",
            queued,
        )
        records = await self.records([row[2] for row in rows])
        await self.execute_many(
            "INSERT INTO calls_text VALUES (?, ?, array_to_tsvector(?::text[]), ?) "
            "ON CONFLICT (session_id, call_id) DO UPDATE "
            "SET words = excluded.words, texts = excluded.texts",
            [(row[0], row[1], *_words(record)) for row, record in zip(rows, records, strict=True)],
        )
        return len(queued)

    async def _begin_anew(self) -> None:
        """Index all again if its words were made in another way than they would be now."""
        found = await self.fact("text_version", -1)
        if found == queries.WORDS_VERSION:
            return
        if found >= 0:
            await self.fetch("DELETE FROM calls_text")
            await self.fetch(
                "INSERT INTO unindexed SELECT session_id, call_id FROM calls "
                "WHERE writer IS NULL ON CONFLICT DO NOTHING"
            )
        await self.note("text_version", queries.WORDS_VERSION)

    async def unindex(self, removed: Sequence[Removed]) -> None:
        """Take calls out of the index that were removed."""
        for table in ("calls_text", "unindexed"):
            await self.execute_many(
                f"DELETE FROM {table} WHERE session_id = ? AND call_id = ?",
                [(row[1], row[2]) for row, _ in removed],
            )

    # Space

    async def disk_bytes(self) -> int:
        """Return what the tables take on the disk."""
        return await self.fetch_value(_BYTES)

    async def fill(self, limit: int) -> Fill:
        """Return how many bytes are in use, and how many calls go for it to be so many.

        Tables do not become smaller by what is removed, so what is in use is counted: if it may be too much.
        """
        calls = used = 0
        if await self.disk_bytes() > limit:
            for table, column in _SIZED:
                sql = f"SELECT count(*), coalesce(sum(length({column})), 0)::int8 FROM {table}"
                calls, size = await self.fetch_one(sql)  # calls are the last
                used += size + ROW * calls
        if used <= limit or not calls:
            return Fill(used, 0, 0)
        return Fill(used, 0, max(1, int(calls * (used - limit) / used)))

    async def give_back(self) -> None:
        """Let new rows take the space of removed ones. Where much is free, give it to the system."""
        await self.db.execute(f"VACUUM {', '.join(TABLES)}", timeout=LONG)
        for table, column in _SIZED:
            used, size = await self.fetch_one(
                f"SELECT coalesce(sum(length({column}) + {ROW}), 0)::int8, "
                f"pg_table_size('callsheet.{table}') FROM {table}"
            )
            if size > 2 * used + FREE:  # others wait for it while it is written anew
                await self.db.execute(f"VACUUM FULL {table}", timeout=LONG)

    async def vacuum(self) -> None:
        """Rewrite the tables, as small as they can be."""
        await self.db.execute(f"VACUUM (FULL, ANALYZE) {', '.join(TABLES)}", timeout=LONG)


def _words(record: CallRecord | None) -> tuple[list[str], str]:
    """Return the words of a call, and its fields, in each of which a phrase can be found."""
    found = queries.search_fields(record) if record else ()
    words = {word for one in found for word in one.split(" ") if word}
    return sorted(words), "\n".join(f" {one} " for one in found)


class ServerWriters(Writers):
    """The writers of a database. Each holds an advisory lock for as long as its connection lives."""

    def __init__(self) -> None:
        super().__init__()
        self.pid: int = os.getpid()
        self.me: str = f"{self.pid}-{token_hex(6)}"
        self._has_lock: bool = False

    async def enter(self, db: Database) -> None:
        """Note that this process writes, by a connection that was just made."""
        self._has_lock = False
        await self.seen(db, time.time())

    async def seen(self, db: Database, now: float) -> None:
        """Note that this process still writes."""
        # An earlier connection of ours that the server has not yet dropped may still hold the lock.
        if not self._has_lock:
            lock = _lock_of(self.me)
            self._has_lock = await db.fetch_value("SELECT pg_try_advisory_lock(?)", lock)
        await super().seen(db, now)

    async def _is_gone(self, db: Database, key: str, seen: float) -> bool:  # noqa: ARG002
        """Return whether a writer is gone. If so, hold its lock until the transaction ends."""
        return await db.fetch_value("SELECT pg_try_advisory_xact_lock(?)", _lock_of(key))


def _lock_of(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), signed=True)


class PostgresStore(Store):
    """A history in a PostgreSQL database. It belongs to one event loop."""

    def __init__(self, url: str) -> None:
        super().__init__(without_password(url), ServerWriters())
        self._link: Connection = Connection(url, self._prepare)
        self._is_open: bool = False
        self._writes: bool = False
        self._has_removed: bool = False

    # Opening and closing

    async def open(self, *, write: bool = True) -> list[str]:
        """Connect, and make or migrate the tables. Return what users should know."""
        self._writes, self._is_open = write, True
        try:
            await self._run(_connect_only)
            return await self._recovery_news() if write else []
        except BaseException:
            await self.close()
            raise

    async def _prepare(self, db: Any) -> None:
        """Make a new connection ready."""
        found = await postgres_connection.version(db)
        if found is None and not self._writes:
            raise NotKept(f"There is no history at {self.url} yet.")
        if found != postgres_connection.VERSION:
            await transaction(db, postgres_connection.prepare)
        database = PostgresDatabase(db, self.codec)
        if self._writes:
            await self.writers.enter(database)
        await self._load_dictionaries(database, write=self._writes)

    async def close(self) -> None:
        """Close the connection."""
        if self._is_open and self._writes:
            with suppress(StoreUnavailable):
                await self._link.if_connected(lambda db: self.writers.leave(self._database(db)))
        self._is_open = False
        await self._link.close()

    def _database(self, db: Any) -> PostgresDatabase:
        return PostgresDatabase(db, self.codec)

    async def _run(self, work: Work[_T]) -> _T:
        return await self._opened.run(lambda db: work(self._database(db)))

    async def _transact(self, work: Work[_T], kind: str = "") -> _T:
        return await self._opened.transact(lambda db: work(self._database(db)), kind)

    async def _read(self, work: Work[_T]) -> _T:
        return await self._transact(work, _SNAPSHOT)

    @property
    def _opened(self) -> Connection:
        if not self._is_open:
            raise StoreUnavailable("The history is not open.")
        return self._link

    # Writing

    async def write(self, batch: RowBatch, writer: str | None = None) -> None:
        """Write all of a batch, or nothing."""

        async def work(db: Database) -> None:
            if is_taken:
                await rename_calls(db, batch.calls)
            await write_batch(db, batch, writer or self.writers.me, self._with_blobs)
            await self.writers.seen(db, time.time())

        is_taken = False
        try:
            await self._transact(work)
        except Taken:  # an id that another call has
            is_taken = True
            await self._transact(work)
        self._note_blobs(batch)

    # Upkeep

    async def index(self, limit: int = 200, *, wait: bool = False) -> int:
        """Index at most `limit` calls for the search. Return how many were handled."""
        return await self._opened.transact(lambda db: self._database(db).index(limit, wait=wait))

    async def prune(self, keep: Retention, *, now: float | None = None, most: int = 500) -> Pruned:
        """Remove some of what exceeds the limits. When nothing more does, release the space."""

        async def work(raw: Any) -> Pruned:
            db = self._database(raw)
            if not await db.fetch_value("SELECT pg_try_advisory_xact_lock(?)", PRUNE_LOCK):
                return Pruned()  # another process does it
            await db.clear_leftovers()
            return await retention.prune(db, keep, now, most)

        pruned = await self._opened.transact(work)
        if pruned.calls or pruned.messages:
            self._has_removed = True
        elif self._has_removed:
            await self._opened.run(lambda db: self._database(db).give_back())
            self._has_removed = False
        return pruned

    async def forget(self, session_id: str) -> Pruned:
        """Remove a session, with its calls and messages.

        The caller does not wait until the space is released: the next `prune` does that.
        """
        pruned = await super().forget(session_id)
        self._has_removed = True
        return pruned

    async def vacuum(self) -> Vacuumed:
        """Make the tables as small as they can be."""
        before = await self._run(lambda db: db.disk_bytes())
        await self._opened.transact(lambda db: self._database(db).clear_leftovers())
        await self._opened.run(lambda db: self._database(db).vacuum())
        return Vacuumed(before, await self._run(lambda db: db.disk_bytes()))


async def _connect_only(_db: Database) -> None:
    """Do nothing: to connect is enough."""
