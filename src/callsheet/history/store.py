"""A store: one history in SQLite or PostgreSQL, chosen by its URL.

`Store` opens and closes it, writes batches of rows, and closes the calls of processes that are gone. It
inherits reading from `queries.Reader`, and removing from `retention.Upkeep`. Get one by
`callsheet.history.store_at(url)`. A store works in the calling thread, and blocks it; it belongs to one
thread at a time. `History` therefore has a thread of its own for it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from secrets import token_hex
from typing import TypeAlias

from msgspec.structs import astuple

from callsheet.history.call_records import (
    WaitingCall,
    abandoned,
    column_text,
    possible_ids,
    to_rows,
)
from callsheet.history.database import PORTION
from callsheet.history.queries import guarded
from callsheet.history.retention import Upkeep
from callsheet.history.rows import (
    CallRow,
    MessageRow,
    Origin,
    SessionRow,
    StoredCall,
    TurnRow,
    WaitingRow,
)
from callsheet.history.schema import ADD_ORIGIN
from callsheet.history.store_errors import HistoryError
from callsheet.report.humanize import plural
from callsheet.report.usage import TokenUsage

WIDE = 64
"""Calls that one statement writes, so that a round trip, or taking the GIL, is paid once for all of them."""

# A later process may know less of a session: what it does not know stays as it is. Who knows the agent, knows
# more than who does not.
_KNOWS_MORE = """sessions.origin IS NULL
    OR EXISTS (SELECT 1 FROM origins o WHERE o.key = excluded.origin AND o.agent <> '')"""
_SESSIONS = f"""
INSERT INTO sessions (session_id, cwd, title, info, created_at, updated_at, origin)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (session_id) DO UPDATE SET
    cwd = CASE WHEN excluded.cwd = '' THEN sessions.cwd ELSE excluded.cwd END,
    info = CASE WHEN {_KNOWS_MORE} THEN excluded.info ELSE sessions.info END,
    origin = CASE WHEN {_KNOWS_MORE} THEN excluded.origin ELSE sessions.origin END,
    updated_at = CASE WHEN sessions.updated_at > excluded.updated_at
        THEN sessions.updated_at ELSE excluded.updated_at END,
    title = CASE WHEN sessions.title = '' THEN excluded.title ELSE sessions.title END
"""

# A call that has ended does not open again. One that was closed as abandoned by mistake gets its true end.
# An earlier state of a call, or of a message, may arrive after a later one, and changes nothing then.
_COLUMNS = (*CallRow.__struct_fields__, "writer")
_CALL = "(" + ", ".join("?" * len(_COLUMNS)) + ")"
_CALLS = f"""
INSERT INTO calls ({", ".join(_COLUMNS)})
VALUES {{}}
ON CONFLICT (session_id, key, at) DO UPDATE SET
    name = excluded.name, title = excluded.title, kind = excluded.kind, status = excluded.status,
    reason = excluded.reason, updated_at = excluded.updated_at, duration_ms = excluded.duration_ms,
    writer = excluded.writer, size = excluded.size, marks = excluded.marks,
    payload = excluded.payload, origin = excluded.origin, input = excluded.input,
    output = excluded.output
WHERE (calls.writer IS NOT NULL OR (calls.reason = 'abandoned' AND excluded.writer IS NULL))
    AND (excluded.writer IS NULL OR excluded.updated_at >= calls.updated_at)
