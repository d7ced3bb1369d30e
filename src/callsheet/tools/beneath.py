"""Opening files without ever following a link: the path that was checked is the path that is used.

A path is checked against the workspace with its links followed, and used a moment later. In
between, anybody may put a link in the place of a directory. So the tools don't hand the path to the
system as a whole: they walk from a root, that nobody inside the workspace can replace, one name at
a time, each relative to the directory that is already open, and never through a link. A resolved
path has no links; one that turns up was put there since, and is refused.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import InvalidArguments, NotPermitted

CLOEXEC = getattr(os, "O_CLOEXEC", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | CLOEXEC
# A directory that may be entered but not listed can be opened so, where the system knows how.
_ENTER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | CLOEXEC
_AGAIN = 16  # a directory may vanish while it is made; nobody needs more tries than this


def root_of(path: Path, roots: Iterable[Path]) -> Path:
    """Return the innermost root that holds `path`, or the file system's for a path outside of all."""
    holding = [root for root in roots if path == root or root in path.parents]
    return max(holding, key=lambda root: len(root.parts), default=Path(path.anchor))


def open_beneath(root: Path, path: Path, flags: int, mode: int = 0o666) -> int:
    """Open a resolved `path` in `root`, following no link, and give its descriptor.

    `flags` and `mode` are those of `os.open`. A link in the way raises `NotPermitted`; what else
    the system says is an `OSError`, as usual.
    """
    if path == root:
        return os.open(root, flags | CLOEXEC, mode)
    with parent_of(root, path) as (parent, name):
        try:
            return os.open(name, flags | NO_LINK, mode, dir_fd=parent)
        except OSError as exc:
            raise _told(exc, path, parent, name) from None


def open_directory(path: Path) -> int:
    """Open a resolved directory, following no link, to be entered (`os.fchdir`) or for `dir_fd`."""
    return open_beneath(Path(path.anchor), path, _ENTER)


@contextmanager
def parent_of(root: Path, path: Path, made: list[Path] | None = None) -> Generator[tuple[int, str]]:
    """Open the directory that a resolved `path` stands in; give its descriptor and the last name.

    The descriptor is for the `dir_fd` of `os.open`, `os.rename`, `os.unlink` and the like. With a
    list as `made`, directories that are missing are made, and noted there: the outermost first.
    """
    *between, name = _names(root, path)
    fd = os.open(root, _ENTER)
    try:
        at = root
        for part in between:
            at /= part
            below = _enter(fd, part, at, made)
            os.close(fd)
            fd = below
        yield fd, name
    finally:
        os.close(fd)


def remove_made(root: Path, made: list[Path]) -> None:
    """Remove the directories that `parent_of` made, as long as they are empty."""
    for path in reversed(made):
        with suppress(OSError, NotPermitted), parent_of(root, path) as (parent, name):
            os.rmdir(name, dir_fd=parent)


def _names(root: Path, path: Path) -> tuple[str, ...]:
    try:
        names = path.relative_to(root).parts
    except ValueError:
        raise NotPermitted(f"{path} is not in {root}") from None
    if not names or ".." in names:
        raise InvalidArguments(f"{path} names nothing in {root}; give the path of a file there")
    return names


def _enter(fd: int, part: str, at: Path, made: list[Path] | None) -> int:
    for _ in range(_AGAIN):
        try:
            return os.open(part, _ENTER | NO_LINK, dir_fd=fd)
        except FileNotFoundError as exc:
            if made is None:
                raise _told(exc, at, fd, part) from None
        except OSError as exc:
            raise _told(exc, at, fd, part) from None
        with suppress(FileExistsError):
            os.mkdir(part, dir_fd=fd)
            made.append(at)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(at))


def _told(exc: OSError, path: Path, fd: int, name: str) -> OSError | NotPermitted:
    """Name the whole path in an error; a link in the way is an error of another kind."""
    with suppress(OSError):
        if stat.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
            return NotPermitted(
                f"{path} has become a link since its path was checked; links that are put in the "
                "way are not followed"
            )
    return OSError(exc.errno, exc.strerror, str(path))  # the errno picks the class
