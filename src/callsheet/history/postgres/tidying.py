"""Indexing, removing, giving space back: what is done with a server's tables when there is time."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any

from callsheet.history.errors import StoreDamaged
from callsheet.history.packing import BETTER, SAMPLES, SMALL, Packer, shipped_dictionary
from callsheet.history.rows import Fill, Pruned, Retention, steady
from callsheet.history.spills import spills_of
from callsheet.history.words import VERSION, fields

from .connection import LONG
from .payloads import load_dictionaries, ready
from .reading import BYTES
from .schema import TABLES, fact, note
from .writing import plain

INDEX_LOCK = 0x63616C6C73680002
PRUNE_LOCK = 0x63616C6C73680003

ROW = 400
"""Bytes that a row takes besides its payload, with its indexes, more or less."""

FREE = 1 << 20
"""Bytes that may lie idle in each part of a table."""

_BLOBS = """
SELECT coalesce(sum(octet_length(data)), 0)::int8 FROM callsheet.blobs WHERE hash IN (
    SELECT u.hash FROM callsheet.blob_uses u JOIN callsheet.calls c
    ON c.session_id = u.session_id AND c.key = u.owner WHERE u.session_id = $1)
"""
# A clock may have been wrong for a while. So only what was written before all that is young is old; and what
# is of the future, if something that was written after it is. What version 1 has written has no number.
_OLD = """
((seq IS NULL AND at < $2) OR seq < (SELECT min(seq) FROM callsheet.calls WHERE at BETWEEN $2 AND $3)
AND (at < $2 OR (at > $3 AND seq < (
    SELECT max(seq) FROM callsheet.calls WHERE at < $2
    AND seq < (SELECT min(seq) FROM callsheet.calls WHERE at BETWEEN $2 AND $3)))))
