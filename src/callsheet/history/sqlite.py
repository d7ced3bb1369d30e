"""SQLite: a store in a file.

Several processes share a file by WAL: readers never wait, writers wait for each other for a moment. A commit
is on the disk when it returns.

`user_version` is the version of the tables; a file of an earlier version is migrated when it is opened. A
file that can't be read, or that fails a check after an error, is renamed when it is next opened to write, and
a new one is begun: the work goes on, and nothing of the old one is lost.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from callsheet.history.database import Database, IndexedCall, Values
from callsheet.history.migration import add_origins, copy_rows
from callsheet.history.schema import (
    ADD_MARKS,
    SQLITE_ADD_ORIGINS,
    SQLITE_TABLES,
    SQLITE_TRIGGERS,
)
from callsheet.history.spool import lock_file
from callsheet.history.store_errors import (
    BadUrl,
    HistoryError,
    NotKept,
    StoreDamaged,
    StoreTooNew,
    StoreUnavailable,
)
from callsheet.history.views import SQLITE_VIEWS

BUSY = 2.0
"""Seconds that a transaction waits for another process."""

MERGED_PAGES = 500
"""Pages of the index that are merged in one step."""

FREED_PAGES = 25_000
"""Pages that are released to the file system at once: 100 MB."""

WAL_BYTES = 4 << 20
"""Bytes that the log of what was written may take beside the file, when it has been moved there."""

_MAGIC = b"SQLite format 3\0"
_SUFFIXES = (".sqlite", ".sqlite3", ".db", ".db3")
_MAY_PASS = frozenset((
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_ABORT,
))  # fmt: skip
"""What SQLite reports of a file that may be usable later."""

VERSION = 5
"""The version of the tables. 0.1.0 has written 1, and what came after it 2: see `migration`."""

FIRST_ALTERED = 3
"""The first version whose tables are altered. Those before are copied."""

_KNOWN = {"calls_text", "messages_by_place", "sessions_by_use", "unindexed"}
_NEVER = 1000
"""A version that no history will ever have."""

OURS = 0x63616C6C
"""The `application_id` of our files: "call"."""

_SCHEMA = """
SELECT m.type, m.name, p.name FROM sqlite_master m LEFT JOIN pragma_table_info(m.name) p
WHERE m.type IN ('table', 'trigger', 'view')
"""


class SqliteDatabase(Database):
    """A connection to a file. SQLite has one writer at a time, so no rows have to be locked.

    See `Database` for its methods. A writer holds a lock on a file of its own, in a directory beside the
    database.
    """

    begin: str = "BEGIN IMMEDIATE"
    index_table: str = "calls_text_docsize"
    day: str = "date({}, 'unixepoch')"
    old: str = "old_"

    def __init__(self, file: Path) -> None:
        super().__init__(f"sqlite:///{file}")
        self.file: Path = file
        self._raw: sqlite3.Connection | None = None
        self._file_id: tuple[int, int] | None = None
        self._opened_at: int = 0
        # Whether an error was about the file, as far as SQLite can say.
        self._is_suspect: bool = False
        self._lock: tuple[int, Path] | None = None
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
        before = _id_of(self.file)
        try:
            self._open("rwc")
        except Exception as exc:
            error = self.error(exc)
            # Another process may have set it aside just now.
            if not isinstance(error, StoreDamaged) or before is None or before != _id_of(self.file):
                raise
            if not self._may_be_ours():
                raise BadUrl(
                    f"{self.file} is no history, but something else; it is left alone. Name another file."
                ) from None
            aside = self._set_aside()
            self._open("rwc")
            return [f"{error} It was set aside as {aside}, and a new one was begun."]
        return []

    def _open_to_read(self) -> None:
        if not self.file.exists():
            raise NotKept(f"There is no history at {self.file} yet.")
        try:
            self._open("rw")
        except sqlite3.OperationalError as exc:
            if _code_of(exc) not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
                raise
            self._open("ro&immutable=1")  # not ours to write: look at it as it is

    def _open(self, mode: str) -> None:
        self.close()
        if mode == "rwc":
            self._make_file()
        self._raw = db = connection(self.file, mode)
        try:
            if mode.startswith("rw"):
                self._prepare_patiently()
            elif self._version() < VERSION:
                raise StoreUnavailable(  # noqa: TRY301
                    f"{self.file} is of an earlier version, and must be written once to be migrated."
                )
            db.execute("PRAGMA synchronous = FULL")
            db.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
            db.execute("PRAGMA cache_size = -16000")
            db.execute("SELECT 1 FROM calls LIMIT 1").fetchone()
            if self._is_suspect and mode == "rwc":
                self._check()
        except BaseException:
            self.close()
            raise
        self._file_id, self._opened_at = _id_of(self.file), time.monotonic_ns()
        self._is_suspect = False

    def _make_file(self) -> None:
        """Make an empty file, for its owner alone, unless there is one that can be written."""
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self.file.exists():
                self.file.touch(mode=0o600)
        except OSError as exc:
            raise StoreUnavailable(f"{self.file} can't be made: {exc.strerror or exc}.") from None
        # SQLite would only read it, for as long as the connection lives.
        if not os.access(self.file, os.W_OK):
            raise StoreUnavailable(f"{self.file} can't be written.")

    def _prepare_patiently(self) -> None:
        """Make the tables. If several processes begin a file at once, SQLite does not always wait."""
        until = time.monotonic() + BUSY
        while True:
            try:
                self._prepare()
            except sqlite3.OperationalError as exc:
                if _code_of(exc) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.01)
            else:
                return

    def _prepare(self) -> None:
        """Make the tables, or migrate those of an earlier version."""
        db = self.raw
        # As of one moment: a file that is being begun would else look like somebody else's.
        db.execute("BEGIN")
        try:
            found = self._version()
        finally:
            db.rollback()
        if found == VERSION:
            return
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # has an effect only in an empty file
        db.execute("PRAGMA journal_mode = WAL")
        with self.transaction():
            found = self._version()  # another process may have been quicker
            if found == VERSION:
                return
            if found >= FIRST_ALTERED:
                if found == FIRST_ALTERED:
                    execute_script(db, ADD_MARKS)
                execute_script(db, SQLITE_ADD_ORIGINS)
                add_origins(self)
            else:
                if found:
                    self._rename_tables()
                execute_script(db, SQLITE_TABLES)
                if found:
                    copy_rows(self, version=found)
                    self._drop_tables(f"{self.old}%")
                execute_script(db, SQLITE_TRIGGERS)
            execute_script(db, SQLITE_VIEWS)
            db.execute(f"PRAGMA application_id = {OURS}")
            db.execute(f"PRAGMA user_version = {VERSION}")

    def _version(self) -> int:
        """Return the version of the tables; 0 if the file is empty. What is somebody else's is left alone."""
        owner, found = self._pragma("application_id"), self._pragma("user_version")
        names = {name for (name,) in self.fetch("SELECT name FROM sqlite_master")}
        if names >= _KNOWN and (owner != OURS or not 0 < found < _NEVER):
            raise StoreDamaged(
                f"{self.file} is damaged: it has a history's tables, but not its marks."
            )
        if owner != OURS and (owner or found or names):
            raise BadUrl(
                f"{self.file} is the database of another program; name another file: --history sqlite:///PATH."
            )
        if found > VERSION:
            raise StoreTooNew(
                f"{self.file} is a history of version {found}, and this callsheet knows up to {VERSION}; "
                "use the newer callsheet, or another file: --history sqlite:///PATH."
            )
        return found

    def _rename_tables(self) -> None:
        """Make room for new tables: rename the old ones, without their indexes and triggers."""
        self._drop_tables("calls_text")
        found = "SELECT type, name, sql FROM sqlite_master ORDER BY type = 'table'"
        for kind, name, sql in self.fetch(found):
            if kind == "table" and not name.startswith("sqlite_"):
                self.fetch(f'ALTER TABLE "{name}" RENAME TO "{self.old}{name}"')
            elif kind != "table" and sql:
                self.fetch(f'DROP {kind} "{name}"')

    def _drop_tables(self, like: str) -> None:
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE ?"
        for (name,) in self.fetch(query, like):
            self.fetch(f'DROP TABLE "{name}"')

    def close(self) -> None:
        if self._lock is not None:
            with suppress(OSError):
                self._lock[1].unlink()
        self.release_lock()
        db, self._raw = self._raw, None
        if db is not None:
            with suppress(sqlite3.Error):
                db.close()

    # Damage

    def _check(self) -> None:
        """Raise an error if the file is damaged, and not just what was asked of it."""
        if (found := self.fetch_value("PRAGMA integrity_check(1)")) != "ok":
            raise StoreDamaged(f"{self.file} is damaged ({found}).")
        self.fetch("INSERT INTO calls_text (calls_text) VALUES ('integrity-check')")
        with closing(sqlite3.connect(":memory:")) as new:
            execute_script(new, SQLITE_TABLES + SQLITE_TRIGGERS + SQLITE_VIEWS)
            if missing := set(new.execute(_SCHEMA)) - set(self.fetch(_SCHEMA)):
                names = ", ".join(sorted(f"{one[1]} {one[2] or ''}".strip() for one in missing))
                raise StoreDamaged(f"{self.file} is damaged: it lacks {names}.")

    def _may_be_ours(self) -> bool:
        """Return whether a file that can't be read may be a damaged history, and not somebody's text."""
        with self.file.open("rb") as opened:
            begins = opened.read(len(_MAGIC))
        return begins == _MAGIC or self.file.suffix.lower() in _SUFFIXES

    def _set_aside(self) -> Path:
        """Move the file away, with what belongs to it. Return where to. Nothing of it is lost."""
        name = f"{self.file.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}"
        aside, count = self.file.with_name(name), 1
        while aside.exists():
            count += 1
            aside = self.file.with_name(f"{name}-{count}")
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                self.file.with_name(self.file.name + suffix).rename(f"{aside}{suffix}")
        return aside

    def error(self, exc: Exception) -> Exception:
        error = self._error(exc)
        if type(error) is HistoryError and exc is not error:
            try:  # a row is refused, perhaps by an index that is damaged
                self._check()
            except StoreDamaged as found:
                exc = error = found
            except (sqlite3.Error, StoreUnavailable):
                pass
        if isinstance(error, StoreDamaged) and isinstance(exc, (sqlite3.Error, StoreDamaged)):
            self._is_suspect = True
        return error

    def _error(self, exc: Exception) -> HistoryError:
        """Return our error for one that was raised while the file was used, by whether it may pass."""
        if isinstance(exc, HistoryError):
            return exc
        if isinstance(exc, OSError):
            return StoreUnavailable(f"{self.file}: {exc.strerror or exc}.")
        if not isinstance(exc, sqlite3.Error):  # what was read makes no sense
            return StoreDamaged(f"{self.file} is damaged ({type(exc).__name__}: {exc}).")
        if isinstance(exc, (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError)):
            return HistoryError(f"{self.file} can't store this: {exc}.")
        # A file that ends before a page that its head counts is damaged.
        is_short = getattr(exc, "sqlite_errorname", "") == "SQLITE_IOERR_SHORT_READ"
        may_pass = _code_of(exc) in _MAY_PASS or isinstance(exc, sqlite3.ProgrammingError)
        if may_pass and not is_short:
            return StoreUnavailable(f"{self.file} can't be used now: {exc}.")
        # Our statements are right for our tables: whatever else SQLite has against them is about the file.
        return StoreDamaged(f"{self.file} is damaged or no history ({exc}).")

    # Statements

    def fetch(self, sql: str, *values: Any) -> Sequence[Values]:
        return self.raw.execute(sql, values).fetchall()

    def execute_many(self, sql: str, rows: Sequence[Values]) -> None:
        if rows:
            self.raw.executemany(sql, rows)

    def version(self) -> str:
        if (found := _id_of(self.file)) != self._file_id:
            what = f"There is no history at {self.file} any more."
            raise NotKept(what if found is None else f"{self.file} was replaced.")
        if self._pragma("user_version") > VERSION:
            self._version()  # raises the error
        # SQLite's own number counts what others wrote since this connection was made.
        return f"{self._opened_at} {self._pragma('data_version')} {self.raw.total_changes}"

    # Writers

    def hold(self, writer: str) -> None:
        if _id_of(self.file) != self._file_id:  # what is written to it now would be lost
            raise StoreDamaged(f"{self.file} was removed or replaced.")
        file = self._lock_file(writer)
        if self._lock is not None and file.exists():
            return
        self.release_lock()  # somebody has tidied up
        file.parent.mkdir(mode=0o700, exist_ok=True)
        for other in file.parent.iterdir():  # what processes have left that were killed
            self.is_gone(other.name)
        if (lock := lock_file(file, os.O_CREAT)) is not None:
            self._lock = lock, file

    def release_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock[0])
        self._lock = None

    def is_gone(self, writer: str) -> bool:
        file = self._lock_file(writer)
        try:
            lock = lock_file(file)
        except OSError:
            return False
        if lock is None:
            return not file.exists()
        file.unlink(missing_ok=True)
        os.close(lock)
        return True

    def _lock_file(self, writer: str) -> Path:
        return self.file.with_name(self.file.name + ".writers") / writer

    # The index of words

    def match(self, phrases: list[list[str]], *, in_paths: bool = False) -> tuple[str, Values]:
        terms = [" + ".join(f'"{word}"' for word in phrase) for phrase in phrases]
        question = " AND ".join(terms) + " *"
        if in_paths:
            question = f"{{command paths}} : ({question})"
        return "IN (SELECT rowid FROM calls_text WHERE calls_text MATCH ?)", [question]

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


def connection(file: Path, mode: str) -> sqlite3.Connection:
    """Return a connection to a file, in which each statement is a transaction unless one is begun."""
    uri = f"file://{quote(os.fsencode(file))}?mode={mode}"
    db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY, check_same_thread=False)
    # A text that is damaged is no reason to show nothing of the others.
    db.text_factory = _decoded
    return db


def _decoded(data: bytes) -> str:
    return data.decode(errors="replace")


def execute_script(db: sqlite3.Connection, script: str) -> None:
    """Run statements, each of which ends a line. `executescript` would commit first."""
    rest = ""
    for line in script.splitlines(keepends=True):
        rest += line
        if sqlite3.complete_statement(rest):
            db.execute(rest)
            rest = ""


def _id_of(file: Path) -> tuple[int, int] | None:
    """Return what identifies a file, also after another one took its place; None if there is none."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _code_of(exc: Exception) -> int:
    """Return SQLite's own number for what went wrong."""
    return getattr(exc, "sqlite_errorcode", 0) & 0xFF
