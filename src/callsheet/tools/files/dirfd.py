"""Open files without ever following a link, so that the path that was checked is the path that is used.

A path is checked against the workspace with its links resolved, and used a moment later. In between, another
process may replace a directory by a link. A resolved path has no links; a link that is found on the way was
created since, and is refused. So the tools never pass the whole path to the system: they open the directory,
and make sure that it is the one. Where the kernel tells the path of what is open, that is one comparison;
elsewhere, and to make directories, they walk from the root of the file system, one name at a time, each
relative to the directory that is already open (`dir_fd`), and never through a link.

Only regular files are opened for reading, because opening a device or a named pipe may have side effects or
block forever.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from callsheet.tools.errors import InvalidArguments, NotFound, NotPermitted

CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)
NO_LINK: int = getattr(os, "O_NOFOLLOW", 0) | CLOEXEC
"""Flags of every opening: a link is refused, and no child inherits the descriptor."""

LIST: int = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
READ: int = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | NO_LINK
"""Flags to read a file. Opening a named pipe does not wait for its other end."""

# A directory that may be entered but not listed can be opened so, where the system knows how.
_O_PATH: int = getattr(os, "O_PATH", 0)
_ENTER: int = (_O_PATH or os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | CLOEXEC
_TRIES = 16  # a directory may vanish while it is made; more retries than this are never needed

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}


class DirectoryEntry(NamedTuple):
    """A name in an open directory, which may or may not be there."""

    directory: int
    name: str

    def stat(self) -> os.stat_result | None:
        """Return the state of the entry, without following a link; None if it does not exist."""
        try:
            return os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None


# One path


def kernel_path(fd: int) -> str | None:
    """Return the path of what is open, links resolved, if the system knows one."""
    try:
        found = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115 - as text
    except OSError:
        return None
    # What is no file, such as a pipe, has no path, and what was just deleted has an odd one.
    return found if found.startswith("/") and not found.endswith(" (deleted)") else None


@contextmanager
def parent_of(path: Path, made: list[Path] | None = None) -> Generator[DirectoryEntry]:
    """Open the directory that a resolved path stands in.

    Args:
        path: The path. What stands there, if anything, does not matter.
        made: If it is a list, directories that are missing are made, and added to it, the outermost first.

    Yields:
        The entry; its directory is for the `dir_fd` of `os.open`, `os.rename`, `os.unlink` and the like.

    Raises:
        NotPermitted: A link stands in the way.
        OSError: Any other error of the system, with the whole path in it.
    """
    if path.name in ("", ".."):
        raise InvalidArguments(f"{path} names no file; give the path of one")
    fd = open_directory(path.parent, made)
    try:
        yield DirectoryEntry(fd, path.name)
    finally:
        os.close(fd)


def open_directory(path: Path, made: list[Path] | None = None) -> int:
    """Open a resolved directory, following no link, to be entered (`os.fchdir`) or for `dir_fd`.

    See `parent_of` for `made` and what is raised.
    """
    if _ENTER & _O_PATH:  # opened so, nothing is read or woken, wherever a link may have led
        with suppress(OSError):
            fd = os.open(path, _ENTER | NO_LINK)
            if kernel_path(fd) == str(path):
                return fd
            os.close(fd)
    # It is missing, or a link is in the way: the walk finds out where.
    at, *names = path.parts
    if ".." in names:
        raise InvalidArguments(f"{path} has '..' in it; give the path itself")
    fd = os.open(at, _ENTER)
    at = ""
    for name in names:
        at += f"/{name}"
        try:
            below = _enter(fd, name, at, made)
        finally:
            os.close(fd)
        fd = below
    return fd


def remove_made(made: list[Path]) -> None:
    """Remove the directories that `parent_of` made, as long as they are empty."""
    for path in reversed(made):
        with suppress(OSError, NotPermitted), parent_of(path) as (parent, name):
            os.rmdir(name, dir_fd=parent)


def _enter(fd: int, part: str, at: str, made: list[Path] | None) -> int:
    for _ in range(_TRIES):
        try:
            return os.open(part, _ENTER | NO_LINK, dir_fd=fd)
        except FileNotFoundError as exc:
            if made is None:
                raise _explained(exc, at, fd, part) from None
        except OSError as exc:
            raise _explained(exc, at, fd, part) from None
        with suppress(FileExistsError):
            os.mkdir(part, dir_fd=fd)
            made.append(Path(at))
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), at)


def _explained(exc: OSError, path: str, fd: int, name: str) -> OSError | NotPermitted:
    """Return the error with the whole path; `NotPermitted` if a link is in the way."""
    with suppress(OSError):
        if stat.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
            return NotPermitted(
                f"{path} has become a link since its path was checked; links that are put in the "
                "way are not followed"
            )
    return OSError(exc.errno, exc.strerror, path)  # the errno picks the class


# What is there


def stat_of(path: Path) -> os.stat_result | None:
    """Return the state of what is at a path; None if nothing is. No link in it is followed."""
    if path == path.parent:
        return path.stat()
    try:
        with parent_of(path) as entry:
            return entry.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def check_directory(path: Path, shown: str, hint: str = "") -> None:
    """Raise unless there is a directory at a path. Error messages name it `shown`."""
    found = stat_of(path)
    if found is None:
        raise NotFound(f"There is no directory {shown}", search_path=str(path))
    if not stat.S_ISDIR(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "a file")
        raise InvalidArguments(f"path: {shown} is {kind}, not a directory{hint}")


def check_regular(found: os.stat_result, shown: str) -> None:
    """Raise if something is not a regular file. Error messages name it `shown`."""
    if stat.S_ISREG(found.st_mode):
        return
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
    hint = "; use list to see what is in it" if stat.S_ISDIR(found.st_mode) else ""
    raise InvalidArguments(f"{shown} is {kind}, not a file{hint}")


def may_write(path: Path) -> bool:
    """Return whether the system currently permits this process to write to a path."""
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def open_regular(path: Path, shown: str) -> BinaryIO:
    """Open a regular file for reading.

    Error messages name it `shown`, and its type if it is not regular.
    """
    with parent_of(path) as entry:
        before = entry.stat()
        if before is None:
            raise FileNotFoundError(path)
        check_regular(before, shown)
        handle = os.open(entry.name, READ, dir_fd=entry.directory)
    file = open(handle, "rb")  # noqa: PTH123, SIM115 - it is a descriptor, and the caller closes it
    try:
        check_regular(os.fstat(handle), shown)  # it may have been replaced in between
    except InvalidArguments:
        file.close()
        raise
    return file
