"""What a server is asked: lists of calls, one call, a session's timeline, counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from callsheet.history.errors import StoreDamaged
from callsheet.history.naming import named, run_of
from callsheet.history.packing import Packer
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
from callsheet.report.json import JsonObject
from callsheet.report.status import Reason

from .payloads import ready
from .writing import plain

HEAD = (
    "c.session_id, c.call_id, c.position, c.name, c.title, c.kind, c.status, c.reason, c.at, "
    "c.updated_at, c.duration_ms, c.size"
)
_FIELDS = [name.split(".")[1] for name in HEAD.split(", ")]
_REASONS = [reason.value for reason in Reason]

BYTES = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'callsheet' AND c.relkind = 'r'
"""


class Terms:
    """What must hold, and the values for it."""

    def __init__(self) -> None:
        self.source: str = "callsheet.calls c"
        self.values: list[Any] = []
        self._terms: list[str] = ["true"]

    def add(self, term: str, *values: Any) -> None:
        """Demand something; `{}` stands for each value."""
        self._terms.append(term.format(*(self.value(value) for value in values)))

    def value(self, value: Any) -> str:
        """Return what stands for a value."""
        self.values.append(_asked(value) if isinstance(value, str) else value)
        return f"${len(self.values)}"

    def __str__(self) -> str:
        return " AND ".join(self._terms)


def _asked(text: str) -> str:
    """Return a text to ask for. What is typed may be no text at all, and is nobody's then."""
    return plain(text.encode(errors="replace").decode())


async def heads(db: Any, query: Query) -> list[Head]:
    """Return the calls that are asked for, as a list shows them."""
    return [_head(row) for row in await _select(db, HEAD, query)]


async def calls(db: Any, packer: Packer, query: Query) -> list[StoredCall]:
    """Return the calls that are asked for, whole."""
    return await _whole(db, packer, await _select(db, f"{HEAD}, c.payload", query))


async def calls_of_writer(db: Any, packer: Packer, writer: str) -> list[StoredCall]:
    """Return the calls that a process has open."""
    sql = f"SELECT {HEAD}, c.payload FROM callsheet.calls c WHERE c.writer = $1 ORDER BY 1, 2"
    return await _whole(db, packer, await db.fetch(sql, writer))


async def _select(db: Any, what: str, query: Query) -> Sequence[Any]:
    terms = conditions_of(query)
    limit = terms.value(query.limit)
    return await db.fetch(
        f"SELECT {what} FROM {terms.source} WHERE {terms} "
        f"ORDER BY c.at DESC, c.session_id DESC, c.call_id DESC LIMIT {limit}",
        *terms.values,
    )


def conditions_of(query: Query) -> Terms:
    """Return where to look, and what must hold."""
    terms = Terms()
    if query.search is not None:
        _match(terms, query.search)
    for column, value in (
        ("session_id", query.session_id),
        ("call_id", query.call_id),
        ("name", query.tool),
    ):
        if value is not None:
            terms.add(f"c.{column} = {{}}", value)
    if query.id_part is not None:
        part = query.id_part
        terms.add(
            "(starts_with(c.call_id, {}) OR right(c.call_id, {}) = {})", part, len(part), part
        )
    if query.status == "open":
        terms.add("c.writer IS NOT NULL")
    elif query.status in _REASONS and query.status != "cancelled":
        terms.add("c.status <> 'completed' AND c.reason = {}", query.status)
    elif query.status == "completed":
        terms.add("c.status = 'completed'")
    elif query.status is not None:
        terms.add("c.status <> 'completed' AND c.status = {}", query.status)
    if query.since is not None:
        terms.add("c.at >= {}", query.since)
    if query.until is not None:
        terms.add("c.at < {}", query.until)
    if query.before is not None:
        terms.add("(c.at, c.session_id, c.call_id) < ({}, {}, {})", *query.before)
    return terms


