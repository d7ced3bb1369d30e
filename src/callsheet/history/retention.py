"""Remove calls that exceed the limits, and sessions that a user wants removed.

Calls go in the order in which they were written (`seq`), the oldest first, and never while they run. With a
call go the messages before it in its session, the blobs that nobody else uses, and its words in the index. A
session of which nothing is left goes, too.

How old calls are is judged by the calls themselves, and not by the clock alone: a clock that has jumped for
a while, as it may on a machine without a battery, would else make everything old at once. See `_steady_now`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from callsheet.history.call_records import spills_of
from callsheet.history.database import Database, Values
from callsheet.history.rows import Pruned, Retention
from callsheet.history.store_errors import StoreDamaged

REMOVED = "seq, session_id, call_id, key, position, payload"
"""The columns of a call that is removed."""

# A clock may have been wrong for a while. So only what was written before all that is young is old; and what
# is of the future, if something that was written after it is.
_OLD = """
seq < (SELECT min(seq) FROM calls WHERE at BETWEEN ? AND ?) AND (at < ? OR (at > ? AND seq < (
    SELECT max(seq) FROM calls WHERE at < ?
    AND seq < (SELECT min(seq) FROM calls WHERE at BETWEEN ? AND ?))))
"""
_BLOB_BYTES = """
SELECT sum(length(data)) FROM blobs WHERE hash IN (
    SELECT u.hash FROM blob_uses u JOIN calls c ON c.session_id = u.session_id AND c.key = u.owner
    WHERE u.session_id = ?)
