"""How a batch is written: a statement for each table, whatever the number of rows.

A blob that a row names is locked until the row is there, in a way that does not hold up others who name it.
Whoever removes blobs locks them first and looks then whether they are used. So none is removed that is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from callsheet.history.abandoned import abandoned
from callsheet.history.naming import names
from callsheet.history.packing import Packer
from callsheet.history.rows import Batch, BlobRow, CallRow, MessageRow, SessionRow, StoredCall

_T = TypeVar("_T")

Owner = tuple[str, str, bytes | None, Sequence[bytes]]
"""Who uses blobs: a session, an id in it, a call's payload, and the blobs."""

_SESSIONS = """
INSERT INTO callsheet.sessions AS s
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::float8[], $6::float8[])
ON CONFLICT (session_id) DO UPDATE SET
    cwd = excluded.cwd, info = excluded.info, updated_at = greatest(s.updated_at, excluded.updated_at),
    title = CASE WHEN s.title = '' THEN excluded.title ELSE s.title END
"""

# What has ended by this is to be indexed.
_CALLS = """
WITH written AS (
    INSERT INTO callsheet.calls AS c (
        session_id, call_id, position, name, title, kind, status, reason, at, updated_at,
        duration_ms, writer, size, payload, key
    )
    SELECT * FROM unnest(
        $1::text[], $2::text[], $3::int8[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
        $9::float8[], $10::float8[], $11::float8[], $12::text[], $13::int8[], $14::bytea[],
        $15::text[]
    )
    ON CONFLICT (session_id, key) DO UPDATE SET
        name = excluded.name, title = excluded.title, kind = excluded.kind, status = excluded.status,
        reason = excluded.reason, updated_at = excluded.updated_at, duration_ms = excluded.duration_ms,
        writer = excluded.writer, size = excluded.size, payload = excluded.payload
    WHERE c.writer IS NOT NULL OR (c.reason = 'abandoned' AND excluded.writer IS NULL)
    RETURNING c.session_id, c.call_id, c.writer
)
INSERT INTO callsheet.unindexed
SELECT session_id, call_id FROM written WHERE writer IS NULL
ON CONFLICT DO NOTHING
"""

_MESSAGES = """
INSERT INTO callsheet.messages
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::int[], $4::int8[], $5::text[], $6::float8[], $7::int8[], $8::bytea[],
    $9::text[]
)
ON CONFLICT (session_id, key) DO UPDATE SET size = excluded.size, payload = excluded.payload
"""

# Only of a row that was taken as it is.
_USE_NO_MORE = """
WITH gone AS (
    DELETE FROM callsheet.blob_uses u
    USING unnest($1::text[], $2::text[], $3::bytea[]) AS g (session_id, owner, payload)
    WHERE u.session_id = g.session_id AND u.owner = g.owner AND (g.payload IS NULL OR EXISTS (
        SELECT 1 FROM callsheet.calls c
        WHERE c.session_id = g.session_id AND c.key = g.owner AND c.payload = g.payload
    )) AND NOT EXISTS (
        SELECT 1 FROM unnest($4::text[], $5::text[], $6::bytea[]) AS k (session_id, owner, hash)
        WHERE k.session_id = u.session_id AND k.owner = u.owner AND k.hash = u.hash
    )
    RETURNING u.hash
)
INSERT INTO callsheet.leftovers SELECT DISTINCT hash FROM gone ON CONFLICT DO NOTHING
"""

_ABANDONED = """
WITH closed AS (
    UPDATE callsheet.calls SET
        status = $3, reason = $4, duration_ms = $5, writer = NULL, size = $6, payload = $7
    WHERE session_id = $1 AND call_id = $2 AND writer IS NOT NULL
    RETURNING session_id, call_id
), queued AS (
    INSERT INTO callsheet.unindexed SELECT session_id, call_id FROM closed ON CONFLICT DO NOTHING
)
SELECT count(*) FROM closed
"""


def plain(text: str) -> str:
    """Return a text for a column, which has no place for NUL."""
    return text.replace("\0", "\ufffd") if "\0" in text else text


async def write(db: Any, batch: Batch, me: str, with_blobs: Container[tuple[str, str]]) -> None:
    """Write all of a batch. Called within a transaction.

    `with_blobs` are the open calls that had blobs before.
    """
    for sessions in _rounds(batch.sessions, lambda row: row.session_id):
        await db.execute(_SESSIONS, *_columns(sessions, _of_session))
    await keep_blobs(db, batch.blobs)
    place = {id(row): number for number, row in enumerate(batch.calls)}
    for calls in _rounds(batch.calls, lambda row: (row.session_id, row.owner)):
        calls.sort(key=lambda row: place[id(row)])  # `seq` is their order; nobody else writes these
        await db.execute(_CALLS, *_columns(calls, lambda row: _of_call(row, me)))
    for messages in _rounds(batch.messages, lambda row: (row.session_id, row.owner)):
        await db.execute(_MESSAGES, *_columns(messages, _of_message))
    did: list[Owner] = [(row.session_id, row.owner, row.payload, row.blobs) for row in batch.calls]
    said: list[Owner] = [(row.session_id, row.owner, None, row.blobs) for row in batch.messages]
    await _use(db, did + said)
    before = [one for one in did if (one[0], one[1]) in with_blobs]
    await _use_no_more(db, before + [one for one in said if one[3]])


