"""Remove calls that exceed the limits, and sessions that a user wants removed.

Calls go in the order in which they were written (`seq`), the oldest first, and never while they run. With a
call go the messages before it in its session, and its words in the index. A session of which nothing is left
goes, too.

How old calls are is judged by the calls themselves, and not by the clock alone: a clock that has jumped for
a while, as it may on a machine without a battery, would else make everything old at once. See `_steady_now`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from callsheet.history.call_records import spills_of
from callsheet.history.database import Database, Values
from callsheet.history.rows import Pruned, Retention
from callsheet.history.search_text import search_fields
from callsheet.history.store_errors import StoreDamaged
from callsheet.report.terminal import CallRecord

FIRST = -(1 << 62)
"""Less than any `seq`."""

_REMOVED = "seq, session_id, position, payload"

# A clock may have been wrong for a while. So only what was written before all that is young is old; and what
# is of the future, if something that was written after it is.
_OLD = """
seq < (SELECT min(seq) FROM calls WHERE at BETWEEN ? AND ?) AND (at < ? OR (at > ? AND seq < (
    SELECT max(seq) FROM calls WHERE at < ?
    AND seq < (SELECT min(seq) FROM calls WHERE at BETWEEN ? AND ?))))
"""


def prune(db: Database, keep: Retention, now: float | None, most: int) -> Pruned:
    """Remove some of what exceeds the limits, within a transaction.

    Args:
        db: The connection.
        keep: The limits.
        now: The time that ages are measured from. Default: derived from the calls, see `_steady_now`.
        most: How many calls to remove at once.

    Returns:
        What was removed. If that is no calls and no messages, nothing is left to remove.
    """
    known = now if now is not None else _steady_now(db, keep.gap)
    for rows in _too_much(db, keep, known, most, is_given=now is not None):
        if rows:
            return _remove(db, rows)
    # No calls are left to be removed: messages of sessions without calls
    pruned = Pruned()
    if keep.max_age is not None:
        pruned.messages = _remove_messages(db, known - keep.max_age, most)
        pruned.sessions = _drop_unused(db, known - keep.max_age)
    if keep.max_bytes is not None and not pruned.messages and db.is_full(keep.max_bytes):
        pruned.messages = _remove_messages(db, known, most)
        pruned.sessions += _drop_unused(db, known)
    return pruned


def forget(db: Database, session_id: str) -> Pruned:
    """Remove a session with its calls and messages, within a transaction."""
    db.fetch(f"SELECT 1 FROM sessions WHERE session_id = ?{db.for_update}", session_id)
    rows = db.fetch(f"SELECT {_REMOVED} FROM calls WHERE session_id = ?{db.for_update}", session_id)
    pruned = _remove(db, rows)
    gone = db.fetch("DELETE FROM messages WHERE session_id = ? RETURNING 1", session_id)
    left = db.fetch("DELETE FROM sessions WHERE session_id = ? RETURNING 1", session_id)
    pruned.messages += len(gone)
    pruned.sessions += len(left)
    return pruned


# What is to be removed


def _steady_now(db: Database, gap: float) -> float:
    """Return the time that the age of calls is measured from.

    That is the time of the newest call, not the clock's. Across a gap, time only advances once the calls
    after it span more than `gap` themselves; until then, the clock may just have jumped.
    """
    now = time.time()
    newest = db.fetch_value("SELECT max(at) FROM calls WHERE at <= ?", now)
    if newest is None:  # no calls, but perhaps messages
        used = "SELECT max(updated_at) FROM sessions WHERE updated_at <= ?"
        return db.fetch_value(used, now) or now
    before = db.fetch(
        "SELECT seq, at FROM calls WHERE at < ? ORDER BY seq DESC LIMIT 1", newest - gap
    )
    if not before:
        return newest
    # The last call before the gap, and the one that was written next
    ((seq, at),) = before
    after = db.fetch_value("SELECT at FROM calls WHERE seq > ? ORDER BY seq LIMIT 1", seq)
    return at if after is not None and after - at > gap else newest


def _too_much(
    db: Database, keep: Retention, now: float, most: int, *, is_given: bool
) -> Iterator[Sequence[Values]]:
    """Yield calls to remove: for each limit, some of those that exceed it."""
    if keep.max_age is not None:
        old = now - keep.max_age
        if is_given:
            yield _oldest(db, "at < ?", [old], most)
        else:
            yield _oldest(db, _OLD, [old, now, old, now, old, old, now], most)
    if keep.max_calls is not None:
        count = db.fetch_value("SELECT count(*) FROM calls")
        yield _oldest(db, "1 = 1", [], min(most, count - keep.max_calls))
    if keep.max_bytes is not None:
        yield _oldest(db, "1 = 1", [], db.surplus(keep.max_bytes, most))
    if keep.session_max_calls is not None or keep.session_max_bytes is not None:
        sessions = db.fetch(
            "SELECT session_id, count(*), sum(length(payload)) FROM calls GROUP BY session_id"
        )
        for key, count, size in sessions:
            surplus = keep.session_surplus(count, int(size))
            yield _oldest(db, "session_id = ?", [key], min(most, surplus))


def _oldest(db: Database, condition: str, values: list[Any], count: int) -> Sequence[Values]:
    if count <= 0:
        return []
    return db.fetch(
        f"SELECT {_REMOVED} FROM calls WHERE {condition} AND writer IS NULL "
        f"ORDER BY seq LIMIT ?{db.for_update}",
        *values,
        count,
    )


# Removing


def _remove(db: Database, rows: Sequence[Values]) -> Pruned:
    """Remove calls, the messages before them, and what only they refer to."""
    pruned = Pruned(calls=len(rows), bytes=sum(len(row[3]) for row in rows))
    records = [(row[0], _record(db, row[3])) for row in rows]
    pruned.spills = [path for _, one in records if one for path in spills_of(one.report)]
    seqs = [seq for seq, _ in records]
    gone = db.fetch_in("DELETE FROM calls WHERE seq IN ({}) RETURNING seq", seqs)
    if len(gone) < len(rows):  # they would be found again and again
        raise StoreDamaged("The history is damaged: an index has rows that its table has not.")
    queued = db.fetch_in("DELETE FROM unindexed WHERE seq IN ({}) RETURNING seq", seqs)
    waiting = {seq for (seq,) in queued}
    db.remove_words([(seq, words_of(one)) for seq, one in records if seq not in waiting])
    reached: dict[str, int] = {}
    for _, session, position, _ in rows:
        reached[session] = max(position, reached.get(session, -1))
    for session, position in reached.items():
        sql = "DELETE FROM messages WHERE session_id = ? AND position < ? RETURNING 1"
        pruned.messages += len(db.fetch(sql, session, position))
    pruned.sessions = _drop_empty(db, list(reached))
    return pruned


def _record(db: Database, payload: bytes) -> CallRecord | None:
    """Return a call, or None if it can't be read."""
    try:
        return db.codec.decode(payload)
    except StoreDamaged:
        return None


