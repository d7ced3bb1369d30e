"""Indexing, removing, giving space back: what is done with a file when there is time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from callsheet.history.packing import SMALL, Packer
from callsheet.history.rows import Pruned, Retention
from callsheet.history.spills import spills_of
from callsheet.history.words import VERSION, fields
from callsheet.report.record import CallRecord

SAMPLES = 4000
"""Payloads that a dictionary is learned from."""

BETTER = 0.95
"""A dictionary is taken if payloads become that much smaller by it."""


class Unpacking(Protocol):
    """What makes sense of payloads."""

    packer: Packer

    def unpack(self, payload: bytes) -> CallRecord:
        """Give the record that a payload stands for."""
        ...


# Indexing


def index(db: sqlite3.Connection, store: Unpacking, limit: int) -> int:
    """Index so many calls that have ended, at most. Gives how many it were."""
    _begin_anew(db)
    done = _fact(db, "indexed_to")
    rows = db.execute(
        "SELECT c.seq, c.payload FROM calls c LEFT JOIN calls_text_docsize d ON d.id = c.seq "
        "WHERE c.seq > ? AND c.writer IS NULL AND d.id IS NULL ORDER BY c.seq LIMIT ?",
        (done, limit),
    ).fetchall()
    if not rows:
        return 0
    db.executemany(
        "INSERT INTO calls_text (rowid, title, command, paths, output) VALUES (?, ?, ?, ?, ?)",
        [(seq, *fields(store.unpack(payload))) for seq, payload in rows],
    )
    (first_open,) = db.execute("SELECT min(seq) FROM calls WHERE writer IS NOT NULL").fetchone()
    last = rows[-1][0] if first_open is None else min(rows[-1][0], first_open - 1)
    _note(db, "indexed_to", max(done, last))
    return len(rows)


def _begin_anew(db: sqlite3.Connection) -> None:
    """Empty the index if it was made in another way than it would be now."""
    if _fact(db, "text_version") != VERSION:
        db.execute("INSERT INTO calls_text (calls_text) VALUES ('delete-all')")
        _note(db, "indexed_to", 0)
        _note(db, "text_version", VERSION)


def _fact(db: sqlite3.Connection, name: str) -> int:
    found = db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return found[0] if found else 0


def _note(db: sqlite3.Connection, name: str, value: int) -> None:
    db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))


# Removing


def prune(
    db: sqlite3.Connection, store: Unpacking, keep: Retention, now: float, most: int
) -> Pruned:
    """Remove some of what is not to be kept: the oldest first, and nothing that runs."""
    for rows in _too_much(db, keep, now, most):
        if rows:
            return _remove(db, store, rows)
    pruned = Pruned()
    if keep.max_age is not None:  # what was said in sessions without calls
        old = (
            "DELETE FROM messages WHERE at < ? AND session_id NOT IN (SELECT session_id FROM calls)"
        )
        pruned.messages = db.execute(old, (now - keep.max_age,)).rowcount
        pruned.sessions = _drop_empty(db, now - keep.max_age)
    return pruned


def _too_much(
    db: sqlite3.Connection, keep: Retention, now: float, most: int
) -> Iterator[list[Any]]:
    """Give calls that are to be removed: for each rule, some."""
    if keep.max_age is not None:
        yield _oldest(db, "at < ?", [now - keep.max_age], most)
    if keep.max_calls is not None:
        (count,) = db.execute("SELECT count(*) FROM calls").fetchone()
        yield _oldest(db, "1", [], min(most, count - keep.max_calls))
    if keep.max_bytes is not None:
        yield _oldest(db, "1", [], _surplus(db, keep.max_bytes, most))
    if keep.session_max_calls is not None or keep.session_max_bytes is not None:
        sessions = (
            "SELECT session_id, count(*), total(length(payload)) FROM calls GROUP BY session_id"
        )
        for key, count, size in db.execute(sessions).fetchall():
            yield _oldest(db, "session_id = ?", [key], _share(keep, count, size, most))


def _surplus(db: sqlite3.Connection, limit: int, most: int) -> int:
    """Give how many calls are to go, as far as can be told, for the file to have so many bytes."""
    used = used_bytes(db)
    (count,) = db.execute("SELECT count(*) FROM calls").fetchone()
    if used <= limit or not count:
        return 0
    return min(most, max(1, int(count * (used - limit) / used)))


def _share(keep: Retention, count: int, size: float, most: int) -> int:
    too_many = count - keep.session_max_calls if keep.session_max_calls is not None else 0
    if keep.session_max_bytes is not None and size > keep.session_max_bytes:
        too_many = max(too_many, 1, int(count * (size - keep.session_max_bytes) / size))
    return min(most, too_many)


def _oldest(db: sqlite3.Connection, condition: str, values: list[Any], count: int) -> list[Any]:
    if count <= 0:
        return []
    return db.execute(
        "SELECT seq, session_id, call_id, position, payload FROM calls "
        f"WHERE {condition} AND writer IS NULL ORDER BY at LIMIT ?",
        [*values, count],
    ).fetchall()


def _remove(db: sqlite3.Connection, store: Unpacking, rows: Sequence[Any]) -> Pruned:
    """Remove calls, what was said before them, and what only they refer to."""
    pruned = Pruned(calls=len(rows))
    spills: list[str] = []
    indexed = {seq for seq, *_ in rows if _is_indexed(db, seq)}
    for seq, _, _, _, payload in rows:
        record = store.unpack(payload)
        spills += spills_of(record.report)
        pruned.bytes += len(payload)
        if seq in indexed:
            db.execute(
                "INSERT INTO calls_text (calls_text, rowid, title, command, paths, output) "
                "VALUES ('delete', ?, ?, ?, ?, ?)",
                (seq, *fields(record)),
            )
    db.executemany("DELETE FROM calls WHERE seq = ?", [(row[0],) for row in rows])
    owners = [(row[1], row[2]) for row in rows]
    reached: dict[str, int] = {}
    for _, session, _, position, _ in rows:
        reached[session] = max(position, reached.get(session, -1))
    for session, position in reached.items():
        gone = db.execute(
            "DELETE FROM messages WHERE session_id = ? AND position < ? "
            "RETURNING message_id || ' ' || part",
            (session, position),
        ).fetchall()
        owners += [(session, owner) for (owner,) in gone]
        pruned.messages += len(gone)
    _let_go(db, owners)
    pruned.sessions = _drop_empty(db, None, list(reached))
    pruned.spills = spills
    return pruned


def _is_indexed(db: sqlite3.Connection, seq: int) -> bool:
    found = db.execute("SELECT 1 FROM calls_text_docsize WHERE id = ?", (seq,)).fetchone()
    return found is not None and _fact(db, "text_version") == VERSION


def _let_go(db: sqlite3.Connection, owners: Sequence[tuple[str, str]]) -> None:
    """Remove the blobs that only these have used."""
    hashes: set[bytes] = set()
    for session, owner in owners:
        gone = db.execute(
            "DELETE FROM blob_uses WHERE session_id = ? AND owner = ? RETURNING hash",
            (session, owner),
        )
        hashes |= {row[0] for row in gone.fetchall()}
    db.executemany(
        "DELETE FROM blobs WHERE hash = ? AND NOT EXISTS "
        "(SELECT 1 FROM blob_uses u WHERE u.hash = blobs.hash)",
        [(key,) for key in hashes],
    )


def _drop_empty(
    db: sqlite3.Connection, unused_since: float | None, sessions: Sequence[str] = ()
) -> int:
    """Remove sessions of which nothing is left."""
    empty = (
        "DELETE FROM sessions WHERE {} AND NOT EXISTS "
        "(SELECT 1 FROM calls c WHERE c.session_id = sessions.session_id) AND NOT EXISTS "
        "(SELECT 1 FROM messages m WHERE m.session_id = sessions.session_id)"
    )
    if unused_since is not None:
        return db.execute(empty.format("updated_at < ?"), (unused_since,)).rowcount
    return sum(db.execute(empty.format("session_id = ?"), (key,)).rowcount for key in sessions)


def forget(db: sqlite3.Connection, store: Unpacking, session_id: str) -> Pruned:
    """Remove a session, with all that it has said and done."""
    rows = db.execute(
        "SELECT seq, session_id, call_id, position, payload FROM calls WHERE session_id = ?",
        (session_id,),
    ).fetchall()
    pruned = _remove(db, store, rows)
    gone = db.execute(
        "DELETE FROM messages WHERE session_id = ? RETURNING message_id || ' ' || part",
        (session_id,),
    ).fetchall()
    _let_go(db, [(session_id, owner) for (owner,) in gone])
    pruned.messages += len(gone)
    pruned.sessions = db.execute(
        "DELETE FROM sessions WHERE session_id = ?", (session_id,)
    ).rowcount
    return pruned


# Space


def give_back(db: sqlite3.Connection) -> None:
    """Give free pages back to the system."""
    db.executescript("PRAGMA incremental_vacuum")  # `execute` takes one step: that is one page
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def vacuum(db: sqlite3.Connection) -> None:
    """Make the file as small as it can be."""
    db.execute("INSERT INTO calls_text (calls_text) VALUES ('optimize')")
    db.execute("VACUUM")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def used_bytes(db: sqlite3.Connection) -> int:
    """Give the bytes of the pages that are in use."""
    pages, free, size = (
        db.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def size_of(file: Path) -> int:
    """Give what a database takes on the disk."""
    files = (file, file.with_name(file.name + "-wal"))
    return sum(one.stat().st_size for one in files if one.exists())


def learn(db: sqlite3.Connection, store: Unpacking, now: float) -> int | None:
    """Learn a dictionary from what is kept, and take it if it is better. Gives its id then."""
    rows = db.execute(
        "SELECT payload FROM calls WHERE size < ? ORDER BY seq DESC LIMIT ?", (SMALL, SAMPLES)
    )
    samples = [store.packer.plain(payload) for (payload,) in rows.fetchall()]
    learned = store.packer.learn(samples, BETTER)
    if learned is None:
        return None
    key = store.packer.know(learned)
    db.execute(
        "INSERT OR IGNORE INTO dictionaries VALUES (?, ?, ?, 'trained')", (key, learned, now)
    )
    store.packer.use(learned)
    return key
