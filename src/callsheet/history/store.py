"""A store: one history in SQLite or PostgreSQL, chosen by its URL.

`Store` opens and closes it, writes batches of rows, closes the calls of processes that are gone, indexes
words and removes what exceeds the limits. It inherits all of reading from `queries.Reader`. Get one by
`callsheet.history.store_at(url)`. A store works in the calling thread, and blocks it; it belongs to one
thread at a time. `History` therefore has a thread of its own for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from secrets import token_hex

from msgspec.structs import astuple

from callsheet.history import retention
from callsheet.history.call_records import abandoned, call_row, column_text, possible_ids
from callsheet.history.codec import Codec
from callsheet.history.database import Database
from callsheet.history.queries import Reader, guarded
from callsheet.history.rows import (
    CallRow,
    Pruned,
    Retention,
    RowBatch,
    StoredCall,
    Vacuumed,
)
from callsheet.history.store_errors import HistoryError, StoreDamaged, StoreUnavailable
from callsheet.report.humanize import plural

WIDE = 32
"""Calls that one statement writes, so that a round trip, or taking the GIL, is paid once for all of them."""

ATTEMPTS = 8
"""How often a batch is written whose ids other processes take at the same time."""

# The columns stand in the order of the fields of their rows.
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
                   duration_ms, size, payload, key, writer)
VALUES {}
ON CONFLICT (session_id, key) DO UPDATE SET
    name = excluded.name, title = excluded.title, kind = excluded.kind, status = excluded.status,
    reason = excluded.reason, updated_at = excluded.updated_at, duration_ms = excluded.duration_ms,
    writer = excluded.writer, size = excluded.size, payload = excluded.payload
WHERE calls.writer IS NOT NULL OR (calls.reason = 'abandoned' AND excluded.writer IS NULL)
"""
_ONE_CALL, _WIDE_CALLS = _CALLS.format(_CALL), _CALLS.format(", ".join([_CALL] * WIDE))

_MESSAGES = """
INSERT INTO messages (session_id, message_id, part, position, kind, at, size, payload, key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (session_id, key) DO UPDATE SET size = excluded.size, payload = excluded.payload
"""


