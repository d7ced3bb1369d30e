"""The connection to a PostgreSQL server, the tables there, and what can go wrong with it.

A connection is made when it is needed, and made anew when it was lost. Nothing waits long for a server that
does not answer, and no error shows the password.

The tables stand in a schema of their own, `callsheet`, which every connection has as its search path, so
that statements name them as in SQLite. `facts` holds how many of `STEPS` a database has gone through. A new
step is added to the end. A migration holds a lock, so many processes may start at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from callsheet.history.store_errors import BadUrl, HistoryError, StoreTooNew, StoreUnavailable
from callsheet.history.url import without_password

_T = TypeVar("_T")

CONNECT = 4.0
"""Seconds that connecting may take."""

COMMAND = 10.0
"""Seconds that a statement may take."""

LONG = 3600.0
"""Seconds for what may take long."""

AGAIN = ("40001", "40P01")
"""What is tried again: two transactions were in each other's way."""

# Other processes must notice soon that a machine is gone. JIT compiling takes longer than our queries run.
# A commit is durable when it returns, also where it would not be by default.
_SETTINGS = """
SELECT set_config('search_path', 'callsheet', false), set_config('tcp_keepalives_idle', '30', false),
       set_config('tcp_keepalives_interval', '10', false),
       set_config('tcp_keepalives_count', '3', false), set_config('jit', 'off', false),
       CASE WHEN current_setting('synchronous_commit') = 'off'
            THEN set_config('synchronous_commit', 'on', false) END
"""

_MESSAGES = {
    "28P01": "the password is wrong",
    "28000": "the server does not let this user in",
    "3D000": "there is no such database",
    "53300": "the server has no connection free",
    "53100": "the server's disk is full",
    "42501": "the user may not do this",
    "25006": "the server takes no writes",
    "57P03": "the server is just starting or stopping",
    "57P01": "the server was stopped",
    "42P01": "a table of the history is missing",
    "3F000": "the history's schema is missing",
}


# Tables

LOCK = 0x63616C6C73680001
"""What is locked while the tables are made."""

