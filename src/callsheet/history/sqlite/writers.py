"""Which processes write to a file, and which of them are gone.

Each holds a lock on a file of its own, beside the database, for as long as it lives: the system lets go of
it however the process ends. Where there are no such locks, a process that has said nothing for ten minutes
counts as gone.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from weakref import WeakSet

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

SILENT = 600.0


_all: WeakSet[Writers] = WeakSet()


class Writers:
    """The writers of one file, and which of them is us."""

    def __init__(self, file: Path) -> None:
        self._directory: Path = file.with_name(file.name + ".writers")
        self._lock: int = -1
        self._pid: int = 0
        self.me: str = ""
        _all.add(self)

    def enter(self, db: sqlite3.Connection) -> None:
        """Note that this process writes. Called within a transaction."""
        if self._lock >= 0:
            return
        self._pid = os.getpid()
        self.me = f"{self._pid}-{token_hex(6)}"
        self._take_lock()
        now = time.time()
        db.execute("INSERT INTO writers VALUES (?, ?, ?, ?)", (self.me, self._pid, now, now))

    def seen(self, db: sqlite3.Connection, now: float) -> None:
        """Note that this process still writes. Called within a transaction."""
        if self._lock >= 0 and not self._file(self.me).exists():  # somebody has tidied up
            os.close(self._lock)
            self._take_lock()
        found = db.execute("UPDATE writers SET seen_at = ? WHERE id = ?", (now, self.me)).rowcount
        if not found:  # another process took us for gone
            db.execute("INSERT INTO writers VALUES (?, ?, ?, ?)", (self.me, self._pid, now, now))

    def _take_lock(self) -> None:
        self._directory.mkdir(mode=0o700, exist_ok=True)
        if fcntl is not None:
            self._lock = os.open(self._file(self.me), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def after_fork(self) -> None:
        """Let go of the parent's lock, in a child: it tells that the parent lives."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        self.me = ""

    def leave(self, db: sqlite3.Connection) -> None:
        """Note that this process writes no more."""
        if not self.me or self._pid != os.getpid():  # a forked child is not the one that wrote
            return
        with suppress(sqlite3.Error):
            db.execute("PRAGMA busy_timeout = 100")  # nobody is to wait for this at the end
            db.execute("DELETE FROM writers WHERE id = ?", (self.me,))
        self.let_go()

    def let_go(self) -> None:
        """Let go of the lock."""
        if self._lock >= 0:
            self._file(self.me).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1

    def gone(self, db: sqlite3.Connection) -> list[tuple[str, float]]:
        """Return the writers that live no more, and when each was last seen. Called within a transaction.

        Those that have left calls open without being known as writers are among them.
        """
        known = dict(db.execute("SELECT id, seen_at FROM writers"))
        owners = [
            row[0] for row in db.execute("SELECT DISTINCT writer FROM calls WHERE writer > ''")
        ]
        found = [(key, seen) for key, seen in known.items() if self._is_gone(key, seen)]
        return found + [
            (key, 0.0) for key in owners if key not in known and self._is_gone(key, 0.0)
        ]

    def forget(self, db: sqlite3.Connection, key: str) -> None:
        """Forget a writer that is gone."""
        db.execute("DELETE FROM writers WHERE id = ?", (key,))
        self._file(key).unlink(missing_ok=True)

    def _is_gone(self, key: str, seen: float) -> bool:
        if key == self.me:
            return False
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


def _forked() -> None:
    for writers in list(_all):
        writers.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