def _of_session(row: SessionRow) -> tuple[Any, ...]:
    return (
        plain(row.session_id), plain(row.cwd), plain(row.title), plain(row.info), row.created_at,
        row.updated_at,
    )  # fmt: skip


def _of_call(row: CallRow, me: str) -> tuple[Any, ...]:
    return (
        plain(row.session_id), plain(row.call_id), row.position, plain(row.name), plain(row.title),
        plain(row.kind), row.status, row.reason and plain(row.reason), row.at, row.updated_at,
        row.duration_ms, me if row.is_open else None, row.size, row.payload, plain(row.owner),
    )  # fmt: skip


def _of_message(row: MessageRow) -> tuple[Any, ...]:
    return (
        plain(row.session_id), plain(row.message_id), row.part, row.position, plain(row.kind), row.at,
        row.size, row.payload, plain(row.owner),
    )  # fmt: skip


async def rename_calls(db: Any, calls: Sequence[CallRow]) -> None:
    """Return calls ids that no other call of their session has. Called within a transaction."""
    taken: dict[tuple[str, str], str] = {}
    for row in calls:
        row.key = row.owner
        for name in names(row.call_id):
            where = plain(row.session_id), plain(name)
            found = await db.fetchval(
                "SELECT key FROM callsheet.calls WHERE session_id = $1 AND call_id = $2", *where
            )
            if taken.get(where, found or plain(row.key)) == plain(row.key):
                taken[where], row.call_id = plain(row.key), name
                break


def _rounds(rows: Sequence[_T], key: Callable[[_T], Any]) -> Iterator[list[_T]]:
    """Return rows in rounds in which no key is twice, each in the order of its keys.

    A statement can't change a row twice. All who write go in the same order, so that none waits for another
    who waits for it.
    """
    seen: Counter[Hashable] = Counter()
    rounds: list[list[_T]] = []
    for row in rows:
        count = seen[key(row)]
        seen[key(row)] += 1
        if count == len(rounds):
            rounds.append([])
        rounds[count].append(row)
    for found in rounds:
        yield sorted(found, key=key)


def _columns(rows: Iterable[_T], values: Callable[[_T], tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*map(values, rows), strict=True)]


async def keep_blobs(db: Any, blobs: Iterable[BlobRow]) -> None:
    """Write blobs that are not there yet, and hold all of them until the transaction ends."""
    missing = {blob.hash: blob for blob in blobs}
    while missing:
        found = await db.fetch(
            "SELECT hash FROM callsheet.blobs WHERE hash = ANY($1::bytea[]) FOR KEY SHARE",
            list(missing),
        )
        for (key,) in found:
            del missing[key]
        if missing:
            rows = [missing[key] for key in sorted(missing)]
            await db.execute(
                "INSERT INTO callsheet.blobs SELECT * FROM unnest($1::bytea[], $2::int8[], $3::bytea[]) "
                "ON CONFLICT DO NOTHING",
                *_columns(rows, lambda blob: (blob.hash, blob.size, blob.data)),
            )


async def _use(db: Any, owners: Sequence[Owner]) -> None:
    """Note which blobs rows refer to."""
    if uses := _uses(owners):
        await db.execute(
            "INSERT INTO callsheet.blob_uses SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[]) "
            "ON CONFLICT DO NOTHING",
            *uses,
        )


async def _use_no_more(db: Any, owners: Sequence[Owner]) -> None:
    """Note that rows refer to no others than these."""
    if owners:
        users = _columns(owners, lambda one: (plain(one[0]), plain(one[1]), one[2]))
        await db.execute(_USE_NO_MORE, *users, *(_uses(owners) or ([], [], [])))


def _uses(owners: Sequence[Owner]) -> list[list[Any]]:
    found = {(plain(one[0]), plain(one[1]), blob) for one in owners for blob in one[3]}
    return _columns(sorted(found), lambda use: use)


async def abandon(
    db: Any, packer: Packer, call: StoredCall, seen: float, locale: str | None
) -> int:
    """Close a call whose process is gone. Gives how many were closed: one, or none."""
    head = call.head
    record = abandoned(call.record, seen or head.updated_at, locale)
    report, packed = record.report, packer.pack(record)
    await keep_blobs(db, packed.blobs)
    found = await db.fetchval(
        _ABANDONED,
        head.session_id,
        head.call_id,
        report.status.value,
        report.notes.get("reason"),
        report.notes.get("durationMs"),
        packed.size,
        packed.payload,
    )
    key = await db.fetchval(
        "SELECT key FROM callsheet.calls WHERE session_id = $1 AND call_id = $2",
        head.session_id,
        head.call_id,
    )
    blobs = [blob.hash for blob in packed.blobs]
    owners = [(head.session_id, key, packed.payload, blobs)]
    await _use(db, owners)
    await _use_no_more(db, owners)
    return found