# The order of texts is that of their bytes, as in SQLite. Payloads are compressed already.
STEPS = (
    """
    CREATE TABLE callsheet.dictionaries (
        id bigint PRIMARY KEY, data bytea NOT NULL, at float8 NOT NULL, source text NOT NULL
    );
    CREATE TABLE callsheet.writers (
        id text PRIMARY KEY, pid int NOT NULL, started_at float8 NOT NULL, seen_at float8 NOT NULL
    );
    CREATE TABLE callsheet.sessions (
        session_id text COLLATE "C" PRIMARY KEY, cwd text COLLATE "C" NOT NULL, title text NOT NULL,
        info text NOT NULL, created_at float8 NOT NULL, updated_at float8 NOT NULL
    );
    CREATE INDEX sessions_by_use ON callsheet.sessions (updated_at, session_id);
    CREATE TABLE callsheet.calls (
        session_id text COLLATE "C" NOT NULL, call_id text COLLATE "C" NOT NULL, position bigint NOT NULL,
        name text COLLATE "C" NOT NULL, title text NOT NULL, kind text NOT NULL,
        status text COLLATE "C" NOT NULL, reason text COLLATE "C",
        at float8 NOT NULL, updated_at float8 NOT NULL, duration_ms float8,
        writer text COLLATE "C", size bigint NOT NULL, payload bytea NOT NULL,
        PRIMARY KEY (session_id, call_id)
    );
    ALTER TABLE callsheet.calls ALTER payload SET STORAGE EXTERNAL;
    CREATE INDEX calls_by_id ON callsheet.calls (call_id);
    CREATE INDEX calls_by_place ON callsheet.calls (session_id, position);
    CREATE INDEX calls_by_time ON callsheet.calls (at, session_id, call_id);
    CREATE INDEX calls_by_tool ON callsheet.calls (name, at);
    CREATE INDEX calls_unusual ON callsheet.calls (status, at) WHERE status <> 'completed';
    CREATE INDEX calls_by_reason ON callsheet.calls (reason, at) WHERE status <> 'completed';
    CREATE INDEX calls_open ON callsheet.calls (writer) WHERE writer IS NOT NULL;
    CREATE TABLE callsheet.messages (
        session_id text COLLATE "C" NOT NULL, message_id text COLLATE "C" NOT NULL, part int NOT NULL,
        position bigint NOT NULL, kind text NOT NULL, at float8 NOT NULL,
        size bigint NOT NULL, payload bytea NOT NULL,
        PRIMARY KEY (session_id, message_id, part)
    );
    ALTER TABLE callsheet.messages ALTER payload SET STORAGE EXTERNAL;
    CREATE INDEX messages_by_place ON callsheet.messages (session_id, position);
    CREATE TABLE callsheet.blob_uses (
        session_id text COLLATE "C" NOT NULL, owner text COLLATE "C" NOT NULL, hash bytea NOT NULL,
        PRIMARY KEY (session_id, owner, hash)
    );
    CREATE INDEX blob_uses_by_hash ON callsheet.blob_uses (hash);
    -- What can be found of a call: its words, and the same in their order, for phrases.
    CREATE TABLE callsheet.calls_text (
        session_id text COLLATE "C" NOT NULL, call_id text COLLATE "C" NOT NULL,
        words tsvector NOT NULL, texts text COLLATE "C" NOT NULL,
        PRIMARY KEY (session_id, call_id)
    );
    CREATE INDEX calls_text_words ON callsheet.calls_text USING gin (words);
    -- The calls that have ended and are not in calls_text yet.
    CREATE TABLE callsheet.unindexed (
        session_id text COLLATE "C" NOT NULL, call_id text COLLATE "C" NOT NULL,
        PRIMARY KEY (session_id, call_id)
    );
    CREATE TABLE callsheet.blobs (
        hash bytea PRIMARY KEY, size bigint NOT NULL, data bytea NOT NULL
    );
    ALTER TABLE callsheet.blobs ALTER data SET STORAGE EXTERNAL;
    -- The blobs that a row has used and uses no more: perhaps nobody does.
    CREATE TABLE callsheet.leftovers (hash bytea PRIMARY KEY);
    """,
    # A row is identified by a key of ours. `seq` is the order in which calls were written.
    """
    ALTER TABLE callsheet.calls ADD COLUMN key text COLLATE "C";
    UPDATE callsheet.calls SET key = call_id;
    ALTER TABLE callsheet.calls ALTER key SET NOT NULL;
    CREATE UNIQUE INDEX calls_by_key ON callsheet.calls (session_id, key);
    ALTER TABLE callsheet.messages ADD COLUMN key text COLLATE "C";
    UPDATE callsheet.messages SET key = message_id || ' ' || part;
    ALTER TABLE callsheet.messages ALTER key SET NOT NULL;
    ALTER TABLE callsheet.messages DROP CONSTRAINT messages_pkey;
    ALTER TABLE callsheet.messages ADD PRIMARY KEY (session_id, key);
    CREATE SEQUENCE callsheet.calls_seq;
    ALTER TABLE callsheet.calls ADD COLUMN seq bigint;
    ALTER TABLE callsheet.calls ALTER seq SET DEFAULT nextval('callsheet.calls_seq');
    CREATE INDEX calls_by_seq ON callsheet.calls (seq NULLS FIRST, at);
    """,
    # Tables were partitioned until here, to be distributed over a cluster: now each is one table. Every call
    # has a `seq`; what 0.1.0 has written comes first. What has ended is queued for the index by the server.
    """
    DROP INDEX callsheet.calls_by_seq;
    DO $$
    DECLARE name text;
    BEGIN
        FOREACH name IN ARRAY ARRAY(
            SELECT relname::text FROM pg_class
            WHERE relnamespace = 'callsheet'::regnamespace AND relkind = 'p'
        ) LOOP
            EXECUTE format('CREATE TABLE callsheet.whole (LIKE callsheet.%I INCLUDING ALL)', name);
            EXECUTE format('INSERT INTO callsheet.whole SELECT * FROM callsheet.%I', name);
            EXECUTE format('DROP TABLE callsheet.%I', name);
            EXECUTE format('ALTER TABLE callsheet.whole RENAME TO %I', name);
        END LOOP;
    END $$;
    UPDATE callsheet.calls c SET seq = -old.place FROM (
        SELECT session_id, call_id, row_number() OVER (ORDER BY at DESC) AS place
        FROM callsheet.calls WHERE seq IS NULL
    ) AS old WHERE c.session_id = old.session_id AND c.call_id = old.call_id;
    ALTER TABLE callsheet.calls ALTER seq SET NOT NULL;
    CREATE UNIQUE INDEX calls_by_seq ON callsheet.calls (seq);
    CREATE FUNCTION callsheet.queue_for_index() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO callsheet.unindexed SELECT session_id, call_id FROM changed WHERE writer IS NULL
        ON CONFLICT DO NOTHING;
        RETURN NULL;
    END $$;
    CREATE TRIGGER calls_added AFTER INSERT ON callsheet.calls REFERENCING NEW TABLE AS changed
        FOR EACH STATEMENT EXECUTE FUNCTION callsheet.queue_for_index();
    CREATE TRIGGER calls_changed AFTER UPDATE ON callsheet.calls REFERENCING NEW TABLE AS changed
        FOR EACH STATEMENT EXECUTE FUNCTION callsheet.queue_for_index();
    """,
)