"""

_MESSAGES = """
INSERT INTO messages (session_id, message_id, part, position, kind, at, size, payload, key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (session_id, key) DO UPDATE SET
    at = excluded.at, size = excluded.size, payload = excluded.payload
WHERE excluded.at > messages.at OR (excluded.at = messages.at AND excluded.size >= messages.size)
"""

REMOTE = "@"
"""What the names of writers begin with that publish to a fleet's servers. They hold no lock here: only a
collector knows whether they are there.
"""

_USAGE = TokenUsage.__struct_fields__
_TURN = ("session_id", "key", "position", "at", "ended_at", "stop_reason", "origin", "trace")
# A turn has an end once, and what it has used may become known after that, but not unknown. Of two states
# that have ended, the later one ends later: see `SessionLog.set_usage`.
_TURNS = f"""
INSERT INTO turns ({", ".join((*_TURN, *_USAGE))})
VALUES ({", ".join("?" * len((*_TURN, *_USAGE)))})
ON CONFLICT (session_id, key) DO UPDATE SET
    ended_at = coalesce(excluded.ended_at, turns.ended_at),
    stop_reason = coalesce(excluded.stop_reason, turns.stop_reason),
    origin = coalesce(excluded.origin, turns.origin),
    trace = coalesce(excluded.trace, turns.trace),
    {", ".join(f"{name} = coalesce(excluded.{name}, turns.{name})" for name in _USAGE)}
WHERE turns.ended_at IS NULL OR excluded.ended_at >= turns.ended_at
"""

Writers: TypeAlias = Mapping[tuple[str, str], str]
"""The process of each open call, by its session and its key."""


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
    def recover(self, publishers: Collection[str] | None = None) -> int:
        """Close the calls of processes that are gone as abandoned. Return how many there were.

        Args:
            publishers: The writers of a fleet that are there. Default: nobody knows, so theirs stay open.
        """
        ended: list[WaitingCall] = []
        with self.db.transaction():
            writers = self.db.fetch("SELECT DISTINCT writer FROM calls WHERE writer > ''")
            for key in sorted(key for (key,) in writers):
                if key.startswith(REMOTE):
                    is_gone = publishers is not None and key not in publishers
                else:
                    is_gone = key != self._writer and self.db.is_gone(key)
                if is_gone:
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
    def write(self, rows: Sequence[WaitingRow], writer: str | Writers | None = None) -> None:
        """Write all of these rows, or none. When this returns, they are durable.

        Writing the same row again changes nothing. A call that has ended does not open again; one that was
        closed as abandoned by mistake gets its real end.

        Args:
            rows: The rows. A call whose id is taken by another call of its session is renamed in them.
            writer: The process that the open calls belong to, or that of each. Default: this one.
        """
        self.db.prepare_for(row.at for row in _calls_of(rows))
        try:
            with self.db.transaction():
                self._write(rows, writer)
        except (TypeError, ValueError, OverflowError) as exc:  # a value that no column takes
            raise HistoryError(f"{type(exc).__name__}: {exc}") from exc
        written = {session.origin for session, _ in rows}
        self._origins.update({one.key: one for one in written if one.key is not None})

    def _write(self, rows: Sequence[WaitingRow], writer: str | Writers | None) -> None:
        calls = _calls_of(rows)
        sessions = {row.session_id: session for session, row in rows}
        # All processes write sessions in the same order, so that two never deadlock.
        values = [
            (
                *astuple(row)[:3],
                json.dumps(row.info),
                row.created_at,
                row.updated_at,
                row.origin.key,
            )
            for _, row in sorted(sessions.items())
        ]
        self._write_origins({row.origin for row, _ in rows})  # two may work in one session
        self.db.execute_many(_SESSIONS, values)
        # Whoever else writes calls of these sessions waits from here on.
        self.db.hold(self._writer)
        self._place(calls)
        self._write_calls(calls, writer or self._writer)
        turns = [row for _, row in rows if isinstance(row, TurnRow)]
        turns.sort(key=lambda row: row.ended_at or 0.0)
        self.db.execute_many(
            _TURNS,
            [
                (*(getattr(row, name) for name in _TURN), *astuple(row.usage))
                for row in {(row.session_id, row.key): row for row in turns}.values()
            ],
        )
        messages = [astuple(row) for _, row in rows if isinstance(row, MessageRow)]
        self.db.execute_many(_MESSAGES, messages)

    def _write_origins(self, origins: Iterable[Origin]) -> None:
        known = {
            one.key: one for one in origins if one.key is not None and one.key not in self._origins
        }
        values = [(*map(column_text, astuple(known[key])), key) for key in sorted(known)]
        self.db.execute_many(ADD_ORIGIN, values)

    def _write_calls(self, calls: Sequence[CallRow], writer: str | Writers) -> None:
        values = [
            (
                *astuple(row),
                (writer if isinstance(writer, str) else writer[row.session_id, row.key])
                if row.is_open
                else None,
            )
            for row in calls
        ]
        for begin in range(0, len(values), WIDE):
            some = values[begin : begin + WIDE]
            sql = _CALLS.format(", ".join([_CALL] * len(some)))
            self.db.fetch(sql, *chain.from_iterable(some))

    def _place(self, calls: Sequence[CallRow]) -> None:
        """Set the ids and the times that calls have here, within a transaction.

        Those that are here already have them. A new one gets an id that no other call of its session has.
        """
        known: dict[tuple[str, str], tuple[str, float]] = {}
        taken: set[tuple[str, str]] = set()
        for begin in range(0, len(calls), PORTION):
            some = calls[begin : begin + PORTION]
            lists = ("session_id", "call_id", "key")
            values = [list({getattr(row, name) for row in some}) for name in lists]
            sessions, ids, keys = (", ".join("?" * len(one)) for one in values)
            found = self.db.fetch(
                f"SELECT session_id, call_id, key, at FROM calls WHERE session_id IN ({sessions}) "
                f"AND (call_id IN ({ids}) OR key IN ({keys}))",
                *chain(*values),
            )
            known.update({(session, key): (call_id, at) for session, call_id, key, at in found})
            taken.update((session, call_id) for session, call_id, _, _ in found)
        for row in calls:
            if (stored := known.get((row.session_id, row.key))) is not None:
                row.call_id, row.at = stored
                continue
            own_id = row.call_id
            for row.call_id in possible_ids(own_id):
                where = row.session_id, row.call_id
                if where not in taken and (row.call_id == own_id or not self._has_call(*where)):
                    break
            taken.add((row.session_id, row.call_id))

    def _has_call(self, session_id: str, call_id: str) -> bool:
        sql = "SELECT 1 FROM calls WHERE session_id = ? AND call_id = ?"
        return bool(self.db.fetch(sql, session_id, call_id))


def _calls_of(rows: Sequence[WaitingRow]) -> list[CallRow]:
    """Return each call in its last state: one statement can't write the same row twice."""
    found: dict[tuple[str, str], CallRow] = {}
    for _, row in rows:
        if isinstance(row, CallRow):
            before = found.get((row.session_id, row.key), row)
            if not row.is_open or (before.is_open and row.updated_at >= before.updated_at):
                found[row.session_id, row.key] = row
    return list(found.values())
