"""Reading a store: lists of calls, whole calls, a session's timeline, and figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from msgspec import ValidationError, convert

from callsheet.history.call_records import column_text, renamed, run_of, unreadable
from callsheet.history.codec import Codec
from callsheet.history.conditions import Conditions
from callsheet.history.database import Database, Values
from callsheet.history.rows import (
    LATEST,
    UNKNOWN,
    Head,
    Origin,
    Query,
    Stats,
    StoredCall,
    StoredMessage,
    StoredSession,
    ToolStats,
    TurnRow,
    Window,
)
from callsheet.history.search_text import index_words
from callsheet.history.store_errors import StoreDamaged, StoreUnavailable
from callsheet.report.json import is_object
from callsheet.report.usage import TokenUsage

_P = ParamSpec("_P")
_T = TypeVar("_T")
_R = TypeVar("_R", bound="Reader")

_FIELDS = Head.__struct_fields__
_HEAD = ", ".join(f"c.{name}" for name in _FIELDS)
_CALL = f"{_HEAD}, c.key, c.turn, c.payload"

_SESSION = """
SELECT s.session_id, s.cwd, s.title, s.info, s.created_at, s.updated_at, s.origin,
       (SELECT count(*) FROM calls c WHERE c.session_id = s.session_id)
FROM sessions s WHERE
"""

_TOOLS = """
SELECT c.name, count(*), sum(CASE WHEN c.status = 'failed' THEN 1 ELSE 0 END),
       sum(CASE WHEN c.status = 'cancelled' THEN 1 ELSE 0 END), count(c.writer), sum(c.size),
       sum(length(c.payload)), min(c.at), max(c.at), count(c.duration_ms)
