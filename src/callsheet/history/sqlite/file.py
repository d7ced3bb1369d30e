"""The file: opening it, making or migrating it, setting it aside if it is damaged, and what can go wrong."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from zstandard import ZstdError

from callsheet.history.errors import (
    BadUrl,
    HistoryError,
    NotKept,
    StoreDamaged,
    StoreUnavailable,
)

from . import schema

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

FileId = tuple[int, int]
"""What tells a file from another one in its place."""


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
            aside = guarded(file, lambda: _set_aside(file))
            news.append(f"{exc} It was set aside as {aside}, and a new one was begun.")
    return _made(file)


def open_to_read(file: Path) -> sqlite3.Connection:
    """Open a file to look at it. One that is of an earlier version is migrated, if that may be done."""
    if not file.exists():
        raise NotKept(f"There is no history at {file} yet.")
    _refuse_directory(file)

    def opened() -> sqlite3.Connection:
        try:
            return _connect(file, "?mode=rw", migrate=True)
        except sqlite3.OperationalError as exc:
            if _code(exc) not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
                raise
        # Not ours to write: look at it as it is.
        return _connect(file, "?mode=ro&immutable=1", migrate=False)

    return guarded(file, opened)


def guarded(file: Path, work: Callable[[], _T], *, given: bool = False) -> _T:
    """Do something with a file, and say in our own words what goes wrong.

    With `given`, the work is to write something, which may be at fault itself. Else, whatever can't be made
    sense of comes from the file.
    """
    try:
        return work()
    except sqlite3.Error as exc:
        raise _told(exc, file) from exc
    except OSError as exc:
        raise StoreUnavailable(f"{file}: {exc.strerror or exc}.") from exc
    except UnicodeEncodeError:  # nothing of the file
        raise
    except UnicodeDecodeError as exc:  # names in the schema, and what an error quotes of it
        raise StoreDamaged(f"{file} is damaged ({exc}).") from exc
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, ZstdError) as exc:
        if given:
            raise
        raise StoreDamaged(f"{file} is damaged ({type(exc).__name__}: {exc}).") from exc


def is_certain(exc: StoreDamaged) -> bool:
    """Whether it is the file that is at fault, and not the question: who asks may give anything."""
    cause = exc.__cause__
    if isinstance(cause, sqlite3.Error):
        text = str(cause)
        is_general = _code(cause) in (0, sqlite3.SQLITE_ERROR)
        return not is_general or any(words in text for words in _OF_TABLES)
    return cause is None or isinstance(cause, UnicodeDecodeError)


def transact(db: sqlite3.Connection, work: Callable[[], Any]) -> Any:
    """Do something in one transaction."""
    db.execute("BEGIN IMMEDIATE")
    try:
        done = work()
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise
    return done


def _may_be_ours(file: Path) -> bool:
    """Whether a file that can't be read may be a damaged history, and not somebody's text."""
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
    return guarded(file, lambda: _connect(file, "", migrate=True))


def _refuse_directory(file: Path) -> None:
    if file.is_dir():
        raise BadUrl(f"{file} is a directory; name a file in it: {file / 'history.sqlite'}.")


def _connect(file: Path, how: str, *, migrate: bool) -> sqlite3.Connection:
    uri = "file://" + quote(os.fsencode(file)) + how
    db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY, check_same_thread=False)
    try:
        if migrate:
            _prepare(db, file)
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


def _prepare(db: sqlite3.Connection, file: Path) -> None:
    """Make the tables. If several processes begin a file at once, SQLite does not wait for all of that."""
    until = time.monotonic() + BUSY
    while True:
        try:
            schema.prepare(db, file)
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


def _told(exc: sqlite3.Error, file: Path) -> HistoryError:
    """Say what went wrong, and whether it may pass."""
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
    """Whether a file ends before a page that it says to have."""
    return getattr(exc, "sqlite_errorname", "") == "SQLITE_IOERR_SHORT_READ"
