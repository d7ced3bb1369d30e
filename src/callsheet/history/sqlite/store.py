"""The store in a file: opening it, writing to it, closing it.

Several processes share a file by WAL: readers never wait, writers wait for each other for a moment. A commit
is on the disk when it returns.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from callsheet.history.abandoned import abandoned
from callsheet.history.errors import NotKept, StoreDamaged, StoreUnavailable
from callsheet.history.packing import Packer, shipped_dictionary
from callsheet.history.rows import (
    Batch,
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

from . import reading, schema, tidying
from .writers import Writers

_T = TypeVar("_T")

BUSY = 2.0
"""Seconds that a transaction waits for another process."""

_CALLS = """
INSERT INTO calls (session_id, call_id, position, name, title, kind, status, reason, at, updated_at,
                   duration_ms, writer, size, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (call_id, session_id) DO UPDATE SET
    name = excluded.name, title = excluded.title, kind = excluded.kind, status = excluded.status,
    reason = excluded.reason, updated_at = excluded.updated_at, duration_ms = excluded.duration_ms,
    writer = excluded.writer, size = excluded.size, payload = excluded.payload
WHERE calls.writer IS NOT NULL OR (calls.reason = 'abandoned' AND excluded.writer IS NULL)
"""

_SESSIONS = """
INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (session_id) DO UPDATE SET
    cwd = excluded.cwd, info = excluded.info, updated_at = max(updated_at, excluded.updated_at),
    title = CASE WHEN title = '' THEN excluded.title ELSE title END
"""

_MESSAGES = """
INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (session_id, message_id, part) DO UPDATE SET size = excluded.size, payload = excluded.payload
"""


class SqliteStore:
    """A history in a file. It belongs to one thread."""

    def __init__(self, file: Path) -> None:
        self.file: Path = file
        self.url: str = f"sqlite:///{file}"
        self.packer: Packer = Packer()
        self._db: sqlite3.Connection | None = None
        self._inode: int = 0
        self._is_damaged: bool = False
        self._writers: Writers = Writers(file)

    # Opening and closing

    async def open(self, *, write: bool = True) -> list[str]:
        """Open the file, and make or migrate it. Gives what people should know."""
        news: list[str] = []
        if not write:
            self._db = self._open_to_read()
        else:
            try:
                if self._is_damaged:
                    raise StoreDamaged(f"{self.file} is damaged.")  # noqa: TRY301
                self._db = self._open_to_write()
            except StoreDamaged as exc:
                aside = self._set_aside()
                news.append(f"{exc} It was set aside as {aside}, and a new one was begun.")
                self._is_damaged = False
                self._db = self._open_to_write()
            self._inode = self.file.stat().st_ino
        try:
            self._load_dictionaries(self._db)
            if write:
                self._enter(self._db)
                closed = await self.recover()
                if closed:
                    news.append(
                        f"{closed} calls that a crash had left open were closed as abandoned."
                    )
        except BaseException:
            await self.close()
            raise
        return news

    def _open_to_write(self) -> sqlite3.Connection:
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self.file.exists():
                self.file.touch(mode=0o600)
        except OSError as exc:
            raise StoreUnavailable(f"{self.file} can't be made: {exc.strerror or exc}.") from None
        return self._guarded(lambda: self._connect(f"file:{_quoted(self.file)}", migrate=True))

    def _open_to_read(self) -> sqlite3.Connection:
        if not self.file.exists():
            raise NotKept(f"There is no history at {self.file} yet.")

        def opened() -> sqlite3.Connection:
            try:
                return self._connect(f"file:{_quoted(self.file)}?mode=rw", migrate=True)
            except sqlite3.OperationalError:  # not ours to write: look at it as it is
                return self._connect(
                    f"file:{_quoted(self.file)}?mode=ro&immutable=1", migrate=False
                )

        return self._guarded(opened)

    def _connect(self, uri: str, *, migrate: bool) -> sqlite3.Connection:
        db = sqlite3.connect(
            uri, uri=True, isolation_level=None, timeout=BUSY, check_same_thread=False
        )
        try:
            if migrate:
                schema.prepare(db)
                db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA cache_size = -16000")
            db.execute("SELECT 1 FROM calls LIMIT 1").fetchone()
        except BaseException:
            db.close()
            raise
        return db

    def _set_aside(self) -> Path:
        """Move a damaged file away, with what belongs to it. Nothing of it is lost."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        aside = self.file.with_name(f"{self.file.name}.damaged-{stamp}")
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                self.file.with_name(self.file.name + suffix).rename(f"{aside}{suffix}")
        return aside

    def _enter(self, db: sqlite3.Connection) -> None:
        def enter() -> None:
            self._writers.enter(db)
            data = shipped_dictionary()
            row = (self.packer.know(data), data, time.time(), "shipped")
            db.execute("INSERT OR IGNORE INTO dictionaries VALUES (?, ?, ?, ?)", row)

        self._transact(enter)

    def _load_dictionaries(self, db: sqlite3.Connection) -> None:
        """Know every dictionary of the store, and use the one that was learned last."""
        rows = self._guarded(
            lambda: db.execute("SELECT data, source FROM dictionaries ORDER BY at").fetchall()
        )
        for data, source in rows:
            if source == "trained":
                self.packer.use(data)
            else:
                self.packer.know(data)

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

    async def write(self, batch: Batch) -> None:
        """Write all of a batch, or nothing."""
        if not self._is_there():  # somebody has removed it: what is written to it now would be lost
            await self.close()
            await self.open()
        try:
            self._transact(lambda: self._write(batch))
        except StoreDamaged:
            self._is_damaged = True
            raise

    def _is_there(self) -> bool:
        try:
            return self.file.stat().st_ino == self._inode
        except OSError:
            return False

    def _write(self, batch: Batch) -> None:
        db, me = self.db, self._writers.me
        if batch.sessions:
            db.executemany(
                _SESSIONS,
                [
                    (row.session_id, row.cwd, row.title, row.info, row.created_at, row.updated_at)
                    for row in batch.sessions
                ],
            )
        if batch.blobs:
            db.executemany(
                "INSERT OR IGNORE INTO blobs VALUES (?, ?, ?)",
                [(blob.hash, blob.size, blob.data) for blob in batch.blobs],
            )
        if batch.calls:
            db.executemany(
                _CALLS,
                [
                    (
                        row.session_id, row.call_id, row.position, row.name, row.title, row.kind,
                        row.status, row.reason, row.at, row.updated_at, row.duration_ms,
                        me if row.is_open else None, row.size, row.payload,
                    )
                    for row in batch.calls
                ],
            )  # fmt: skip
            self._use(
                [(row.session_id, row.call_id, row.blobs) for row in batch.calls if row.blobs]
            )
        if batch.messages:
            db.executemany(
                _MESSAGES,
                [
                    (
                        row.session_id, row.message_id, row.part, row.position, row.kind, row.at,
                        row.size, row.payload,
                    )
                    for row in batch.messages
                ],
            )  # fmt: skip
            self._use(
                [(row.session_id, row.owner, row.blobs) for row in batch.messages if row.blobs]
            )
        self._writers.seen(db, time.time())

    def _use(self, owners: Sequence[tuple[str, str, tuple[bytes, ...]]]) -> None:
        """Note which blobs a row refers to."""
        uses = [(session, owner, blob) for session, owner, blobs in owners for blob in blobs]
        if uses:
            self.db.executemany("INSERT OR IGNORE INTO blob_uses VALUES (?, ?, ?)", uses)

    async def recover(self) -> int:
        """Close the calls of processes that are gone."""
        return self._transact(self._recover)

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
        db.executemany(
            "INSERT OR IGNORE INTO blobs VALUES (?, ?, ?)",
            [(blob.hash, blob.size, blob.data) for blob in packed.blobs],
        )
        self._use([(head.session_id, head.call_id, tuple(b.hash for b in packed.blobs))])
        found = db.execute(
            "UPDATE calls SET status = ?, reason = ?, duration_ms = ?, writer = NULL, size = ?, payload = ? "
            "WHERE session_id = ? AND call_id = ? AND writer IS NOT NULL",
            (
                report.status.value, report.notes.get("reason"), report.notes.get("durationMs"),
                packed.size, packed.payload, head.session_id, head.call_id,
            ),
        )  # fmt: skip
        return found.rowcount

    def _transact(self, work: Any) -> Any:
        """Do something in one transaction."""
        db = self.db

        def run() -> Any:
            db.execute("BEGIN IMMEDIATE")
            try:
                done = work()
                db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise
            return done

        return self._guarded(run)

    def _guarded(self, work: Any) -> Any:
        """Do something, and say in our own words what goes wrong."""
        try:
            return work()
        except sqlite3.Error as exc:
            raise _told(exc, self.file) from exc

    # Reading

    async def heads(self, query: Query) -> list[Head]:
        """Give the calls that are asked for, as a list shows them."""
        await self._index_all(query)
        return self._guarded(lambda: reading.heads(self.db, query))

    async def calls(self, query: Query) -> list[StoredCall]:
        """Give the calls that are asked for, whole."""
        await self._index_all(query)
        return self._guarded(lambda: reading.calls(self.db, self, query))

    async def session(self, session_id: str) -> StoredSession | None:
        """Give a session."""
        return self._guarded(lambda: reading.session(self.db, session_id))

    async def sessions(
        self,
        *,
        cwd: str | None = None,
        before: tuple[float, str] | None = None,
        limit: int = 50,
    ) -> list[StoredSession]:
        """Give sessions, the one that was used last first."""
        return self._guarded(lambda: reading.sessions(self.db, cwd, before, limit))

    async def timeline(
        self, session_id: str, *, after: int = -1, limit: int = 100
    ) -> Sequence[StoredCall | StoredMessage]:
        """Give what a session has said and done after a position."""
        return self._guarded(lambda: reading.timeline(self.db, self, session_id, after, limit))

    async def last_position(self, session_id: str) -> int:
        """Give the position of the last thing in a session's timeline, or -1."""
        return self._guarded(lambda: reading.last_position(self.db, session_id))

    async def stats(self, query: Query) -> Stats:
        """Count calls, failures, durations and bytes."""
        return self._guarded(lambda: reading.stats(self.db, query))

    def expand(self, payload: bytes) -> Any:
        """Give what a payload says."""
        if not self.packer.knows(payload):
            self._load_dictionaries(self.db)  # another process has learned one
        return self.packer.expand(payload, self._blob)

    def unpack(self, payload: bytes) -> Any:
        """Give the record that a payload stands for."""
        if not self.packer.knows(payload):
            self._load_dictionaries(self.db)
        return self.packer.unpack(payload, self._blob)

    def _blob(self, key: bytes) -> bytes | None:
        found = self.db.execute("SELECT data FROM blobs WHERE hash = ?", (key,)).fetchone()
        return found and found[0]

    # Tidying up

    async def _index_all(self, query: Query) -> None:
        """Before a search, index what is not indexed yet, as far as this process may."""
        if query.search is not None:
            with suppress(StoreUnavailable):
                while await self.index(1000):
                    pass

    async def index(self, limit: int = 200) -> int:
        """Index so many calls for the search, at most."""
        return self._transact(lambda: tidying.index(self.db, self, limit))

    async def prune(self, keep: Retention, *, now: float, most: int = 500) -> Pruned:
        """Remove some of what is not to be kept."""
        pruned = self._transact(lambda: tidying.prune(self.db, self, keep, now, most))
        if pruned.calls or pruned.messages:
            self._guarded(lambda: tidying.give_back(self.db))
        return pruned

    async def forget(self, session_id: str) -> Pruned:
        """Remove a session, with all that it has said and done."""
        pruned = self._transact(lambda: tidying.forget(self.db, self, session_id))
        self._guarded(lambda: tidying.give_back(self.db))
        return pruned

    async def vacuum(self) -> Vacuumed:
        """Make the file as small as it can be, and learn a better dictionary if there is one."""
        before = tidying.size_of(self.file)
        learned = self._transact(lambda: tidying.learn(self.db, self, time.time()))
        self._guarded(lambda: tidying.vacuum(self.db))
        return Vacuumed(before, tidying.size_of(self.file), learned)


def _quoted(file: Path) -> str:
    """Give a path as SQLite's URIs have it."""
    text = str(file)
    for sign in "%?#":
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text


def _told(exc: sqlite3.Error, file: Path) -> StoreUnavailable | StoreDamaged:
    """Say what went wrong, and whether it may pass."""
    text = str(exc)
    if "malformed" in text or "not a database" in text or "no such table" in text:
        return StoreDamaged(f"{file} is damaged or no history ({text}).")
    if "locked" in text or "busy" in text:
        return StoreUnavailable(f"{file} is locked by another process ({text}).")
    if "full" in text:
        return StoreUnavailable(f"The disk of {file} is full ({text}).")
    if "readonly" in text or "unable to open" in text:
        return StoreUnavailable(f"{file} can't be written ({text}).")
    return StoreUnavailable(f"{file}: {text}.")
