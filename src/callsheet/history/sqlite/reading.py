"""What a file is asked: lists of calls, one call, a session's timeline, counts."""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import ValidationError, convert

from callsheet.history.errors import StoreDamaged
from callsheet.history.naming import named, run_of
from callsheet.history.rows import (
    DictionaryInfo,
    Head,
    Query,
    Stats,
    StoredCall,
    StoredMessage,
    StoredSession,
    ToolStats,
)
from callsheet.history.unreadable import unreadable
from callsheet.history.words import question
from callsheet.report.json import JsonObject, is_object
from callsheet.report.status import Reason
from callsheet.report.terminal import CallRecord

HEAD = (
    "c.session_id, c.call_id, c.position, c.name, c.title, c.kind, c.status, c.reason, c.at, "
    "c.updated_at, c.duration_ms, c.size"
)
_FIELDS = [name.split(".")[1] for name in HEAD.split(", ")]
_REASONS = [reason.value for reason in Reason]

LATEST = 2.5e11
"""Seconds since 1970 that a calendar has a date for."""

# The ends of ids are compared within their index: the rows themselves are many times its size.
_ID_PART = """c.seq IN (
    SELECT seq FROM calls WHERE call_id >= ? AND call_id < ?
    UNION SELECT seq FROM calls WHERE substr(call_id, -?) = ?)"""


class Unpacking(Protocol):
    """What makes sense of payloads."""

    def unpack(self, payload: bytes) -> CallRecord:
        """Return the record that a payload stands for."""
        ...

    def expand(self, payload: bytes) -> JsonObject:
        """Return what a payload says."""
        ...


def heads(db: sqlite3.Connection, query: Query) -> list[Head]:
    """Return the calls that are asked for, as a list shows them."""
    return [_head(row) for row in _select(db, HEAD, query)]


def calls(db: sqlite3.Connection, store: Unpacking, query: Query) -> list[StoredCall]:
    """Return the calls that are asked for, whole."""
    return [_call(row, store) for row in _select(db, f"{HEAD}, c.payload", query)]


def calls_of_writer(db: sqlite3.Connection, store: Unpacking, writer: str) -> list[StoredCall]:
    """Return the calls that a process has open."""
    rows = db.execute(f"SELECT {HEAD}, c.payload FROM calls c WHERE c.writer = ?", (writer,))
    return [_call(row, store) for row in rows.fetchall()]


def _select(db: sqlite3.Connection, what: str, query: Query) -> Iterator[Any]:
    source, conditions, values = conditions_of(query)
    order = "c.at DESC, c.session_id DESC, c.call_id DESC"
    sql = f"SELECT {what} FROM {source} WHERE {conditions} ORDER BY {order} LIMIT ?"
    return iter(db.execute(sql, [*values, query.limit]).fetchall())


def conditions_of(query: Query) -> tuple[str, str, list[Any]]:
    """Return where to look, what must hold, and the values for it."""
    source, terms, values = "calls c", ["1"], list[Any]()
    if query.search is not None:
        source = "calls_text t JOIN calls c ON c.seq = t.rowid"
        terms.append("calls_text MATCH ?")
        values.append(_match(query.search))
    for column, value in (
        ("session_id", query.session_id),
        ("call_id", query.call_id),
        ("name", query.tool),
    ):
        if value is not None:
            terms.append(f"c.{column} = ?")
            values.append(value)
    if query.id_part is not None:
        terms.append(_ID_PART)
        part = query.id_part
        values += (part, f"{part}\U0010ffff", len(part), part)
    if query.status == "open":
        terms.append("c.writer IS NOT NULL")
    elif query.status in _REASONS and query.status != "cancelled":
        terms.append("c.status <> 'completed' AND c.reason = ?")
        values.append(query.status)
    elif query.status is not None:
        terms.append(
            "c.status = ?"
            if query.status == "completed"
            else "c.status <> 'completed' AND c.status = ?"
        )
        values.append(query.status)
    if query.since is not None:
        terms.append("c.at >= ?")
        values.append(query.since)
    if query.until is not None:
        terms.append("c.at < ?")
        values.append(query.until)
    if query.before is not None:
        terms.append("(c.at, c.session_id, c.call_id) < (?, ?, ?)")
        values += query.before
    return source, " AND ".join(terms), [_given(value) for value in values]


