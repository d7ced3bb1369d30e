"""What waits for a store: rows in memory, and the spool, a local file for when the store can't be written.

Each process that needs a spool has a file of its own in the user's data directory, and holds a lock on it
for as long as it lives. Batches are appended, each with its length and checksum, and are on the disk when
`append` returns. When the store can be written again, its process writes them there, in order. A file whose
process is gone is claimed by the next process that opens the same store. A row has a key, so nothing is
stored twice if that one is killed in the midst of it, too.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from threading import RLock
from zlib import crc32

import msgspec
from msgspec import Struct

from callsheet.history.codec import Codec
from callsheet.history.rows import BlobRow, CallRow, MessageRow, RowBatch, SessionRow
from callsheet.history.sink import Waiting
from callsheet.history.url import default_file

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

# In memory

BATCH_ROWS, BATCH_BYTES = 1000, 8 << 20
"""Rows that are written at once, and bytes of them."""

Key = tuple[str, str]


class _Item(Struct, gc=False):
    row: CallRow | MessageRow
    blobs: list[BlobRow]
    size: int


Some = dict[Key, _Item]


class PendingRows:
    """Rows that wait to be written, in order. A later state of a call takes the place of an earlier one."""

    def __init__(self) -> None:
        self.size: int = 0
        self.sessions: dict[str, SessionRow] = {}
        """The sessions of what was spooled."""
        self._items: dict[Key, _Item] = {}

    def __len__(self) -> int:
        return len(self._items)

    @classmethod
    def of(cls, batch: RowBatch) -> PendingRows:
        """Return the rows of a batch as pending."""
        pending, blobs = cls(), {blob.hash: blob for blob in batch.blobs}
        pending.sessions = {row.session_id: row for row in batch.sessions}
        for row in (*batch.calls, *batch.messages):
            pending._put(
                (row.session_id, row.owner), row, [blobs[key] for key in row.blobs if key in blobs]
            )
        return pending

    def put(
        self, waiting: dict[Key, Waiting], codec: Codec, refuse: Callable[[Exception], None]
    ) -> None:
        """Encode entries. `refuse` is called for each that can't be encoded."""
        encoded: list[tuple[Key, CallRow | MessageRow, list[BlobRow]]] = []
        for key, item in waiting.items():
            try:
                row, blobs = item.to_row(codec)
                encoded.append((key, row, blobs))
            except Exception as exc:  # noqa: BLE001 - whatever it is, the others are stored
                refuse(exc)
        codec.compress([row for _, row, _ in encoded], [b for *_, blobs in encoded for b in blobs])
        for key, row, blobs in encoded:
            self._put(key, row, blobs)

    def _put(self, key: Key, row: CallRow | MessageRow, blobs: list[BlobRow]) -> None:
        size = len(row.payload) + 500
        if blobs:
            size += sum([len(blob.data) for blob in blobs])
        old = self._items.get(key)
        self.size += size - (old.size if old else 0)
        self._items[key] = _Item(row, blobs, size)

    def batch(self, sessions: Iterable[SessionRow], most: int) -> tuple[RowBatch, Some]:
        """Return as much as is written at once, `most` rows, and which items that are."""
        some, size = Some(), 0
        for key, item in self._items.items():
            some[key] = item
            size += item.size
            if len(some) >= most or size >= BATCH_BYTES:
                break
        return _batch(some.values(), sessions), some

    def all(self, sessions: Iterable[SessionRow]) -> RowBatch:
        """Return everything that waits."""
        return _batch(self._items.values(), sessions)

    def drop_written(self, some: Some) -> int:
        """Drop what was written, unless it has changed since. Return how many items that were."""
        same = [key for key, item in some.items() if self._items.get(key) is item]
        for key in same:
            self._pop(key)
        return len(same)

    def drop_unencodable(self, refuse: Callable[[Exception], None]) -> None:
        """Drop rows that can't be spooled, and call `refuse` for each."""
        for key in [key for key, item in self._items.items() if not is_encodable(item.row)]:
            self._pop(key)
            refuse(ValueError("an id or a number of it can't be written"))

    def drop_oldest(self, limit: int) -> int:
        """Drop the oldest, until what waits has `limit` bytes at most. Return how many that were."""
        count = 0
        while self._items and self.size > limit:
            self._pop(next(iter(self._items)))
            count += 1
        return count

    def clear(self) -> None:
        """Drop everything."""
        self._items, self.size = {}, 0

    def _pop(self, key: Key) -> None:
        self.size -= self._items.pop(key).size


