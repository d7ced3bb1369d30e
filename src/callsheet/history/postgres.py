"""PostgreSQL: a store on a server.

One connection does all of it, on an event loop in a thread of its own, so that a store can be used from any
thread. A connection that was lost is made again when it is next needed; what then fails is
`StoreUnavailable`, and `History` tries it again. Nothing waits long for a server that does not answer, and no
error shows the password.

The tables stand in a schema of their own, `callsheet`, which every connection has as its search path, so
that statements name them as in SQLite. A migration holds a lock, so many processes may start at once.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import blake2b
from importlib import import_module
from itertools import count
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from callsheet.history.database import Database, IndexedCall, Values
from callsheet.history.loop_thread import LoopThread
from callsheet.history.migration import add_origins, copy_rows
from callsheet.history.rows import CallRow
from callsheet.history.schema import (
    ADD_MARKS,
    POSTGRES_ADD_ORIGINS,
    POSTGRES_TABLES,
    POSTGRES_TRIGGERS,
)
from callsheet.history.store_errors import (
    BadUrl,
    HistoryError,
    NotKept,
    StoreTooNew,
    StoreUnavailable,
)
from callsheet.history.url import without_password
from callsheet.history.views import GRANT, POSTGRES_TIME, POSTGRES_VIEWS

_T = TypeVar("_T")

CONNECT = 4.0
"""Seconds that connecting may take."""

COMMAND = 10.0
"""Seconds that a statement may take."""

LONG = 3600.0
"""Seconds for what may take long."""

ROW = 400
"""Bytes that a row takes besides its payload, with its indexes, more or less."""

# Other processes must notice soon that a machine is gone. JIT compiling takes longer than our queries run.
# A commit is durable when it returns, also where it would not be by default.
_SETTINGS = """
SELECT set_config('search_path', 'callsheet', false), set_config('tcp_keepalives_idle', '30', false),
       set_config('tcp_keepalives_interval', '10', false),
       set_config('tcp_keepalives_count', '3', false), set_config('jit', 'off', false),
       CASE WHEN current_setting('synchronous_commit') = 'off'
            THEN set_config('synchronous_commit', 'on', false) END
"""

LOCK = 0x63616C6C73680001
"""What is locked while the tables are made."""

VERSION = 6
"""The version of the tables. Earlier ones are migrated: see `migration`."""

FIRST_ALTERED = 4
"""The first version whose tables are altered. Those before are copied."""

WEEK = 7 * 86400.0
"""Seconds of calls that one partition holds."""

_FIRST_WEEK = 2600
"""The first week since 1970, in 2019, that may have a partition: no ACP is older."""

_ALL = "facts, origins, sessions, turns, calls, messages, calls_text, unindexed"
_SIZED = ("messages", "calls")
"""The tables that grow."""

# Asked of the tables themselves: what a connection remembers of names may be older than its lock.
_IS_THERE = """
SELECT EXISTS (
    SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'callsheet' AND c.relname = 'facts'
)
"""

# Whoever wants a lock holds up all who come after, while it waits for somebody's long query.
_BRIEFLY = "SET LOCAL lock_timeout = '1s';"

# What comes from a host whose clock is wrong is in `calls_other`, until there is a partition for it.
_COLUMNS = ", ".join(("seq", *CallRow.__struct_fields__, "writer"))
_ADD_WEEK = f"""
{_BRIEFLY}
SELECT pg_advisory_xact_lock({LOCK});
CREATE TABLE IF NOT EXISTS {{table}}
    (LIKE calls INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING STORAGE);
WITH moved AS (DELETE FROM calls_other WHERE at >= {{begin}} AND at < {{end}} RETURNING {_COLUMNS})
INSERT INTO {{table}} ({_COLUMNS}) SELECT {_COLUMNS} FROM moved;
DO $$ BEGIN
    IF NOT (SELECT relispartition FROM pg_class WHERE oid = '{{table}}'::regclass) THEN
        ALTER TABLE calls ATTACH PARTITION {{table}} FOR VALUES FROM ({{begin}}) TO ({{end}});
    END IF;