def _given(value: Any) -> Any:
    """Return a value to ask for. What is typed may be no text at all, and is nobody's then."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _match(text: str) -> str:
    """Return a question in the terms of FTS5: every phrase must be there; the last word may go on."""
    phrases = question(text)
    if not phrases:
        return '""'
    told = [" + ".join(f'"{word}"' for word in phrase) for phrase in phrases]
    return " AND ".join(told) + " *"


def _head(row: Sequence[Any]) -> Head:
    values = dict(zip(_FIELDS, row, strict=False))
    try:
        head = convert(values, Head)
    except ValidationError:
        head = Head(**{name: _plausible(name, value) for name, value in values.items()})
    if not 0 <= head.at < LATEST:
        head.at = 0.0
    return head


def _plausible(name: str, value: Any) -> Any:
    """Return something of the type that a column has: a file may be damaged in one row only."""
    if name in ("position", "size"):
        return value if isinstance(value, int) else 0
    if name in ("at", "updated_at", "duration_ms"):
        return float(value) if isinstance(value, (int, float)) else 0.0
    return None if name == "reason" and value is None else str(value)


def _call(row: Sequence[Any], store: Unpacking) -> StoredCall:
    head = _head(row)
    try:
        return StoredCall(head, named(store.unpack(row[len(_FIELDS)]), head.call_id))
    except StoreDamaged as exc:  # one that is damaged is no reason to show nothing of the others
        return StoredCall(head, unreadable(head, str(exc)))


# Sessions

_SESSION = """
SELECT s.session_id, s.cwd, s.title, s.info, s.created_at, s.updated_at,
       (SELECT count(*) FROM calls c WHERE c.session_id = s.session_id)
FROM sessions s WHERE
"""


def session(db: sqlite3.Connection, session_id: str) -> StoredSession | None:
    """Return a session."""
    row = db.execute(f"{_SESSION} s.session_id = ?", (_given(session_id),)).fetchone()
    return row and _session(row)


def sessions(
    db: sqlite3.Connection, cwd: str | None, before: tuple[float, str] | None, limit: int
) -> list[StoredSession]:
    """Return sessions, the one that was used last first."""
    terms, values = ["1"], list[Any]()
    if cwd is not None:
        terms.append("s.cwd = ?")
        values.append(_given(cwd))  # as it was written: see `log`
    if before is not None:
        terms.append("(s.updated_at, s.session_id) < (?, ?)")
        values += before
    sql = f"{_SESSION} {' AND '.join(terms)} ORDER BY s.updated_at DESC, s.session_id DESC LIMIT ?"
    return [_session(row) for row in db.execute(sql, [*values, limit])]


def _session(row: Sequence[Any]) -> StoredSession:
    key, cwd, title, info, created_at, updated_at, count = row
    try:
        known = json.loads(info)
    except (TypeError, ValueError):
        known = None
    return StoredSession(
        session_id=str(key),
        cwd=str(cwd),
        title=str(title),
        info=known if is_object(known) else {},
        created_at=_time(created_at),
        updated_at=_time(updated_at),
        calls=count,
    )


def _time(value: Any) -> float:
    return value if isinstance(value, float) and 0 <= value < LATEST else 0.0


def timeline(
    db: sqlite3.Connection, store: Unpacking, session_id: str, after: int, limit: int
) -> list[StoredCall | StoredMessage]:
    """Return what a session has said and done after a position, in order."""
    # Two processes that go on with a session give the same positions: a page does not end between such.
    place = "WHERE session_id = ? AND position > ? ORDER BY position LIMIT ?"
    places = [
        row[0]
        for table in ("calls", "messages")
        for row in db.execute(f"SELECT position FROM {table} {place}", (session_id, after, limit))
    ]
    if not places:
        return []
    within = "WHERE session_id = ? AND position > ? AND position <= ?"
    values = (session_id, after, sorted(places)[:limit][-1])
    did = db.execute(f"SELECT {HEAD}, c.payload FROM calls c {within}", values).fetchall()
    said = db.execute(
        f"SELECT position, at, message_id, part, kind, payload, key FROM messages {within}", values
    ).fetchall()
    both = sorted(
        [(row[2], row[8], 1, row) for row in did] + [(row[0], row[1], 0, row) for row in said]
    )
    return [_call(row, store) if is_call else _message(row, store) for _, _, is_call, row in both]


def _message(row: Sequence[Any], store: Unpacking) -> StoredMessage:
    position, at, message_id, _, kind, payload, key = row
    blocks: list[JsonObject]
    try:
        blocks = store.expand(payload)["blocks"]
    except StoreDamaged:
        blocks = []
    return StoredMessage(position, kind, message_id, at, blocks, run_of(key, message_id))


def last_position(db: sqlite3.Connection, session_id: str) -> int:
    """Return the position of the last thing in a session's timeline, or -1."""
    found = [
        db.execute(
            f"SELECT max(position) FROM {table} WHERE session_id = ?", (session_id,)
        ).fetchone()
        for table in ("calls", "messages")
    ]
    return max((row[0] for row in found if row[0] is not None), default=-1)


