"""Removing, copying and renaming entries of open directories, whole trees among them.

**Removing** takes a directory with all that is in it, and nothing else. The walk enters each directory
relative to the one that it stands in, never through a link, and goes back up by `..` only if that is where it
came from. So it needs one descriptor at any depth, and a directory that is swapped for a link, or moved away,
while it is being removed leads nowhere else. Other file systems that are mounted inside are left alone.

**Copying** is for moves to another file system. The copy has the contents, the mode, the times and the
extended attributes; links stay links. Only what was copied is removed afterwards, and only if it is still as
it was: what came or changed in the meantime stays where it is.

**Renaming** never replaces what is there. `rename(2)` silently replaces a file that has the new name, and
looking first is no help: the file may come in between. Linux and macOS can be asked to refuse; where they
can't, a file gets its second name by a hard link, which is never replaced either.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import NamedTuple, TypeAlias

import msgspec

from callsheet.tools.errors import Cancelled, ExecutionFailed
from callsheet.tools.fs.dirfd import LIST, NO_LINK, READ

MAX_NAMED = 20
"""Entries that could not be removed and are named; the others are counted."""


class _Listed(NamedTuple):
    """A name in a directory, and whether it is a directory itself."""

    name: str
    is_directory: bool


class Removal(msgspec.Struct):
    """What was removed, and what was left and why."""

    files: int = 0
    directories: int = 0
    left: list[tuple[str, str]] = []
    left_count: int = 0
    stopped: bool = False

    def leave(self, path: str, why: str) -> None:
        """Note an entry that could not be removed."""
        self.left_count += 1
        if len(self.left) < MAX_NAMED:
            self.left.append((path, why))


class _Level(msgspec.Struct):
    """A directory on the way down: its name, which one it is, what is still to do in it."""

    name: str
    identity: tuple[int, int]
    entries: list[_Listed]
    is_incomplete: bool = False


def remove_tree(parent: int, name: str, stop: Callable[[], bool]) -> Removal:
    """Remove the directory `name` of an open directory, as far as that is possible.

    `stop` is called now and then; once it returns True, nothing more is removed.
    """
    walk = _Walk(parent, stop)
    try:
        walk.enter(_Listed(name, True))
        while walk.levels and not walk.removal.stopped:
            walk.step()
    finally:
        os.close(walk.fd)
    return walk.removal


class _Walk:
    def __init__(self, parent: int, stop: Callable[[], bool]) -> None:
        self.fd: int = os.dup(parent)
        self.top: int = parent
        self.stop: Callable[[], bool] = stop
        self.levels: list[_Level] = []
        self.removal: Removal = Removal()

    def step(self) -> None:
        """Remove one entry of the directory that the walk stands in, or the directory itself."""
        level = self.levels[-1]
        if self.stop():
            self.removal.stopped = True
        elif not level.entries:
            self.leave()
        elif (entry := level.entries.pop()).is_directory:
            self.enter(entry)
        else:
            try:
                os.unlink(entry.name, dir_fd=self.fd)
                self.removal.files += 1
            except FileNotFoundError:
                pass  # another process removed it first
            except OSError as exc:
                self.skip(entry.name, exc.strerror or str(exc))

    def enter(self, entry: _Listed) -> None:
        """Go down into a directory, and list it."""
        try:
            below = os.open(entry.name, LIST | NO_LINK, dir_fd=self.fd)
        except FileNotFoundError:
            return
        except OSError as exc:
            self.skip(entry.name, exc.strerror or str(exc))
            return
        try:
            found = os.fstat(below)
            if self.levels and found.st_dev != self.levels[0].identity[0]:
                self.skip(entry.name, "another file system is mounted there")
                os.close(below)
                return
            level = _Level(entry.name, (found.st_dev, found.st_ino), _list(below))
        except OSError as exc:
            os.close(below)
            self.skip(entry.name, exc.strerror or str(exc))
            return
        self.levels.append(level)
        os.close(self.fd)
        self.fd = below

    def leave(self) -> None:
        """Go up, and remove the directory that was left if it is empty now."""
        level = self.levels.pop()
        above = self.climb()
        if above is None:
            self.levels.append(level)
            self.skip(".", "it was moved while it was being deleted")
            self.removal.stopped = True
            return
        os.close(self.fd)
        self.fd = above
        if level.is_incomplete:
            self.mark_incomplete()
            return
        try:
            os.rmdir(level.name, dir_fd=above)
            self.removal.directories += 1
        except FileNotFoundError:
            pass
        except OSError as exc:
            self.skip(level.name, exc.strerror or str(exc))

    def climb(self) -> int | None:
        """Open the directory above, if it is still the one that the walk came from."""
        if not self.levels:
            return os.dup(self.top)
        above = os.open("..", LIST | NO_LINK, dir_fd=self.fd)
        found = os.fstat(above)
        if (found.st_dev, found.st_ino) == self.levels[-1].identity:
            return above
        os.close(above)
        return None

    def skip(self, name: str, why: str) -> None:
        self.removal.leave("/".join([*(level.name for level in self.levels), name]), why)
        self.mark_incomplete()

    def mark_incomplete(self) -> None:
        if self.levels:
            self.levels[-1].is_incomplete = True


def _list(fd: int) -> list[_Listed]:
    """Return the entries of an open directory in reverse order of names."""
    with os.scandir(fd) as entries:
        found = [_Listed(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    return sorted(found, reverse=True)


_CHUNK = 1 << 20
_DEEPEST = 200  # each level holds two descriptors
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
    source = os.open(old, READ, dir_fd=from_fd)
    try:
        before = os.fstat(source)
        if not stat.S_ISREG(before.st_mode):
            raise ExecutionFailed(f"{old} was replaced by something that is not a file")
        target = os.open(new, _NEW, 0o600, dir_fd=to_fd)
        try:
            while data := os.read(source, _CHUNK):
                if stop():
                    raise Cancelled("stopped while copying; nothing was moved")
                write_all(target, data)
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
            names = [entry.name for entry in _list(source)]
            below = [copy_entry(source, name, target, name, stop, depth + 1) for name in names]
            found = os.fstat(source)
            _copy_attributes(source, target, found)
        finally:
            os.close(target)
    finally:
        os.close(source)
    return Copied(old, _state(found), below)


def remove_copied(parent: int, copied: Copied, at: str = "") -> list[str]:
    """Remove what was copied, as far as it is unchanged, and return the paths that were left."""
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


def write_all(fd: int, data: bytes) -> None:
    """Write all bytes to a descriptor, in as many system calls as needed."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _copy_attributes(source: int, target: int, found: os.stat_result) -> None:
    with suppress(OSError, AttributeError):  # only the superuser may change the owner
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