END $$;
"""
_WEEKS = """
SELECT substr(c.relname, 8)::bigint FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'callsheet.calls'::regclass AND c.relname LIKE 'calls\\_w%'
"""

_BYTES = """
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::int8
FROM pg_class WHERE relnamespace = 'callsheet'::regnamespace AND relkind = 'r'
"""


@lru_cache(maxsize=256)
def _numbered(sql: str) -> str:
    """Return a statement with PostgreSQL's `$1`, `$2`, … for each `?`."""
    first, *rest = sql.split("?")
    return first + "".join(f"${number}{part}" for number, part in zip(count(1), rest, strict=False))


class PostgresDatabase(Database):
    """A connection to a server. A writer holds an advisory lock while it lives.

    See `Database` for its methods.
    """

    for_update: str = " FOR UPDATE"
    for_share: str = " FOR KEY SHARE"
    day: str = f"({POSTGRES_TIME} AT TIME ZONE 'UTC')::date"
    old: str = "callsheet_old."
    index_table: str = "calls_text"

    def __init__(self, url: str) -> None:
        super().__init__(without_password(url))
        self._url: str = url
        self._raw: Any = None
        self._loop: LoopThread = LoopThread()
        self._timeout: float = COMMAND
        self._has_lock: bool = False
        # The weeks that have a partition, or can have none, as far as this connection knows.
        self._weeks: set[int] = set()

    # The connection

    @property
    def is_open(self) -> bool:
        return self._raw is not None and not self._raw.is_closed()

    def connect(self, *, write: bool) -> list[str]:
        self._drop()
        try:
            driver = import_module("asyncpg")
        except ImportError:
            raise BadUrl(
                "a history in PostgreSQL needs asyncpg: pip install 'callsheet[postgres]'"
            ) from None
        self._raw = self._wait(self._connected(driver))
        found = self._version()
        if found is None and not write:
            raise NotKept(f"There is no history at {self.url} yet.")
        if found != VERSION:
            with self.patiently(), self.transaction():
                self._prepare()
        return []

    @contextmanager
    def patiently(self) -> Generator[None]:
        self._timeout = LONG
        try:
            yield
        finally:
            self._timeout = COMMAND

    async def _connected(self, driver: Any) -> Any:
        try:
            async with asyncio.timeout(CONNECT):
                raw = await driver.connect(
                    self._url,
                    timeout=CONNECT,
                    command_timeout=COMMAND,
                    server_settings={"application_name": "callsheet"},
                )
        except (ValueError, driver.InterfaceError) as exc:
            raise BadUrl(f"history {self.url}: {self._plain(exc)}") from None
        await raw.execute(_SETTINGS)
        return raw

    def _version(self) -> int | None:
        """Return the version of the tables; None if there is no history."""
        if not self.fetch_value(_IS_THERE):
            return None
        found = self.fetch_value("SELECT value FROM facts WHERE name = 'version'")
        if found is not None and found > VERSION:
            raise StoreTooNew(
                f"the history is of version {found}, and this callsheet knows up to {VERSION}; "
                "use the newer callsheet, or another database: --history postgresql://…"
            )
        return found or 0

    def _prepare(self) -> None:
        """Make the tables, or migrate those of an earlier version, within a transaction."""
        self.fetch("SELECT pg_advisory_xact_lock(?)", LOCK)
        found = self._version()  # another process may have been quicker
        if found == VERSION:
            return
        if found is not None and found >= FIRST_ALTERED:
            if found == FIRST_ALTERED:
                self._script(ADD_MARKS)
            self._script(POSTGRES_ADD_ORIGINS)
            self._copy_calls()
            add_origins(self)
        else:
            if found:
                self._script("ALTER SCHEMA callsheet RENAME TO callsheet_old")
            self._script(POSTGRES_TABLES)
            if found:
                copy_rows(self, version=found)
                self._script("DROP SCHEMA callsheet_old CASCADE")
        self._script(POSTGRES_TRIGGERS + POSTGRES_VIEWS)
        self._script(GRANT)
        self.fetch(
            "INSERT INTO facts VALUES ('version', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            VERSION,
        )

    def _copy_calls(self) -> None:
        """Copy the calls of the version before into their partitions."""
        self.prepare_for(at for (at,) in self.fetch("SELECT DISTINCT at FROM calls_before"))
        new = ("origin", "turn", "input", "output")
        columns = ", ".join(one for one in _COLUMNS.split(", ") if one not in new)
        self.fetch(f"INSERT INTO calls ({columns}) SELECT {columns} FROM calls_before ORDER BY seq")
        self.fetch("SELECT setval('calls_seq', max(seq)) FROM calls_before HAVING max(seq) > 0")
        self._script("DROP TABLE calls_before")

    # Partitions

    def prepare_for(self, times: Iterable[float]) -> None:
        weeks = {int(at // WEEK) for at in times if math.isfinite(at)} - self._weeks
        if not weeks:
            return
        there = {week for (week,) in self.fetch(_WEEKS)}
        latest = self.fetch_value("SELECT extract(epoch FROM now())::float8") // WEEK + 1
        for week in sorted(weeks - there):
            if _FIRST_WEEK <= week <= latest:
                begin, end = repr(week * WEEK), repr((week + 1) * WEEK)
                sql = _ADD_WEEK.format(table=f"calls_w{week}", begin=begin, end=end)
                if not self._run_briefly(sql):
                    weeks.discard(week)  # they are in `calls_other` for now
        self._weeks |= weeks | there

    def partitions_before(self, at: float) -> Sequence[str]:
        old = sorted(week for (week,) in self.fetch(_WEEKS) if (week + 1) * WEEK <= at)
        names = [f"calls_w{week}" for week in old]
        open_ = "SELECT EXISTS (SELECT 1 FROM {} WHERE writer IS NOT NULL)"
        return [name for name in names if not self.fetch_value(open_.format(name))]

    def drop_partition(self, table: str) -> bool:
        return self._run_briefly(f"{_BRIEFLY} DROP TABLE IF EXISTS {table}")

    def _run_briefly(self, script: str) -> bool:
        """Run statements as one transaction. Return false if a lock that they need is not to be had."""
        try:
            self._script(script)
        except Exception as exc:
            if getattr(exc, "sqlstate", None) != "55P03":
                raise
            return False
        return True

    def _wait(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run work on the loop, and wait for its result."""
        done = self._loop.submit(work)
        try:
            return done.result()
        except BaseException as exc:
            if not done.done() or _is_lost(exc):
                # Stopped in the middle, nobody knows what the server will send next.
                done.cancel()
                self._drop()
            raise

    def _drop(self) -> None:
        """Drop the connection without a word to the server."""
        raw, self._raw, self._has_lock = self._raw, None, False
        self._weeks = set()
        if raw is not None:
            self._loop.call_soon(raw.terminate)

    def close(self) -> None:
        if self.is_open:
            with suppress(Exception):
                self._wait(self._raw.close(timeout=CONNECT))
        self._drop()
        self._loop.close(CONNECT)

    # Statements

    def fetch(self, sql: str, *values: Any) -> Sequence[Values]:
        return self._wait(self._opened.fetch(_numbered(sql), *values, timeout=self._timeout))

    def execute_many(self, sql: str, rows: Sequence[Values]) -> None:
        if rows:
            self._wait(self._opened.executemany(_numbered(sql), rows, timeout=self._timeout))

    def _script(self, sql: str) -> None:
        """Run statements that may take long."""
        self._wait(self._opened.execute(sql, timeout=LONG))

    @property
    def _opened(self) -> Any:
        if self._raw is None:
            raise StoreUnavailable(f"{self.url}: the connection was lost.")
        return self._raw

    def version(self) -> str:
        if self._version() is None:
            raise NotKept(f"There is no history at {self.url} any more.")
        return str(self.fetch_value("SELECT pg_current_snapshot()::text"))

    # Errors

    def error(self, exc: Exception) -> Exception:
        state = getattr(exc, "sqlstate", None) or ""
        if isinstance(exc, HistoryError) or not _is_servers(exc):
            return exc
        if state[:2] in ("22", "23", "54"):  # a value is at fault, or too large for an index
            return HistoryError(self._message(exc))
        return StoreUnavailable(self._message(exc))

    def _message(self, exc: Exception) -> str:
        if isinstance(exc, TimeoutError):
            return f"{self.url} does not answer."
        if isinstance(exc, OSError):
            return f"{self.url} can't be reached ({self._plain(exc)})."
        return f"{self.url}: {self._plain(exc) or type(exc).__name__}."

    def _plain(self, exc: Exception) -> str:
        """Return the beginning of an error's message, without the password."""
        text = (str(exc).splitlines() or [""])[0].rstrip(".")[:300]
        parts = urlsplit(self._url)
        for secret in (*parse_qs(parts.query).get("password", []), parts.password or ""):
            for shown in (secret, unquote(secret)):
                text = text.replace(shown, "…") if shown else text
        return text

    # Writers

    def hold(self, writer: str) -> None:
        # An earlier connection of ours that the server has not yet dropped may still hold it.
        if not self._has_lock:
            self._has_lock = self.fetch_value("SELECT pg_try_advisory_lock(?)", _lock_of(writer))

    def is_gone(self, writer: str) -> bool:
        # Hold its lock until the transaction ends.
        return self.fetch_value("SELECT pg_try_advisory_xact_lock(?)", _lock_of(writer))

    # The index of words

    def match(self, phrases: list[list[str]], *, in_paths: bool = False) -> tuple[str, Values]:
        # The index knows which words there are. For phrases, their order is looked up in the texts.
        words = [f"'{word}'" for phrase in phrases for word in phrase]
        terms, values = ["words @@ ?::text::tsquery"], [" & ".join(words) + ":*"]
        texts = "split_part(texts, chr(10), 2) || chr(10) || split_part(texts, chr(10), 3)"
        for number, phrase in enumerate(phrases, 1):
            if len(phrase) > 1 or in_paths:
                end = "" if number == len(phrases) else " "
                terms.append(f"strpos({texts if in_paths else 'texts'}, ?) > 0")
                values.append(f" {' '.join(phrase)}{end}")
        return f"IN (SELECT seq FROM calls_text WHERE {' AND '.join(terms)})", values

    def add_words(self, calls: Sequence[IndexedCall]) -> None:
        self.execute_many(
            "INSERT INTO calls_text VALUES (?, array_to_tsvector(?::text[]), ?) "
            "ON CONFLICT (seq) DO UPDATE SET words = excluded.words, texts = excluded.texts",
            [
                (
                    seq,
                    sorted({word for one in fields for word in one.split()}),
                    "\n".join(f" {one} " for one in fields),
                )
                for seq, fields in calls
            ],
        )

    def remove_words(self, calls: Sequence[IndexedCall]) -> None:
        self.fetch_in("DELETE FROM calls_text WHERE seq IN ({})", [seq for seq, _ in calls])

    # Space

    def disk_bytes(self) -> int:
        return self.fetch_value(_BYTES)

    def used_bytes(self) -> int:
        # Tables do not become smaller by what is removed, so what is in use is counted.
        size = f"coalesce(sum(length(payload) + {ROW}), 0)::int8"
        return sum(self.fetch_value(f"SELECT {size} FROM {table}") for table in _SIZED)

    def vacuum(self) -> None:
        self._script(f"VACUUM (FULL, ANALYZE) {_ALL}")


def _lock_of(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), signed=True)


def _is_servers(exc: BaseException) -> bool:
    """Return whether an error is the server's or the network's. A `ValueError` is about a value of ours."""
    if isinstance(exc, ValueError):
        return False
    return isinstance(exc, (OSError, EOFError)) or type(exc).__module__.startswith("asyncpg")


def _is_lost(exc: BaseException) -> bool:
    """Return whether a connection is of no more use after this."""
    state = getattr(exc, "sqlstate", None)
    if state is None:
        return _is_servers(exc)
    # A table that is missing is made when somebody connects.
    return state[:2] in ("08", "57") or state in ("42P01", "3F000")
