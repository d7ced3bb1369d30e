"""Removing, copying and renaming entries of open directories, whole trees among them.

All of it works relative to open directories and never goes through a link, so a directory that is swapped for
a link meanwhile leads nowhere else.

**Removing** takes a directory with all that is in it, and nothing else. Other file systems that are mounted
inside are left alone.

**Copying** is for moves to another file system. The copy has the contents, the mode, the times and the
extended attributes; links stay links. Only what was copied is removed afterwards, and only if it is still as
it was: what came or changed in the meantime stays where it is.

**Renaming** never replaces what is there. `rename(2)` silently replaces a file that has the new name, and
looking first is no help: the file may come in between. So a file gets its second name by a hard link, which
is never replaced. A directory replaces at most an empty one.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeAlias

import msgspec

from callsheet.tools.errors import Cancelled, ExecutionFailed
from callsheet.tools.fs.dirfd import LIST, NO_LINK, READ

MAX_NAMED = 20
"""Entries that could not be removed and are named; the others are counted."""

MAX_DEPTH = 200
"""Directories inside one another, each of which takes descriptors."""

_CHUNK = 1 << 20
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK
_NO_LINKS = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)

EntryState: TypeAlias = "tuple[int, ...]"


def state_of(found: os.stat_result) -> EntryState:
    """Return the state of an entry, to detect later whether it was changed or replaced.

    The ctime is not included, because removing another hard link to the same file changes it. Nor are size
    and time of a directory, because removing what is in it changes them.
    """
    which = (found.st_dev, found.st_ino, stat.S_IFMT(found.st_mode))
    return which if stat.S_ISDIR(found.st_mode) else (*which, found.st_size, found.st_mtime_ns)


# Removing


class Removal(msgspec.Struct):
    """Removes entries, and counts what was removed, and what was left and why.

    Args:
        stop: Called now and then; once it returns True, nothing more is removed.
        known: The states of entries by their paths. If set, only what is still in its state is removed.
    """

    stop: Callable[[], bool] = lambda: False
    known: Mapping[str, EntryState] | None = None
    files: int = 0
    directories: int = 0
    left: list[tuple[str, str]] = []
    left_count: int = 0
    stopped: bool = False

    def remove(self, parent: int, name: str, above: str = "", depth: int = 0) -> bool:
        """Remove an entry of an open directory, as far as that is possible, and return whether it is gone."""
        path = f"{above}{name}"
        self.stopped = self.stopped or self.stop()
        if self.stopped:
            return False
        try:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if self.known is not None and self.known.get(path) != state_of(found):
                return self._leave(path, "it was changed meanwhile")
            if not stat.S_ISDIR(found.st_mode):
                os.unlink(name, dir_fd=parent)
                self.files += 1
                return True
            if depth >= MAX_DEPTH:
                return self._leave(path, f"it is nested {MAX_DEPTH} directories deep")
            if not self._empty(parent, name, path, depth):
                return False
            os.rmdir(name, dir_fd=parent)
            self.directories += 1
        except FileNotFoundError:
            pass  # another process removed it first
        except OSError as exc:
            return self._leave(path, exc.strerror or str(exc))
        return True

    def _empty(self, parent: int, name: str, path: str, depth: int) -> bool:
        fd = os.open(name, LIST | NO_LINK, dir_fd=parent)
        try:
            if depth and os.fstat(fd).st_dev != os.fstat(parent).st_dev:
                return self._leave(path, "another file system is mounted there")
            names = sorted(os.listdir(fd))  # noqa: PTH208 - it is a descriptor
            left = [each for each in names if not self.remove(fd, each, f"{path}/", depth + 1)]
            return not left
        finally:
            os.close(fd)

    def _leave(self, path: str, why: str) -> bool:
        self.left_count += 1
        if len(self.left) < MAX_NAMED:
            self.left.append((path, why))
        return False


# Copying


class TreeCopy:
    """Copies an entry of an open directory. `known` has the state of what was copied, by its path.

    Args:
        stop: Called now and then; once it returns True, `Cancelled` is raised.
    """

    def __init__(self, stop: Callable[[], bool]) -> None:
        self.known: dict[str, EntryState] = {}
        self._stop: Callable[[], bool] = stop

    def copy(self, from_fd: int, old: str, to_fd: int, new: str, above: str = "") -> None:
        """Copy an entry to a new entry of another open directory."""
        self._check()
        path, found = f"{above}{old}", os.stat(old, dir_fd=from_fd, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            os.symlink(os.readlink(old, dir_fd=from_fd), new, dir_fd=to_fd)
            os.utime(new, ns=_times(found), dir_fd=to_fd, follow_symlinks=False)
        elif stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode):
            source = os.open(old, READ, dir_fd=from_fd)
            try:
                if not os.path.samestat(found, os.fstat(source)):
                    raise ExecutionFailed(f"{path} was replaced while it was copied")
                self._copy_open(source, found, to_fd, new, path)
            finally:
                os.close(source)
        else:
            raise ExecutionFailed(
                f"{path} is neither a file nor a directory nor a link; it can't be moved to another file "
                "system"
            )
        self.known[path] = state_of(found)

    def _copy_open(
        self, source: int, found: os.stat_result, to_fd: int, new: str, path: str
    ) -> None:
        is_directory = stat.S_ISDIR(found.st_mode)
        if is_directory:
            os.mkdir(new, 0o700, dir_fd=to_fd)
        target = os.open(new, LIST | NO_LINK if is_directory else _NEW, 0o600, dir_fd=to_fd)
        try:
            if is_directory:
                if path.count("/") >= MAX_DEPTH:
                    raise ExecutionFailed(f"It is nested {MAX_DEPTH} directories deep: too deep")
                for name in os.listdir(source):
                    self.copy(source, name, target, name, f"{path}/")
            else:
                while data := os.read(source, _CHUNK):
                    self._check()
                    write_all(target, data)
            _copy_attributes(source, target, found)
            if not is_directory:
                os.fsync(target)  # the original is removed soon
        finally:
            os.close(target)

    def _check(self) -> None:
        if self._stop():
            raise Cancelled("stopped while copying; nothing was moved")


def write_all(fd: int, data: bytes) -> None:
    """Write all bytes to a descriptor, in as many system calls as needed."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _copy_attributes(source: int, target: int, found: os.stat_result) -> None:
    with suppress(OSError):  # only the superuser may change the owner
        os.fchown(target, found.st_uid, found.st_gid)
    copy_extended_attributes(source, target)
    os.fchmod(target, stat.S_IMODE(found.st_mode))
    os.utime(target, ns=_times(found))


