"""Replace files atomically: at any moment, a reader finds either the old content or the new one.

The new content is written to a temporary file in the same directory, which receives the mode, owner and
attributes of the old file, is flushed to disk, and is renamed over it. Immediately before the rename, the old
file must be unchanged since it was read. A new file is hard-linked to its name instead, which fails if
another process has created that name in the meantime.

A thread can't be stopped from outside, and an abandoned one could change a file when nobody expects it. So
a cancelled write is not abandoned: `run_to_end` sets a flag, and waits for the thread, which either stops
before it changes the file or reports that it was too late.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from threading import Event

from callsheet.tools.errors import Cancelled, ExecutionFailed
from callsheet.tools.fs.dirfd import NO_LINK, READ, DirectoryEntry, parent_of
from callsheet.tools.invocation import in_thread
from callsheet.tools.result import ToolResult

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK


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
        temporary = (
            f".callsheet-{token_hex(8)}.tmp"  # most tools ignore names that begin with a dot
        )
        mode = 0o666 if old is None else 0o600
        handle = os.open(temporary, _NEW, mode, dir_fd=entry.directory)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
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
    # A file may be written but not read, and not every system and file system has extended attributes.
    with suppress(OSError, AttributeError):
        source = os.open(entry.name, READ, dir_fd=entry.directory)
        try:
            for name in os.listxattr(source):
                with suppress(OSError):
                    os.setxattr(handle, name, os.getxattr(source, name))
        finally:
            os.close(source)
