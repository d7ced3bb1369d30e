"""The file of a SQLite store: opening it, its tables, and what can go wrong with it.

`user_version` is the version of the tables. A file of an earlier version is migrated when it is opened. A
damaged file is renamed, so that its name shows it, and a new one is created: the work goes on, and nothing of
the old one is lost.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from callsheet.history.database import shared_tables
from callsheet.history.store_errors import (
    BadUrl,
    HistoryError,
    StoreDamaged,
    StoreTooNew,
    StoreUnavailable,
)

BUSY = 2.0
"""Seconds that a transaction waits for another process."""

_MAGIC = b"SQLite format 3\0"
_MAY_PASS = frozenset((
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_ABORT,
))  # fmt: skip
"""What SQLite reports of a file that may be usable later."""

_OF_TABLES = ("no such table", "no such column", "has no column", "vtable", "schema", "file format")
_SUFFIXES = (".sqlite", ".sqlite3", ".db", ".db3")

# Tables

VERSION = 3
"""The version of the tables. 0.1.0 has written 1, and what came after it 2: see `migration`."""

TABLES = (
    shared_tables("INTEGER", "INTEGER PRIMARY KEY AUTOINCREMENT")
    + """
-- Which words a call has, and not the call. To take a call out, it needs the words that it was given.
CREATE VIRTUAL TABLE calls_text USING fts5 (
    title, command, paths, output, content = '', tokenize = 'unicode61 remove_diacritics 2'
);
"""
)

# A call that was closed by mistake and gets its true end becomes another row for the index: what that has of
# the first end can't be found any more, as nothing has the `seq` that it is known by.
TRIGGERS = """
CREATE TRIGGER calls_added AFTER INSERT ON calls WHEN NEW.writer IS NULL
BEGIN
    INSERT INTO unindexed VALUES (NEW.seq);
END;
CREATE TRIGGER calls_ended AFTER UPDATE OF payload ON calls
WHEN NEW.writer IS NULL AND OLD.writer IS NOT NULL
BEGIN
    INSERT INTO unindexed VALUES (NEW.seq);
END;
CREATE TRIGGER calls_corrected AFTER UPDATE OF payload ON calls WHEN OLD.writer IS NULL
BEGIN
    DELETE FROM unindexed WHERE seq = OLD.seq;
    UPDATE calls SET seq = (SELECT max(seq) FROM calls) + 1 WHERE seq = OLD.seq;
    INSERT INTO unindexed SELECT max(seq) FROM calls;
END;
"""

_KNOWN = ("calls_text", "messages_by_place", "sessions_by_use", "unindexed")
_NEVER = 1000
"""A version that no history will ever have."""

OURS = 0x63616C6C
"""The `application_id` of our files: "call"."""


def version_of(db: sqlite3.Connection, file: Path) -> int:
    """Return the version of a file's tables; 0 if it is empty. What is somebody else's is left alone."""
    (owner,) = db.execute("PRAGMA application_id").fetchone()
    (found,) = db.execute("PRAGMA user_version").fetchone()
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master")]
    if set(_KNOWN) <= set(names) and (owner != OURS or not 0 < found < _NEVER):
        raise StoreDamaged(f"{file} is damaged: it has a history's tables, but not its marks.")
    if owner != OURS and (owner or found or names):
        raise BadUrl(
            f"{file} is the database of another program; name another file: --history sqlite:///PATH."
        )
    if found > VERSION:
        raise StoreTooNew(
            f"{file} is a history of version {found}, and this callsheet knows up to {VERSION}; "
            "use the newer callsheet, or another file: --history sqlite:///PATH."
        )
    return found


def execute_script(db: sqlite3.Connection, script: str) -> None:
    """Run statements, each of which ends a line. `executescript` would commit first."""
    rest = ""
    for line in script.splitlines(keepends=True):
        rest += line
        if sqlite3.complete_statement(rest):
            db.execute(rest)
            rest = ""


def drop_tables(db: sqlite3.Connection) -> None:
    """Drop all tables, and what belongs to them."""
    names = [
        name
        for (name,) in db.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'")
        if not name.startswith(("sqlite_", "calls_text_"))
    ]
    for name in names:
        db.execute(f'DROP TABLE main."{name}"')


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


def connection(file: Path, how: str = "", timeout: float | None = None) -> sqlite3.Connection:
    """Return a connection to a file, in which each statement is a transaction unless one is begun."""
    uri = "file://" + quote(os.fsencode(file)) + how
    busy = BUSY if timeout is None else timeout
    db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=busy, check_same_thread=False)
    # A text that is damaged is no reason to show nothing of the others.
    db.text_factory = _decoded
    return db


def _decoded(data: bytes) -> str:
    return data.decode(errors="replace")


def make_file(file: Path) -> None:
    """Make an empty file, for its owner alone, unless there is one that can be written."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not file.exists():
            file.touch(mode=0o600)
    except OSError as exc:
        raise StoreUnavailable(f"{file} can't be made: {exc.strerror or exc}.") from None
    if not os.access(
        file, os.W_OK
    ):  # SQLite would only read it, for as long as the connection lives
        raise StoreUnavailable(f"{file} can't be written.")


def may_be_ours(file: Path) -> bool:
    """Return whether a file that can't be read may be a damaged history, and not somebody's text."""
    with file.open("rb") as opened:
        begins = opened.read(len(_MAGIC))
    return begins == _MAGIC or file.suffix.lower() in _SUFFIXES


def set_aside(file: Path) -> Path:
    """Move a damaged file away, with what belongs to it. Return where to. Nothing of it is lost."""
    name = f"{file.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}"
    aside, count = file.with_name(name), 1
    while aside.exists():
        count += 1
        aside = file.with_name(f"{name}-{count}")
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            file.with_name(file.name + suffix).rename(f"{aside}{suffix}")
    return aside


# Errors


def code_of(exc: BaseException | None) -> int:
    """Return SQLite's own number for what went wrong."""
    return getattr(exc, "sqlite_errorcode", 0) & 0xFF


def error_of(exc: Exception, file: Path) -> HistoryError:
    """Return our error for one that was raised while a file was used, by whether it may pass."""
    text, code = str(exc), code_of(exc)
    if isinstance(exc, HistoryError):
        return exc
    if isinstance(exc, OSError):
        return StoreUnavailable(f"{file}: {exc.strerror or exc}.")
    if not isinstance(exc, sqlite3.Error):  # what was read makes no sense
        return StoreDamaged(f"{file} is damaged ({type(exc).__name__}: {exc}).")
    if isinstance(exc, (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError)):
        return HistoryError(f"{file} can't store this: {text}.")
    # A file that ends before a page that its head counts is damaged.
    is_short = getattr(exc, "sqlite_errorname", "") == "SQLITE_IOERR_SHORT_READ"
    if (code in _MAY_PASS or isinstance(exc, sqlite3.ProgrammingError)) and not is_short:
        return StoreUnavailable(f"{file} can't be used now: {text}.")
    # Our statements are right for our tables: whatever else SQLite has against them is about the file.
    return StoreDamaged(f"{file} is damaged or no history ({text}).")


def is_certain(exc: Exception) -> bool:
    """Return whether it is the file that is at fault, and not the question: who asks may ask for anything."""
    if isinstance(exc, sqlite3.Error):
        is_general = code_of(exc) in (0, sqlite3.SQLITE_ERROR)
        return not is_general or any(words in str(exc) for words in _OF_TABLES)
    return isinstance(exc, (StoreDamaged, UnicodeDecodeError))