def copy_extended_attributes(source: int, target: int) -> None:
    """Copy access lists, labels and tags between open files, as far as they can be copied."""
    with suppress(OSError, AttributeError):  # not every system and file system has them
        for name in os.listxattr(source):
            with suppress(OSError):
                os.setxattr(target, name, os.getxattr(source, name))


def _times(found: os.stat_result) -> tuple[int, int]:
    return found.st_atime_ns, found.st_mtime_ns


# Renaming


def rename_new(from_fd: int, old: str, to_fd: int, new: str) -> None:
    """Rename an entry of one open directory to a new entry of another.

    Raises:
        FileExistsError: An entry of that name exists, even if it was created at this very moment.
    """
    found = os.stat(old, dir_fd=from_fd, follow_symlinks=False)
    by_link = not stat.S_ISDIR(found.st_mode)
    with suppress(FileNotFoundError):
        there = os.stat(new, dir_fd=to_fd, follow_symlinks=False)
        # On a file system that ignores the case of letters, both names may be those of one entry. Two hard
        # links are two entries, and renaming one to the other would do nothing.
        if not os.path.samestat(found, there) or (by_link and found.st_nlink > 1):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), old, None, new)
        by_link = False
    if by_link:
        try:
            os.link(old, new, src_dir_fd=from_fd, dst_dir_fd=to_fd, follow_symlinks=False)
        except OSError as exc:
            if exc.errno not in _NO_LINKS:
                raise
        else:
            _unlink_or_undo(from_fd, old, to_fd, new)
            return
    os.rename(old, new, src_dir_fd=from_fd, dst_dir_fd=to_fd)


def _unlink_or_undo(from_fd: int, old: str, to_fd: int, new: str) -> None:
    try:
        os.unlink(old, dir_fd=from_fd)
    except OSError:
        os.unlink(new, dir_fd=to_fd)
        raise
