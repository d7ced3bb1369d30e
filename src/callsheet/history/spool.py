"""The spool: a local file of rows, for when their store can't be written.

Each process that needs a spool has a SQLite file of its own in the user's data directory, and holds its lock
for as long as it lives. Rows are on the disk when `append` returns; a later state of a row replaces an
earlier one. When the store can be written again, its process writes them there, in order. A file whose
process is gone is claimed by the next process that opens the same store. A row has a key, so nothing is
stored twice if that one is killed in the midst of it, too.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from threading import RLock

import msgspec

from callsheet.history.migration import decode_old_batch
from callsheet.history.rows import WaitingRow
from callsheet.history.sqlite_file import code_of, connection
from callsheet.history.url import default_file

MOST = 512 << 20
"""Bytes that one process may spool."""

ATTEMPTS = 5
"""How many files are made at most until one can be locked."""

_ENDING = ".spool"
_OLD = (".left", ".taken")
"""Endings of the files that version 0.1.0 left: one batch, and nothing else."""

_PAGE = 4096
_TABLE = """
CREATE TABLE IF NOT EXISTS waiting (
    number INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, key TEXT, row BLOB, UNIQUE (session_id, key)
)
"""


class Spool:
    """A file of rows that wait for one store. Any thread may append; one reads."""

    def __init__(self, url: str) -> None:
        self.file: Path | None = None
        self.count: int = 0
        """How many rows wait in it."""
        self._url: str = url
        self._db: sqlite3.Connection | None = None
        self._lock: RLock = RLock()

    def append(self, rows: Iterable[WaitingRow]) -> None:
        """Put rows on the disk. Raise an error of SQLite or an `OSError` if none of them can be."""
        some = [
            (row.session_id, row.key, msgspec.msgpack.encode((session, row)))
            for session, row in rows
        ]
        with self._lock:
            db = self._db or self._make()
            with db:  # all of them, or none
                db.execute("BEGIN")
                db.executemany(
                    "INSERT OR REPLACE INTO waiting (session_id, key, row) VALUES (?, ?, ?)", some
                )
            self._recount(db)

    def first(self, most: int) -> dict[int, WaitingRow]:
        """Return the first rows that wait, by their numbers."""
        if self._db is None:
            return {}
        with self._lock:
            found = self._db.execute(
                "SELECT number, row FROM waiting ORDER BY number LIMIT ?", [most]
            ).fetchall()
        return {number: _decode(data) for number, data in found}

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove rows that are in the store. One that was replaced meanwhile has a new number, and stays."""
        with self._lock:
            if self._db is not None:
                with self._db:
                    self._db.execute("BEGIN")
                    self._db.executemany(
                        "DELETE FROM waiting WHERE number = ?", [[one] for one in numbers]
                    )
                self._recount(self._db)
                if not self.count:
                    self.close()

    def claim(self, file: Path) -> bool:
        """Open a file, and hold its lock. Return whether no other process holds it."""
        db = connection(file, "?mode=rw", timeout=0.0)
        try:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute(f"PRAGMA max_page_count = {MOST // _PAGE}")
            db.execute("BEGIN EXCLUSIVE")
            db.execute(_TABLE)
            db.execute("COMMIT")
            self._recount(db)
        except sqlite3.Error as exc:
            db.close()
            if code_of(exc) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN):
                return False
            raise
        if not file.exists():  # whoever had it has just removed it
            db.close()
            return False
        self._db, self.file = db, file
        return True

    def close(self) -> None:
        """Close the file, and remove it if nothing waits in it."""
        with self._lock:
            db, self._db = self._db, None
            if db is not None:
                db.close()
                if self.file is not None and not self.count:
                    self.file.unlink(missing_ok=True)

    def _recount(self, db: sqlite3.Connection) -> None:
        (self.count,) = db.execute("SELECT count(*) FROM waiting").fetchone()

    def _make(self) -> sqlite3.Connection:
        """Make the file, for its owner alone."""
        place = directory()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        for _ in range(ATTEMPTS):
            file = place / f"{_name(self._url)}-{time.time_ns():020}-{token_hex(4)}{_ENDING}"
            file.touch(0o600, exist_ok=False)
            # Another process may have claimed it, empty, just before.
            if self.claim(file) and self._db is not None:
                return self._db
        raise OSError(f"no file in {place} can be locked")


_decode = msgspec.msgpack.Decoder(WaitingRow).decode


def directory() -> Path:
    """Return where spools are."""
    return default_file().with_name("leftovers")


def left_files(url: str) -> list[Path]:
    """Return the spools for a store, the oldest first. The process of each may live, or be gone."""
    found: list[Path] = []
    with suppress(OSError, RuntimeError):
        found = sorted(directory().glob(f"{_name(url)}-*"))
    return [file for file in found if file.suffix in (_ENDING, *_OLD)]


def claimed(url: str, file: Path) -> Spool | None:
    """Return the spool in a file, unless its process lives. What 0.1.0 has left becomes a spool first.

    Raises:
        OSError: The file can't be read.
        MsgspecError: It is nothing that was ever left.
        sqlite3.Error: It is damaged.
    """
    spool = Spool(url)
    if file.suffix in _OLD:
        spool.append(decode_old_batch(file.read_bytes()))
        file.unlink(missing_ok=True)
        return spool
    return spool if spool.claim(file) else None


def is_waiting(url: str) -> bool:
    """Return whether a process that is gone has left something for a store."""
    for file in left_files(url):
        with suppress(OSError, msgspec.MsgspecError, sqlite3.Error):
            if (spool := claimed(url, file)) is not None:
                spool.close()
                return True
    return False


def _name(url: str) -> str:
    return blake2b(url.encode(errors="surrogateescape"), digest_size=8).hexdigest()
