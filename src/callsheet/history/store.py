"""A store: one history in SQLite or PostgreSQL, chosen by its URL.

`Store` opens and closes it, writes batches of rows, and closes the calls of processes that are gone. It
inherits reading from `queries.Reader`, and removing from `retention.Upkeep`. Get one by
`callsheet.history.store_at(url)`. A store works in the calling thread, and blocks it; it belongs to one
thread at a time. `History` therefore has a thread of its own for it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from itertools import chain
from secrets import token_hex

from msgspec.structs import astuple

from callsheet.history.call_records import WaitingCall, abandoned, possible_ids, to_rows
from callsheet.history.queries import guarded
from callsheet.history.retention import Upkeep
from callsheet.history.rows import CallRow, MessageRow, SessionRow, StoredCall, WaitingRow
from callsheet.history.store_errors import HistoryError
from callsheet.report.humanize import plural

WIDE = 64
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

_MESSAGES = """
INSERT INTO messages (session_id, message_id, part, position, kind, at, size, payload, key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (session_id, key) DO UPDATE SET size = excluded.size, payload = excluded.payload
"""


class Store(Upkeep):
    """One stored history: open it, query it or write to it, and close it.

    Methods raise `HistoryError`s. `StoreUnavailable` means that the operation may succeed later.
    `StoreDamaged` means that the store must be closed and opened again. A bare `HistoryError` of `write`
    means that the data to write is at fault: trying again would fail again.
    """

    # Opening and closing

    def open(self, *, write: bool = True) -> list[str]:
        """Open the store, and create or migrate it.

        Args:
            write: Hold the lock of a process that writes, and close calls as abandoned whose processes are
                gone. If false, the store is only read.

        Returns:
            Messages for users: what was wrong and was repaired.

        Raises:
            NotKept: There is no history, and `write` is false.
        """
        self._writes = write
        self._writer = f"{os.getpid()}-{token_hex(6)}"
        try:
            news = self._connect()
            self.is_open = True
            closed = self.recover() if write else 0
        except BaseException:
            self.close()
            raise
        if closed:
            calls = ("call that a crash had left open was", "calls that a crash had left open were")
            news.append(f"{plural(closed, *calls)} closed as abandoned.")
        return news

    def close(self) -> None:
        """Close the store."""
        self.is_open = False
        self.db.close()

    # An open call belongs to a process, which holds a lock. When that is gone, nobody will end the call

    @guarded
    def recover(self) -> int:
        """Close the calls of processes that are gone as abandoned. Return how many there were."""
        ended: list[WaitingCall] = []
        with self.db.transaction():
            writers = self.db.fetch("SELECT DISTINCT writer FROM calls WHERE writer > ''")
            for key in sorted(key for (key,) in writers):
                if key != self._writer and self.db.is_gone(key):
                    ended += map(self._abandoned, self._calls_where("c.writer = ?", key))
            self._write_calls(_calls_of(to_rows(ended, self.codec)), self._writer)
        return len(ended)

    def _abandoned(self, call: StoredCall) -> WaitingCall:
        head = call.head
        session = self._session(head.session_id) or SessionRow(session_id=head.session_id)
        record = abandoned(call.record, head.updated_at, session.info.get("locale"))
        return WaitingCall(session, head.position, head.at, head.updated_at, record, call.key)

    # Writing

    @guarded
    def write(self, rows: Sequence[WaitingRow], writer: str | None = None) -> None:
        """Write all of these rows, or none. When this returns, they are durable.

        Writing the same row again changes nothing. A call that has ended does not open again; one that was
        closed as abandoned by mistake gets its real end.

        Args:
            rows: The rows. A call whose id is taken by another call of its session is renamed in them.
            writer: The process that the open calls belong to. Default: this one.
        """
        calls = _calls_of(rows)
        own_ids = [row.call_id for row in calls]
        for attempt in range(ATTEMPTS):
            try:
                with self.db.transaction():
                    if attempt:
                        self._rename(calls, own_ids)
                    self._write(rows, writer)
            except (TypeError, ValueError, OverflowError) as exc:  # a value that no column takes
                raise HistoryError(f"{type(exc).__name__}: {exc}") from exc
            except self.db.conflict:  # an id that another call has, perhaps since a moment ago
                if attempt + 1 == ATTEMPTS:
                    raise
            else:
                return

    def _write(self, rows: Sequence[WaitingRow], writer: str | None) -> None:
        sessions = {row.session_id: session for session, row in rows}
        # All processes write sessions in the same order, so that two never deadlock.
        values = [
            (key, row.cwd, row.title, json.dumps(row.info), row.created_at, row.updated_at)
            for key, row in sorted(sessions.items())
        ]
        self.db.execute_many(_SESSIONS, values)
        self.db.hold(self._writer)
        self._write_calls(_calls_of(rows), writer or self._writer)
        messages = [astuple(row) for _, row in rows if isinstance(row, MessageRow)]
        self.db.execute_many(_MESSAGES, messages)

    def _write_calls(self, calls: Sequence[CallRow], writer: str) -> None:
        values = [(*astuple(row), writer if row.is_open else None) for row in calls]
        for begin in range(0, len(values), WIDE):
            some = values[begin : begin + WIDE]
            sql = _CALLS.format(", ".join([_CALL] * len(some)))
            self.db.fetch(sql, *chain.from_iterable(some))

    def _rename(self, calls: Iterable[CallRow], own_ids: Iterable[str]) -> None:
        """Assign calls ids that no other call of their session has, within a transaction."""
        taken: dict[tuple[str, str], str] = {}
        for row, own_id in zip(calls, own_ids, strict=True):
            for name in possible_ids(own_id):
                where = row.session_id, name
                found = self.db.fetch_value(
                    "SELECT key FROM calls WHERE session_id = ? AND call_id = ?", *where
                )
                if taken.get(where, found or row.key) == row.key:
                    taken[where], row.call_id = row.key, name
                    break


def _calls_of(rows: Sequence[WaitingRow]) -> list[CallRow]:
    """Return each call in its last state: one statement can't write the same row twice."""
    calls = [row for _, row in rows if isinstance(row, CallRow)]
    return list({(row.session_id, row.key): row for row in calls}.values())