def _batch(items: Iterable[_Item], sessions: Iterable[SessionRow]) -> RowBatch:
    batch = RowBatch(sessions=list(sessions))
    for item in items:
        if isinstance(item.row, CallRow):
            batch.calls.append(item.row)
        else:
            batch.messages.append(item.row)
        batch.blobs += item.blobs
    return batch


# On the disk

MOST = 512 << 20
"""Bytes that one process may spool."""

GONE = 600.0
"""Seconds after which a process counts as gone where there are no locks on files."""

_ENDING = ".spool"
_HALF = ".half"
_OLD = (".left", ".taken")
"""Endings of the files that version 0.1.0 left: one batch, and nothing else."""

_HEAD = struct.Struct(">II")


class SpoolFull(OSError):
    """A spool takes no more."""


class Spool:
    """A file of batches. Any thread may append; one reads."""

    def __init__(self, url: str) -> None:
        self.file: Path | None = None
        self.entries: set[tuple[str, str]] = set()
        """What waits in it, by session and key."""
        self._url: str = url
        self._fd: int = -1
        self._first: PendingRows | None = None
        self._end: int = 0
        self._begin: int = 0
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
            self.entries |= {(row.session_id, row.owner) for row in (*batch.calls, *batch.messages)}

    def first(self) -> PendingRows:
        """Return what waits of the first batch. What is taken from this pending is not returned again."""
        if self._first is None:
            batch, self._end = self._read()
            self._first = PendingRows.of(batch)
        return self._first

    def _read(self) -> tuple[RowBatch, int]:
        """Return the first batch, and where it ends.

        It is empty if it was not written whole: its process was killed meanwhile, and nobody relies on it.
        """
        if self.file is not None and self.file.suffix in _OLD:
            data = os.pread(self._fd, self._size, 0)
            return msgspec.msgpack.decode(data, type=RowBatch), self._size
        head = os.pread(self._fd, _HEAD.size, self._begin)
        begin = self._begin + _HEAD.size
        size, check = _HEAD.unpack(head) if len(head) == _HEAD.size else (MOST, 0)
        if begin + size > self._size:
            return RowBatch(), self._size
        body = os.pread(self._fd, size, begin)
        if crc32(body) != check:
            return RowBatch(), begin + size
        return msgspec.msgpack.decode(body, type=RowBatch), begin + size

    def done(self) -> None:
        """Drop the first batch, which is in the store."""
        with self._lock:
            end, self._first = self._end, None
            self._begin = end
            if end >= self._size:
                os.ftruncate(self._fd, 0)
                self._begin = self._size = 0
                self.entries.clear()

    def _make(self) -> None:
        """Make the file. It gets its name when it is locked: before that, others would claim it."""
        place = directory()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = place / f"{_name(self._url)}-{time.time_ns():020}-{token_hex(4)}{_ENDING}"
        half = file.with_suffix(_HALF)
        fd = os.open(half, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _take_lock(fd)
            half.rename(file)
            _sync_directory(place)
        except BaseException:
            os.close(fd)
            half.unlink(missing_ok=True)
            raise
        self._fd, self.file = fd, file

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
        except OSError:
            return False
        self.file = file
        with suppress(OSError):
            is_free = _take_lock(self._fd) if fcntl is not None else _age(file) > GONE
            here, there = os.fstat(self._fd), file.stat()  # another may have removed it meanwhile
            if is_free and (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
                self._size = here.st_size
                return True
        self.drop()
        return False


def is_encodable(row: Struct) -> bool:
    """Return whether a row can be spooled: an id from elsewhere may be no text at all."""
    try:
        msgspec.msgpack.encode(row)
    except (UnicodeError, OverflowError, TypeError):
        return False
    return True


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
        elif file.suffix == _HALF:
            with suppress(OSError):
                if _age(file) > GONE:  # its process was killed just then
                    file.unlink()


def is_waiting(url: str) -> bool:
    """Return whether a process that is gone has left something for a store."""
    for spool in claimed(url):
        spool.drop()
        return True
    return False


def _take_lock(fd: int) -> bool:
    if fcntl is not None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def _age(file: Path) -> float:
    return time.time() - file.stat().st_mtime


def _sync_directory(place: Path) -> None:
    if os.name == "posix":
        fd = os.open(place, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _name(url: str) -> str:
    return blake2b(url.encode(errors="surrogateescape"), digest_size=8).hexdigest()