class Store(Reader):
    """One stored history: open it, query it or write to it, and close it.

    Methods raise `HistoryError`s. `StoreUnavailable` means that the operation may succeed later.
    `StoreDamaged` means that the store must be closed and opened again. A bare `HistoryError` of `write`
    means that the data to write is at fault: trying again would fail again.

    Args:
        database: The connection, not made yet.
    """

    def __init__(self, database: Database) -> None:
        self._db: Database = database
        self._is_open: bool = False
        self._writes: bool = False
        self._writer: str = ""
        self._pid: int = 0

    @property
    def url(self) -> str:
        """Where the store is, without a password."""
        return self._db.url

    @property
    def codec(self) -> Codec:
        """The codec of the payloads."""
        return self._db.codec

    @property
    def db(self) -> Database:
        """The connection, made anew if it was lost."""
        if not self._is_open:
            raise StoreUnavailable("The history is not open.")
        if not self._db.is_open:
            self._connect()
        return self._db

    # Opening and closing

    def open(self, *, write: bool = True) -> list[str]:
        """Open the store, and create or migrate it.

        Args:
            write: Register this process as a writer, and close calls as abandoned whose processes are gone.
                If false, the store is only read.

        Returns:
            Messages for users: what was wrong and was repaired.

        Raises:
            NotKept: There is no history, and `write` is false.
        """
        self._writes = write
        try:
            news = self._connect()
            self._is_open = True
            closed = self.recover() if write else 0
        except BaseException as exc:
            if isinstance(exc, StoreDamaged):  # no question could be at fault instead
                self._db.error(exc)
            self.close()
            raise
        if closed:
            calls = ("call that a crash had left open was", "calls that a crash had left open were")
            news.append(f"{plural(closed, *calls)} closed as abandoned.")
        return news

    def _connect(self) -> list[str]:
        try:
            news = self._db.connect(write=self._writes)
            if self._writes:
                with self._db.transaction():
                    self._show_life()
        except Exception as exc:
            error = self._db.error(exc)
            self._db.close()
            raise error from exc
        return news

    def close(self) -> None:
        """Close the store."""
        is_writer = self._writer and self._pid == os.getpid()  # a forked child is not the one
        if self._db.is_open and is_writer:
            with suppress(Exception):
                self._db.forget_writer(self._writer)
        self._is_open, self._writer = False, ""
        self._db.close()

    # Writers: an open call belongs to a process. When that is gone, nobody will end the call

    def _show_life(self) -> None:
        """Note that this process writes, within a transaction."""
        if self._pid != os.getpid() or not self._writer:
            self._pid = os.getpid()
            self._writer = f"{self._pid}-{token_hex(6)}"
        self._db.hold(self._writer)
        now = time.time()
        self._db.fetch(
            "INSERT INTO writers VALUES (?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at",
            self._writer,
            self._pid,
            now,
            now,
        )

    @guarded
    def recover(self) -> int:
        """Close the calls of processes that are gone as abandoned. Return how many there were."""
        count = 0
        with self.db.transaction():
            # Those that have left calls open without having a row are among them.
            writers = self.db.fetch(
                "SELECT id, seen_at FROM writers UNION ALL SELECT DISTINCT writer, 0.0 FROM calls "
                "WHERE writer > '' AND writer NOT IN (SELECT id FROM writers)"
            )
            for key, seen in sorted(tuple(row) for row in writers):
                if key != self._writer and self.db.is_gone(key):
                    for call in self._calls_where("c.writer = ?", key):
                        count += self._abandon(call, seen)
                    self.db.forget_writer(key)
        return count

    def _abandon(self, call: StoredCall, seen: float) -> int:
        head, session = call.head, self._session(call.head.session_id)
        locale = session.info.get("locale") if session else None
        record = abandoned(call.record, seen or head.updated_at, locale)
        row = call_row(record, head.session_id, head.position, head.at, head.updated_at, "")
        self.codec.compress([row])
        closed = self.db.fetch(
            "UPDATE calls SET status = ?, reason = ?, duration_ms = ?, writer = NULL, size = ?, payload = ? "
            "WHERE session_id = ? AND call_id = ? AND writer IS NOT NULL RETURNING 1",
            row.status,
            row.reason,
            row.duration_ms,
            row.size,
            row.payload,
            head.session_id,
            head.call_id,
        )
        return len(closed)

    # Writing

    @guarded
    def write(self, batch: RowBatch, writer: str | None = None) -> None:
        """Write all of a batch, or nothing. When this returns, the batch is durable.

        Writing the same row again changes nothing. A call that has ended does not open again; one that was
        closed as abandoned by mistake gets its real end.

        Args:
            batch: The rows. A call whose id is taken by another call of its session is renamed in it.
            writer: The process that the open calls belong to. Default: this one.
        """
        db, own_ids = self.db, [row.call_id for row in batch.calls]
        for attempt in range(ATTEMPTS):
            try:
                with db.transaction():
                    if attempt:
                        self._rename(batch.calls, own_ids)
                    self._write(batch, writer)
            except (TypeError, ValueError, OverflowError) as exc:  # a value that no column takes
                raise HistoryError(f"{type(exc).__name__}: {exc}") from exc
            except db.conflict:  # an id that another call has, perhaps since a moment ago
                if attempt + 1 == ATTEMPTS:
                    raise
            else:
                return

    def _write(self, batch: RowBatch, writer: str | None) -> None:
        # All processes write sessions in the same order, so that two never deadlock.
        sessions = sorted(batch.sessions, key=lambda row: row.session_id)
        self._db.execute_many(_SESSIONS, [astuple(row) for row in sessions])
        self._show_life()
        self._write_calls(batch.calls, writer or self._writer)
        self._db.execute_many(_MESSAGES, [astuple(row) for row in batch.messages])

    def _write_calls(self, calls: Sequence[CallRow], writer: str) -> None:
        values = [(*astuple(row), writer if row.is_open else None) for row in calls]
        # One statement can't write the same row twice.
        is_unique = len({(row.session_id, row.key) for row in calls}) == len(calls)
        rest = len(values) % WIDE if is_unique else len(values)
        self._db.execute_many(_ONE_CALL, values[:rest])
        for begin in range(rest, len(values), WIDE):
            self._db.fetch(_WIDE_CALLS, *chain.from_iterable(values[begin : begin + WIDE]))

    def _rename(self, calls: Iterable[CallRow], own_ids: Iterable[str]) -> None:
        """Assign calls ids that no other call of their session has, within a transaction."""
        taken: dict[tuple[str, str], str] = {}
        for row, own_id in zip(calls, own_ids, strict=True):
            for name in possible_ids(own_id):
                where = row.session_id, name
                found = self._db.fetch_value(
                    "SELECT key FROM calls WHERE session_id = ? AND call_id = ?", *where
                )
                if taken.get(where, found or row.key) == row.key:
                    taken[where], row.call_id = row.key, name
                    break

    # Upkeep

    @guarded
    def index(self, limit: int = 200) -> int:
        """Index calls for the search.

        Args:
            limit: How many calls to index at most.

        Returns:
            How many calls were handled. 0 means that nothing is left, or that another process does it.
        """
        return retention.index(self.db, retention.FIRST, limit)[1]

    @guarded
    def prune(self, keep: Retention, *, now: float | None = None, most: int = 500) -> Pruned:
        """Remove some of what exceeds the limits, and release the space. Call it until it removes nothing.

        Args:
            keep: The limits.
            now: The time that ages are measured from. Default: derived from the calls, as a clock may jump.
            most: How many calls to remove at once.

        Returns:
            What was removed. If that is no calls and no messages, nothing is left to remove.
        """
        while True:
            with self.db.transaction():
                pruned = retention.prune(self.db, keep, now, most)
            if not self.db.release(has_removed=bool(pruned.calls or pruned.messages)):
                return pruned

    @guarded
    def forget(self, session_id: str) -> Pruned:
        """Remove a session, with its calls and messages."""
        with self.db.transaction():
            pruned = retention.forget(self.db, column_text(session_id))
        self.db.release(has_removed=True)
        return pruned

    @guarded
    def vacuum(self) -> Vacuumed:
        """Make the store as small as it can be."""
        before = self.db.disk_bytes()
        self.db.vacuum()
        return Vacuumed(before, self.db.disk_bytes())