"""
_WHERE = "WHERE c.session_id = g.session_id AND c.call_id = g.call_id"
_GIVEN = "unnest($1::text[], $2::text[]) AS g (session_id, call_id)"


# Indexing


async def index(db: Any, packer: Packer, limit: int, *, wait: bool) -> int:
    """Index so many calls that have ended, at most. Gives how many it were.

    One process does it at a time; without `wait`, another one is left to it.
    """
    if wait:
        await db.execute("SELECT pg_advisory_xact_lock($1)", INDEX_LOCK)
    elif not await db.fetchval("SELECT pg_try_advisory_xact_lock($1)", INDEX_LOCK):
        return 0
    await _begin_anew(db)
    taken = await db.fetch(
        "WITH g AS MATERIALIZED (SELECT session_id, call_id FROM callsheet.unindexed LIMIT $1) "
        f"DELETE FROM callsheet.unindexed c USING g {_WHERE} RETURNING c.session_id, c.call_id",
        limit,
    )
    if not taken:
        return 0
    # Locked, so that nobody removes them before their words are there to be removed, too.
    rows = await db.fetch(
        f"SELECT c.session_id, c.call_id, c.payload FROM {_GIVEN} JOIN callsheet.calls c "
        "USING (session_id, call_id) WHERE c.writer IS NULL FOR KEY SHARE OF c",
        *_keys(taken),
    )
    blob = await ready(db, packer, [row["payload"] for row in rows])
    await db.executemany(
        "INSERT INTO callsheet.calls_text VALUES ($1, $2, array_to_tsvector($3::text[]), $4) "
        "ON CONFLICT (session_id, call_id) DO UPDATE SET words = excluded.words, texts = excluded.texts",
        [(row[0], row[1], *_words(packer, row["payload"], blob)) for row in rows],
    )
    return len(taken)


def _words(
    packer: Packer, payload: bytes, blob: Callable[[bytes], bytes | None]
) -> tuple[list[str], str]:
    """Return the words of a call, and its fields, in each of which a phrase can be found."""
    try:
        found = fields(packer.unpack(payload, blob))
    except StoreDamaged:
        return [], ""
    words = {word for one in found for word in one.split(" ") if word}
    return sorted(words), "\n".join(f" {one} " for one in found)


async def _begin_anew(db: Any) -> None:
    """Index all again if it was done in another way than it would be now."""
    found = await fact(db, "text_version")
    if found == VERSION:
        return
    if found is not None:
        await db.execute("DELETE FROM callsheet.calls_text")
        await db.execute(
            "INSERT INTO callsheet.unindexed SELECT session_id, call_id FROM callsheet.calls "
            "WHERE writer IS NULL ON CONFLICT DO NOTHING"
        )
    await note(db, "text_version", VERSION)


def _keys(rows: Sequence[Any]) -> tuple[list[str], list[str]]:
    return [row["session_id"] for row in rows], [row["call_id"] for row in rows]


# Removing


async def prune(db: Any, packer: Packer, keep: Retention, told: float | None, most: int) -> Pruned:
    """Remove some of what is not to be kept: the oldest first, and nothing that runs.

    The time is `told`, or else judged by the entries.
    """
    if not await db.fetchval("SELECT pg_try_advisory_xact_lock($1)", PRUNE_LOCK):
        return Pruned()  # another process does
    await clear_leftovers(db)
    now = told if told is not None else await _steady(db, time.time(), keep.gap)
    async for rows in _too_much(db, keep, now, most, is_told=told is not None):
        if rows:
            return await _remove(db, packer, rows)
    pruned = Pruned()
    # What was said in sessions without calls
    if keep.max_age is not None:
        pruned.messages = await _remove_said(db, now - keep.max_age, most)
        pruned.sessions = await _drop_unused(db, now - keep.max_age)
    if keep.max_bytes is not None and not pruned.messages and await _is_over(db, keep.max_bytes):
        pruned.messages = await _remove_said(db, now, most)
        pruned.sessions += await _drop_unused(db, now)
    return pruned


async def _remove_said(db: Any, before: float, most: int) -> int:
    """Remove the oldest messages of sessions that have no calls. Gives how many it were."""
    gone = await db.fetch(
        "WITH g AS MATERIALIZED (SELECT m.session_id, m.key FROM callsheet.messages m "
        "WHERE m.at < $1 AND NOT EXISTS "
        "(SELECT 1 FROM callsheet.calls c WHERE c.session_id = m.session_id) ORDER BY m.at LIMIT $2) "
        "DELETE FROM callsheet.messages m USING g WHERE m.session_id = g.session_id "
        "AND m.key = g.key RETURNING m.session_id, m.key",
        before,
        most,
    )
    await _let_go(db, [tuple(row) for row in gone])
    return len(gone)


async def _drop_unused(db: Any, since: float) -> int:
    unused = await db.fetch(
        "SELECT session_id FROM callsheet.sessions WHERE updated_at < $1", since
    )
    return await _drop_empty(db, [key for (key,) in unused])


async def _steady(db: Any, now: float, gap: float) -> float:
    """Return the time as the calls tell it."""
    newest = await db.fetchval("SELECT max(at) FROM callsheet.calls WHERE at <= $1", now)
    if newest is None:  # nothing was done, but perhaps said
        said = "SELECT max(updated_at) FROM callsheet.sessions WHERE updated_at <= $1"
        return await db.fetchval(said, now) or now
    before = await db.fetchrow(
        "SELECT seq, at FROM callsheet.calls WHERE at < $1 ORDER BY seq DESC NULLS LAST LIMIT 1",
        newest - gap,
    )
    if before is None:
        return newest
    after = await db.fetchval(
        "SELECT at FROM callsheet.calls WHERE seq > coalesce($1, 0) ORDER BY seq LIMIT 1",
        before["seq"],
    )
    return steady(gap, newest, before["at"], after)


async def _too_much(
    db: Any, keep: Retention, now: float, most: int, *, is_told: bool
) -> AsyncIterator[list[Any]]:
    """Return calls that are to be removed: for each rule, some."""
    if keep.max_age is not None:
        before = now - keep.max_age
        if is_told:
            yield await _oldest(db, "at < $2", [before], most)
        else:
            yield await _oldest(db, _OLD, [before, now], most)
    if keep.max_calls is not None:
        count = await db.fetchval("SELECT count(*) FROM callsheet.calls")
        yield await _oldest(db, "true", [], min(most, count - keep.max_calls))
    if keep.max_bytes is not None:
        yield await _oldest(db, "true", [], await _surplus(db, keep.max_bytes, most))
    if keep.session_max_calls is not None or keep.session_max_bytes is not None:
        sessions = await db.fetch(
            "SELECT session_id, count(*), sum(octet_length(payload))::int8 FROM callsheet.calls "
            "GROUP BY session_id"
        )
        for key, count, size in sessions:
            blobs = 0
            if keep.session_max_bytes is not None:
                blobs = await db.fetchval(_BLOBS, key)
            share = keep.share(count, size + blobs, most)
            yield await _oldest(db, "session_id = $2", [key], share)


async def _surplus(db: Any, limit: int, most: int) -> int:
    return min(most, (await fill(db, limit)).surplus)


async def fill(db: Any, limit: int) -> Fill:
    """Return how much is in use, and how many calls go for it to be so many bytes. The tables do not count."""
    count, used = await _used(db, limit)
    if used <= limit or not count:
        return Fill(used, 0, 0)
    return Fill(used, 0, max(1, int(count * (used - limit) / used)))


async def _is_over(db: Any, limit: int) -> bool:
    return (await _used(db, limit))[1] > limit


async def _used(db: Any, limit: int) -> tuple[int, int]:
    """Return how many calls there are, and how many bytes are in use; nothing, if it can't be too much.

    Tables do not become smaller by what is removed, so what is in use is counted.
    """
    count, used = 0, 0
    if await db.fetchval(BYTES) > limit:
        for table, column in (("messages", "payload"), ("blobs", "data"), ("calls", "payload")):
            count, size = await db.fetchrow(
                f"SELECT count(*), coalesce(sum(octet_length({column})), 0)::int8 "
                f"FROM callsheet.{table}"
            )
            used += size + ROW * count
    return count, used


async def _oldest(db: Any, condition: str, values: list[Any], count: int) -> list[Any]:
    if count <= 0:
        return []
    return await db.fetch(
        "SELECT session_id, call_id, position, payload, key FROM callsheet.calls "
        f"WHERE {condition} AND writer IS NULL ORDER BY seq NULLS FIRST, at LIMIT $1 FOR UPDATE",
        count,
        *values,
    )


async def _remove(db: Any, packer: Packer, rows: Sequence[Any]) -> Pruned:
    """Remove calls, what was said before them, and what only they refer to."""
    if not rows:
        return Pruned()
    pruned = Pruned(calls=len(rows), bytes=sum(len(row["payload"]) for row in rows))
    pruned.spills = await _spills(db, packer, [row["payload"] for row in rows])
    keys = _keys(rows)
    for table in ("calls", "calls_text", "unindexed"):
        await db.execute(f"DELETE FROM callsheet.{table} c USING {_GIVEN} {_WHERE}", *keys)
    reached: dict[str, int] = {}
    for session, _, position, _, _ in rows:
        reached[session] = max(position, reached.get(session, -1))
    said = await db.fetch(
        "DELETE FROM callsheet.messages m USING unnest($1::text[], $2::int8[]) AS g (session_id, position) "
        "WHERE m.session_id = g.session_id AND m.position < g.position "
        "RETURNING m.session_id, m.key",
        list(reached),
        list(reached.values()),
    )
    pruned.messages = len(said)
    owners = [(row["session_id"], row["key"]) for row in rows]
    await _let_go(db, [*owners, *(tuple(row) for row in said)])
    pruned.sessions = await _drop_empty(db, list(reached))
    return pruned


async def _spills(db: Any, packer: Packer, payloads: Sequence[bytes]) -> list[str]:
    blob = await ready(db, packer, payloads)
    found: list[str] = []
    for payload in payloads:
        with suppress(StoreDamaged):
            found += spills_of(packer.unpack(payload, blob).report)
    return found


async def _let_go(db: Any, owners: Sequence[tuple[str, str]]) -> None:
    """Remove the blobs that only these have used."""
    gone = await db.fetch(
        "DELETE FROM callsheet.blob_uses u USING unnest($1::text[], $2::text[]) AS g (session_id, owner) "
        "WHERE u.session_id = g.session_id AND u.owner = g.owner RETURNING u.hash",
        [session for session, _ in owners],
        [owner for _, owner in owners],
    )
    await _remove_unused(db, sorted({key for (key,) in gone}))


async def clear_leftovers(db: Any) -> None:
    """Remove blobs that rows have used for a while, if nobody uses them now."""
    left = await db.fetch("DELETE FROM callsheet.leftovers RETURNING hash")
    await _remove_unused(db, sorted(key for (key,) in left))


async def _remove_unused(db: Any, hashes: Sequence[bytes]) -> None:
    if not hashes:
        return
    # Whoever is about to use one of them holds it: only after waiting for them can we see all uses.
    await db.execute(
        "SELECT 1 FROM callsheet.blobs WHERE hash = ANY($1::bytea[]) ORDER BY hash FOR UPDATE",
        hashes,
    )
    await db.execute(
        "DELETE FROM callsheet.blobs b WHERE hash = ANY($1::bytea[]) AND NOT EXISTS "
        "(SELECT 1 FROM callsheet.blob_uses u WHERE u.hash = b.hash)",
        hashes,
    )


async def _drop_empty(db: Any, sessions: Sequence[str]) -> int:
    """Remove those sessions of which nothing is left."""
    if not sessions:
        return 0
    # As with blobs: whoever writes to a session holds its row.
    await db.execute(
        "SELECT 1 FROM callsheet.sessions WHERE session_id = ANY($1::text[]) "
        "ORDER BY session_id FOR UPDATE",
        sessions,
    )
    gone = await db.fetch(
        "DELETE FROM callsheet.sessions s WHERE session_id = ANY($1::text[]) AND NOT EXISTS "
        "(SELECT 1 FROM callsheet.calls c WHERE c.session_id = s.session_id) AND NOT EXISTS "
        "(SELECT 1 FROM callsheet.messages m WHERE m.session_id = s.session_id) RETURNING 1",
        sessions,
    )
    return len(gone)


async def forget(db: Any, packer: Packer, session_id: str) -> Pruned:
    """Remove a session, with all that it has said and done."""
    key = plain(session_id)
    await db.execute("SELECT 1 FROM callsheet.sessions WHERE session_id = $1 FOR UPDATE", key)
    rows = await db.fetch(
        "SELECT session_id, call_id, position, payload, key FROM callsheet.calls "
        "WHERE session_id = $1 FOR UPDATE",
        key,
    )
    pruned = await _remove(db, packer, rows)
    gone = await db.fetch(
        "DELETE FROM callsheet.messages WHERE session_id = $1 RETURNING session_id, key",
        key,
    )
    await _let_go(db, [tuple(row) for row in gone])
    pruned.messages += len(gone)
    left = await db.fetch("DELETE FROM callsheet.sessions WHERE session_id = $1 RETURNING 1", key)
    pruned.sessions += len(left)
    return pruned


# Space


async def give_back(db: Any) -> None:
    """Let new rows take the space of those that were removed. Where much is free, give it to the system."""
    await db.execute(f"VACUUM {_all()}", timeout=LONG)
    for table, column in (("calls", "payload"), ("messages", "payload"), ("blobs", "data")):
        sizes = await db.fetch(
            "SELECT p.inhrelid::regclass::text, pg_table_size(p.inhrelid), coalesce(s.used, 0) "
            "FROM pg_inherits p LEFT JOIN (SELECT tableoid AS id, "
            f"sum(octet_length({column}) + {ROW})::int8 AS used FROM callsheet.{table} GROUP BY 1) s "
            f"ON s.id = p.inhrelid WHERE p.inhparent = 'callsheet.{table}'::regclass"
        )
        for part, size, used in sizes:
            if (
                size > 2 * used + FREE
            ):  # others wait for it while it is written anew: a part of them
                await db.execute(f"VACUUM FULL {part}", timeout=LONG)


async def vacuum(db: Any) -> None:
    """Write the tables anew, as small as they can be."""
    await db.execute(f"VACUUM (FULL, ANALYZE) {_all()}", timeout=LONG)


def _all() -> str:
    return ", ".join(f"callsheet.{table}" for table in TABLES)


async def learn(db: Any, packer: Packer) -> bytes | None:
    """Learn a dictionary from what is kept. Gives it if it is better."""
    await load_dictionaries(db, packer)
    rows = await db.fetch(
        "SELECT payload FROM callsheet.calls WHERE size < $1 ORDER BY at DESC LIMIT $2",
        SMALL,
        SAMPLES,
    )
    samples: list[bytes] = []
    for (payload,) in rows:
        with suppress(StoreDamaged):
            samples.append(packer.plain(payload))
    return packer.learn(samples, BETTER)


async def keep_dictionary(db: Any, packer: Packer, data: bytes) -> None:
    """Keep a dictionary, if it is not kept yet."""
    source = "shipped" if data == shipped_dictionary() else "trained"
    await db.execute(
        "INSERT INTO callsheet.dictionaries VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
        packer.know(data),
        data,
        time.time(),
        source,
    )
