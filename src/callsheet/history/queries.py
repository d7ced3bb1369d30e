"""Reading a store: lists of calls, whole calls, a session's timeline, and figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from msgspec import ValidationError, convert

from callsheet.history.call_records import column_text, renamed, run_of, unreadable
from callsheet.history.codec import Codec
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
from callsheet.history.search_text import index_words, phrases
from callsheet.history.store_errors import StoreDamaged, StoreUnavailable
from callsheet.report.json import is_object
from callsheet.report.status import Reason

_P = ParamSpec("_P")
_T = TypeVar("_T")
_R = TypeVar("_R", bound="Reader")

_FIELDS = Head.__struct_fields__
_HEAD = ", ".join(f"c.{name}" for name in _FIELDS)
_CALL = f"{_HEAD}, c.key, c.payload"
_REASONS = [reason.value for reason in Reason]

LATEST = 2.5e11
"""Seconds since 1970 that a calendar has a date for."""

# The ends of ids are compared within their index: the rows themselves are many times its size.
_ID_PART = """c.seq IN (
    SELECT seq FROM calls WHERE call_id >= ? AND call_id < ?
    UNION SELECT seq FROM calls WHERE substr(call_id, length(call_id) - ? + 1) = ?)"""

_SESSION = """
SELECT s.session_id, s.cwd, s.title, s.info, s.created_at, s.updated_at,
       (SELECT count(*) FROM calls c WHERE c.session_id = s.session_id)
FROM sessions s WHERE
"""

_TOOLS = """
SELECT c.name, count(*), sum(CASE WHEN c.status = 'failed' THEN 1 ELSE 0 END),
       sum(CASE WHEN c.status = 'cancelled' THEN 1 ELSE 0 END), count(c.writer), sum(c.size),
       sum(length(c.payload)), min(c.at), max(c.at), count(c.duration_ms)
