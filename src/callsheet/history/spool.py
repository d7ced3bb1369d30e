"""Rows that wait to be written, and the spool: a local file of them, for when the store can't be written.

Each process that needs a spool has a file of its own in the user's data directory, and holds a lock on it
for as long as it lives. Batches are appended, each with its length and checksum, and are on the disk when
`append` returns. When the store can be written again, its process writes them there, in order. A file whose
process is gone is claimed by the next process that opens the same store. A row has a key, so nothing is
stored twice if that one is killed in the midst of it, too.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from threading import RLock
from zlib import crc32

import msgspec

from callsheet.history.migration import decode_batch
from callsheet.history.rows import CallRow, MessageRow, RowBatch, SessionRow
from callsheet.history.url import default_file

MOST = 512 << 20
"""Bytes that one process may spool."""

ATTEMPTS = 5
"""How many files are made at most until one can be locked."""

_ENDING = ".spool"
_OLD = (".left", ".taken")
"""Endings of the files that version 0.1.0 left: one batch, and nothing else."""

_HEAD = struct.Struct(">II")

ROW_BYTES = 500
"""Bytes that a row takes in memory besides its payload, more or less."""

Key = tuple[str, str]
"""The session and the key of a row."""

Row = CallRow | MessageRow


class Rows:
    """Rows that wait to be written, in order, and the sessions that they belong to."""

    def __init__(self, batch: RowBatch | None = None) -> None:
        self.sessions: dict[str, SessionRow] = {}
        self.size: int = 0
        self._rows: dict[Key, Row] = {}
        if batch is not None:
            self.sessions = {row.session_id: row for row in batch.sessions}
            self.add((*batch.calls, *batch.messages))

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows. One with the key of an earlier one replaces it."""
        for row in rows:
            key = row.session_id, row.key
            old = self._rows.get(key)
            self.size += len(row.payload) + ROW_BYTES
            if old is not None:
                self.size -= len(old.payload) + ROW_BYTES
            self._rows[key] = row

    def batch(self, most: int = 1 << 62, size: int = 1 << 62) -> RowBatch:
        """Return so many of the first rows, and all sessions, to be written at once."""
        batch = RowBatch(sessions=list(self.sessions.values()))
        for count, row in enumerate(self._rows.values(), 1):
            (batch.calls if isinstance(row, CallRow) else batch.messages).append(row)  # pyright: ignore[reportArgumentType]
            size -= len(row.payload)
            if count >= most or size <= 0:
                break
        return batch

    def remove(self, rows: Iterable[Row]) -> int:
        """Remove rows, unless they have changed since. Return how many that were."""
        count = 0
        for row in rows:
            key = row.session_id, row.key
            if self._rows.get(key) is row:
                del self._rows[key]
                self.size -= len(row.payload) + ROW_BYTES
                count += 1
        return count

    def remove_oldest(self, limit: int) -> int:
        """Remove the oldest rows, until `limit` bytes are left at most. Return how many that were."""
        before = len(self._rows)
        while self._rows and self.size > limit:
            self.remove([next(iter(self._rows.values()))])
        return before - len(self._rows)

    def clear(self) -> None:
        """Remove everything."""
        self._rows, self.size, self.sessions = {}, 0, {}


class SpoolFull(OSError):
    """A spool takes no more."""


