"""The spool: a local file of rows, for when their store can't be written.

Each process that needs a spool appends to a file of its own in the user's data directory, and holds its lock
for as long as it lives. Rows are on the disk when `append` returns. When the store can be written again, its
process writes them there, in order. A file whose process is gone is claimed by the next process that opens
the same store. A row has a key, so nothing is stored twice if that one is killed in the midst of it, too.

A file is a sequence of batches, with the length and the checksum of each before it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from threading import RLock
from zlib import crc32

import msgspec

from callsheet.history.rows import WaitingRow
from callsheet.history.url import default_file

MOST = 512 << 20
"""Bytes that one process may spool."""

_ENDING = ".rows"
_HEAD = struct.Struct("<II")
_decode = msgspec.msgpack.Decoder(list[WaitingRow]).decode


class Spool:
    """A file of rows that wait for one store. Any thread may append; one reads."""

    def __init__(self, url: str) -> None:
        self.file: Path | None = None
        self.count: int = 0
        """How many rows wait in it, of those that were appended here."""
        self._url: str = url
        self._opened: int | None = None
        self._lock: RLock = RLock()
        # From where to where the file has batches that wait, and what is left of the one before.
        self._begin: int = 0
        self._end: int = 0
        self._rows: list[WaitingRow] = []

    def append(self, rows: Iterable[WaitingRow]) -> None:
        """Put rows on the disk. Raise an `OSError` if they can't be; then none of them is."""
        some = list(rows)
        body = msgspec.msgpack.encode(some)
        data = _HEAD.pack(len(body), crc32(body)) + body
        with self._lock:
            if self._end + len(data) > MOST:
                raise OSError(errno.EFBIG, "the spool is full")
            opened = self._make() if self._opened is None else self._opened
            try:
                if os.pwrite(opened, data, self._end) < len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301
                os.fsync(opened)
            except OSError:
                os.ftruncate(opened, self._end)
                raise
            self._end += len(data)
            self.count += len(some)

    def first(self, most: int) -> list[WaitingRow]:
        """Return the first rows that wait, all from one batch; nothing if none waits.

        Raises:
            ValueError: The batch is damaged, or was not written to its end.
        """
        with self._lock:
            if not self._rows and self._opened is not None and self._begin < self._end:
                head = os.pread(self._opened, _HEAD.size, self._begin)
                size, check = _HEAD.unpack(head.ljust(_HEAD.size, b"\0"))
                body = os.pread(self._opened, min(size, MOST), self._begin + _HEAD.size)
                if len(body) < size or crc32(body) != check:
                    raise ValueError(f"the batch at byte {self._begin} is damaged")
                self._rows = _decode(body)
                self._begin += _HEAD.size + size
            return self._rows[:most]

    def remove(self, some: list[WaitingRow]) -> None:
        """Remove the first rows, which are in the store now. A file in which nothing waits is removed."""
        with self._lock:
            del self._rows[: len(some)]
            self.count -= len(some)
            if self._is_empty:
                self.close()

    @property
    def _is_empty(self) -> bool:
        return self._begin == self._end and not self._rows

    def claim(self, file: Path) -> bool:
        """Open a file, and hold its lock. Return whether no other process holds it."""
        self._opened = lock_file(file)
        if self._opened is not None:
            self.file, self._begin, self._end = file, 0, os.fstat(self._opened).st_size
        return self._opened is not None

    def close(self) -> None:
        """Close the file, and remove it if nothing waits in it."""
        with self._lock:
            if self._opened is not None and self.file is not None and self._is_empty:
                self.file.unlink(missing_ok=True)
            self.release_lock()

    def release_lock(self) -> None:
        """Close the file as it is. A forked child does so: the lock lasts as long as its parent."""
        opened, self._opened = self._opened, None
        if opened is not None:
            os.close(opened)

    def _make(self) -> int:
        """Make the file, for its owner alone."""
        place = directory()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = place / f"{_name(self._url)}-{time.time_ns():020}-{token_hex(4)}"
        opened = lock_file(file, os.O_CREAT | os.O_EXCL)
        if opened is None:
            raise OSError(f"{file} can't be locked")
        self.file = file.rename(file.with_suffix(_ENDING))  # only now do others look at it
        self._opened, self._begin, self._end = opened, 0, 0
        return opened


def directory() -> Path:
    """Return where spools are."""
    return default_file().with_name("leftovers")


def left_files(url: str) -> list[Path]:
    """Return the spools for a store, the oldest first. The process of each may live, or be gone."""
    with suppress(OSError, RuntimeError):
        return sorted(directory().glob(f"{_name(url)}-*{_ENDING}"))
    return []


def is_waiting(url: str) -> bool:
    """Return whether a process that is gone has left something for a store."""
    for file in left_files(url):
        spool = Spool(url)
        with suppress(OSError):
            if spool.claim(file):
                spool.close()
                return True
    return False


def _name(url: str) -> str:
    return blake2b(url.encode(errors="surrogateescape"), digest_size=8).hexdigest()


def lock_file(file: Path, flags: int = 0) -> int | None:
    """Open a file, and hold its lock until it is closed.

    Args:
        file: The file.
        flags: Further flags to open it with, as `os.O_CREAT`.

    Returns:
        Its descriptor, or None if another process holds the lock, or there is no such file (any more).

    Raises:
        OSError: It can't be opened.
    """
    try:
        opened = os.open(file, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
    except FileNotFoundError:
        return None
    with suppress(BlockingIOError):
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(opened).st_nlink:  # else whoever had it has just removed it
            return opened
    os.close(opened)
    return None
