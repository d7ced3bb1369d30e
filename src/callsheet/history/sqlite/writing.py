"""How a batch becomes rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from itertools import chain

from callsheet.history.naming import names
from callsheet.history.rows import Batch, BlobRow, CallRow

from .tidying import let_go

_CALLS = """
INSERT INTO calls (session_id, call_id, position, name, title, kind, status, reason, at, updated_at,
                   duration_ms, writer, size, payload, key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (session_id, key) DO UPDATE SET
    name = excluded.name, title = excluded.title, kind = excluded.kind, status = excluded.status,
    reason = excluded.reason, updated_at = excluded.updated_at, duration_ms = excluded.duration_ms,
    writer = excluded.writer, size = excluded.size, payload = excluded.payload
WHERE calls.writer IS NOT NULL OR (calls.reason = 'abandoned' AND excluded.writer IS NULL)
"""

_SESSIONS = """
INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (session_id) DO UPDATE SET
    cwd = excluded.cwd, info = excluded.info, updated_at = max(updated_at, excluded.updated_at),
    title = CASE WHEN title = '' THEN excluded.title ELSE title END
"""

_MESSAGES = """
INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (session_id, key) DO UPDATE SET size = excluded.size, payload = excluded.payload
"""


WIDE = 32
"""Calls that one statement writes: the interpreter's lock is given away, and fought for, once for all."""

_ROW = "(" + ", ".join("?" * 15) + ")"
_MANY_CALLS = _CALLS.replace(_ROW, ", ".join([_ROW] * WIDE))


class Writing:
    """Writes batches. It knows which calls have texts in blobs that their next state may not have."""

    def __init__(self) -> None:
        self._with_blobs: set[tuple[str, str]] = set()

    def write(self, db: sqlite3.Connection, batch: Batch, writer: str) -> None:
        """Write all of a batch. Called within a transaction."""
        if batch.sessions:
            db.executemany(
                _SESSIONS,
                [
                    (row.session_id, row.cwd, row.title, row.info, row.created_at, row.updated_at)
                    for row in batch.sessions
                ],
            )
        if batch.blobs:
            keep_blobs(db, batch.blobs)
        if batch.calls:
            self._write_calls(db, batch.calls, writer)
        if batch.messages:
            db.executemany(
                _MESSAGES,
                [
                    (
                        row.session_id, row.owner, row.message_id, row.part, row.position, row.kind,
                        row.at, row.size, row.payload,
                    )
                    for row in batch.messages
                ],
            )  # fmt: skip
            use(db, [(row.session_id, row.owner, row.blobs) for row in batch.messages])
            for row in batch.messages:
                if row.blobs:  # what was said so far was kept under another hash
                    let_go(db, [(row.session_id, row.owner)], row.blobs)

    def written(self, batch: Batch) -> None:
        """Note that a batch is durable."""
        known = self._with_blobs
        for row in batch.calls:
            if row.is_open and row.blobs:
                known.add((row.session_id, row.owner))
            elif known and not row.is_open:
                known.discard((row.session_id, row.owner))

    def _write_calls(self, db: sqlite3.Connection, calls: list[CallRow], writer: str) -> None:
        values = [
            (
                row.session_id, row.call_id, row.position, row.name, row.title, row.kind,
                row.status, row.reason, row.at, row.updated_at, row.duration_ms,
                writer if row.is_open else None, row.size, row.payload, row.owner,
            )
            for row in calls
        ]  # fmt: skip
        rest = len(values) % WIDE
        db.executemany(_CALLS, values[:rest])
        for begin in range(rest, len(values), WIDE):
            db.execute(_MANY_CALLS, list(chain.from_iterable(values[begin : begin + WIDE])))
        use(db, [(row.session_id, row.owner, row.blobs) for row in calls if row.blobs])
        known = self._with_blobs
        for row in calls:
            if row.blobs or (known and (row.session_id, row.owner) in known):
                _use_no_more(db, row)


def rename_calls(db: sqlite3.Connection, calls: list[CallRow]) -> None:
    """Return calls ids that no other call of their session has. Called within a transaction."""
    taken: dict[tuple[str, str], str] = {}
    for row in calls:
        row.key = row.owner
        for name in names(row.call_id):
            where = row.session_id, name
            found = db.execute(
                "SELECT key FROM calls WHERE session_id = ? AND call_id = ?", where
            ).fetchone()
            if taken.get(where, found[0] if found else row.key) == row.key:
                taken[where], row.call_id = row.key, name
                break


def keep_blobs(db: sqlite3.Connection, blobs: Iterable[BlobRow]) -> None:
    """Keep large texts, each once."""
    db.executemany(
        "INSERT OR IGNORE INTO blobs VALUES (?, ?, ?)",
        [(blob.hash, blob.size, blob.data) for blob in blobs],
    )


def use(db: sqlite3.Connection, owners: Iterable[tuple[str, str, Iterable[bytes]]]) -> None:
    """Note which blobs rows refer to."""
    uses = [(session, owner, blob) for session, owner, blobs in owners for blob in blobs]
    if uses:
        db.executemany("INSERT OR IGNORE INTO blob_uses VALUES (?, ?, ?)", uses)


def _use_no_more(db: sqlite3.Connection, row: CallRow) -> None:
    """Let go of the texts that an earlier state of a call had, if this one was taken.

    Not of those that the index of words is yet to be told to forget.
    """
    taken = db.execute(
        "SELECT 1 FROM calls c WHERE session_id = ? AND key = ? AND payload = ? AND NOT EXISTS "
        "(SELECT 1 FROM calls_later l WHERE l.seq = c.seq AND l.was IS NOT NULL)",
        (row.session_id, row.owner, row.payload),
    ).fetchone()
    if taken:
        let_go(db, [(row.session_id, row.owner)], row.blobs)