VERSION = len(STEPS)

TABLES = (
    "facts", "dictionaries", "writers", "sessions", "calls", "messages", "blob_uses", "calls_text",
    "unindexed", "blobs", "leftovers",
)  # fmt: skip


# Asked of the tables themselves: what a connection remembers of names may be older than its lock.
_IS_THERE = """
SELECT EXISTS (
    SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'callsheet' AND c.relname = 'facts'
)
"""


async def version(db: Any) -> int | None:
    """Return how many steps a database has gone through; None if there is no history in it."""
    if not await db.fetchval(_IS_THERE):
        return None
    found = await db.fetchval("SELECT value FROM callsheet.facts WHERE name = 'version'")
    if found is not None and found > VERSION:
        raise StoreTooNew(
            f"the history is of version {found}, and this callsheet knows up to {VERSION}; "
            "use the newer callsheet, or another database: --history postgresql://…"
        )
    return found or 0


async def prepare(db: Any) -> None:
    """Make the tables, or bring those of an earlier version up to date. Called within a transaction."""
    await db.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
    found = await version(db)  # another process may have been quicker
    if found == VERSION:
        return
    if found is None:
        await db.execute("CREATE SCHEMA IF NOT EXISTS callsheet")
        await db.execute(
            "CREATE TABLE callsheet.facts (name text PRIMARY KEY, value bigint NOT NULL)"
        )
    for step in STEPS[found or 0 :]:
        await db.execute(step, timeout=LONG)
    await db.execute(
        "INSERT INTO callsheet.facts VALUES ('version', $1) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        VERSION,
    )


# The connection


