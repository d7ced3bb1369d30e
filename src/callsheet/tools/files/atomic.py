"""Files are replaced as a whole: at any moment, a reader finds the old one or the new one.

The new content goes to a file beside the old one, is forced to the disk, gets the mode, the owner and the
attributes of the old one, and takes its name. Right before that, the old file must still be as it was
read. A new file is linked to its name, which fails if somebody else has made it meanwhile.

Whoever writes holds a lock on the file beside. If a process is killed while it writes, that file is left
over and its lock is gone; the next process that writes in the same directory removes it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from threading import Lock

from callsheet.tools.errors import ExecutionFailed

from .opening import FILE_FLAGS, Place, place_of

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_BESIDE = re.compile(r"\.callsheet-[0-9a-f]{16}\.tmp")
"""Names of files that are being written. They begin with a dot, as most tools leave such files out."""

_TRIES = 8
_MOST_SWEPT = 4096

_swept: dict[tuple[int, int], None] = {}
_swept_lock = Lock()


def replace_file(
    path: Path, data: bytes, old: os.stat_result | None, alive: Callable[[], None]
) -> os.stat_result:
    """Return a file new content. `old` is its state when it was read; None if it must not exist yet.

    `alive` is called before the file takes its name; if it raises, nothing has changed.
    """
    with place_of(path, create=old is None) as place:
        _sweep(place)
        beside, handle = _make_beside(place, 0o666 if old is None else 0o600)
        try:
            _write(handle, data)
            if old is not None:
                _keep(handle, place, old)
            os.fsync(handle)
            alive()
            if old is None:
                _link(beside, place, path)
            else:
                check_same(place, old, path)
                os.replace(
                    beside.name,
                    place.name,
                    src_dir_fd=beside.directory,
                    dst_dir_fd=place.directory,
                )
            return os.fstat(handle)
        finally:
            with suppress(FileNotFoundError):  # it has its name now
                os.unlink(beside.name, dir_fd=beside.directory)
            os.close(handle)


def check_same(place: Place, old: os.stat_result, path: Path) -> None:
    """Raise if a file is not as it was when it was read."""
    now = place.stat()
    if now is None or _state(now) != _state(old):
        what = "deleted" if now is None else "changed"
        raise ExecutionFailed(
            f"{path} was {what} by somebody else meanwhile; nothing was written. "
            "Read it again before changing it",
            changed_since_read=True,
        )


def _state(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _make_beside(place: Place, mode: int) -> tuple[Place, int]:
    """Make the file beside, locked. Who sweeps may be quicker than the lock; then there is another."""
    folder = "" if place.directory is not None else os.path.dirname(place.name)  # noqa: PTH120
    for _ in range(_TRIES):
        name = os.path.join(folder, f".callsheet-{token_hex(8)}.tmp")  # noqa: PTH118 - by name
        flags = FILE_FLAGS | os.O_RDWR | os.O_CREAT | os.O_EXCL
        handle = os.open(name, flags, mode, dir_fd=place.directory)
        if fcntl is None:
            return Place(name, place.directory), handle
        with suppress(OSError):  # a file system without locks: then nobody sweeps there either
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return Place(name, place.directory), handle
        os.close(handle)
    raise ExecutionFailed(f"{place.name}: files that are being written there vanish")


def _write(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _link(beside: Place, place: Place, path: Path) -> None:
    """Return a new file its name, unless the name is taken."""
    try:
        os.link(
            beside.name,
            place.name,
            src_dir_fd=beside.directory,
            dst_dir_fd=place.directory,
            follow_symlinks=False,
        )
    except FileExistsError:
        raise ExecutionFailed(
            f"{path} was created by somebody else meanwhile; nothing was written. "
            "Read it before changing it",
            changed_since_read=True,
        ) from None
    except OSError:  # a file system without links
        if place.stat() is not None:
            raise
        os.replace(beside.name, place.name, src_dir_fd=beside.directory, dst_dir_fd=place.directory)


# What a file keeps


def _keep(handle: int, place: Place, old: os.stat_result) -> None:
    """Return the new file the owner, the mode and the attributes of the old one, where that may be."""
    mode, new = stat.S_IMODE(old.st_mode), os.fstat(handle)
    if hasattr(os, "fchown") and (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(handle, old.st_uid, old.st_gid)
        except OSError:
            mode &= ~(stat.S_ISUID | stat.S_ISGID)  # they would speak for another owner
            with suppress(OSError):
                os.fchown(handle, -1, old.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(handle, mode)
    if hasattr(os, "listxattr"):
        _keep_attributes(handle, place)


def _keep_attributes(handle: int, place: Place) -> None:
    """Copy what else is known of the old file: access lists, labels, tags."""
    with suppress(OSError):
        source = os.open(place.name, FILE_FLAGS | os.O_RDONLY, dir_fd=place.directory)
        try:
            for name in os.listxattr(source):
                with suppress(OSError):
                    os.setxattr(handle, name, os.getxattr(source, name))
        finally:
            os.close(source)


# What killed processes left


def _sweep(place: Place) -> None:
    """Remove what is left over in a directory, once for each directory in the life of a process."""
    if fcntl is None or place.directory is None:
        return
    found = os.fstat(place.directory)
    key = (found.st_dev, found.st_ino)
    with _swept_lock:
        if key in _swept:
            return
        _swept[key] = None
        if len(_swept) > _MOST_SWEPT:
            del _swept[next(iter(_swept))]
    with suppress(OSError):
        listing = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place.directory)
        try:
            with os.scandir(listing) as entries:
                names = [entry.name for entry in entries if _BESIDE.fullmatch(entry.name)]
        finally:
            os.close(listing)
        for name in names:
            _remove_left_over(name, place.directory)


def _remove_left_over(name: str, directory: int) -> None:
    """Remove a file that nobody holds the lock of."""
    assert fcntl is not None
    with suppress(OSError):
        handle = os.open(name, FILE_FLAGS | os.O_RDONLY | os.O_NONBLOCK, dir_fd=directory)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name, dir_fd=directory)
        finally:
            os.close(handle)