FROM calls c WHERE {where} GROUP BY c.name ORDER BY count(*) DESC, c.name
"""
_DURATION = """
SELECT c.duration_ms FROM calls c WHERE {where} AND c.name = ? AND c.duration_ms IS NOT NULL
ORDER BY c.duration_ms LIMIT 1 OFFSET ?
"""


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
        # Those that are known to be in the store. They never change.
        self._origins: dict[str, Origin] = {}

    def ensure_connected(self) -> None:
        """Connect again if the connection was lost. Raise `StoreUnavailable` if the store is not open."""
        if not self.is_open:
            raise StoreUnavailable("The history is not open.")
        if not self.db.is_open:
            self._connect()

    def _connect(self) -> list[str]:
        self._origins.clear()
        try:
            news = self.db.connect(write=self._writes)
            if self._writes:
                self.db.hold(self._writer)
        except Exception as exc:
            error = self.db.error(exc)
            self.db.close()
            raise error from exc
        return news

    def _where(self, query: Query, *, by_time: bool = False) -> Conditions:
        """Return the conditions of a query. For a search, index what is not indexed yet."""
        try:
            searches = any(term.field in ("text", "path") for term in query.terms)
            while (searches or query.search is not None) and index_words(self.db, 200):
                pass
        except Exception as exc:
            # Who can't write searches what is indexed.
            if not isinstance(self.db.error(exc), StoreUnavailable):
                raise
        return Conditions(self.db, query, by_time=by_time)

    # Calls

    @guarded
    def heads(self, query: Query) -> list[Head]:
        """Return the summaries of the calls that a query selects, the newest first."""
        return [_head(row) for row in self._select(_HEAD, query)]

    @guarded
    def calls(self, query: Query) -> list[StoredCall]:
        """Return the complete calls that a query selects, the newest first."""
        return [self._call(row) for row in self._select(_CALL, query)]

    @guarded
    def window(self, query: Query, offset: int, limit: int) -> Window:
        """Return some of the calls that a query selects, the oldest first.

        Args:
            query: Its limit means nothing here.
            offset: The place of the first one. A negative one is counted from the end.
            limit: How many calls to return at most.
        """
        where = self._where(query, by_time=True)
        total = self.db.fetch_value(f"SELECT count(*) FROM calls c WHERE {where}", *where.values)
        begin = min(total, max(0, offset + total if offset < 0 else offset))
        count = min(limit, total - begin)
        # Skipping calls takes time, so it begins at the end that is nearer.
        skipped, is_late = begin, begin > total - begin - count
        if is_late:
            skipped = total - begin - count
        order = "c.at DESC, c.seq DESC" if is_late else "c.at, c.seq"
        # Only numbers are sorted, and not what is shown of all these calls.
        chosen = f"SELECT c.seq FROM calls c WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?"
        sql = f"SELECT {_HEAD} FROM calls c WHERE c.seq IN ({chosen}) ORDER BY c.at, c.seq"
        rows = self.db.fetch(sql, *where.values, count, skipped) if count else ()
        return Window(total, begin, [_head(row) for row in rows])

    @guarded
    def version(self) -> str:
        """Return what is another one as soon as something was written to the store."""
        return self.db.version()

    def _select(self, what: str, query: Query) -> Sequence[Values]:
        where = self._where(query)
        order = "c.at DESC, c.session_id DESC, c.call_id DESC"
        sql = f"SELECT {what} FROM calls c WHERE {where} ORDER BY {order} LIMIT ?"
        return self.db.fetch(sql, *where.values, query.limit)

    def _calls_where(self, condition: str, *values: Any) -> list[StoredCall]:
        sql = f"SELECT {_CALL} FROM calls c WHERE {condition} ORDER BY 1, 2"
        return [self._call(row) for row in self.db.fetch(sql, *values)]

    def _call(self, row: Values) -> StoredCall:
        """Return a call. A damaged one comes with an explanation, so that the others are still shown."""
        head, (key, turn, payload) = _head(row), row[-3:]
        own_id = head.call_id
        try:
            record = self.db.codec.decode(payload, reveal=True)
            own_id, record = record.report.tool_call_id, renamed(record, head.call_id)
        except StoreDamaged as exc:
            record = unreadable(head, str(exc))
        return StoredCall(head, record, key, turn or "", own_id)

    @guarded
    def turn(self, session_id: str, key: str) -> TurnRow | None:
        """Return a turn of a session, or None if nothing is known of it."""
        names = [name for name in TurnRow.__struct_fields__ if name != "usage"]
        usage = TokenUsage.__struct_fields__
        sql = f"SELECT {', '.join((*names, *usage))} FROM turns WHERE session_id = ? AND key = ?"
        for row in self.db.fetch(sql, session_id, key):
            found = dict(zip((*names, *usage), row, strict=True))
            used = TokenUsage(**{name: found.pop(name) for name in usage})
            return TurnRow(**found, usage=used)
        return None

    # Sessions

    @guarded
    def session(self, session_id: str) -> StoredSession | None:
        """Return a session, or None if there is none with that id."""
        return self._session(session_id)

    def _session(self, session_id: str) -> StoredSession | None:
        rows = self.db.fetch(f"{_SESSION} s.session_id = ?", column_text(session_id))
        return self._with_origin(rows)[0] if rows else None

    def _with_origin(self, rows: Sequence[Values]) -> list[StoredSession]:
        self._know_origins({row[6] for row in rows if row[6] is not None})
        return [_session(row, self._origins.get(row[6], UNKNOWN)) for row in rows]

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
        return self._with_origin(self.db.fetch(sql, *values, limit))

    @guarded
    def origins(self, keys: Iterable[str | None]) -> dict[str | None, Origin]:
        """Return who made calls or sessions, by the `origin` that those have."""
        wanted = {key for key in keys if key is not None}
        self._know_origins(wanted)
        return {None: UNKNOWN, **{key: self._origins.get(key, UNKNOWN) for key in wanted}}

    def _know_origins(self, keys: set[str]) -> None:
        columns = "user_name, host, agent, agent_version, client, client_version, source"
        sql = f"SELECT key, {columns} FROM origins WHERE key IN ({{}})"
        for key, *texts in self.db.fetch_in(sql, [*keys - self._origins.keys()]):
            names = Origin.__struct_fields__
            self._origins[key] = Origin(**dict(zip(names, map(str, texts), strict=True)))

    @guarded
    def directories(self, session_ids: Iterable[str]) -> dict[str, str]:
        """Return the directories of sessions by their ids; that of a session that is gone is empty."""
        wanted = dict.fromkeys(session_ids, "")
        sql = "SELECT session_id, cwd FROM sessions WHERE session_id IN ({})"
        found = self.db.fetch_in(sql, [*map(column_text, wanted)])
        return wanted | {str(key): str(cwd) for key, cwd in found}

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
        rows = self.db.fetch(_TOOLS.format(where=where), *where.values)
        tools = [self._tool(row, where) for row in rows]
        sessions = f"session_id IN (SELECT c.session_id FROM calls c WHERE {where})"
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
        sql = _DURATION.format(where=where)
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
    return None if name in ("reason", "marks", "origin") and value is None else str(value)


def _session(row: Values, origin: Origin) -> StoredSession:
    key, cwd, title, info, created_at, updated_at, _, count = row
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
        origin=origin,
        calls=count,
    )


def _time(value: Any) -> float:
    return value if isinstance(value, float) and 0 <= value < LATEST else 0.0