FROM {source} WHERE {where} GROUP BY c.name ORDER BY count(*) DESC, c.name
"""
_DURATION = """
SELECT c.duration_ms FROM {source} WHERE {where} AND c.name = ? AND c.duration_ms IS NOT NULL
ORDER BY c.duration_ms LIMIT 1 OFFSET ?
"""


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
        self.values += [column_text(one) if isinstance(one, str) else one for one in values]

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


def guarded(
    method: Callable[Concatenate[_R, _P], _T],
) -> Callable[Concatenate[_R, _P], _T]:
    """Make a method of a store raise our errors, and try it again if the connection turns out to be lost."""

    @wraps(method)
    def run(reader: _R, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        for is_last in (False, True):
            db = reader.db
            try:
                reader.ensure_connected()
                return method(reader, *args, **kwargs)
            except Exception as exc:
                error = db.error(exc)
                if error is exc:
                    raise
                # A method is one transaction, so it can be tried again with another connection. But nobody
                # waits twice for a server that does not answer.
                if is_last or db.is_open or isinstance(exc, TimeoutError):
                    raise error from exc
        raise AssertionError

    return run


class Reader:
    """The part of a store that connects and reads.

    Args:
        database: The connection, not made yet.
    """

    def __init__(self, database: Database) -> None:
        self.db: Database = database
        self.codec: Codec = database.codec
        self.url: str = database.url
        """Where the store is, without a password."""
        self.is_open: bool = False
        self._writes: bool = False
        self._writer: str = ""

    def ensure_connected(self) -> None:
        """Connect again if the connection was lost. Raise `StoreUnavailable` if the store is not open."""
        if not self.is_open:
            raise StoreUnavailable("The history is not open.")
        if not self.db.is_open:
            self._connect()

    def _connect(self) -> list[str]:
        try:
            news = self.db.connect(write=self._writes)
            if self._writes:
                self.db.hold(self._writer)
        except Exception as exc:
            error = self.db.error(exc)
            self.db.close()
            raise error from exc
        return news

    def _where(self, query: Query) -> Conditions:
        """Return the conditions of a query. For a search, index what is not indexed yet."""
        try:
            while query.search is not None and index_words(self.db, 200):
                pass
        except Exception as exc:
            # Who can't write searches what is indexed.
            if not isinstance(self.db.error(exc), StoreUnavailable):
                raise
        return Conditions(self.db, query)

    # Calls

    @guarded
    def heads(self, query: Query) -> list[Head]:
        """Return the summaries of the calls that a query selects, the newest first."""
        return [_head(row) for row in self._select(_HEAD, query)]

    @guarded
    def calls(self, query: Query) -> list[StoredCall]:
        """Return the complete calls that a query selects, the newest first."""
        return [self._call(row) for row in self._select(_CALL, query)]

    def _select(self, what: str, query: Query) -> Sequence[Values]:
        where = self._where(query)
        order = "c.at DESC, c.session_id DESC, c.call_id DESC"
        sql = f"SELECT {what} FROM {where.source} WHERE {where} ORDER BY {order} LIMIT ?"
        return self.db.fetch(sql, *where.values, query.limit)

    def _calls_where(self, condition: str, *values: Any) -> list[StoredCall]:
        sql = f"SELECT {_CALL} FROM calls c WHERE {condition} ORDER BY 1, 2"
        return [self._call(row) for row in self.db.fetch(sql, *values)]

    def _call(self, row: Values) -> StoredCall:
        """Return a call. A damaged one comes with an explanation, so that the others are still shown."""
        head, (key, payload) = _head(row), row[-2:]
        try:
            record = renamed(self.db.codec.decode(payload), head.call_id)
        except StoreDamaged as exc:
            record = unreadable(head, str(exc))
        return StoredCall(head, record, key)

    # Sessions

    @guarded
    def session(self, session_id: str) -> StoredSession | None:
        """Return a session, or None if there is none with that id."""
        return self._session(session_id)

    def _session(self, session_id: str) -> StoredSession | None:
        rows = self.db.fetch(f"{_SESSION} s.session_id = ?", column_text(session_id))
        return _session(rows[0]) if rows else None

    @guarded
    def sessions(
        self,
        *,
        cwd: str | None = None,
        before: tuple[float, str] | None = None,
        limit: int = 50,
    ) -> list[StoredSession]:
        """Return sessions, the most recently used first.

        Args:
            cwd: Return only the sessions of this directory.
            before: Where an earlier page ended: the `updated_at` and id of its last session.
            limit: How many sessions to return at most.
        """
        terms, values = ["1 = 1"], list[Any]()
        if cwd is not None:
            terms.append("s.cwd = ?")
            values.append(column_text(cwd))
        if before is not None:
            terms.append("(s.updated_at, s.session_id) < (?, ?)")
            values += before
        where = " AND ".join(terms)
        sql = f"{_SESSION} {where} ORDER BY s.updated_at DESC, s.session_id DESC LIMIT ?"
        return [_session(row) for row in self.db.fetch(sql, *values, limit)]

    @guarded
    def timeline(
        self, session_id: str, *, after: int = -1, limit: int = 100
    ) -> list[StoredCall | StoredMessage]:
        """Return a session's messages and calls after a position, in order."""
        # Two processes that go on with a session assign the same positions: a page does not end between such.
        key = column_text(session_id)
        place = "WHERE session_id = ? AND position > ? ORDER BY position LIMIT ?"
        places = [
            position
            for table in ("calls", "messages")
            for (position,) in self.db.fetch(
                f"SELECT position FROM {table} {place}", key, after, limit
            )
        ]
        if not places:
            return []
        within = "session_id = ? AND position > ? AND position <= ?"
        values = (key, after, sorted(places)[:limit][-1])
        columns = "position, at, message_id, part, kind, key, payload"
        rows = self.db.fetch(f"SELECT {columns} FROM messages WHERE {within}", *values)
        # A message comes before a call of the same position and time; parts come in their order.
        entries: list[tuple[tuple[Any, ...], StoredCall | StoredMessage]] = [
            ((row[0], row[1], 0, row[2], row[3]), self._message(row)) for row in rows
        ]
        entries += [
            ((call.position, call.head.at, 1, call.head.call_id, 0), call)
            for call in self._calls_where(within, *values)
        ]
        return [entry for _, entry in sorted(entries, key=lambda one: one[0])]

    def _message(self, row: Values) -> StoredMessage:
        position, at, message_id, _, kind, key, payload = row
        blocks = self.db.codec.decode_blocks(payload)
        return StoredMessage(position, kind, message_id, at, blocks, run_of(key, message_id))

    @guarded
    def last_position(self, session_id: str) -> int:
        """Return the position of the last entry of a session's timeline, or -1."""
        key = column_text(session_id)
        found = [
            self.db.fetch_value(f"SELECT max(position) FROM {table} WHERE session_id = ?", key)
            for table in ("calls", "messages")
        ]
        return max((position for position in found if position is not None), default=-1)

    # Figures

    @guarded
    def stats(self, query: Query) -> Stats:
        """Return counts, failures, durations and bytes of the calls that a query selects.

        `file_bytes` and `indexed` are those of the whole store.
        """
        where = self._where(query)
        rows = self.db.fetch(_TOOLS.format(source=where.source, where=where), *where.values)
        tools = [self._tool(row, where) for row in rows]
        sessions = f"session_id IN (SELECT c.session_id FROM {where.source} WHERE {where})"
        around = [
            self.db.fetch_value(f"SELECT count(*) FROM {table} WHERE {sessions}", *where.values)
            for table in ("sessions", "messages")
        ]
        return Stats(
            calls=sum(tool.calls for tool in tools),
            sessions=around[0],
            messages=around[1],
            open=sum(tool.open for tool in tools),
            failed=sum(tool.failed for tool in tools),
            size=sum(tool.size for tool in tools),
            stored=sum(int(row[6] or 0) for row in rows),
            file_bytes=self.db.disk_bytes(),
            indexed=self.db.fetch_value(f"SELECT count(*) FROM {self.db.index_table}"),
            oldest=min((_time(row[7]) for row in rows), default=None),
            newest=max((_time(row[8]) for row in rows), default=None),
            tools=tools,
        )

    def _tool(self, row: Values, where: Conditions) -> ToolStats:
        """Return a tool's figures, with the durations that 50 and 95 per cent of its calls don't exceed."""
        called, failed, cancelled, open_, size = (int(number or 0) for number in row[1:6])
        sql = _DURATION.format(source=where.source, where=where)
        found = [
            self.db.fetch_value(sql, *where.values, row[0], max(0, -(-row[9] * share // 100) - 1))
            for share in (50, 95)
        ]
        # Anything else is of a damaged row.
        p50, p95 = (one if isinstance(one, float) else None for one in found)
        return ToolStats(str(row[0]), called, failed, cancelled, open_, p50, p95, size)


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