def _match(terms: Terms, text: str) -> None:
    """Demand that every phrase is there; the last word may go on.

    The index knows which words there are. Their order is looked up in the texts, for phrases of several.
    """
    phrases = question(text)
    if not phrases:
        terms.add("false")
        return
    terms.source += " JOIN callsheet.calls_text t USING (session_id, call_id)"
    told = [f"'{word}'" for phrase in phrases for word in phrase]
    terms.add("t.words @@ {}::text::tsquery", " & ".join(told) + ":*")
    for number, phrase in enumerate(phrases, 1):
        if len(phrase) > 1:
            end = "" if number == len(phrases) else " "
            terms.add("strpos(t.texts, {}) > 0", f" {' '.join(phrase)}{end}")


def _head(row: Sequence[Any]) -> Head:
    return Head(**dict(zip(_FIELDS, row, strict=False)))


async def _whole(db: Any, packer: Packer, rows: Sequence[Any]) -> list[StoredCall]:
    blob = await ready(db, packer, [row["payload"] for row in rows])
    return [_call(row, packer, blob) for row in rows]


def _call(row: Any, packer: Packer, blob: Callable[[bytes], bytes | None]) -> StoredCall:
    head = _head(row)
    try:
        return StoredCall(head, named(packer.unpack(row["payload"], blob), head.call_id))
    except StoreDamaged as exc:  # one that is damaged is no reason to show nothing of the others
        return StoredCall(head, unreadable(head, str(exc)))


# Sessions

_SESSION = """
SELECT s.session_id, s.cwd, s.title, s.info, s.created_at, s.updated_at,
       (SELECT count(*) FROM callsheet.calls c WHERE c.session_id = s.session_id)
FROM callsheet.sessions s WHERE
"""


async def session(db: Any, session_id: str) -> StoredSession | None:
    """Return a session."""
    row = await db.fetchrow(f"{_SESSION} s.session_id = $1", _asked(session_id))
    return row and _session(row)


async def sessions(
    db: Any, cwd: str | None, before: tuple[float, str] | None, limit: int
) -> list[StoredSession]:
    """Return sessions, the one that was used last first."""
    terms = Terms()
    if cwd is not None:
        terms.add("s.cwd = {}", cwd)
    if before is not None:
        terms.add("(s.updated_at, s.session_id) < ({}, {})", *before)
    most = terms.value(limit)
    rows = await db.fetch(
        f"{_SESSION} {terms} ORDER BY s.updated_at DESC, s.session_id DESC LIMIT {most}",
        *terms.values,
    )
    return [_session(row) for row in rows]


def _session(row: Sequence[Any]) -> StoredSession:
    key, cwd, title, info, created_at, updated_at, count = row
    return StoredSession(
        session_id=key,
        cwd=cwd,
        title=title,
        info=json.loads(info),
        created_at=created_at,
        updated_at=updated_at,
        calls=count,
    )


async def timeline(
    db: Any, packer: Packer, session_id: str, after: int, limit: int
) -> list[StoredCall | StoredMessage]:
    """Return what a session has said and done after a position, in order."""
    # Two processes that go on with a session give the same positions: a page does not end between such.
    last = await db.fetchval(
        "SELECT max(position) FROM (SELECT position FROM ("
        "(SELECT position FROM callsheet.calls WHERE session_id = $1 AND position > $2 "
        "ORDER BY position LIMIT $3) UNION ALL "
        "(SELECT position FROM callsheet.messages WHERE session_id = $1 AND position > $2 "
        "ORDER BY position LIMIT $3)) AS both_ ORDER BY position LIMIT $3) AS page",
        plain(session_id),
        after,
        limit,
    )
    if last is None:
        return []
    within = "WHERE session_id = $1 AND position > $2 AND position <= $3"
    values = (plain(session_id), after, last)
    did = await db.fetch(f"SELECT {HEAD}, c.payload FROM callsheet.calls c {within}", *values)
    said = await db.fetch(
        f"SELECT position, at, message_id, part, kind, payload, key FROM callsheet.messages {within}",
        *values,
    )
    both = sorted(
        [(row["position"], row["at"], 1, row["call_id"], 0, row) for row in did]
        + [(row["position"], row["at"], 0, row["message_id"], row["part"], row) for row in said],
        key=lambda one: one[:5],
    )
    blob = await ready(db, packer, [one[5]["payload"] for one in both])
    return [
        _call(row, packer, blob) if is_call else _message(row, packer, blob)
        for _, _, is_call, _, _, row in both
    ]