"""


async def prune(db: Database, keep: Retention, now: float | None, most: int) -> Pruned:
    """Remove some of what exceeds the limits, within a transaction.

    Args:
        db: The connection.
        keep: The limits.
        now: The time that ages are measured from. Default: derived from the calls, see `_steady_now`.
        most: How many calls to remove at once.

    Returns:
        What was removed. If that is no calls and no messages, nothing is left to remove.
    """
    known = now if now is not None else await _steady_now(db, keep.gap)
    async for rows in _too_much(db, keep, known, most, is_given=now is not None):
        if rows:
            return await _remove(db, rows)
    # No calls are left to be removed: messages of sessions without calls
    pruned = Pruned()
    if keep.max_age is not None:
        pruned.messages = await _remove_messages(db, known - keep.max_age, most)
        pruned.sessions = await _drop_unused(db, known - keep.max_age)
    if keep.max_bytes is not None and not pruned.messages and await db.is_full(keep.max_bytes):
        pruned.messages = await _remove_messages(db, known, most)
        pruned.sessions += await _drop_unused(db, known)
    return pruned


async def forget(db: Database, session_id: str) -> Pruned:
    """Remove a session with its calls and messages, within a transaction."""
    await db.lock("sessions WHERE session_id IN ({})", [session_id])
    rows = await db.fetch(
        f"SELECT {REMOVED} FROM calls WHERE session_id = ?{db.for_update}", session_id
    )
    pruned = await _remove(db, rows)
    gone = await db.fetch("DELETE FROM messages WHERE session_id = ? RETURNING key", session_id)
    await _drop_blobs(db, [(session_id, key) for (key,) in gone])
    pruned.messages += len(gone)
    left = await db.fetch("DELETE FROM sessions WHERE session_id = ? RETURNING 1", session_id)
    pruned.sessions += len(left)
    return pruned


# What is to be removed


async def _steady_now(db: Database, gap: float) -> float:
    """Return the time that the age of calls is measured from.

    That is the time of the newest call, not the clock's. Across a gap, time only advances once the calls
    after it span more than `gap` themselves; until then, the clock may just have jumped.
    """
    now = time.time()
    newest = await db.fetch_value("SELECT max(at) FROM calls WHERE at <= ?", now)
    if newest is None:  # no calls, but perhaps messages
        used = "SELECT max(updated_at) FROM sessions WHERE updated_at <= ?"
        return await db.fetch_value(used, now) or now
    before = await db.fetch_one(
        "SELECT seq, at FROM calls WHERE at < ? ORDER BY seq DESC LIMIT 1", newest - gap
    )
    if before is None:
        return newest
    # The last call before the gap, and the one that was written next
    seq, at = before
    after = await db.fetch_value("SELECT at FROM calls WHERE seq > ? ORDER BY seq LIMIT 1", seq)
    return at if after is not None and after - at > gap else newest


async def _too_much(
    db: Database, keep: Retention, now: float, most: int, *, is_given: bool
) -> AsyncIterator[Sequence[Values]]:
    """Yield calls to remove: for each limit, some of those that exceed it."""
    if keep.max_age is not None:
        old = now - keep.max_age
        if is_given:
            yield await _oldest(db, "at < ?", [old], most)
        else:
            yield await _oldest(db, _OLD, [old, now, old, now, old, old, now], most)
    if keep.max_calls is not None:
        count = await db.fetch_value("SELECT count(*) FROM calls")
        yield await _oldest(db, "1 = 1", [], min(most, count - keep.max_calls))
    if keep.max_bytes is not None:
        yield await _oldest(db, "1 = 1", [], await db.surplus(keep.max_bytes, most))
    if keep.session_max_calls is not None or keep.session_max_bytes is not None:
        sessions = await db.fetch(
            "SELECT session_id, count(*), sum(length(payload)) FROM calls GROUP BY session_id"
        )
        for key, count, size in sessions:
            blobs = 0
            if keep.session_max_bytes is not None:
                blobs = await db.fetch_value(_BLOB_BYTES, key) or 0
            surplus = keep.session_surplus(count, int(size) + int(blobs))
            yield await _oldest(db, "session_id = ?", [key], min(most, surplus))


async def _oldest(db: Database, condition: str, values: list[Any], count: int) -> Sequence[Values]:
    if count <= 0:
        return []
    return await db.fetch(
        f"SELECT {REMOVED} FROM calls WHERE {condition} AND writer IS NULL "
        f"ORDER BY seq LIMIT ?{db.for_update}",
        *values,
        count,
    )


# Removing


async def _remove(db: Database, rows: Sequence[Values]) -> Pruned:
    """Remove calls, the messages before them, and what only they refer to."""
    pruned = Pruned(calls=len(rows), bytes=sum(len(row[5]) for row in rows))
    records = await db.records([row[5] for row in rows])
    pruned.spills = [path for one in records if one for path in spills_of(one.report)]
    gone = await db.fetch_in(
        "DELETE FROM calls WHERE seq IN ({}) RETURNING seq", [row[0] for row in rows]
    )
    if len(gone) < len(rows):  # they would be found again and again
        raise StoreDamaged("The history is damaged: an index has rows that its table has not.")
    await db.unindex(list(zip(rows, records, strict=True)))
    owners: list[Values] = [(row[1], row[3]) for row in rows]
    reached: dict[str, int] = {}
    for _, session, _, _, position, _ in rows:
        reached[session] = max(position, reached.get(session, -1))
    for session, position in reached.items():
        before = await db.fetch(
            "DELETE FROM messages WHERE session_id = ? AND position < ? RETURNING key",
            session,
            position,
        )
        owners += [(session, key) for (key,) in before]
        pruned.messages += len(before)
    await _drop_blobs(db, owners)
    pruned.sessions = await _drop_empty(db, list(reached))
    return pruned


async def _remove_messages(db: Database, before: float, most: int) -> int:
    """Remove the oldest messages of sessions that have no calls. Return how many."""
    rows = await db.fetch(
        "SELECT m.session_id, m.key FROM messages m WHERE m.at < ? AND NOT EXISTS "
        "(SELECT 1 FROM calls c WHERE c.session_id = m.session_id) ORDER BY m.at LIMIT ?",
        before,
        most,
    )
    gone = await db.fetch_in(
        "DELETE FROM messages WHERE (session_id, key) IN (VALUES {}) RETURNING session_id, key",
        rows,
    )
    if len(gone) < len(rows) and not db.for_update:  # nobody else can have removed them
        raise StoreDamaged("The history is damaged: an index has rows that its table has not.")
    await _drop_blobs(db, gone)
    return len(gone)


async def _drop_blobs(db: Database, owners: Sequence[Values]) -> None:
    """Remove the blobs that only these rows have used: for each row, its session and its key."""
    gone = await db.fetch_in(
        "DELETE FROM blob_uses WHERE (session_id, owner) IN (VALUES {}) RETURNING hash", owners
    )
    await db.remove_unused_blobs({key for (key,) in gone})


async def _drop_unused(db: Database, since: float) -> int:
    """Remove the empty sessions among those that were not used since a time. Return how many."""
    unused = await db.fetch("SELECT session_id FROM sessions WHERE updated_at < ?", since)
    return await _drop_empty(db, [key for (key,) in unused])


async def _drop_empty(db: Database, sessions: Sequence[str]) -> int:
    """Remove those sessions of which nothing is left. Return how many."""
    # As with blobs: whoever writes to a session holds its row.
    await db.lock("sessions WHERE session_id IN ({}) ORDER BY session_id", sorted(sessions))
    gone = await db.fetch_in(
        "DELETE FROM sessions WHERE session_id IN ({}) AND NOT EXISTS "
        "(SELECT 1 FROM calls c WHERE c.session_id = sessions.session_id) AND NOT EXISTS "
        "(SELECT 1 FROM messages m WHERE m.session_id = sessions.session_id) RETURNING 1",
        sessions,
    )
    return len(gone)
