"""One connection to a store's database, and how batches become rows in it.

The program of a store (`store`, `queries`, `retention`, and the writing here) is the same for SQLite and
PostgreSQL, and so are its tables. What differs is the dialect, and that is what a `Database` is: how a
statement is run, how calls are indexed and matched for a search, how rows are locked, how space is measured
and released. Statements are written in the SQL that both understand, with `?` for each value.

Everything is async because PostgreSQL is a server to wait for. SQLite's coroutines never suspend.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from callsheet.history.call_records import possible_ids
from callsheet.history.codec import Codec, blob_names, record_of
from callsheet.history.rows import BlobRow, CallRow, Fill, MessageRow, RowBatch
from callsheet.history.store_errors import StoreDamaged
from callsheet.report.json import JsonObject
from callsheet.report.terminal import CallRecord

Values = Sequence[Any]

Removed = tuple[Values, CallRecord | None]
"""A call that was removed: its row (`retention.REMOVED`), and what it was if that can be read."""

PORTION = 500
"""Values of one list that are bound to one statement: engines have a limit."""

WIDE = 32
"""Calls that one statement writes, so that a round trip, or taking the GIL, is paid once for all of them."""


class Database(ABC):
    """A connection that shared statements run on, most of them within a transaction."""

    for_update: str = ""
    """What a SELECT ends with to lock its rows until the end of the transaction."""

    def __init__(self, codec: Codec) -> None:
        self.codec: Codec = codec

    # Statements

    @abstractmethod
    async def fetch(self, sql: str, *values: Any) -> Sequence[Values]:
        """Run a statement, and return its rows."""

    @abstractmethod
    async def execute_many(self, sql: str, rows: Sequence[Values]) -> None:
        """Run a statement once with each of these rows of values."""

    async def fetch_one(self, sql: str, *values: Any) -> Any:
        """Return the first row, or None."""
        rows = await self.fetch(sql, *values)
        return rows[0] if rows else None

    async def fetch_value(self, sql: str, *values: Any) -> Any:
        """Return the first value of the first row, or None."""
        rows = await self.fetch(sql, *values)
        return rows[0][0] if rows else None

    async def fetch_in(self, sql: str, values: Values) -> list[Values]:
        """Run a statement with a list in the place of `{}`, in portions if it is long.

        An item of the list is a value or, for `IN (VALUES {})`, a row of values.
        """
        found: list[Values] = []
        for begin in range(0, len(values), PORTION):
            some = values[begin : begin + PORTION]
            if isinstance(some[0], (str, bytes, int)):
                place, given = "?", some
            else:
                place = f"({', '.join('?' * len(some[0]))})"
                given = list(chain.from_iterable(some))
            found += await self.fetch(sql.format(", ".join([place] * len(some))), *given)
        return found

    async def lock(self, rows: str, values: Values) -> None:
        """Lock rows that other transactions may be about to use, and wait for those that hold them."""
        if self.for_update:
            await self.fetch_in(f"SELECT 1 FROM {rows}{self.for_update}", values)

    def storable(self, text: str) -> str:
        """Return a text in the form that a column can store."""
        return text

    async def fact(self, name: str, default: int = 0) -> int:
        """Return a number that the store records about itself."""
        found = await self.fetch_value("SELECT value FROM facts WHERE name = ?", name)
        return default if found is None else found

    async def note(self, name: str, value: int) -> None:
        """Record a number about the store."""
        await self.fetch(
            "INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            name,
            value,
        )

    # Payloads

    async def bodies(self, payloads: Sequence[bytes]) -> list[JsonObject | StoreDamaged]:
        """Return what payloads stand for, with their blobs; for one that can't be read, why."""
        plain: list[bytes | StoreDamaged] = []
        names: set[bytes] = set()
        for payload in payloads:
            try:
                plain.append(data := self.codec.decompress(payload))
                names.update(blob_names(data))
            except StoreDamaged as exc:
                plain.append(exc)
        sql = "SELECT hash, data FROM blobs WHERE hash IN ({})"
        blobs: dict[bytes, bytes] = dict(map(tuple, await self.fetch_in(sql, [*names])))
        found: list[JsonObject | StoreDamaged] = []
        for data in plain:
            try:
                found.append(
                    data if isinstance(data, StoreDamaged) else self.codec.parse(data, blobs.get)
                )
            except StoreDamaged as exc:
                found.append(exc)
        return found

    async def records(self, payloads: Sequence[bytes]) -> list[CallRecord | None]:
        """Return the calls that payloads stand for; None for one that can't be read."""
        found: list[CallRecord | None] = []
        for body in await self.bodies(payloads):
            try:
                found.append(None if isinstance(body, StoreDamaged) else record_of(body))
            except StoreDamaged:
                found.append(None)
        return found

    # Blobs

    @abstractmethod
    async def store_blobs(self, blobs: Iterable[BlobRow]) -> None:
        """Store large texts that are not there yet, and protect all of them from removal meanwhile."""

    @abstractmethod
    async def release_blobs(self, hashes: Iterable[bytes]) -> None:
        """Remove blobs that a row uses no more, if no other row uses them: now, or later."""

    async def remove_unused_blobs(self, hashes: Iterable[bytes]) -> None:
        """Remove those of these blobs that no row uses."""
        keys = sorted(hashes)
        # A transaction that is about to use a blob holds a lock on it. Only after waiting for those
        # transactions are all uses visible.
        await self.lock("blobs WHERE hash IN ({}) ORDER BY hash", keys)
        await self.execute_many(
            "DELETE FROM blobs WHERE hash = ? AND NOT EXISTS "
            "(SELECT 1 FROM blob_uses u WHERE u.hash = blobs.hash)",
            [(key,) for key in keys],
        )

    async def use_blobs(self, users: Iterable[tuple[str, str, Iterable[bytes]]]) -> None:
        """Record which blobs rows use: for each row its session, its key, and the hashes."""
        uses = {(session, key, blob) for session, key, blobs in users for blob in blobs}
        if uses:
            await self.execute_many(
                "INSERT INTO blob_uses VALUES (?, ?, ?) ON CONFLICT DO NOTHING", sorted(uses)
            )

    async def drop_stale_uses(self, row: CallRow | MessageRow) -> set[bytes]:
        """Record that a row uses no other blobs than these. Return those that it used before."""
        still = f" AND hash NOT IN ({', '.join('?' * len(row.blobs))})" if row.blobs else ""
        sql = f"DELETE FROM blob_uses WHERE session_id = ? AND owner = ?{still} RETURNING hash"
        gone = await self.fetch(sql, row.session_id, row.owner, *row.blobs)
        return {key for (key,) in gone}

    async def is_settled(self, row: CallRow) -> bool:
        """Return whether this state of a call was accepted, and nothing needs an earlier one any more."""
        sql = "SELECT 1 FROM calls WHERE session_id = ? AND key = ? AND payload = ?"
        return bool(await self.fetch(sql, row.session_id, row.owner, row.payload))

    # Searching

    indexed_calls: str
    """The table that has a row for each call in the index."""

    @abstractmethod
    def match(self, phrases: list[list[str]]) -> tuple[str, list[tuple[str, Values]]]:
        """Return what to join to calls, and conditions with their values, for a search.

        Every phrase must occur. The last word may go on: it is a beginning.
        """

    @abstractmethod
    async def unindex(self, removed: Sequence[Removed]) -> None:
        """Remove calls from the index after their rows were removed."""

    # Space

    @abstractmethod
    async def disk_bytes(self) -> int:
        """Return the bytes that the database takes on the disk."""

    @abstractmethod
    async def fill(self, limit: int) -> Fill:
        """Return how full the database is, and how many calls must go to meet a limit of bytes."""

    async def surplus(self, limit: int, most: int) -> int:
        """Return how many calls to remove now to meet a limit of bytes."""
        return min(most, (await self.fill(limit)).surplus)

    async def is_full(self, limit: int) -> bool:
        """Return whether the limit of bytes is exceeded, and only messages are left to remove."""
        return (await self.fill(limit)).used > limit


