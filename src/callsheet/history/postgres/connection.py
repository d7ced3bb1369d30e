"""The connection to a server: made when it is needed, made anew when it was lost.

Nothing waits long for a server that does not answer. What goes wrong is said in our own words, and never
with the password.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from callsheet.history.errors import BadUrl, HistoryError, StoreUnavailable
from callsheet.history.places import without_password

_T = TypeVar("_T")

CONNECT = 4.0
"""Seconds that connecting may take."""

COMMAND = 10.0
"""Seconds that a statement may take."""

LONG = 3600.0
"""Seconds for what may take long."""

AGAIN = ("40001", "40P01")
"""What is tried again: two transactions were in each other's way."""

# Other processes must learn soon that a machine is gone. Compiling takes longer than our questions.
# A commit is durable when it returns, also where it would not be by default.
_SETTINGS = """
SELECT set_config('tcp_keepalives_idle', '30', false), set_config('tcp_keepalives_interval', '10', false),
       set_config('tcp_keepalives_count', '3', false), set_config('jit', 'off', false),
       CASE WHEN current_setting('synchronous_commit') = 'off'
            THEN set_config('synchronous_commit', 'on', false) END
"""

_SAID = {
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
        """Do something with the connection. All that we do can be done twice: it is, if the link broke."""
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
        """Let go of the connection."""
        db, self._db = self._db, None
        if db is not None:
            try:
                await db.close(timeout=CONNECT)
            except Exception:  # noqa: BLE001 - it is given up in any case
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
                raise Taken(self._told(exc)) from exc
            if (getattr(exc, "sqlstate", None) or "")[:2] == "22":  # what was given is at fault
                raise HistoryError(self._told(exc)) from exc
            if _is_lost(exc) or (self._db is not None and self._db.is_closed()):
                self._give_up()
                raise _Lost(self._told(exc)) from exc
            raise StoreUnavailable(self._told(exc)) from exc
        except BaseException:  # stopped in the middle: nobody knows what the server will say next
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

    def _told(self, exc: Exception) -> str:
        """Say what went wrong."""
        state = getattr(exc, "sqlstate", None)
        if state in _SAID:
            return f"{self.shown}: {_SAID[state]} ({self._plain(exc)})."
        if isinstance(exc, TimeoutError):
            return f"{self.shown} does not answer."
        if isinstance(exc, OSError):
            return f"{self.shown} can't be reached ({self._plain(exc)})."
        return f"{self.shown}: {self._plain(exc) or type(exc).__name__}."

    def _plain(self, exc: Exception) -> str:
        """Return the beginning of what an error says, without the password."""
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
    """Whether the server says so, or the way to it is at fault. A `ValueError` is about what was given."""
    if isinstance(exc, ValueError):
        return False
    return isinstance(exc, (OSError, EOFError)) or type(exc).__module__.startswith("asyncpg")


def _is_lost(exc: Exception) -> bool:
    """Whether a connection is of no more use after this."""
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