def _message(row: Any, packer: Packer, blob: Callable[[bytes], bytes | None]) -> StoredMessage:
    blocks: list[JsonObject]
    try:
        blocks = packer.expand(row["payload"], blob)["blocks"]
    except StoreDamaged:
        blocks = []
    key = row["message_id"]
    run = run_of(row["key"], key)
    return StoredMessage(row["position"], row["kind"], key, row["at"], blocks, run)


async def last_position(db: Any, session_id: str) -> int:
    """Return the position of the last thing in a session's timeline, or -1."""
    return await db.fetchval(
        "SELECT greatest((SELECT max(position) FROM callsheet.calls WHERE session_id = $1), "
        "(SELECT max(position) FROM callsheet.messages WHERE session_id = $1), -1)",
        plain(session_id),
    )


# Counts


async def count(db: Any, query: Query) -> int:
    """Return how many calls are asked for."""
    terms = conditions_of(query)
    return await db.fetchval(f"SELECT count(*) FROM {terms.source} WHERE {terms}", *terms.values)


async def stats(db: Any, query: Query) -> Stats:
    """Count calls, failures, durations and bytes."""
    terms = conditions_of(query)
    rows = await db.fetch(
        "SELECT c.name, count(*), count(*) FILTER (WHERE c.status = 'failed'), "
        "count(*) FILTER (WHERE c.status = 'cancelled'), "
        "count(c.writer), "
        "percentile_disc(0.5) WITHIN GROUP (ORDER BY c.duration_ms), "
        "percentile_disc(0.95) WITHIN GROUP (ORDER BY c.duration_ms), "
        "sum(c.size)::int8, sum(octet_length(c.payload))::int8, min(c.at), max(c.at) "
        f"FROM {terms.source} WHERE {terms} GROUP BY c.name ORDER BY count(*) DESC, c.name",
        *terms.values,
    )
    tools = [ToolStats(*tuple(row)[:8]) for row in rows]
    sessions, messages, blobs = await _around(db, query)
    indexed, size = await db.fetchrow(
        f"SELECT (SELECT count(*) FROM callsheet.calls_text), ({BYTES})"
    )
    dictionaries = await db.fetch(
        "SELECT id, octet_length(data), at, source FROM callsheet.dictionaries ORDER BY at"
    )
    return Stats(
        calls=sum(tool.calls for tool in tools),
        sessions=sessions,
        messages=messages,
        open=sum(tool.open for tool in tools),
        failed=sum(tool.failed for tool in tools),
        size=sum(tool.size for tool in tools),
        stored=blobs + sum(row[8] for row in rows),
        file_bytes=size,
        indexed=indexed,
        oldest=min((row[9] for row in rows), default=None),
        newest=max((row[10] for row in rows), default=None),
        tools=tools,
        dictionaries=[DictionaryInfo(*row) for row in dictionaries],
    )


async def _around(db: Any, query: Query) -> tuple[int, int, int]:
    """Return how many sessions and messages belong to calls, and the bytes of their blobs."""
    theirs, blobs, values = "true", "true", list[Any]()
    if not query.is_for_all:
        terms = conditions_of(query)
        theirs = f"session_id IN (SELECT c.session_id FROM {terms.source} WHERE {terms})"
        blobs = (
            "hash IN (SELECT u.hash FROM callsheet.blob_uses u WHERE (u.session_id, u.owner) IN "
            f"(SELECT c.session_id, c.key FROM {terms.source} WHERE {terms}))"
        )
        values = terms.values
    return await db.fetchrow(
        f"SELECT (SELECT count(*) FROM callsheet.sessions WHERE {theirs}), "
        f"(SELECT count(*) FROM callsheet.messages WHERE {theirs}), "
        "(SELECT coalesce(sum(octet_length(data)), 0)::int8 FROM callsheet.blobs "
        f"WHERE {blobs})",
        *values,
    )