def words_of(record: CallRecord | None) -> Sequence[str]:
    """Return what the index has of a call. Of one that can't be read, it is nothing."""
    return search_fields(record) if record else ("", "", "", "")


def index(db: Database, after: int, limit: int) -> tuple[int, int]:
    """Add calls that have ended to the index of words: of those with a `seq` after one, the first.

    Returns:
        The `seq` of the last call, `after` if there was none; and how many calls were handled here, and not
        by another process at the same time.
    """
    queued = db.fetch(
        "SELECT q.seq, c.payload FROM unindexed q LEFT JOIN calls c ON c.seq = q.seq "
        "WHERE q.seq > ? ORDER BY q.seq LIMIT ?",
        after,
        limit,
    )
    if not queued:
        return after, 0
    # Splitting texts takes time, in which nobody is to be held up.
    words = {payload: words_of(_record(db, payload)) for _, payload in queued if payload}
    with db.transaction():
        gone = db.fetch_in(
            "DELETE FROM unindexed WHERE seq IN ({}) RETURNING seq", [row[0] for row in queued]
        )
        # A call may have been removed meanwhile, or have changed.
        rows = db.fetch_in(
            f"SELECT seq, payload FROM calls WHERE seq IN ({{}}){db.for_share}",
            [seq for (seq,) in gone],
        )
        db.add_words([(seq, words.get(data) or words_of(_record(db, data))) for seq, data in rows])
    return queued[-1][0], len(gone)


def _remove_messages(db: Database, before: float, most: int) -> int:
    """Remove the oldest messages of sessions that have no calls. Return how many."""
    rows = db.fetch(
        "SELECT m.session_id, m.key FROM messages m WHERE m.at < ? AND NOT EXISTS "
        "(SELECT 1 FROM calls c WHERE c.session_id = m.session_id) ORDER BY m.at LIMIT ?",
        before,
        most,
    )
    gone = db.fetch_in(
        "DELETE FROM messages WHERE (session_id, key) IN (VALUES {}) RETURNING 1", rows
    )
    if len(gone) < len(rows) and not db.for_update:  # nobody else can have removed them
        raise StoreDamaged("The history is damaged: an index has rows that its table has not.")
    return len(gone)


def _drop_unused(db: Database, since: float) -> int:
    """Remove the empty sessions among those that were not used since a time. Return how many."""
    unused = db.fetch("SELECT session_id FROM sessions WHERE updated_at < ?", since)
    return _drop_empty(db, [key for (key,) in unused])


def _drop_empty(db: Database, sessions: Sequence[str]) -> int:
    """Remove those sessions of which nothing is left. Return how many."""
    if db.for_update:
        # Whoever writes to a session holds its row: only after waiting for them is all of it visible.
        lock = (
            f"SELECT 1 FROM sessions WHERE session_id IN ({{}}) ORDER BY session_id{db.for_update}"
        )
        db.fetch_in(lock, sorted(sessions))
    gone = db.fetch_in(
        "DELETE FROM sessions WHERE session_id IN ({}) AND NOT EXISTS "
        "(SELECT 1 FROM calls c WHERE c.session_id = sessions.session_id) AND NOT EXISTS "
        "(SELECT 1 FROM messages m WHERE m.session_id = sessions.session_id) RETURNING 1",
        sessions,
    )
    return len(gone)
