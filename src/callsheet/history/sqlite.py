"""SQLite: a store in a file.

Several processes share a file by WAL: readers never wait, writers wait for each other for a moment. A commit
is on the disk when it returns.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from callsheet.history import sqlite_file
from callsheet.history.database import Database, IndexedCall, Values
from callsheet.history.migration import OLD, copy_rows, copy_to, remove_copy
from callsheet.history.sqlite_file import OURS, TABLES, TRIGGERS, VERSION, FileId, id_of
from callsheet.history.store_errors import (
    BadUrl,
    HistoryError,
    NotKept,
    StoreDamaged,
    StoreUnavailable,
)

MERGED_PAGES = 500
"""Pages of the index that are merged in one step."""

FREED_PAGES = 25_000
"""Pages that are released to the file system at once: 100 MB."""

WAL_BYTES = 4 << 20
"""Bytes that the log of what was written may take beside the file, when it has been moved there."""


class SqliteDatabase(Database):
    """A connection to a file. SQLite has one writer at a time, so no rows have to be locked.

    See `Database` for its methods. A writer holds a lock on a file of its own, in a directory beside the
    database.
    """

    begin: str = "BEGIN IMMEDIATE"
    index_table: str = "calls_text_docsize"
    conflict = sqlite3.IntegrityError

    def __init__(self, file: Path) -> None:
        super().__init__(f"sqlite:///{file}")
        self.file: Path = file
        self._raw: sqlite3.Connection | None = None
        self._file_id: FileId | None = None
        self._damaged: FileId | None = None
        self._lock: int = -1
        self._locked: Path | None = None
        # The words of how many calls were removed since the index was last compacted.
        self._removed: int = 0

    # The connection

    @property
    def is_open(self) -> bool:
        return self._raw is not None

    @property
    def raw(self) -> sqlite3.Connection:
        """The connection of the driver."""
        if self._raw is None:
            raise StoreUnavailable("The history is not open.")
        return self._raw

    def connect(self, *, write: bool) -> list[str]:
        if self.file.is_dir():
            raise BadUrl(
                f"{self.file} is a directory; name a file in it: {self.file}/history.sqlite."
            )
        if not write:
            self._open_to_read()
            return []
        before = id_of(self.file)
        try:
            if before is not None and before == self._damaged:
                raise StoreDamaged(f"{self.file} is damaged.")  # noqa: TRY301
            self._open("rwc")
        except Exception as exc:
            error = self.error(exc)
            # Another process may have set it aside just now.
            if not isinstance(error, StoreDamaged) or before is None or before != id_of(self.file):
                raise
            if before != self._damaged and not sqlite_file.may_be_ours(self.file):
                raise BadUrl(
                    f"{self.file} is no history, but something else; it is left alone. Name another file."
                ) from None
            aside = sqlite_file.set_aside(self.file)
            self._open("rwc")
            return [f"{error} It was set aside as {aside}, and a new one was begun."]
        return []

    def _open_to_read(self) -> None:
        if not self.file.exists():
            raise NotKept(f"There is no history at {self.file} yet.")
        try:
            self._open("rw")
        except sqlite3.OperationalError as exc:
            if sqlite_file.code_of(exc) not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
                raise
            self._open("ro&immutable=1")  # not ours to write: look at it as it is

    def _open(self, mode: str) -> None:
        self.close()
        if mode == "rwc":
            sqlite_file.make_file(self.file)
        self._raw = db = sqlite_file.connection(self.file, f"?mode={mode}")
        try:
            if mode.startswith("rw"):
                self._prepare_patiently(db)
            elif sqlite_file.version_of(db, self.file) < VERSION:
                raise StoreUnavailable(  # noqa: TRY301
                    f"{self.file} is of an earlier version, and must be written once to be migrated."
                )
            db.execute("PRAGMA synchronous = FULL")
            db.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
            db.execute("PRAGMA cache_size = -16000")
            db.execute("SELECT 1 FROM calls LIMIT 1").fetchone()
        except BaseException:
            self.close()
            raise
        self._file_id = id_of(self.file)

    def _prepare_patiently(self, db: sqlite3.Connection) -> None:
        """Make the tables. If several processes begin a file at once, SQLite does not always wait."""
        until = time.monotonic() + sqlite_file.BUSY
        while True:
            try:
                self._prepare(db)
            except sqlite3.OperationalError as exc:
                is_busy = sqlite_file.code_of(exc) == sqlite3.SQLITE_BUSY
                if not is_busy or time.monotonic() > until:
                    raise
                time.sleep(0.01)
            else:
                return

    def _prepare(self, db: sqlite3.Connection) -> None:
        """Make the tables, or migrate those of an earlier version."""
        # As of one moment: a file that is being begun would else look like somebody else's.
        db.execute("BEGIN")
        try:
            found = sqlite_file.version_of(db, self.file)
        finally:
            db.rollback()
        if found == VERSION:
            return
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # has an effect only in an empty file
        db.execute("PRAGMA journal_mode = WAL")
        copy: Path | None = None
        try:
            with self.transaction():
                # Another process may have been quicker.
                found = sqlite_file.version_of(db, self.file)
                if 0 < found < VERSION:
                    copy = copy_to(self.file)
                    self.fetch(f"ATTACH ? AS {OLD}", str(copy))
                    sqlite_file.drop_tables(db)
                if found < VERSION:
                    sqlite_file.execute_script(db, TABLES)
                    if copy is not None:
                        copy_rows(self, version=found)
                    sqlite_file.execute_script(db, TRIGGERS)
                db.execute(f"PRAGMA application_id = {OURS}")
                db.execute(f"PRAGMA user_version = {VERSION}")
        finally:  # committed, or as it was before
            if copy is not None:
                with suppress(sqlite3.Error):
                    self.fetch(f"DETACH {OLD}")
                remove_copy(copy)

    def close(self) -> None:
        if self._lock >= 0 and self._locked is not None:
            with suppress(OSError):
                self._locked.unlink(missing_ok=True)
        self.release_lock()
        db, self._raw = self._raw, None
        if db is not None:
            with suppress(sqlite3.Error):
                db.close()

    def error(self, exc: Exception) -> Exception:
        # A damaged file is set aside when it is next opened to write.
        error = sqlite_file.error_of(exc, self.file)
        if type(error) is HistoryError:  # a row is refused: also by an index that is damaged
            with suppress(sqlite3.Error, StoreUnavailable):
                found = self.fetch_value("PRAGMA integrity_check(1)")
                if found != "ok":
                    exc = error = StoreDamaged(f"{self.file} is damaged ({found}).")
        if isinstance(error, StoreDamaged) and sqlite_file.is_certain(exc):
            self._damaged = self._file_id
        return error

    # Statements

    def fetch(self, sql: str, *values: Any) -> Sequence[Values]:
        return self.raw.execute(sql, values).fetchall()

    def execute_many(self, sql: str, rows: Sequence[Values]) -> None:
        if rows:
            self.raw.executemany(sql, rows)

    # Writers

    def hold(self, writer: str) -> None:
        if id_of(self.file) != self._file_id:  # what is written to it now would be lost
            raise StoreDamaged(f"{self.file} was removed or replaced.")
        file = self._lock_file(writer)
        if self._lock >= 0 and file.exists():
            return
        self.release_lock()  # somebody has tidied up
        file.parent.mkdir(mode=0o700, exist_ok=True)
        for other in file.parent.iterdir():  # what processes have left that were killed
            self.is_gone(other.name)
        self._lock, self._locked = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), file
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def release_lock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def is_gone(self, writer: str) -> bool:
        file = self._lock_file(writer)
        try:
            lock = os.open(file, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.unlink(missing_ok=True)
        except OSError:
            return False
        finally:
            os.close(lock)
        return True

    def _lock_file(self, writer: str) -> Path:
        return self.file.with_name(self.file.name + ".writers") / writer

    # The index of words

    def match(self, phrases: list[list[str]]) -> tuple[str, list[tuple[str, Values]]]:
        terms = [" + ".join(f'"{word}"' for word in phrase) for phrase in phrases]
        question = " AND ".join(terms) + " *"
        return " JOIN calls_text ON calls_text.rowid = c.seq", [("calls_text MATCH ?", [question])]

    def add_words(self, calls: Sequence[IndexedCall]) -> None:
        self.execute_many(
            "INSERT INTO calls_text (rowid, title, command, paths, output) VALUES (?, ?, ?, ?, ?)",
            [(seq, *fields) for seq, fields in calls],
        )

    def remove_words(self, calls: Sequence[IndexedCall]) -> None:
        # FTS5 needs just the words that it was given.
        sql = "SELECT id FROM calls_text_docsize WHERE id IN ({})"
        known = {seq for (seq,) in self.fetch_in(sql, [seq for seq, _ in calls])}
        self.execute_many(
            "INSERT INTO calls_text (calls_text, rowid, title, command, paths, output) "
            "VALUES ('delete', ?, ?, ?, ?, ?)",
            [(seq, *fields) for seq, fields in calls if seq in known],
        )
        self._removed += len(known)

    # Space

    def disk_bytes(self) -> int:
        pages = self._pragma("page_count") * self._pragma("page_size")
        wal = self.file.with_name(self.file.name + "-wal")
        return pages + (wal.stat().st_size if wal.exists() else 0)

    def used_bytes(self) -> int:
        pages = self._pragma("page_count") - self._pragma("freelist_count")
        return pages * self._pragma("page_size")

    def empty_bytes(self) -> int:
        # There is a page per table and index, and two in which SQLite notes where all is.
        trees = self.fetch_value("SELECT count(*) FROM sqlite_master WHERE rootpage > 0")
        return (trees + 2) * self._pragma("page_size")

    def _pragma(self, name: str) -> int:
        return self.fetch_value(f"PRAGMA {name}")

    def release(self) -> None:
        # If much of the index is about removed calls, their words and tombstones, it is made small first.
        known = self.fetch_value("SELECT count(*) FROM calls_text_docsize")
        if self._removed and self._removed * 10 >= known:
            self._compact()
        if self._pragma("freelist_count"):
            # `execute` would end after the first page.
            self.raw.executescript(f"PRAGMA incremental_vacuum({FREED_PAGES})")
            self.fetch("PRAGMA wal_checkpoint")

    def _compact(self) -> None:
        """Make the index small again, in steps between which others can write."""
        size = -MERGED_PAGES  # in FTS5, a negative first step starts a merge of the whole index
        while True:
            before = self.raw.total_changes
            self.fetch("INSERT INTO calls_text (calls_text, rank) VALUES ('merge', ?)", size)
            if self.raw.total_changes - before < 2:  # as SQLite's documents have it
                break
            size = MERGED_PAGES
        self._removed = 0

    def vacuum(self) -> None:
        self.fetch("INSERT INTO calls_text (calls_text) VALUES ('optimize')")
        self.fetch("VACUUM")
        self.fetch("PRAGMA wal_checkpoint(TRUNCATE)")
