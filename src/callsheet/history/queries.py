"""The queries of a store: lists of calls, one call, a session's timeline, counts; and how a search is parsed.

Text is split into words here, not by the engine, so that both engines find the same calls. A word is a run of
letters and digits; each character of a script without spaces is its own word, so that a part of a sentence is
found, too. Case and accents make no difference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any
from unicodedata import normalize

from msgspec import ValidationError, convert

from callsheet.history.call_records import renamed, run_of, unreadable
from callsheet.history.codec import record_of
from callsheet.history.database import Database, Values
from callsheet.history.rows import (
    Head,
    Query,
    Stats,
    StoredCall,
    StoredMessage,
    StoredSession,
    ToolStats,
)
from callsheet.history.store_errors import StoreDamaged
from callsheet.report.content import DiffContent, TextContent
from callsheet.report.json import JsonObject, JsonValue, is_list, is_object
from callsheet.report.status import Reason
from callsheet.report.terminal import CallRecord

# Words

WORDS_VERSION = 1
"""The version of the rules by which text is split. When it changes, stores rebuild their index."""

MOST_INDEXED = 1 << 15
"""Characters of a field that are indexed: half of them from its beginning, half from its end."""

_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]|[^\W_]+", re.UNICODE
)
_ACCENT = re.compile("[\u0300-\u036f]")


def words(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    return [part for found in _WORD.findall(text) for part in _without_accents(found.lower())]


def _without_accents(word: str) -> list[str]:
    if word.isascii():
        return [word[:64]]
    plain = normalize("NFC", _ACCENT.sub("", normalize("NFD", word)))
    return [plain] if len(plain) == 1 else [part[:64] for part in _WORD.findall(plain)]


def search_fields(record: CallRecord) -> tuple[str, str, str, str]:
    """Return what can be found of a call: title and name, command, paths, output; each as words."""
    report = record.report
    output = [item.text for item in report.content if type(item) is TextContent]
    output += [one.tail.decode(errors="replace") for one in record.terminals]
    paths = [place.path for place in report.locations]
    for item in report.content:
        if type(item) is DiffContent:
            paths += [change.path for change in item.changes]
            output += [change.new_text or "" for change in item.changes]
    if not output:
        output = _texts(report.raw_output)
    command = " ".join(_texts(report.raw_input))
    return (
        _indexed(f"{report.title} {report.name}"),
        _indexed(command),
        _indexed(" ".join(dict.fromkeys(paths))),
        _indexed("\n".join(output)),
    )


def phrases(text: str) -> list[list[str]]:
    """Return the phrases of a search: the words of each of its parts.

    A part has no space in it, unless it stands between quotation marks.
    """
    parts = re.findall(r'"([^"]+)"|(\S+)', text)
    found = [words(quoted or plain) for quoted, plain in parts]
    return [phrase for phrase in found if phrase]


def _indexed(text: str) -> str:
    if len(text) > MOST_INDEXED:
        text = f"{text[: MOST_INDEXED // 2]} {text[-MOST_INDEXED // 2 :]}"
    return " ".join(words(text))


def _texts(value: JsonValue) -> list[str]:
    """Return all texts in a value."""
    found: list[str] = []
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            found.append(one)
        elif is_object(one):
            waiting += reversed(list(one.values()))
        elif is_list(one):
            waiting += reversed(one)
    return found


# Lists of calls

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
    UNION SELECT seq FROM calls WHERE substr(call_id, length(call_id) - ? + 1) = ?)"""


class Conditions:
    """Which calls are asked for: the source to select from, the conditions, and their values."""

    def __init__(self, db: Database, query: Query) -> None:
        self.source: str = "calls c"
        self.values: list[Any] = []
        self._terms: list[str] = ["1 = 1"]
        if query.search is not None:
            searched = phrases(query.search)
            join, terms = db.match(searched) if searched else ("", [("1 = 0", ())])
            self.source += join
            for term, values in terms:
                self._add(term, *values)
        for column, value in (
            ("session_id = ?", query.session_id),
            ("call_id = ?", query.call_id),
            ("name = ?", query.tool),
            ("at >= ?", query.since),
            ("at < ?", query.until),
        ):
            if value is not None:
                self._add(f"c.{column}", value)
        if query.id_part is not None:
            part = query.id_part
            self._add(_ID_PART, part, f"{part}\U0010ffff", len(part), part)
        self._add_status(query.status)
        if query.before is not None:
            self._add("(c.at, c.session_id, c.call_id) < (?, ?, ?)", *query.before)

    def __str__(self) -> str:
        return " AND ".join(self._terms)

    def _add(self, term: str, *values: Any) -> None:
        self._terms.append(term)
        self.values += map(_asked, values)

    def _add_status(self, status: str | None) -> None:
        # Nearly all calls are completed: the others have an index of their own.
        if status == "open":
            self._add("c.writer IS NOT NULL")
        elif status == "completed":
            self._add("c.status = ?", status)
        elif status in _REASONS and status != "cancelled":
            self._add("c.status <> 'completed' AND c.reason = ?", status)
        elif status is not None:
            self._add("c.status <> 'completed' AND c.status = ?", status)