class Spool:
    """A file of batches. Any thread may append; one reads."""

    def __init__(self, url: str) -> None:
        self.file: Path | None = None
        self.entries: set[Key] = set()
        """What waits in it, by session and key."""
        self._url: str = url
        self._fd: int = -1
        self._first: Rows | None = None
        self._begin: int = 0
        self._end: int = 0
        self._size: int = 0
        self._lock: RLock = RLock()

    def __bool__(self) -> bool:
        return self._size > self._begin

    def append(self, batch: RowBatch) -> None:
        """Put a batch on the disk. Raise `OSError` if that can't be done: then nothing of it is there."""
        body = msgspec.msgpack.encode(batch)
        data = _HEAD.pack(len(body), crc32(body)) + body
        with self._lock:
            if self._size + len(data) > MOST:
                raise SpoolFull(f"{self.file} has {self._size >> 20} MB, and takes no more")
            if self._fd < 0:
                self._make()
            try:
                written = 0
                while written < len(data):
                    written += os.pwrite(self._fd, data[written:], self._size + written)
                os.fsync(self._fd)
            except BaseException:
                with suppress(OSError):
                    os.ftruncate(self._fd, self._size)
                raise
            self._size += len(data)
            self.entries |= {(row.session_id, row.key) for row in (*batch.calls, *batch.messages)}

    def first(self) -> Rows:
        """Return what waits of the first batch. What is removed from these rows is not returned again."""
        if self._first is None:
            self._first = Rows(self._read())
        return self._first

    def _read(self) -> RowBatch:
        """Return the first batch.

        It is empty if it was not written whole: its process was killed meanwhile, and nobody relies on it.
        """
        if self.file is not None and self.file.suffix in _OLD:
            self._end = self._size
            return decode_batch(os.pread(self._fd, self._size, 0))
        head = os.pread(self._fd, _HEAD.size, self._begin)
        begin = self._begin + _HEAD.size
        size, check = _HEAD.unpack(head) if len(head) == _HEAD.size else (MOST, 0)
        self._end = begin + size
        if self._end > self._size:
            self._end = self._size
            return RowBatch()
        body = os.pread(self._fd, size, begin)
        return decode_batch(body) if crc32(body) == check else RowBatch()

    def done(self) -> None:
        """Drop the first batch, which is in the store."""
        with self._lock:
            self._begin, self._first = self._end, None
            if self._begin >= self._size:
                os.ftruncate(self._fd, 0)
                self._begin = self._size = 0
                self.entries.clear()

    def _make(self) -> None:
        """Make the file, and lock it."""
        place = directory()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        for _ in range(ATTEMPTS):
            file = place / f"{_name(self._url)}-{time.time_ns():020}-{token_hex(4)}{_ENDING}"
            file.touch(0o600, exist_ok=False)
            if self.claim(file):  # else another process has claimed it, empty, just before
                break
        else:
            raise OSError(f"no file in {place} can be locked")
        folder = os.open(place, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def close(self) -> None:
        """Close the file, and remove it if nothing waits in it."""
        with self._lock:
            if self.file is not None and not self:
                self.file.unlink(missing_ok=True)
            self.drop()

    def drop(self) -> None:
        """Close the file and leave it as it is; in a forked child, it stays the parent's."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def claim(self, file: Path) -> bool:
        """Take over a file, unless a process lives that holds it."""
        try:
            self._fd = os.open(file, os.O_RDWR | os.O_CLOEXEC)
            self.file = file
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            here, there = os.fstat(self._fd), file.stat()  # another may have removed it meanwhile
            if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
                self._size = here.st_size
                return True
        except OSError:
            pass
        self.drop()
        return False


def directory() -> Path:
    """Return where spools are."""
    return default_file().with_name("leftovers")


def claimed(url: str) -> Iterator[Spool]:
    """Return the spools that processes have left for a store, the oldest first. Close each."""
    found: list[Path] = []
    with suppress(OSError, RuntimeError):
        found = sorted(directory().glob(f"{_name(url)}-*"))
    for file in found:
        spool = Spool(url)
        if file.suffix in (_ENDING, *_OLD) and spool.claim(file):
            yield spool


def is_waiting(url: str) -> bool:
    """Return whether a process that is gone has left something for a store."""
    for spool in claimed(url):
        spool.drop()
        return True
    return False


def _name(url: str) -> str:
    return blake2b(url.encode(errors="surrogateescape"), digest_size=8).hexdigest()