class Connection:
    """A connection that may be lost. One thing is done with it at a time.

    `prepare` is called with every connection that was made.
    """

    def __init__(self, url: str, prepare: Callable[[Any], Awaitable[None]]) -> None:
        self.shown: str = without_password(url)
        self._url: str = url
        self._prepare: Callable[[Any], Awaitable[None]] = prepare
        self._db: Any = None
        self._turn: asyncio.Lock = asyncio.Lock()

    async def run(self, work: Callable[[Any], Awaitable[_T]]) -> _T:
        """Run work on the connection. Work must be idempotent: it is run again if the connection broke."""
        async with self._turn:
            was_open = self._db is not None and not self._db.is_closed()
            try:
                return await self._run(work)
            except _Lost as exc:
                if not was_open or isinstance(exc.__cause__, TimeoutError):
                    raise StoreUnavailable(str(exc)) from exc.__cause__
            try:
                return await self._run(work)
            except _Lost as exc:
                raise StoreUnavailable(str(exc)) from exc.__cause__

    async def transact(self, work: Callable[[Any], Awaitable[_T]], kind: str = "") -> _T:
        """Do something in one transaction."""
        return await self.run(lambda db: transaction(db, work, kind))

    async def if_connected(self, work: Callable[[Any], Awaitable[None]]) -> None:
        """Do something, unless there is no connection."""
        async with self._turn:
            if self._db is not None and not self._db.is_closed():
                try:
                    await self._run(work)
                except _Lost as exc:
                    raise StoreUnavailable(str(exc)) from exc.__cause__

    async def close(self) -> None:
        """Close the connection."""
        db, self._db = self._db, None
        if db is not None:
            try:
                await db.close(timeout=CONNECT)
            except Exception:  # noqa: BLE001 - the connection is dropped in any case
                db.terminate()

    async def _run(self, work: Callable[[Any], Awaitable[_T]]) -> _T:
        try:
            if self._db is None or self._db.is_closed():
                self._db = None
                await self._connect()
            return await work(self._db)
        except Exception as exc:
            if not _is_servers(exc):
                raise
            if getattr(exc, "sqlstate", None) == "23505":
                raise Taken(self._message(exc)) from exc
            if (getattr(exc, "sqlstate", None) or "")[:2] == "22":  # a value is at fault
                raise HistoryError(self._message(exc)) from exc
            if _is_lost(exc) or (self._db is not None and self._db.is_closed()):
                self._give_up()
                raise _Lost(self._message(exc)) from exc
            raise StoreUnavailable(self._message(exc)) from exc
        except BaseException:  # stopped in the middle: nobody knows what the server will send next
            self._give_up()
            raise

    async def _connect(self) -> None:
        driver = _driver()
        try:
            async with asyncio.timeout(CONNECT):
                db = await driver.connect(
                    self._url,
                    timeout=CONNECT,
                    command_timeout=COMMAND,
                    server_settings={"application_name": "callsheet"},
                )
        except (ValueError, driver.InterfaceError) as exc:
            raise BadUrl(f"history {self.shown}: {self._plain(exc)}") from None
        try:
            await db.execute(_SETTINGS)
            await self._prepare(db)
        except BaseException:
            db.terminate()
            raise
        self._db = db

    def _give_up(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with suppress(Exception):
                db.terminate()

    def _message(self, exc: Exception) -> str:
        """Return a message for an error."""
        state = getattr(exc, "sqlstate", None)
        if state in _MESSAGES:
            return f"{self.shown}: {_MESSAGES[state]} ({self._plain(exc)})."
        if isinstance(exc, TimeoutError):
            return f"{self.shown} does not answer."
        if isinstance(exc, OSError):
            return f"{self.shown} can't be reached ({self._plain(exc)})."
        return f"{self.shown}: {self._plain(exc) or type(exc).__name__}."

    def _plain(self, exc: Exception) -> str:
        """Return the beginning of an error's message, without the password."""
        text = (str(exc).splitlines() or [""])[0].rstrip(".")[:300]
        for secret in _secrets(self._url):
            text = text.replace(secret, "…")
        return text


class Taken(HistoryError):
    """A row has an id that another one has."""


class _Lost(Exception):
    """The connection is gone."""


async def transaction(db: Any, work: Callable[[Any], Awaitable[_T]], kind: str = "") -> _T:
    """Do something in one transaction; again, if another one was in its way."""
    for _ in range(4):
        try:
            return await _transaction(db, work, kind)
        except Exception as exc:
            if getattr(exc, "sqlstate", None) not in AGAIN:
                raise
    return await _transaction(db, work, kind)


async def _transaction(db: Any, work: Callable[[Any], Awaitable[_T]], kind: str) -> _T:
    await db.execute(f"BEGIN {kind}")
    try:
        done = await work(db)
        await db.execute("COMMIT")
    except Exception as exc:
        if not _is_lost(exc) and not db.is_closed():
            await db.execute("ROLLBACK")
        raise
    return done


def _is_servers(exc: Exception) -> bool:
    """Return whether an error is the server's or the network's. A `ValueError` is about a value of ours."""
    if isinstance(exc, ValueError):
        return False
    return isinstance(exc, (OSError, EOFError)) or type(exc).__module__.startswith("asyncpg")


def _is_lost(exc: Exception) -> bool:
    """Return whether a connection is of no more use after this."""
    state = getattr(exc, "sqlstate", None)
    if state is None:
        return _is_servers(exc)
    # A table that is missing is made when somebody connects.
    return state[:2] in ("08", "57") or state in ("42P01", "3F000")


def _secrets(url: str) -> list[str]:
    parts = urlsplit(url)
    found = [*parse_qs(parts.query).get("password", []), parts.password or ""]
    return [text for one in found for text in (one, unquote(one)) if text]


def _driver() -> Any:
    try:
        return import_module("asyncpg")
    except ImportError:
        raise BadUrl(
            "a history in PostgreSQL needs asyncpg: pip install 'callsheet[postgres]'"
        ) from None
