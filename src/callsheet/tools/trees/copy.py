"""Copying a file or a directory to another file system, and removing just what was copied.

The copy has the contents, the mode, the times and the extended attributes; links stay links. Only
what was copied is removed afterwards, and only if it is still as it was: what came or changed in
the meantime stays where it is.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from callsheet.tools.beneath import NO_LINK
from callsheet.tools.errors import Cancelled, ExecutionFailed

from .remove import LIST, listed

_CHUNK = 1 << 20
_DEEPEST = 200  # each level holds two descriptors
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | NO_LINK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK


class Copied(NamedTuple):
    """An entry that was copied, as it was; a directory has what is below."""

    name: str
    state: tuple[int, ...]
    below: list[Copied] | None


def copy_entry(
    from_fd: int, old: str, to_fd: int, new: str, stop: Callable[[], bool], depth: int = 0
) -> Copied:
    """Copy an entry of one open directory to a new entry of another."""
    if stop():
        raise Cancelled("stopped while copying; nothing was moved")
    found = os.stat(old, dir_fd=from_fd, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(old, dir_fd=from_fd), new, dir_fd=to_fd)
        os.utime(new, ns=_times(found), dir_fd=to_fd, follow_symlinks=False)
        return Copied(old, _state(found), None)
    if stat.S_ISDIR(found.st_mode):
        return _copy_directory(from_fd, old, to_fd, new, stop, depth)
    if stat.S_ISREG(found.st_mode):
        return _copy_file(from_fd, old, to_fd, new, stop)
    raise ExecutionFailed(
        f"{old} is neither a file nor a directory nor a link; it can't be moved to another file system"
    )


def _copy_file(from_fd: int, old: str, to_fd: int, new: str, stop: Callable[[], bool]) -> Copied:
    source = os.open(old, _READ, dir_fd=from_fd)
    try:
        before = os.fstat(source)
        if not stat.S_ISREG(before.st_mode):
            raise ExecutionFailed(f"{old} was replaced by something that is not a file")
        target = os.open(new, _NEW, 0o600, dir_fd=to_fd)
        try:
            while data := os.read(source, _CHUNK):
                if stop():
                    raise Cancelled("stopped while copying; nothing was moved")
                _write_all(target, data)
            _copy_attributes(source, target, before)
            os.fsync(target)  # the original is removed soon
        finally:
            os.close(target)
        return Copied(old, _state(before), None)
    finally:
        os.close(source)


def _copy_directory(
    from_fd: int, old: str, to_fd: int, new: str, stop: Callable[[], bool], depth: int
) -> Copied:
    if depth >= _DEEPEST:
        raise ExecutionFailed(
            f"{old} is nested {_DEEPEST} directories deep; that is too deep to be moved to another "
            "file system at once"
        )
    source = os.open(old, LIST | NO_LINK, dir_fd=from_fd)
    try:
        os.mkdir(new, 0o700, dir_fd=to_fd)
        target = os.open(new, LIST | NO_LINK, dir_fd=to_fd)
        try:
            names = [entry.name for entry in listed(source)]
            below = [copy_entry(source, name, target, name, stop, depth + 1) for name in names]
            found = os.fstat(source)
            _copy_attributes(source, target, found)
        finally:
            os.close(target)
    finally:
        os.close(source)
    return Copied(old, _state(found), below)


def remove_copied(parent: int, copied: Copied, at: str = "") -> list[str]:
    """Remove what was copied, as far as it is unchanged. Gives the paths that were left."""
    path = f"{at}/{copied.name}" if at else copied.name
    try:
        found = os.stat(copied.name, dir_fd=parent, follow_symlinks=False)
        if copied.below is None:
            if _state(found) != copied.state:
                return [path]
            os.unlink(copied.name, dir_fd=parent)
            return []
        below = os.open(copied.name, LIST | NO_LINK, dir_fd=parent)
    except FileNotFoundError:
        return []
    except OSError:
        return [path]
    try:
        left = [name for entry in copied.below for name in remove_copied(below, entry, path)]
    finally:
        os.close(below)
    if not left:
        try:
            os.rmdir(copied.name, dir_fd=parent)
        except OSError:
            left = [path]
    return left


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _copy_attributes(source: int, target: int, found: os.stat_result) -> None:
    with suppress(OSError, AttributeError):  # only the superuser may give files away
        os.fchown(target, found.st_uid, found.st_gid)
    with suppress(OSError, AttributeError):  # not every system and file system has them
        for name in os.listxattr(source):
            os.setxattr(target, name, os.getxattr(source, name))
    os.fchmod(target, stat.S_IMODE(found.st_mode))
    os.utime(target, ns=_times(found))


def _times(found: os.stat_result) -> tuple[int, int]:
    return found.st_atime_ns, found.st_mtime_ns


def _state(found: os.stat_result) -> tuple[int, ...]:
    """Return what tells whether an entry is still the one that was seen, unchanged.

    Not the time of its last change of state: removing another name of the same file changes that.
    """
    return (
        found.st_dev,
        found.st_ino,
        stat.S_IFMT(found.st_mode),
        found.st_size,
        found.st_mtime_ns,
    )
