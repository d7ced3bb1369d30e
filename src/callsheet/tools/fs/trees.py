"""Removing and renaming entries of open directories, whole trees among them.

All of it works relative to open directories and never goes through a link, so a directory that is swapped for
a link meanwhile leads nowhere else.

**Removing** takes a directory with all that is in it, and nothing else. Other file systems that are mounted
inside are left alone.

**Renaming** never replaces what is there. `rename(2)` silently replaces a file that has the new name, and
looking first is no help: the file may come in between. So a file gets its second name by a hard link, which
is never replaced. A directory replaces at most an empty one.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress

import msgspec

from callsheet.tools.fs.dirfd import LIST, NO_LINK

MAX_NAMED = 20
"""Entries that could not be removed and are named; the others are counted."""

MAX_DEPTH = 200
"""Directories inside one another, each of which takes descriptors."""

_NO_LINKS = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)

# Removing


class Removal(msgspec.Struct):
    """Removes entries, and counts what was removed, and what was left and why.

    Args:
        stop: Called now and then; once it returns True, nothing more is removed.
    """

    stop: Callable[[], bool] = lambda: False
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