def _state(found: os.stat_result) -> tuple[int, ...]:
    """Return the state of an entry, to detect later whether it was changed or replaced.

    The ctime is not included, because removing another hard link to the same file changes it.
    """
    return (
        found.st_dev,
        found.st_ino,
        stat.S_IFMT(found.st_mode),
        found.st_size,
        found.st_mtime_ns,
    )


Native: TypeAlias = Callable[[int, bytes, int, bytes], int]

_NO_REPLACE = 1  # RENAME_NOREPLACE of Linux
_EXCLUSIVE = 4  # RENAME_EXCL of macOS
# Errors of systems and file systems that know no such renaming.
_UNKNOWN = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)
_NO_LINKS = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)


def rename_new(from_fd: int, old: str, to_fd: int, new: str) -> None:
    """Rename an entry of one open directory to a new entry of another.

    Raises:
        FileExistsError: An entry of that name exists, even if it was created at this very moment.
    """
    if _is_same_entry(from_fd, old, to_fd, new):
        os.rename(old, new, src_dir_fd=from_fd, dst_dir_fd=to_fd)
        return
    rename = native()
    if rename is not None:
        if rename(from_fd, os.fsencode(old), to_fd, os.fsencode(new)) == 0:
            return
        code = ctypes.get_errno()
        if code not in _UNKNOWN:
            raise OSError(code, os.strerror(code), old, None, new)
    _rename_by_hand(from_fd, old, to_fd, new)


@cache
def native() -> Native | None:
    """Return the system's own renaming that refuses to replace, if it has one."""
    libc = ctypes.CDLL(None, use_errno=True)
    for name, flag in (("renameat2", _NO_REPLACE), ("renameatx_np", _EXCLUSIVE)):
        function = getattr(libc, name, None)
        if function is not None:
            function.argtypes = (
                ctypes.c_int,
                ctypes.c_char_p,
                ctypes.c_int,
                ctypes.c_char_p,
                ctypes.c_uint,
            )
            return _with_flag(function, flag)
    return None


def _with_flag(function: Callable[..., int], flag: int) -> Native:
    def rename(from_fd: int, old: bytes, to_fd: int, new: bytes) -> int:
        return function(from_fd, old, to_fd, new, flag)

    return rename


def _rename_by_hand(from_fd: int, old: str, to_fd: int, new: str) -> None:
    is_directory = stat.S_ISDIR(os.stat(old, dir_fd=from_fd, follow_symlinks=False).st_mode)
    if not is_directory:
        try:
            os.link(old, new, src_dir_fd=from_fd, dst_dir_fd=to_fd, follow_symlinks=False)
        except OSError as exc:
            if exc.errno not in _NO_LINKS:
                raise
        else:
            _unlink_or_undo(from_fd, old, to_fd, new)
            return
    # A directory replaces at most an empty one; that and file systems without links are left to luck.
    with suppress(FileNotFoundError):
        os.stat(new, dir_fd=to_fd, follow_symlinks=False)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), old, None, new)
    os.rename(old, new, src_dir_fd=from_fd, dst_dir_fd=to_fd)


def _unlink_or_undo(from_fd: int, old: str, to_fd: int, new: str) -> None:
    try:
        os.unlink(old, dir_fd=from_fd)
    except OSError:
        os.unlink(new, dir_fd=to_fd)
        raise


def _is_same_entry(from_fd: int, old: str, to_fd: int, new: str) -> bool:
    """Return whether both names are spellings of one entry, such as on a case-insensitive file system."""
    if old == new or _plain(old) != _plain(new):
        return False
    try:
        first = os.stat(old, dir_fd=from_fd, follow_symlinks=False)
        second = os.stat(new, dir_fd=to_fd, follow_symlinks=False)
        both = os.path.samestat(os.fstat(from_fd), os.fstat(to_fd))
    except FileNotFoundError:
        return False
    # Two hard links are two entries, and renaming one to the other would do nothing.
    return both and os.path.samestat(first, second) and not _lists(from_fd, old, new)


def _lists(fd: int, *names: str) -> bool:
    """Return whether an open directory has all of these names as its own."""
    here = os.open(".", os.O_RDONLY, dir_fd=fd)
    try:
        with os.scandir(here) as entries:
            return set(names) <= {entry.name for entry in entries}
    finally:
        os.close(here)


def _plain(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
