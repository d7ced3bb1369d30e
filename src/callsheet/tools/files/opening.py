"""Opening regular files, and nothing else: a device or a named pipe could do anything, or wait for ever.

Nobody can put a link in the way (see `beneath`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import NamedTuple

from callsheet.tools.beneath import parent_of
from callsheet.tools.errors import InvalidArguments, NotFound

_WALKS = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")
_NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)

FILE_FLAGS: int = _NOFOLLOW | _CLOEXEC | getattr(os, "O_BINARY", 0)
"""What every opening of a file has."""

_READ = FILE_FLAGS | os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}


class Place(NamedTuple):
    """A file by its name in an open directory; where that can't be, by its whole path."""

    name: str
    directory: int | None

    def stat(self) -> os.stat_result | None:
        """Return the state of what is there; None if nothing is."""
        try:
            return os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None


@contextmanager
def place_of(path: Path, *, create: bool = False) -> Generator[Place]:
    """Open the directory that a file is in. With `create`, make the directories that are missing."""
    if not _WALKS:
        if create:
            path.parent.mkdir(parents=True, exist_ok=True)
        yield Place(str(path), None)
        return
    with parent_of(Path(path.anchor), path, [] if create else None) as (directory, name):
        yield Place(name, directory)


def stat_of(path: Path) -> os.stat_result | None:
    """Return the state of what is at a path, None if nothing is. No link is followed, wherever it stands."""
    if path == path.parent:
        return path.stat()
    try:
        with place_of(path) as place:
            return place.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def check_directory(path: Path, shown: str, hint: str = "") -> None:
    """Raise unless there is a directory at a path."""
    found = stat_of(path)
    if found is None:
        raise NotFound(f"There is no directory {shown}", search_path=str(path))
    if not stat.S_ISDIR(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "a file")
        raise InvalidArguments(f"path: {shown} is {kind}, not a directory{hint}")


def may_write(path: Path) -> bool:
    """Whether the system would let this process write there, as it is now."""
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


class Opened(NamedTuple):
    """A regular file, open for reading, and its state when it was opened."""

    file: FileIO
    stat: os.stat_result


@contextmanager
def opened(path: Path, shown: str) -> Generator[Opened]:
    """Open a regular file for reading. Whatever else it is, is said."""
    with place_of(path) as place:
        before = place.stat()
        if before is None:
            raise FileNotFoundError(path)
        check_regular(before, shown)
        handle = os.open(place.name, _READ, dir_fd=place.directory)
    with FileIO(handle, "r") as file:
        found = os.fstat(handle)
        check_regular(found, shown)
        yield Opened(file, found)


def check_regular(found: os.stat_result, shown: str) -> None:
    """Raise if something is not a regular file."""
    if stat.S_ISREG(found.st_mode):
        return
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
    hint = "; use list to see what is in it" if stat.S_ISDIR(found.st_mode) else ""
    raise InvalidArguments(f"{shown} is {kind}, not a file{hint}")
