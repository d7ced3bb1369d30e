"""The store in a SQLite file.

Several processes share a file by WAL: readers never wait, writers wait for each other for a moment. A commit
is on the disk when it returns.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar
from weakref import WeakSet

from callsheet.history.database import Database, rename_calls, write_batch
from callsheet.history.rows import Pruned, Retention, RowBatch, Vacuumed
from callsheet.history.sqlite_connection import (
    FileId,
    guarded,
    id_of,
    is_certain,
    open_to_read,
    open_to_write,
    transact,
)
from callsheet.history.sqlite_database import SqliteDatabase
from callsheet.history.store import Store, Work, Writers
from callsheet.history.store_errors import HistoryError, StoreDamaged, StoreUnavailable

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_T = TypeVar("_T")

SILENT = 600.0
"""Seconds after which a writer counts as gone where there are no locks on files."""

_all: WeakSet[FileWriters] = WeakSet()


class FileWriters(Writers):
    """The writers of a file. Each holds a lock on a file of its own, in a directory beside the database."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._directory: Path = file.with_name(file.name + ".writers")
        self._lock: int = -1
        _all.add(self)

    async def enter(self, db: Database) -> None:
        """Note that this process writes, within a transaction."""
        if self._lock < 0:
            self.pid = os.getpid()
            self.me = f"{self.pid}-{token_hex(6)}"
            self._take_lock()
            await super().seen(db, time.time())

    async def seen(self, db: Database, now: float) -> None:
        """Note that this process still writes, within a transaction."""
        if self._lock >= 0 and not self._file(self.me).exists():  # somebody has tidied up
            os.close(self._lock)
            self._take_lock()
        await super().seen(db, now)

    def _take_lock(self) -> None:
        self._directory.mkdir(mode=0o700, exist_ok=True)
        if fcntl is not None:
            self._lock = os.open(self._file(self.me), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def after_fork(self) -> None:
        """Close the parent's lock file in a child: the lock must last only as long as the parent."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        self.me = ""

    async def leave(self, db: Database) -> None:
        """Note that this process writes no more."""
        if not self.me or self.pid != os.getpid():  # a forked child is not the one that wrote
            return
        with suppress(sqlite3.Error):
            await db.fetch("PRAGMA busy_timeout = 100")  # nobody is to wait for this at the end
            await super().forget(db, self.me)
        if self._lock >= 0:
            self._file(self.me).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1

    async def forget(self, db: Database, key: str) -> None:
        """Remove the row and the file of a writer that is gone."""
        await super().forget(db, key)
        self._file(key).unlink(missing_ok=True)

    async def _is_gone(self, db: Database, key: str, seen: float) -> bool:  # noqa: ARG002
        if fcntl is None:
            return time.time() - seen > SILENT
        try:
            lock = os.open(self._file(key), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(lock)
        return True

    def _file(self, key: str) -> Path:
        return self._directory / key


class SqliteStore(Store):
    """A history in a file. It belongs to one thread."""

    def __init__(self, file: Path) -> None:
        super().__init__(f"sqlite:///{file}", FileWriters(file))
        self.file: Path = file
        self._database: SqliteDatabase | None = None
        self._file_id: FileId | None = None
        self._damaged: FileId | None = None

    # Opening and closing

    async def open(self, *, write: bool = True) -> list[str]:
        """Open the file, and make or migrate it. Return what users should know."""
        news: list[str] = []
        db = open_to_write(self.file, self._damaged, news) if write else open_to_read(self.file)
        self._database = SqliteDatabase(db, self.codec)
        try:
            self._file_id = id_of(self.file)
            await self._run(lambda db: self._load_dictionaries(db, write=False), certain=True)
            if write:
                await self._transact(self._enter)
                news += await self._recovery_news()
        except BaseException:
            await self.close()
            raise
        return news

    async def _enter(self, db: Database) -> None:
        await self.writers.enter(db)
        await self._load_dictionaries(db, write=True)

    async def close(self) -> None:
        """Close the file."""
        database, self._database = self._database, None
        if database is not None:
            await self.writers.leave(database)
            with suppress(sqlite3.Error):
                database.db.close()

    @property
    def db(self) -> sqlite3.Connection:
        """The connection."""
        return self._opened.db

    @property
    def _opened(self) -> SqliteDatabase:
        if self._database is None:
            raise StoreUnavailable("The history is not open.")
        return self._database

    # Running

    async def _run(self, work: Work[_T], *, certain: bool = False) -> _T:
        with self._noting(certain=certain), guarded(self.file):
            return await work(self._opened)

    async def _transact(self, work: Work[_T], *, certain: bool = False) -> _T:
        with self._noting(certain=certain), guarded(self.file):
            return await transact(self.db, lambda: work(self._opened))

    async def _step(self, work: Callable[[], Awaitable[Any]]) -> Any:
        return await transact(self.db, work)

    @contextmanager
    def _noting(self, *, certain: bool) -> Generator[None]:
        """Note if the file is damaged: it is set aside when it is next opened to write.

        That is `certain` where nobody has asked for anything that could be at fault instead.
        """
        try:
            yield
        except StoreDamaged as exc:
            if certain or is_certain(exc):
                self._damaged = self._file_id
            raise

    # Writing

    async def write(self, batch: RowBatch, writer: str | None = None) -> None:
        """Write all of a batch, or nothing."""
        if id_of(self.file) != self._file_id:  # what is written to it now would be lost
            raise StoreDamaged(f"{self.file} was removed or replaced.")
        try:
            with self._noting(certain=True), guarded(self.file, writing=True):
                await self._step(lambda: self._write(batch, writer or self.writers.me))
        except HistoryError as exc:
            if type(exc) is HistoryError:  # a row is refused: also by an index that is damaged
                await self._run(self._check)
            raise
        self._note_blobs(batch)

    async def _write(self, batch: RowBatch, writer: str) -> None:
        db = self._opened
        await db.fetch("SAVEPOINT batch")
        try:
            await write_batch(db, batch, writer, self._with_blobs)
        except sqlite3.IntegrityError:  # an id that another call has
            await db.fetch("ROLLBACK TO batch")
            await rename_calls(db, batch.calls)
            await write_batch(db, batch, writer, self._with_blobs)
        await self.writers.seen(db, time.time())

    async def _check(self, db: Database) -> None:
        found = await db.fetch_value("PRAGMA integrity_check(1)")
        if found != "ok":
            raise StoreDamaged(f"{self.file} is damaged ({' '.join(str(found).split())}).")

    async def recover(self) -> int:
        """Close the calls of processes that are gone as abandoned. Return how many there were."""
        return await self._transact(self._recover, certain=True)

    # Upkeep

    async def index(self, limit: int = 200, *, wait: bool = False) -> int:  # noqa: ARG002
        """Index at most `limit` calls for the search. Return how many were handled."""
        return await self._run(lambda _: self._opened.index(limit, self._step), certain=True)

    async def prune(self, keep: Retention, *, now: float | None = None, most: int = 500) -> Pruned:
        """Remove some of what exceeds the limits, and release the space."""
        pruned = await super().prune(keep, now=now, most=most)
        if not (pruned.calls or pruned.messages) and await self._run(
            lambda _: self._opened.is_loose()
        ):
            await self._run(lambda _: self._opened.compact(self._step))
            await self._give_back()
            pruned = await super().prune(keep, now=now, most=most)
        if pruned.calls or pruned.messages:
            await self._give_back()
        return pruned

    async def forget(self, session_id: str) -> Pruned:
        """Remove a session, with its calls and messages."""
        pruned = await super().forget(session_id)
        await self._give_back()
        return pruned

    async def _give_back(self) -> None:
        with self._noting(certain=False), guarded(self.file):
            self._opened.give_back()

    async def vacuum(self) -> Vacuumed:
        """Make the file as small as it can be."""
        before = self._size()
        await self._run(lambda _: self._opened.vacuum())
        return Vacuumed(before, self._size())

    def _size(self) -> int:
        files = (self.file, self.file.with_name(self.file.name + "-wal"))
        return sum(one.stat().st_size for one in files if one.exists())


def _forked() -> None:
    for writers in list(_all):
        writers.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