def _asked(value: Any) -> Any:
    """Return a value to ask for. What is typed may be no valid text, and is found nowhere then."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


async def heads(db: Database, query: Query) -> list[Head]:
    """Return the calls that are asked for, as a list shows them."""
    return [_head(row) for row in await _select(db, HEAD, query)]


async def calls(db: Database, query: Query) -> list[StoredCall]:
    """Return the calls that are asked for, whole."""
    return await _whole(db, await _select(db, f"{HEAD}, c.payload", query))


async def calls_of_writer(db: Database, writer: str) -> list[StoredCall]:
    """Return the calls that a process has open."""
    sql = f"SELECT {HEAD}, c.payload FROM calls c WHERE c.writer = ? ORDER BY 1, 2"
    return await _whole(db, await db.fetch(sql, writer))


async def _select(db: Database, what: str, query: Query) -> Sequence[Values]:
    where = Conditions(db, query)
    order = "c.at DESC, c.session_id DESC, c.call_id DESC"
    sql = f"SELECT {what} FROM {where.source} WHERE {where} ORDER BY {order} LIMIT ?"
    return await db.fetch(sql, *where.values, query.limit)


async def _whole(db: Database, rows: Sequence[Values]) -> list[StoredCall]:
    bodies = await db.bodies([row[-1] for row in rows])
    return [_call(row, body) for row, body in zip(rows, bodies, strict=True)]


def _call(row: Values, body: JsonObject | StoreDamaged) -> StoredCall:
    """Return a call. A damaged one is returned with an explanation, so that the others are still shown."""
    head = _head(row)
    try:
        if isinstance(body, StoreDamaged):
            raise body
        return StoredCall(head, renamed(record_of(body), head.call_id))
    except StoreDamaged as exc:
        return StoredCall(head, unreadable(head, str(exc)))


def _head(row: Values) -> Head:
    values = dict(zip(_FIELDS, row, strict=False))
    try:
        head = convert(values, Head)
    except ValidationError:
        head = Head(**{name: _plausible(name, value) for name, value in values.items()})
    if not 0 <= head.at < LATEST:
        head.at = 0.0
    return head


def _plausible(name: str, value: Any) -> Any:
    """Return a value of the type that a column has: a file may be damaged in one row only."""
    if name in ("position", "size"):
        return value if isinstance(value, int) else 0
    if name in ("at", "updated_at", "duration_ms"):
        return float(value) if isinstance(value, (int, float)) else 0.0
    return None if name == "reason" and value is None else str(value)


# Sessions

_SESSION = """
SELECT s.session_id, s.cwd, s.title, s.info, s.created_at, s.updated_at,
       (SELECT count(*) FROM calls c WHERE c.session_id = s.session_id)
FROM sessions s WHERE
"""


async def session(db: Database, session_id: str) -> StoredSession | None:
    """Return a session."""
    row = await db.fetch_one(f"{_SESSION} s.session_id = ?", _asked(session_id))
    return row and _session(row)


async def sessions(
    db: Database, cwd: str | None, before: tuple[float, str] | None, limit: int
) -> list[StoredSession]:
    """Return sessions, the one that was used last first."""
    terms, values = ["1 = 1"], list[Any]()
    if cwd is not None:
        terms.append("s.cwd = ?")
        values.append(_asked(cwd))
    if before is not None:
        terms.append("(s.updated_at, s.session_id) < (?, ?)")
        values += before
    sql = f"{_SESSION} {' AND '.join(terms)} ORDER BY s.updated_at DESC, s.session_id DESC LIMIT ?"
    return [_session(row) for row in await db.fetch(sql, *values, limit)]


def _session(row: Values) -> StoredSession:
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


async def timeline(
    db: Database, session_id: str, after: int, limit: int
) -> list[StoredCall | StoredMessage]:
    """Return a session's messages and calls after a position, in order."""
    # Two processes that go on with a session give the same positions: a page does not end between such.
    place = "WHERE session_id = ? AND position > ? ORDER BY position LIMIT ?"
    places = [
        position
        for table in ("calls", "messages")
        for (position,) in await db.fetch(
            f"SELECT position FROM {table} {place}", session_id, after, limit
        )
    ]
    if not places:
        return []
    within = "WHERE session_id = ? AND position > ? AND position <= ?"
    values = (session_id, after, sorted(places)[:limit][-1])
    call_rows = await db.fetch(f"SELECT {HEAD}, c.payload FROM calls c {within}", *values)
    message_rows = await db.fetch(
        f"SELECT position, at, message_id, part, kind, key, payload FROM messages {within}", *values
    )
    both = sorted(
        [(row[2], row[8], 1, row[1], 0, row) for row in call_rows]
        + [(row[0], row[1], 0, row[2], row[3], row) for row in message_rows],
        key=lambda one: one[:5],
    )
    bodies = await db.bodies([one[5][-1] for one in both])
    return [
        _call(row, body) if is_call else _message(row, body)
        for (_, _, is_call, _, _, row), body in zip(both, bodies, strict=True)
    ]


