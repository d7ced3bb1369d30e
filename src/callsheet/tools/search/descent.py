"""Opens what is in a tree, one name at a time, and never through a link.

What a path leads to may be another a moment later: anybody may put a link in the place of a directory. So
each directory is opened relative to the one that it is in, as in `callsheet.tools.beneath`, and those on the
way to the last one stay open for the next. Where a link stands, an `OSError` is raised.
"""

from __future__ import annotations

import errno
import os
import stat
from types import TracebackType

_NO_LINK: int = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_LIST = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_LINK
# A directory that may be entered but not listed can be opened so, where the system knows how.
_ENTER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _NO_LINK
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | _NO_LINK


class Descent:
    """The way down to one directory after the other. `base` is absolute and has no links."""

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
        """Return the descriptor of a directory, for `dir_fd`. It is good until the next one is entered."""
        names = [*self._base, *path.split("/")] if path else self._base
        same = 0
        while same < min(len(names), len(self._names)) and names[same] == self._names[same]:
            same += 1
        while len(self._names) > same:
            self._names.pop()
            os.close(self._fds.pop())
        for name in names[same:]:
            self._fds.append(os.open(name, _ENTER, dir_fd=self._fds[-1]))
            self._names.append(name)
        return self._fds[-1]

    def entries(self, path: str = "") -> list[os.DirEntry[str]]:
        """Return what is in a directory. More can be asked of the entries until the next one is listed."""
        descriptor = os.open(".", _LIST, dir_fd=self.enter(path))
        if self._listed is not None:
            os.close(self._listed)
        self._listed = descriptor
        with os.scandir(descriptor) as entries:
            return list(entries)

    def read_link(self, name: str) -> str:
        """Return where a link leads that is in the directory listed last."""
        return os.readlink(name, dir_fd=self._listed)

    def open(self, path: str) -> int:
        """Open a regular file for reading, and nothing else. The descriptor is the caller's."""
        above, _, name = path.rpartition("/")
        descriptor = os.open(name, _READ, dir_fd=self.enter(above))
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        raise OSError(errno.EINVAL, "It is not a regular file", path)

    def close(self) -> None:
        """Let go of everything."""
        if self._listed is not None:
            self._fds.append(self._listed)
            self._listed = None
        while self._fds:
            os.close(self._fds.pop())


def open_file(path: str) -> int:
    """Open one regular file for reading, by an absolute path that has no links."""
    with Descent("/") as descent:
        return descent.open(path.lstrip("/"))
