"""The file of a SQLite store: opening it, its tables, and what can go wrong with it.

`user_version` is how many of `STEPS` a file has gone through. A step that has been released is never changed;
a new one is added to the end. A damaged file is renamed, so that its name shows it, and a new one is created:
the work goes on, and nothing of the old one is lost.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from zstandard import ZstdError

from callsheet.history.store_errors import (
    BadUrl,
    HistoryError,
    NotKept,
    StoreDamaged,
    StoreTooNew,
    StoreUnavailable,
)

_T = TypeVar("_T")

BUSY = 2.0
"""Seconds that a transaction waits for another process."""

_MAGIC = b"SQLite format 3\0"
_MAY_PASS = (
    sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_ABORT,
)  # fmt: skip
_OF_TABLES = ("no such table", "no such column", "has no column", "vtable", "schema", "file format")
_SUFFIXES = (".sqlite", ".sqlite3", ".db", ".db3")

# Tables

STEPS = (
    """
    CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE dictionaries (
        id INTEGER PRIMARY KEY, data BLOB NOT NULL, at REAL NOT NULL, source TEXT NOT NULL
    );
    CREATE TABLE writers (
        id TEXT PRIMARY KEY, pid INTEGER NOT NULL, started_at REAL NOT NULL, seen_at REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE sessions (
        session_id TEXT PRIMARY KEY, cwd TEXT NOT NULL, title TEXT NOT NULL, info TEXT NOT NULL,
        created_at REAL NOT NULL, updated_at REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX sessions_by_use ON sessions (updated_at, session_id);
    CREATE TABLE calls (
        seq INTEGER PRIMARY KEY,
        session_id TEXT NOT NULL, call_id TEXT NOT NULL, position INTEGER NOT NULL,
        name TEXT NOT NULL, title TEXT NOT NULL, kind TEXT NOT NULL,
        status TEXT NOT NULL, reason TEXT,
        at REAL NOT NULL, updated_at REAL NOT NULL, duration_ms REAL,
        writer TEXT, size INTEGER NOT NULL, payload BLOB NOT NULL
    );
    CREATE UNIQUE INDEX calls_by_id ON calls (call_id, session_id);
    CREATE INDEX calls_by_place ON calls (session_id, position);
    CREATE INDEX calls_by_time ON calls (at);
    CREATE INDEX calls_by_tool ON calls (name, at);
    CREATE INDEX calls_unusual ON calls (status, at) WHERE status <> 'completed';
    CREATE INDEX calls_open ON calls (writer) WHERE writer IS NOT NULL;
    CREATE TABLE messages (
        session_id TEXT NOT NULL, message_id TEXT NOT NULL, part INTEGER NOT NULL,
        position INTEGER NOT NULL, kind TEXT NOT NULL, at REAL NOT NULL,
        size INTEGER NOT NULL, payload BLOB NOT NULL,
        PRIMARY KEY (session_id, message_id, part)
    );
    CREATE INDEX messages_by_place ON messages (session_id, position);
    CREATE TABLE blobs (hash BLOB PRIMARY KEY, size INTEGER NOT NULL, data BLOB NOT NULL);
    CREATE TABLE blob_uses (
        session_id TEXT NOT NULL, owner TEXT NOT NULL, hash BLOB NOT NULL,
        PRIMARY KEY (session_id, owner, hash)
    ) WITHOUT ROWID;
    CREATE INDEX blob_uses_by_hash ON blob_uses (hash);
    CREATE VIRTUAL TABLE calls_text USING fts5 (
        title, command, paths, output, content = '', tokenize = 'unicode61 remove_diacritics 2'
    );
    -- Calls that the index has passed by, because they were open, or that have changed since it took them:
    -- an index of words can only forget what it was given, so that is kept.
    CREATE TABLE calls_later (seq INTEGER PRIMARY KEY, was BLOB);
    CREATE TRIGGER calls_changed AFTER UPDATE OF payload ON calls
    WHEN OLD.writer IS NULL AND OLD.seq <= (SELECT value FROM facts WHERE name = 'indexed_to')
    BEGIN
        INSERT OR IGNORE INTO calls_later VALUES (OLD.seq, OLD.payload);
    END;
    """,
    # A row is identified by a key of ours. The trigger looks for itself whether a row is there: its
    # OR IGNORE was overridden by the upsert that fires it.
    """
    ALTER TABLE calls ADD COLUMN key TEXT NOT NULL DEFAULT '';
    UPDATE calls SET key = call_id;
    CREATE UNIQUE INDEX calls_by_key ON calls (session_id, key);
    CREATE TABLE messages_2 (
        session_id TEXT NOT NULL, key TEXT NOT NULL, message_id TEXT NOT NULL, part INTEGER NOT NULL,
        position INTEGER NOT NULL, kind TEXT NOT NULL, at REAL NOT NULL,
        size INTEGER NOT NULL, payload BLOB NOT NULL,
        PRIMARY KEY (session_id, key)
    );
    INSERT INTO messages_2 SELECT session_id, message_id || ' ' || part, message_id, part, position, kind, at,
        size, payload FROM messages ORDER BY rowid;
    DROP TABLE messages;
    ALTER TABLE messages_2 RENAME TO messages;
    CREATE INDEX messages_by_place ON messages (session_id, position);
    DROP TRIGGER calls_changed;
    CREATE TRIGGER calls_changed AFTER UPDATE OF payload ON calls
    WHEN OLD.writer IS NULL AND OLD.seq <= (SELECT value FROM facts WHERE name = 'indexed_to')
        AND NOT EXISTS (SELECT 1 FROM calls_later WHERE seq = OLD.seq)
    BEGIN
        INSERT INTO calls_later VALUES (OLD.seq, OLD.payload);
    END;
    """,
)

VERSION = len(STEPS)

_KNOWN = ("blob_uses", "calls_later", "facts", "writers")
_NEVER = 1000
"""A version that no history will ever have."""

OURS = 0x63616C6C
"""The `application_id` of our files: "call"."""


def prepare(db: sqlite3.Connection, file: Path) -> None:
    """Make the tables, or bring those of an earlier version up to date."""
    if _version_at_once(db, file) == VERSION:
        return
    db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # has an effect only in an empty file
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("BEGIN IMMEDIATE")
    try:
        found = _version(db, file)  # another process may have been quicker
        for step in STEPS[found:]:
            for statement in _statements(step):
                db.execute(statement)
        db.execute(f"PRAGMA application_id = {OURS}")
        db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")
    except BaseException:
        db.rollback()
        raise


def _version_at_once(db: sqlite3.Connection, file: Path) -> int:
    """Return the version in one moment: a file that is being begun would else look like somebody else's."""
    db.execute("BEGIN")
    try:
        return _version(db, file)
    finally:
        db.rollback()


def _version(db: sqlite3.Connection, file: Path) -> int:
    """Return how many steps a file has gone through. What is somebody else's, or too new, is left alone."""
    (owner,) = db.execute("PRAGMA application_id").fetchone()
    (found,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (known,) = db.execute(
        f"SELECT count(*) FROM sqlite_master WHERE name IN ({', '.join('?' * len(_KNOWN))})", _KNOWN
    ).fetchone()
    if known == len(_KNOWN) and (owner != OURS or not 0 < found < _NEVER):
        raise StoreDamaged(f"{file} is damaged: it has a history's tables, but not its marks.")
    if owner != OURS and (owner or found or tables):
        raise BadUrl(
            f"{file} is the database of another program; name another file: --history sqlite:///PATH."
        )
    if found > VERSION:
        raise StoreTooNew(
            f"{file} is a history of version {found}, and this callsheet knows up to {VERSION}; "
            "use the newer callsheet, or another file: --history sqlite:///PATH."
        )
    return found


def _statements(script: str) -> list[str]:
    """Return the statements of a script, each of which ends a line: `executescript` would commit at once."""
    found: list[str] = []
    rest = ""
    for line in script.splitlines():
        rest += line + "\n"
        if sqlite3.complete_statement(rest):
            found.append(rest)
            rest = ""
    return found


# The file

FileId = tuple[int, int]
"""Identifies a file, also after another one took its place."""


def id_of(file: Path) -> FileId | None:
    """Return the id of a file, if it is there."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def open_to_write(file: Path, damaged: FileId | None, news: list[str]) -> sqlite3.Connection:
    """Open or make a file. One that is damaged is set aside, unless another process has done so.

    `damaged` is a file that is known to be.
    """
    before = id_of(file)
    try:
        if before is not None and before == damaged:
            raise StoreDamaged(f"{file} is damaged.")  # noqa: TRY301
        return _made(file)
    except StoreDamaged as exc:
        if before is not None and before == id_of(file):
            if before != damaged and not _may_be_ours(file):
                raise BadUrl(
                    f"{file} is no history, but something else; it is left alone. Name another file."
                ) from None
            with guarded(file):
                aside = _set_aside(file)
            news.append(f"{exc} It was set aside as {aside}, and a new one was begun.")
    return _made(file)


def open_to_read(file: Path) -> sqlite3.Connection:
    """Open a file to look at it. One that is of an earlier version is migrated, if that may be done."""
    if not file.exists():
        raise NotKept(f"There is no history at {file} yet.")
    _refuse_directory(file)

    with guarded(file):
        try:
            return _connect(file, "?mode=rw", migrate=True)
        except sqlite3.OperationalError as exc:
            if _code(exc) not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
                raise
        # Not ours to write: look at it as it is.
        return _connect(file, "?mode=ro&immutable=1", migrate=False)


@contextmanager
def guarded(file: Path, *, writing: bool = False) -> Generator[None]:
    """Raise our own errors for what goes wrong with a file.

    With `writing`, a batch is written that may be at fault itself. Else, whatever can't be made sense of
    comes from the file.
    """
    try:
        yield
    except sqlite3.Error as exc:
        raise _error(exc, file) from exc
    except OSError as exc:
        raise StoreUnavailable(f"{file}: {exc.strerror or exc}.") from exc
    except UnicodeEncodeError:  # nothing of the file
        raise
    except UnicodeDecodeError as exc:  # names in the schema, and what an error quotes of it
        raise StoreDamaged(f"{file} is damaged ({exc}).") from exc
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, ZstdError) as exc:
        if writing:
            raise
        raise StoreDamaged(f"{file} is damaged ({type(exc).__name__}: {exc}).") from exc


def is_certain(exc: StoreDamaged) -> bool:
    """Return whether it is the file that is at fault, and not the question: who asks may give anything."""
    cause = exc.__cause__
    if isinstance(cause, sqlite3.Error):
        text = str(cause)
        is_general = _code(cause) in (0, sqlite3.SQLITE_ERROR)
        return not is_general or any(words in text for words in _OF_TABLES)
    return cause is None or isinstance(cause, UnicodeDecodeError)


async def transact(db: sqlite3.Connection, work: Callable[[], Awaitable[_T]]) -> _T:
    """Do something in one transaction."""
    db.execute("BEGIN IMMEDIATE")
    try:
        done = await work()
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise
    return done


def _may_be_ours(file: Path) -> bool:
    """Return whether a file that can't be read may be a damaged history, and not somebody's text."""
    with file.open("rb") as opened:
        begins = opened.read(len(_MAGIC))
    return begins == _MAGIC or file.suffix.lower() in _SUFFIXES


def _made(file: Path) -> sqlite3.Connection:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_directory(file)
        if not file.exists():
            file.touch(mode=0o600)
    except OSError as exc:
        raise StoreUnavailable(f"{file} can't be made: {exc.strerror or exc}.") from None
    with guarded(file):
        return _connect(file, "", migrate=True)


def _refuse_directory(file: Path) -> None:
    if file.is_dir():
        raise BadUrl(f"{file} is a directory; name a file in it: {file / 'history.sqlite'}.")


def _connect(file: Path, how: str, *, migrate: bool) -> sqlite3.Connection:
    uri = "file://" + quote(os.fsencode(file)) + how
    db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY, check_same_thread=False)
    try:
        if migrate:
            _prepare_patiently(db, file)
            db.execute("PRAGMA synchronous = FULL")
        db.text_factory = _decoded
        db.execute("PRAGMA cache_size = -16000")
        db.execute("SELECT 1 FROM calls LIMIT 1").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def _decoded(data: bytes) -> str:
    """Return a text. One that is damaged is no reason to show nothing of the others."""
    return data.decode(errors="replace")


def _prepare_patiently(db: sqlite3.Connection, file: Path) -> None:
    """Make the tables. If several processes begin a file at once, SQLite does not wait for all of that."""
    until = time.monotonic() + BUSY
    while True:
        try:
            prepare(db, file)
        except sqlite3.OperationalError as exc:
            if _code(exc) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def _set_aside(file: Path) -> Path:
    """Move a damaged file away, with what belongs to it. Nothing of it is lost."""
    name = f"{file.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}"
    aside, count = file.with_name(name), 1
    while aside.exists():
        count += 1
        aside = file.with_name(f"{name}-{count}")
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            file.with_name(file.name + suffix).rename(f"{aside}{suffix}")
    return aside


def _code(exc: sqlite3.Error) -> int:
    """Return SQLite's own number for what went wrong."""
    return getattr(exc, "sqlite_errorcode", 0) & 0xFF


def _error(exc: sqlite3.Error, file: Path) -> HistoryError:
    """Return our error for one of SQLite's, by whether it may pass."""
    text, code = str(exc), _code(exc)
    if isinstance(exc, (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError)):
        return HistoryError(f"{file} can't keep this: {text}.")
    if isinstance(exc, sqlite3.ProgrammingError):
        return StoreUnavailable(f"{file}: {text}.")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreUnavailable(f"{file} is locked by another process ({text}).")
    if code == sqlite3.SQLITE_FULL:
        return StoreUnavailable(f"The disk of {file} is full ({text}).")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StoreUnavailable(f"{file} can't be written ({text}).")
    if code in _MAY_PASS and not _is_short(exc):
        return StoreUnavailable(f"{file}: {text}.")
    # Our statements are right for our tables: whatever else SQLite has against them is about the file.
    return StoreDamaged(f"{file} is damaged or no history ({text}).")


def _is_short(exc: sqlite3.Error) -> bool:
    """Return whether a file ends before a page that its head counts."""
    return getattr(exc, "sqlite_errorname", "") == "SQLITE_IOERR_SHORT_READ"
