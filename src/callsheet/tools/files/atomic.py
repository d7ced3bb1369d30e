"""Replace files atomically: at any moment, a reader finds either the old content or the new one.

The new content is written to a temporary file in the same directory, which receives the mode, owner and
attributes of the old file, is flushed to disk, and is renamed over it. Immediately before the rename, the old
file must be unchanged since it was read. A new file is hard-linked to its name instead, which fails if
another process has created that name in the meantime.

The writer holds a lock on the temporary file. If a process is killed while it writes, the file remains but
its lock is released; the next process that writes in the same directory removes it.

A thread can't be stopped from outside, and an abandoned one could change a file when nobody expects it. So
a cancelled write is not abandoned: `run_to_end` sets a flag, and waits for the thread, which either stops
before it changes the file or reports that it was too late.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from threading import Event, Lock

from callsheet.tools.errors import Cancelled, ExecutionFailed
from callsheet.tools.fs.dirfd import LIST, NO_LINK, READ, DirectoryEntry, parent_of
from callsheet.tools.fs.trees import copy_extended_attributes, write_all
from callsheet.tools.invocation import in_thread
from callsheet.tools.result import ToolResult

_TEMPORARY = re.compile(r"\.callsheet-[0-9a-f]{16}\.tmp")
"""Names of temporary files. They begin with a dot, because most tools ignore such files."""

_TRIES = 8
_MAX_SWEPT = 4096

_swept: dict[tuple[int, int], None] = {}
_swept_lock = Lock()


async def run_to_end(work: Callable[[Callable[[], None]], ToolResult]) -> ToolResult:
    """Run work on files in a thread, and wait for its end even if this is cancelled.

    Args:
        work: Receives a function to call before it changes anything, which raises `Cancelled` if the caller
            has been cancelled.

    Raises:
        Cancelled: The caller was cancelled; `output` states whether something was written nevertheless.
    """
    unwanted = Event()

    def check_wanted() -> None:
        if unwanted.is_set():
            raise Cancelled("stopped", output="Nothing was written")

    task = asyncio.ensure_future(in_thread(lambda: work(check_wanted)))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        unwanted.set()
        result = await task
        raise Cancelled("stopped too late", output=result.output, **dict(result.metadata)) from None


def replace_file(
    path: Path, data: bytes, old: os.stat_result | None, check_wanted: Callable[[], None]
) -> os.stat_result:
    """Replace or create a file atomically.

    Args:
        path: The file, links resolved.
        data: The new content.
        old: The state of the file when it was read; None if it must not exist yet.
        check_wanted: Called before the file is put in place; if it raises, nothing has changed.

    Returns:
        The new state.

    Raises:
        ExecutionFailed: The file was changed, deleted or created by another process in the meantime.
        OSError: The system refuses.
    """
    with parent_of(path, [] if old is None else None) as entry:
        _sweep(entry.directory)
        temporary, handle = _make_temporary(entry, 0o666 if old is None else 0o600)
        try:
            write_all(handle, data)
            if old is not None:
                _copy_attributes(handle, entry, old)
            os.fsync(handle)
            check_wanted()
            if old is None:
                _link(temporary, entry, path)
            else:
                _check_same(entry, old, path)
                _rename(temporary, entry)
            return os.fstat(handle)
        finally:
            with suppress(FileNotFoundError):  # it was renamed into place
                os.unlink(temporary, dir_fd=entry.directory)
            os.close(handle)


def _check_same(entry: DirectoryEntry, old: os.stat_result, path: Path) -> None:
    """Raise if a file has changed since it was read."""
    now = entry.stat()
    if now is None or _state(now) != _state(old):
        what = "deleted" if now is None else "changed"
        raise ExecutionFailed(
            f"{path} was {what} by somebody else meanwhile; nothing was written. "
            "Read it again before changing it",
            changed_since_read=True,
        )


def _state(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _make_temporary(entry: DirectoryEntry, mode: int) -> tuple[str, int]:
    """Create and lock the temporary file; retry if another process removes it before it is locked."""
    for _ in range(_TRIES):
        name = f".callsheet-{token_hex(8)}.tmp"
        flags = NO_LINK | os.O_RDWR | os.O_CREAT | os.O_EXCL
        handle = os.open(name, flags, mode, dir_fd=entry.directory)
        with suppress(OSError):  # a file system without locks, where nothing is swept either
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:  # no other process has swept it before it was locked
            return name, handle
        os.close(handle)
    raise ExecutionFailed(f"{entry.name}: files that are being written there vanish")


def _link(temporary: str, entry: DirectoryEntry, path: Path) -> None:
    """Link a new file to its name, unless the name exists."""
    directory = entry.directory
    try:
        os.link(
            temporary,
            entry.name,
            src_dir_fd=directory,
            dst_dir_fd=directory,
            follow_symlinks=False,
        )
    except FileExistsError:
        raise ExecutionFailed(
            f"{path} was created by somebody else meanwhile; nothing was written. "
            "Read it before changing it",
            changed_since_read=True,
        ) from None
    except OSError:  # a file system without links
        if entry.stat() is not None:
            raise
        _rename(temporary, entry)


def _rename(temporary: str, entry: DirectoryEntry) -> None:
    directory = entry.directory
    os.replace(temporary, entry.name, src_dir_fd=directory, dst_dir_fd=directory)


# What a file has besides its content


def _copy_attributes(handle: int, entry: DirectoryEntry, old: os.stat_result) -> None:
    """Copy the owner, mode and attributes of the old file to the new one, as far as permitted."""
    mode, new = stat.S_IMODE(old.st_mode), os.fstat(handle)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(handle, old.st_uid, old.st_gid)
        except OSError:
            mode &= ~(
                stat.S_ISUID | stat.S_ISGID
            )  # setuid and setgid must not apply to another owner
            with suppress(OSError):
                os.fchown(handle, -1, old.st_gid)
    os.fchmod(handle, mode)
    with suppress(OSError):  # a file that may be written but not read
        source = os.open(entry.name, READ, dir_fd=entry.directory)
        try:
            copy_extended_attributes(source, handle)
        finally:
            os.close(source)


# What killed processes left


def _sweep(directory: int) -> None:
    """Remove leftover temporary files in a directory, once per directory and process."""
    found = os.fstat(directory)
    key = (found.st_dev, found.st_ino)
    with _swept_lock:
        if key in _swept:
            return
        _swept[key] = None
        if len(_swept) > _MAX_SWEPT:
            del _swept[next(iter(_swept))]
    with suppress(OSError):
        listing = os.open(".", LIST | NO_LINK, dir_fd=directory)
        try:
            with os.scandir(listing) as entries:
                names = [entry.name for entry in entries if _TEMPORARY.fullmatch(entry.name)]
        finally:
            os.close(listing)
        for name in names:
            _remove_left_over(name, directory)


def _remove_left_over(name: str, directory: int) -> None:
    """Remove a temporary file that no process has locked."""
    with suppress(OSError):
        handle = os.open(name, READ, dir_fd=directory)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name, dir_fd=directory)
        finally:
            os.close(handle)
