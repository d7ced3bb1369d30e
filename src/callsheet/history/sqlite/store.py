"""The store in a file.

Several processes share a file by WAL: readers never wait, writers wait for each other for a moment. A commit
is on the disk when it returns.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from callsheet.history.abandoned import abandoned, news_of_closed
from callsheet.history.errors import HistoryError, StoreDamaged, StoreUnavailable
from callsheet.history.packing import Packer, shipped_dictionary
from callsheet.history.rows import (
    Batch,
    Fill,
    Head,
    Pruned,
    Query,
    Retention,
    Stats,
    StoredCall,
    StoredMessage,
    StoredSession,
    Vacuumed,
)

from . import indexing, reading, tidying
from .file import FileId, guarded, id_of, is_certain, open_to_read, open_to_write, transact
from .writers import Writers
from .writing import Writing, keep_blobs, rename_calls, use

_T = TypeVar("_T")


class SqliteStore:
    """A history in a file. It belongs to one thread."""

    def __init__(self, file: Path) -> None:
        self.file: Path = file
        self.url: str = f"sqlite:///{file}"
        self.packer: Packer = Packer()
        self._db: sqlite3.Connection | None = None
        self._file_id: FileId | None = None
        self._damaged: FileId | None = None
        self._writing: Writing = Writing()
        self._writers: Writers = Writers(file)

    # Opening and closing

    async def open(self, *, write: bool = True) -> list[str]:
        """Open the file, and make or migrate it. Gives what people should know."""
        news: list[str] = []
        self._db = (
            open_to_write(self.file, self._damaged, news) if write else open_to_read(self.file)
        )
        try:
            self._file_id = id_of(self.file)
            self._load_dictionaries(self._db)
            if write:
                self._enter(self._db)
                closed = await self.recover()
                if closed:
                    news.append(news_of_closed(closed))
        except BaseException:
            await self.close()
            raise
        return news

    def _enter(self, db: sqlite3.Connection) -> None:
        def enter() -> None:
            self._writers.enter(db)
            # Also those of an earlier file: what waits to be written may have been made with them.
            for data in self.packer.known:
                self._keep_dictionary(data)

        self.transact(enter)

    def _keep_dictionary(self, data: bytes) -> None:
        source = "shipped" if data == shipped_dictionary() else "trained"
        self.db.execute(
            "INSERT OR IGNORE INTO dictionaries VALUES (?, ?, ?, ?)",
            (self.packer.know(data), data, time.time(), source),
        )

    def _load_dictionaries(self, db: sqlite3.Connection) -> None:
        """Know every dictionary of the store, and use the one that was learned last."""

        def load() -> None:
            for data, source in db.execute("SELECT data, source FROM dictionaries ORDER BY at"):
                if source == "trained":
                    self.packer.use(data)
                else:
                    self.packer.know(data)

        self._guarded(load, certain=True)

    async def close(self) -> None:
        """Close the file."""
        db, self._db = self._db, None
        if db is not None:
            self._writers.leave(db)
            with suppress(sqlite3.Error):
                db.close()

    @property
    def db(self) -> sqlite3.Connection:
        """The connection."""
        if self._db is None:
            raise StoreUnavailable("The history is not open.")
        return self._db

    # Writing

    async def write(self, batch: Batch, writer: str | None = None) -> None:
        """Write all of a batch, or nothing."""
        if id_of(self.file) != self._file_id:  # what is written to it now would be lost
            raise StoreDamaged(f"{self.file} was removed or replaced.")
        work = lambda: transact(self.db, lambda: self._write(batch, writer or self._writers.me))  # noqa: E731
        try:
            self._noting(lambda: guarded(self.file, work, given=True), certain=True)
        except HistoryError as exc:
            if type(exc) is HistoryError:  # a row is refused: also by an index that is damaged
                self._guarded(self._check)
            raise
        self._writing.written(batch)

    def _check(self) -> None:
        (found,) = self.db.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise StoreDamaged(f"{self.file} is damaged ({' '.join(str(found).split())}).")

    def _write(self, batch: Batch, writer: str) -> None:
        self.db.execute("SAVEPOINT batch")
        try:
            self._writing.write(self.db, batch, writer)
        except sqlite3.IntegrityError:  # an id that another call has
            self.db.execute("ROLLBACK TO batch")
            rename_calls(self.db, batch.calls)
            self._writing.write(self.db, batch, writer)
        self._writers.seen(self.db, time.time())

    async def recover(self) -> int:
        """Close the calls of processes that are gone."""
        return self._guarded(lambda: transact(self.db, self._recover), certain=True)

    def _recover(self) -> int:
        db, count = self.db, 0
        for key, seen in self._writers.gone(db):
            for call in reading.calls_of_writer(db, self, key):
                count += self._abandon(call, seen)
            self._writers.forget(db, key)
        return count

    def _abandon(self, call: StoredCall, seen: float) -> int:
        head, db = call.head, self.db
        session = reading.session(db, head.session_id)
        record = abandoned(
            call.record, seen or head.updated_at, session and session.info.get("locale")
        )
        report, packed = record.report, self.packer.pack(record)
        keep_blobs(db, packed.blobs)
        row = head.session_id, head.call_id
        (key,) = db.execute(
            "SELECT key FROM calls WHERE session_id = ? AND call_id = ?", row
        ).fetchone()
        use(db, [(head.session_id, key, [blob.hash for blob in packed.blobs])])
        found = db.execute(
            "UPDATE calls SET status = ?, reason = ?, duration_ms = ?, writer = NULL, size = ?, payload = ? "
            "WHERE session_id = ? AND call_id = ? AND writer IS NOT NULL",
            (
                report.status.value, report.notes.get("reason"), report.notes.get("durationMs"),
                packed.size, packed.payload, *row,
            ),
        )  # fmt: skip
        return found.rowcount

    def transact(self, work: Callable[[], _T]) -> _T:
        """Do something in one transaction."""
        return self._guarded(lambda: transact(self.db, work))

    def _guarded(self, work: Callable[[], _T], *, certain: bool = False) -> _T:
        return self._noting(lambda: guarded(self.file, work), certain=certain)

    def _noting(self, work: Callable[[], _T], *, certain: bool) -> _T:
        """Do something, and note if the file is damaged: it is set aside when it is next opened to write.

        That is `certain` where nobody has asked for anything that could be at fault instead.
        """
        try:
            return work()
        except StoreDamaged as exc:
            if certain or is_certain(exc):
                self._damaged = self._file_id
            raise

    # Reading

    async def heads(self, query: Query) -> list[Head]:
        """Return the calls that are asked for, as a list shows them."""
        await self._index_all(query)
        return self._guarded(lambda: reading.heads(self.db, query))

    async def calls(self, query: Query) -> list[StoredCall]:
        """Return the calls that are asked for, whole."""
        await self._index_all(query)
        return self._guarded(lambda: reading.calls(self.db, self, query))

    async def session(self, session_id: str) -> StoredSession | None:
        """Return a session."""
        return self._guarded(lambda: reading.session(self.db, session_id))

    async def sessions(
        self,
        *,
        cwd: str | None = None,
        before: tuple[float, str] | None = None,
        limit: int = 50,
    ) -> list[StoredSession]:
        """Return sessions, the one that was used last first."""
        return self._guarded(lambda: reading.sessions(self.db, cwd, before, limit))

    async def timeline(
        self, session_id: str, *, after: int = -1, limit: int = 100
    ) -> Sequence[StoredCall | StoredMessage]:
        """Return what a session has said and done after a position."""
        return self._guarded(lambda: reading.timeline(self.db, self, session_id, after, limit))

    async def last_position(self, session_id: str) -> int:
        """Return the position of the last thing in a session's timeline, or -1."""
        return self._guarded(lambda: reading.last_position(self.db, session_id))

    async def stats(self, query: Query) -> Stats:
        """Count calls, failures, durations and bytes."""
        await self._index_all(query)
        return self._guarded(lambda: reading.stats(self.db, query))

    async def count(self, query: Query) -> int:
        """Return how many calls are asked for."""
        await self._index_all(query)
        return self._guarded(lambda: reading.count(self.db, query))

    async def fill(self, limit: int) -> Fill:
        """Return how full the file is, and what goes if it may have so many bytes."""
        return self._guarded(lambda: tidying.fill(self.db, limit))

    def expand(self, payload: bytes) -> Any:
        """Return what a payload says."""
        if not self.packer.knows(payload):
            self._load_dictionaries(self.db)  # another process has learned one
        return self.packer.expand(payload, self._blob)

    def unpack(self, payload: bytes) -> Any:
        """Return the record that a payload stands for."""
        if not self.packer.knows(payload):
            self._load_dictionaries(self.db)
        return self.packer.unpack(payload, self._blob)

    def plain(self, payload: bytes) -> bytes:
        """Return a payload's JSON."""
        if not self.packer.knows(payload):
            self._load_dictionaries(self.db)
        return self.packer.plain(payload)

    def _blob(self, key: bytes) -> bytes | None:
        found = self.db.execute("SELECT data FROM blobs WHERE hash = ?", (key,)).fetchone()
        return found and found[0]

    # Tidying up

    async def _index_all(self, query: Query) -> None:
        """Before a search, index what is not indexed yet, as far as this process may."""
        if query.search is not None:
            with suppress(StoreUnavailable):
                while await self.index():
                    pass

    async def index(self, limit: int = 200) -> int:
        """Index so many calls for the search, at most."""
        return self._guarded(lambda: indexing.index(self.db, self, limit), certain=True)

    async def prune(self, keep: Retention, *, now: float | None = None, most: int = 500) -> Pruned:
        """Remove some of what is not to be kept."""
        pruned = self.transact(lambda: tidying.prune(self.db, self, keep, now, most))
        if not (pruned.calls or pruned.messages) and indexing.is_loose(self.db):
            self._guarded(lambda: indexing.compact(self.db, self))
            self._guarded(lambda: tidying.give_back(self.db))
            pruned = self.transact(lambda: tidying.prune(self.db, self, keep, now, most))
        if pruned.calls or pruned.messages:
            self._guarded(lambda: tidying.give_back(self.db))
        return pruned

    async def forget(self, session_id: str) -> Pruned:
        """Remove a session, with all that it has said and done."""
        pruned = self.transact(lambda: tidying.forget(self.db, self, session_id))
        self._guarded(lambda: tidying.give_back(self.db))
        return pruned

    async def vacuum(self) -> Vacuumed:
        """Make the file as small as it can be, and learn a better dictionary if there is one."""
        before = tidying.size_of(self.file)
        learned = self._guarded(lambda: tidying.learn(self.db, self))
        if learned is not None:  # it is kept before anything is made with it
            self.transact(lambda: self._keep_dictionary(learned))
            self.packer.use(learned)
        self._guarded(lambda: tidying.vacuum(self.db))
        return Vacuumed(
            before, tidying.size_of(self.file), None if learned is None else self.packer.dictionary
        )