# Writing

_SESSIONS = """
INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (session_id) DO UPDATE SET
    cwd = excluded.cwd, info = excluded.info,
    updated_at = CASE WHEN sessions.updated_at > excluded.updated_at
        THEN sessions.updated_at ELSE excluded.updated_at END,
    title = CASE WHEN sessions.title = '' THEN excluded.title ELSE sessions.title END
"""

# A call that has ended does not open again. One that was closed as abandoned by mistake gets its true end.
_CALL = "(" + ", ".join("?" * 15) + ")"
_CALLS = """
INSERT INTO calls (session_id, call_id, position, name, title, kind, status, reason, at, updated_at,
                   duration_ms, writer, size, payload, key)
VALUES {}
ON CONFLICT (session_id, key) DO UPDATE SET
    name = excluded.name, title = excluded.title, kind = excluded.kind, status = excluded.status,
    reason = excluded.reason, updated_at = excluded.updated_at, duration_ms = excluded.duration_ms,
    writer = excluded.writer, size = excluded.size, payload = excluded.payload
WHERE calls.writer IS NOT NULL OR (calls.reason = 'abandoned' AND excluded.writer IS NULL)
"""
_ONE_CALL, _WIDE_CALLS = _CALLS.format(_CALL), _CALLS.format(", ".join([_CALL] * WIDE))

