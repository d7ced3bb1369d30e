"""Removing, giving space back, learning: what is done with a file when there is time."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from callsheet.history.errors import StoreDamaged
from callsheet.history.packing import BETTER, SAMPLES, SMALL
from callsheet.history.rows import Fill, Pruned, Retention, steady
from callsheet.history.spills import spills_of

from . import indexing
from .indexing import Unpacking

PAGES = 25_000
"""Pages that are given back at once: 100 MB."""

SPARE = 0.9
"""Of the bytes that there may be, how many are used after something was removed."""

_BLOBS = """
SELECT total(length(data)) FROM blobs WHERE hash IN (
    SELECT u.hash FROM blob_uses u JOIN calls c ON c.session_id = u.session_id AND c.key = u.owner
    WHERE u.session_id = ?)
"""
# A clock may have been wrong for a while. So only what was written before all that is young is old; and what
# is of the future, if something that was written after it is.
_OLD = """
seq < (SELECT min(seq) FROM calls WHERE at BETWEEN ?1 AND ?2) AND (at < ?1 OR (at > ?2 AND seq < (
    SELECT max(seq) FROM calls WHERE at < ?1
    AND seq < (SELECT min(seq) FROM calls WHERE at BETWEEN ?1 AND ?2))))
"""
_STAY, _STAY_FOR = "calls_to_stay", "bytes_to_stay"


# Removing


def prune(
    db: sqlite3.Connection, store: Unpacking, keep: Retention, told: float | None, most: int
) -> Pruned:
    """Remove some of what is not to be kept: the oldest first, and nothing that runs.

    The time is `told`, or else judged by the entries.
    """
    now = told if told is not None else _steady(db, time.time(), keep.gap)
    for rows in _too_much(db, keep, now, most, is_told=told is not None):
        if rows:
            return _remove(db, store, rows)
    pruned = Pruned()
    indexing.note(db, _STAY, -1)
    # What was said in sessions without calls
    if keep.max_age is not None:
        pruned.messages = _remove_said(db, now - keep.max_age, most)
        pruned.sessions = _drop_empty(db, now - keep.max_age)
    is_full = keep.max_bytes is not None and used_bytes(db) > keep.max_bytes
    if is_full and not pruned.messages and not indexing.is_loose(db):
        pruned.messages = _remove_said(db, now, most)
        pruned.sessions += _drop_empty(db, now)
    return pruned


def _remove_said(db: sqlite3.Connection, before: float, most: int) -> int:
    """Remove the oldest messages of sessions that have no calls. Gives how many it were."""
    rows = db.execute(
        "SELECT m.session_id, m.key FROM messages m WHERE m.at < ? AND NOT EXISTS "
        "(SELECT 1 FROM calls c WHERE c.session_id = m.session_id) ORDER BY m.at LIMIT ?",
        (before, most),
    ).fetchall()
    indexing.remove(db, "messages WHERE session_id = ? AND key = ?", rows)
    let_go(db, rows)
    return len(rows)


def _steady(db: sqlite3.Connection, now: float, gap: float) -> float:
    """Return the time as the calls tell it."""
    (newest,) = db.execute("SELECT max(at) FROM calls WHERE at <= ?", (now,)).fetchone()
    if newest is None:  # nothing was done, but perhaps said
        said = "SELECT max(updated_at) FROM sessions WHERE updated_at <= ?"
        return db.execute(said, (now,)).fetchone()[0] or now
    before = db.execute(
        "SELECT seq, at FROM calls WHERE at < ? ORDER BY seq DESC LIMIT 1", (newest - gap,)
    ).fetchone()
    if before is None:
        return newest
    after = db.execute(
        "SELECT at FROM calls WHERE seq > ? ORDER BY seq LIMIT 1", before[:1]
    ).fetchone()
    return steady(gap, newest, before[1], after and after[0])


def _too_much(
    db: sqlite3.Connection, keep: Retention, now: float, most: int, *, is_told: bool
) -> Iterator[list[Any]]:
    """Return calls that are to be removed: for each rule, some."""
    if keep.max_age is not None:
        before = now - keep.max_age
        if is_told:
            yield _oldest(db, "at < ?", [before], most)
        else:
            yield _oldest(db, _OLD, [before, now], most)
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
            blobs = 0
            if keep.session_max_bytes is not None:
                (blobs,) = db.execute(_BLOBS, (key,)).fetchone()
            yield _oldest(db, "session_id = ?", [key], keep.share(count, size + blobs, most))


def _surplus(db: sqlite3.Connection, limit: int, most: int) -> int:
    """Return how many calls are to go, as far as can be told, for the file to have so many bytes.

    The index gives the space of removed calls back only when it is made compact, which takes time. So how
    many are to stay is decided once, with some room to spare, and not judged anew after every step. It is
    noted for what limit that was: whoever was interrupted may have had a smaller one.
    """
    (count,) = db.execute("SELECT count(*) FROM calls").fetchone()
    stay = indexing.fact(db, _STAY, -1)
    if stay < 0 or indexing.fact(db, _STAY_FOR) != limit:
        found = fill(db, limit)
        if found.used <= limit:
            return 0
        stay = count - found.surplus
        indexing.note(db, _STAY, stay)
        indexing.note(db, _STAY_FOR, limit)
    return min(most, count - stay)


def fill(db: sqlite3.Connection, limit: int) -> Fill:
    """Return how full the file is, and how many calls go for it to have so many bytes."""
    used, least = used_bytes(db), _least_bytes(db)
    if used <= limit:
        return Fill(used, least, 0)
    (count,) = db.execute("SELECT count(*) FROM calls").fetchone()
    share = (limit - least) / (used - least) if limit > least else 0.0
    return Fill(used, least, count - int(count * SPARE * share))


def _least_bytes(db: sqlite3.Connection) -> int:
    """Return what a file takes without a call: a page for each table and index, and the dictionaries."""
    (size,) = db.execute("PRAGMA page_size").fetchone()
    (trees,) = db.execute("SELECT count(*) FROM sqlite_master WHERE rootpage > 0").fetchone()
    (pages,) = db.execute(
        "SELECT coalesce(sum(length(data) / ?), 0) FROM dictionaries", (size,)
    ).fetchone()
    return (trees + 4 + pages) * size  # and four in which SQLite notes where all is


def _oldest(db: sqlite3.Connection, condition: str, values: list[Any], count: int) -> list[Any]:
    if count <= 0:
        return []
    return db.execute(
        "SELECT seq, session_id, key, position, payload FROM calls "
        f"WHERE {condition} AND writer IS NULL ORDER BY seq LIMIT ?",
        [*values, count],
    ).fetchall()


def _remove(db: sqlite3.Connection, store: Unpacking, rows: Sequence[Any]) -> Pruned:
    """Remove calls, what was said before them, and what only they refer to."""
    pruned = Pruned(calls=len(rows))
    spills: list[str] = []
    for seq, _, _, _, payload in rows:
        indexing.forget(db, store, seq, payload)
        pruned.bytes += len(payload)
        with suppress(StoreDamaged):
            spills += spills_of(store.unpack(payload).report)
    indexing.remove(db, "calls WHERE seq = ?", [(row[0],) for row in rows])
    indexing.step_back(db)
    owners = [(row[1], row[2]) for row in rows]
    reached: dict[str, int] = {}
    for _, session, _, position, _ in rows:
        reached[session] = max(position, reached.get(session, -1))
    for session, position in reached.items():
        gone = db.execute(
            "DELETE FROM messages WHERE session_id = ? AND position < ? RETURNING key",
            (session, position),
        ).fetchall()
        owners += [(session, owner) for (owner,) in gone]
        pruned.messages += len(gone)
    let_go(db, owners)
    pruned.sessions = _drop_empty(db, None, list(reached))
    pruned.spills = spills
    return pruned


def let_go(
    db: sqlite3.Connection, owners: Sequence[tuple[str, str]], keep: Sequence[bytes] = ()
) -> None:
    """Remove the blobs that only these have used, but for some that they still use."""
    hashes: set[bytes] = set()
    but = f" AND hash NOT IN ({', '.join('?' * len(keep))})" if keep else ""
    for session, owner in owners:
        gone = db.execute(
            f"DELETE FROM blob_uses WHERE session_id = ? AND owner = ?{but} RETURNING hash",
            (session, owner, *keep),
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
        "SELECT seq, session_id, key, position, payload FROM calls WHERE session_id = ?",
        (session_id,),
    ).fetchall()
    pruned = _remove(db, store, rows)
    gone = db.execute(
        "DELETE FROM messages WHERE session_id = ? RETURNING key",
        (session_id,),
    ).fetchall()
    let_go(db, [(session_id, owner) for (owner,) in gone])
    pruned.messages += len(gone)
    pruned.sessions = db.execute(
        "DELETE FROM sessions WHERE session_id = ?", (session_id,)
    ).rowcount
    return pruned


# Space


def give_back(db: sqlite3.Connection) -> None:
    """Return free pages back to the system, as many as a step may have freed."""
    db.executescript(f"PRAGMA incremental_vacuum({PAGES})")  # `execute` would end after the first
    _into_file(db)


def vacuum(db: sqlite3.Connection) -> None:
    """Make the file as small as it can be."""
    db.execute("INSERT INTO calls_text (calls_text) VALUES ('optimize')")
    indexing.note(db, "removed", 0)
    db.execute("VACUUM")
    _into_file(db)


def _into_file(db: sqlite3.Connection) -> None:
    """Move what was written into the file, unless somebody reads: that would hold up all who write."""
    (patience,) = db.execute("PRAGMA busy_timeout").fetchone()
    db.execute("PRAGMA busy_timeout = 0")
    try:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        db.execute(f"PRAGMA busy_timeout = {patience}")


def used_bytes(db: sqlite3.Connection) -> int:
    """Return the bytes of the pages that are in use."""
    pages, free, size = (
        db.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def size_of(file: Path) -> int:
    """Return what a database takes on the disk."""
    files = (file, file.with_name(file.name + "-wal"))
    return sum(one.stat().st_size for one in files if one.exists())


def learn(db: sqlite3.Connection, store: Unpacking) -> bytes | None:
    """Learn a dictionary from what is kept. Gives it if it is better than the one that is used."""
    rows = db.execute(
        "SELECT payload FROM calls WHERE size < ? ORDER BY seq DESC LIMIT ?", (SMALL, SAMPLES)
    )
    samples: list[bytes] = []
    for (payload,) in rows.fetchall():
        with suppress(StoreDamaged):
            samples.append(store.plain(payload))
    return store.packer.learn(samples, BETTER)