# Counts


def count(db: sqlite3.Connection, query: Query) -> int:
    """Return how many calls are asked for."""
    source, terms, values = conditions_of(query)
    return db.execute(f"SELECT count(*) FROM {source} WHERE {terms}", values).fetchone()[0]


def stats(db: sqlite3.Connection, query: Query) -> Stats:
    """Count calls, failures, durations and bytes."""
    source, terms, values = conditions_of(query)
    rows = db.execute(
        "SELECT c.name, count(*), total(c.status = 'failed'), total(c.status = 'cancelled'), "
        "total(c.writer IS NOT NULL), total(c.size), total(length(c.payload)), min(c.at), max(c.at) "
        f"FROM {source} WHERE {terms} GROUP BY c.name ORDER BY c.name",
        values,
    ).fetchall()
    durations: dict[str, array[float]] = {row[0]: array("d") for row in rows}
    took = f"SELECT c.name, c.duration_ms FROM {source} WHERE {terms} AND c.duration_ms IS NOT NULL"
    for name, duration in db.execute(took, values):
        durations[name].append(duration)
    tools = [_tool(row, sorted(durations[row[0]])) for row in rows]
    sessions, messages, blobs = _around(db, query)
    return Stats(
        calls=sum(tool.calls for tool in tools),
        sessions=sessions,
        messages=messages,
        open=sum(tool.open for tool in tools),
        failed=sum(tool.failed for tool in tools),
        size=sum(tool.size for tool in tools),
        stored=int(sum(row[6] for row in rows)) + blobs,
        file_bytes=file_bytes(db),
        indexed=_one(db, "SELECT count(*) FROM calls_text_docsize"),
        oldest=min((_time(row[7]) for row in rows), default=None),
        newest=max((_time(row[8]) for row in rows), default=None),
        tools=sorted(tools, key=lambda tool: -tool.calls),
        dictionaries=[
            DictionaryInfo(*row)
            for row in db.execute(
                "SELECT id, length(data), at, source FROM dictionaries ORDER BY at"
            )
        ],
    )


def _around(db: sqlite3.Connection, query: Query) -> tuple[int, int, int]:
    """Return how many sessions and messages belong to calls, and the bytes of their blobs."""
    theirs, blobs, values = "1", "1", list[Any]()
    if not query.is_for_all:
        source, terms, values = conditions_of(query)
        theirs = f"session_id IN (SELECT c.session_id FROM {source} WHERE {terms})"
        blobs = (
            f"hash IN (SELECT u.hash FROM {source} JOIN blob_uses u "
            f"ON u.session_id = c.session_id AND u.owner = c.key WHERE {terms})"
        )
    return (
        _one(db, f"SELECT count(*) FROM sessions WHERE {theirs}", values),
        _one(db, f"SELECT count(*) FROM messages WHERE {theirs}", values),
        _one(db, f"SELECT total(length(data)) FROM blobs WHERE {blobs}", values),
    )


def _tool(row: Sequence[Any], took: Sequence[float]) -> ToolStats:
    name, calls, failed, cancelled, open_, size = str(row[0]), *row[1:6]
    half, most = percentile(took, 50), percentile(took, 95)
    return ToolStats(name, calls, int(failed), int(cancelled), int(open_), half, most, int(size))


def percentile(ordered: Sequence[float], share: int) -> float | None:
    """Return the least value that so many per cent of the values don't exceed."""
    return ordered[max(0, -(-len(ordered) * share // 100) - 1)] if ordered else None


def file_bytes(db: sqlite3.Connection) -> int:
    """Return what the database takes on the disk, with what was not yet moved into its file."""
    pages = _one(db, "PRAGMA page_count") * _one(db, "PRAGMA page_size")
    name = db.execute("PRAGMA database_list").fetchone()[2]
    wal = Path(f"{name}-wal")
    return pages + (wal.stat().st_size if wal.exists() else 0)


def _one(db: sqlite3.Connection, sql: str, values: Sequence[Any] = ()) -> int:
    return int(db.execute(sql, values).fetchone()[0] or 0)