def _message(row: Values, body: JsonObject | StoreDamaged) -> StoredMessage:
    position, at, message_id, _, kind, key, _ = row
    blocks: list[JsonObject] = [] if isinstance(body, StoreDamaged) else body["blocks"]
    return StoredMessage(position, kind, message_id, at, blocks, run_of(key, message_id))


async def last_position(db: Database, session_id: str) -> int:
    """Return the position of the last entry of a session's timeline, or -1."""
    found = [
        await db.fetch_value(f"SELECT max(position) FROM {table} WHERE session_id = ?", session_id)
        for table in ("calls", "messages")
    ]
    return max((position for position in found if position is not None), default=-1)


# Counts

_RANKED = """
SELECT name, duration_ms, place, total FROM (
    SELECT c.name AS name, c.duration_ms AS duration_ms, count(*) OVER (PARTITION BY c.name) AS total,
           row_number() OVER (PARTITION BY c.name ORDER BY c.duration_ms) AS place
    FROM {source} WHERE {where} AND c.duration_ms IS NOT NULL
) AS ranked
WHERE place = (total * 50 + 99) / 100 OR place = (total * 95 + 99) / 100
"""
"""The least durations that 50 and 95 per cent of a tool's calls don't exceed, the lower one first."""


async def count(db: Database, query: Query) -> int:
    """Return how many calls are asked for."""
    where = Conditions(db, query)
    return await db.fetch_value(f"SELECT count(*) FROM {where.source} WHERE {where}", *where.values)


async def stats(db: Database, query: Query) -> Stats:
    """Count calls, failures, durations and bytes."""
    where = Conditions(db, query)
    rows = await db.fetch(
        "SELECT c.name, count(*), sum(CASE WHEN c.status = 'failed' THEN 1 ELSE 0 END), "
        "sum(CASE WHEN c.status = 'cancelled' THEN 1 ELSE 0 END), count(c.writer), sum(c.size), "
        "sum(length(c.payload)), min(c.at), max(c.at) "
        f"FROM {where.source} WHERE {where} GROUP BY c.name ORDER BY count(*) DESC, c.name",
        *where.values,
    )
    ranked = _RANKED.format(source=where.source, where=where)
    took: dict[Any, list[float]] = {}
    for name, duration, _, _ in sorted(await db.fetch(ranked, *where.values), key=_place):
        took.setdefault(name, []).append(duration)
    tools = [_tool(row, took.get(row[0])) for row in rows]
    session_count, message_count, blob_bytes = await _around(db, query)
    return Stats(
        calls=sum(tool.calls for tool in tools),
        sessions=session_count,
        messages=message_count,
        open=sum(tool.open for tool in tools),
        failed=sum(tool.failed for tool in tools),
        size=sum(tool.size for tool in tools),
        stored=sum(int(row[6] or 0) for row in rows) + blob_bytes,
        file_bytes=await db.disk_bytes(),
        indexed=await db.fetch_value(f"SELECT count(*) FROM {db.indexed_calls}"),
        oldest=min((_time(row[7]) for row in rows), default=None),
        newest=max((_time(row[8]) for row in rows), default=None),
        tools=tools,
    )


def _place(row: Values) -> int:
    return row[2]


def _tool(row: Values, took: list[float] | None) -> ToolStats:
    """Return a tool's figures; if 50 and 95 per cent are the same call, `took` has just that."""
    name, called, failed, cancelled, open_, size = str(row[0]), *(int(n or 0) for n in row[1:6])
    p50, p95 = (took[0], took[-1]) if took else (None, None)
    return ToolStats(name, called, failed, cancelled, open_, p50, p95, size)


async def _around(db: Database, query: Query) -> tuple[int, int, int]:
    """Return how many sessions and messages belong to calls, and the bytes of their blobs."""
    theirs, used, values = "1 = 1", "1 = 1", list[Any]()
    if not query.is_for_all:
        where = Conditions(db, query)
        theirs = f"session_id IN (SELECT c.session_id FROM {where.source} WHERE {where})"
        used = (
            f"hash IN (SELECT u.hash FROM {where.source} JOIN blob_uses u "
            f"ON u.session_id = c.session_id AND u.owner = c.key WHERE {where})"
        )
        values = where.values
    return (
        await db.fetch_value(f"SELECT count(*) FROM sessions WHERE {theirs}", *values),
        await db.fetch_value(f"SELECT count(*) FROM messages WHERE {theirs}", *values),
        int(
            await db.fetch_value(f"SELECT sum(length(data)) FROM blobs WHERE {used}", *values) or 0
        ),
    )
