"""Open files without ever following a link, so that the path that was checked is the path that is used.

A path is checked against the workspace with its links resolved, and used a moment later. In between, another
process may replace a directory by a link. So the tools don't pass the whole path to the system: they walk
from a root that nobody inside the workspace can replace, one name at a time, each relative to the directory
that is already open (`dir_fd`), and never through a link. A resolved path has no links; a link that is found
on the way was created since, and is refused.

`parent_of` walks to one entry. `Descent` is the same walk for a whole tree: it holds the directories on the
way open for the next entry. Only regular files are opened for reading, because opening a device or a named
pipe may have side effects or block forever.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple

from callsheet.tools.errors import InvalidArguments, NotFound, NotPermitted

CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)
NO_LINK: int = getattr(os, "O_NOFOLLOW", 0) | CLOEXEC
"""Flags of every opening: a link is refused, and no child inherits the descriptor."""

LIST: int = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
READ: int = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | NO_LINK
"""Flags to read a file. Opening a named pipe does not wait for its other end."""

# A directory that may be entered but not listed can be opened so, where the system knows how.
_ENTER: int = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | CLOEXEC
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


def root_of(path: Path, roots: Iterable[Path]) -> Path:
    """Return the innermost root that contains `path`, or the file system's root if none does."""
    holding = [root for root in roots if path == root or root in path.parents]
    return max(holding, key=lambda root: len(root.parts), default=Path(path.anchor))


@contextmanager
def parent_of(
    root: Path | None, path: Path, made: list[Path] | None = None
) -> Generator[DirectoryEntry]:
    """Open the directory that a resolved path stands in.

    Args:
        root: Where to begin; None for the root of the file system.
        path: The path. What stands there, if anything, does not matter.
        made: If it is a list, directories that are missing are made, and added to it, the outermost first.

    Yields:
        The entry; its directory is for the `dir_fd` of `os.open`, `os.rename`, `os.unlink` and the like.

    Raises:
        NotPermitted: The path is not in the root, or a link stands in the way.
        OSError: Any other error of the system, with the whole path in it.
    """
    root = root or Path(path.anchor)
    *between, name = _names(root, path)
    fd = os.open(root, _ENTER)
    try:
        at = root
        for part in between:
            at /= part
            below = _enter(fd, part, at, made)
            os.close(fd)
            fd = below
        yield DirectoryEntry(fd, name)
    finally:
        os.close(fd)


def remove_made(root: Path, made: list[Path]) -> None:
    """Remove the directories that `parent_of` made, as long as they are empty."""
    for path in reversed(made):
        with suppress(OSError, NotPermitted), parent_of(root, path) as (parent, name):
            os.rmdir(name, dir_fd=parent)


def open_beneath(root: Path, path: Path, flags: int, mode: int = 0o666) -> int:
    """Open a resolved path in a root, following no link, and return its descriptor.

    Args:
        root: Where to begin.
        path: The path.
        flags: Those of `os.open`.
        mode: That of `os.open`.

    Raises:
        NotPermitted: The path is not in the root, or a link stands in the way.
        OSError: Any other error of the system, with the whole path in it.
    """
    if path == root:
        return os.open(root, flags | CLOEXEC, mode)
    with parent_of(root, path) as (parent, name):
        try:
            return os.open(name, flags | NO_LINK, mode, dir_fd=parent)
        except OSError as exc:
            raise _explained(exc, path, parent, name) from None


def open_directory(path: Path) -> int:
    """Open a resolved directory, following no link, to be entered (`os.fchdir`) or for `dir_fd`."""
    return open_beneath(Path(path.anchor), path, _ENTER)


def _names(root: Path, path: Path) -> tuple[str, ...]:
    try:
        names = path.relative_to(root).parts
    except ValueError:
        raise NotPermitted(f"{path} is not in {root}") from None
    if not names or ".." in names:
        raise InvalidArguments(f"{path} names nothing in {root}; give the path of a file there")
    return names


def _enter(fd: int, part: str, at: Path, made: list[Path] | None) -> int:
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
            made.append(at)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(at))


def _explained(exc: OSError, path: Path, fd: int, name: str) -> OSError | NotPermitted:
    """Return the error with the whole path; `NotPermitted` if a link is in the way."""
    with suppress(OSError):
        if stat.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
            return NotPermitted(
                f"{path} has become a link since its path was checked; links that are put in the "
                "way are not followed"
            )
    return OSError(exc.errno, exc.strerror, str(path))  # the errno picks the class


# What is there


def stat_of(path: Path) -> os.stat_result | None:
    """Return the state of what is at a path; None if nothing is. No link in it is followed."""
    if path == path.parent:
        return path.stat()
    try:
        with parent_of(None, path) as entry:
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


@contextmanager
def open_regular(path: Path, shown: str) -> Generator[tuple[BinaryIO, os.stat_result]]:
    """Open a regular file for reading, and yield it with its state.

    Error messages name it `shown`, and its type if it is not regular.
    """
    with parent_of(None, path) as entry:
        before = entry.stat()
        if before is None:
            raise FileNotFoundError(path)
        check_regular(before, shown)
        handle = os.open(entry.name, READ, dir_fd=entry.directory)
    with open(handle, "rb") as file:  # noqa: PTH123 - it is a descriptor
        found = os.fstat(handle)
        check_regular(found, shown)  # it may have been replaced in between
        yield file, found


# A whole tree


class Descent:
    """The way down to one directory after the other. Where a link stands, an `OSError` is raised.

    Args:
        base: An absolute path without links. All other paths are relative to it.
    """

    def __init__(self, base: str) -> None:
        self._base: list[str] = [name for name in base.split("/") if name]
        self._names: list[str] = []
        self._fds: list[int] = [os.open("/", _ENTER)]
        self._listed: int | None = None

    def __enter__(self) -> Descent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    def enter(self, path: str = "") -> int:
        """Return the descriptor of a directory, for `dir_fd`. It is valid until the next one is entered."""
        names = [*self._base, *path.split("/")] if path else self._base
        same = 0
        while same < min(len(names), len(self._names)) and names[same] == self._names[same]:
            same += 1
        while len(self._names) > same:
            self._names.pop()
            os.close(self._fds.pop())
        for name in names[same:]:
            self._fds.append(os.open(name, _ENTER | NO_LINK, dir_fd=self._fds[-1]))
            self._names.append(name)
        return self._fds[-1]

    def entries(self, path: str = "") -> list[os.DirEntry[str]]:
        """Return the entries of a directory. Their methods are usable until the next one is listed."""
        descriptor = os.open(".", LIST | NO_LINK, dir_fd=self.enter(path))
        if self._listed is not None:
            os.close(self._listed)
        self._listed = descriptor
        with os.scandir(descriptor) as entries:
            return list(entries)

    def read_link(self, name: str) -> str:
        """Return the target of a link in the directory that was listed last."""
        return os.readlink(name, dir_fd=self._listed)

    def open(self, path: str) -> int:
        """Open a regular file for reading, and return a descriptor that the caller must close."""
        above, _, name = path.rpartition("/")
        descriptor = os.open(name, READ, dir_fd=self.enter(above))
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        raise OSError(errno.EINVAL, "It is not a regular file", path)

    def close(self) -> None:
        """Close everything that is open."""
        if self._listed is not None:
            self._fds.append(self._listed)
            self._listed = None
        while self._fds:
            os.close(self._fds.pop())