_MESSAGES = """
INSERT INTO messages (session_id, key, message_id, part, position, kind, at, size, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (session_id, key) DO UPDATE SET size = excluded.size, payload = excluded.payload
"""


async def write_batch(
    db: Database, batch: RowBatch, writer: str, with_blobs: set[tuple[str, str]]
) -> None:
    """Write a whole batch, within a transaction.

    Args:
        db: The connection.
        batch: What is to be written.
        writer: The process that the open calls of the batch belong to.
        with_blobs: Calls that were written as open, with blobs that they may not use any more.
    """
    # All processes write sessions in the same order, so that two never deadlock.
    await db.execute_many(
        _SESSIONS,
        [
            (row.session_id, row.cwd, row.title, row.info, row.created_at, row.updated_at)
            for row in sorted(batch.sessions, key=lambda row: row.session_id)
        ],
    )
    await db.store_blobs(batch.blobs)
    await _write_calls(db, batch.calls, writer)
    await db.execute_many(
        _MESSAGES,
        [
            (
                row.session_id, row.owner, row.message_id, row.part, row.position, row.kind,
                row.at, row.size, row.payload,
            )
            for row in batch.messages
        ],
    )  # fmt: skip
    rows = [row for row in (*batch.calls, *batch.messages) if row.blobs]
    await db.use_blobs([(row.session_id, row.owner, row.blobs) for row in rows])
    released: set[bytes] = set()
    for row in batch.messages:
        if row.blobs:  # a shorter text of the same message was stored under another hash
            released |= await db.drop_stale_uses(row)
    for row in batch.calls:
        if (row.session_id, row.owner) in with_blobs and await db.is_settled(row):
            released |= await db.drop_stale_uses(row)
    await db.release_blobs(released)


async def _write_calls(db: Database, calls: Sequence[CallRow], writer: str) -> None:
    values = [
        (
            row.session_id, row.call_id, row.position, row.name, row.title, row.kind,
            row.status, row.reason, row.at, row.updated_at, row.duration_ms,
            writer if row.is_open else None, row.size, row.payload, row.owner,
        )
        for row in calls
    ]  # fmt: skip
    # One statement can't write the same row twice.
    is_unique = len({(row.session_id, row.owner) for row in calls}) == len(calls)
    rest = len(values) % WIDE if is_unique else len(values)
    await db.execute_many(_ONE_CALL, values[:rest])
    for begin in range(rest, len(values), WIDE):
        await db.fetch(_WIDE_CALLS, *chain.from_iterable(values[begin : begin + WIDE]))


async def rename_calls(db: Database, calls: Iterable[CallRow]) -> None:
    """Assign calls ids that no other call of their session has, within a transaction."""
    taken: dict[tuple[str, str], str] = {}
    for row in calls:
        row.key = db.storable(row.owner)
        for name in possible_ids(row.call_id):
            where = row.session_id, name
            found = await db.fetch_value(
                "SELECT key FROM calls WHERE session_id = ? AND call_id = ?", *where
            )
            if taken.get(where, found or row.key) == row.key:
                taken[where], row.call_id = row.key, name
                break
