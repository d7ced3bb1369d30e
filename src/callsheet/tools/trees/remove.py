"""Removing a directory with all that is in it, and nothing else.

The walk enters each directory relative to the one that it stands in, never through a link, and goes
back up by `..` only if that is where it came from. So it needs one descriptor at any depth, and a
directory that is swapped for a link, or moved away, while it is being removed leads nowhere else.
Other file systems that are mounted inside are left alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from callsheet.tools.beneath import NO_LINK

LIST = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
MOST_LEFT = 20
"""Entries that could not be removed and are named; the others are counted."""


class Entry(NamedTuple):
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

    def keep(self, path: str, why: str) -> None:
        """Note an entry that could not be removed."""
        self.left_count += 1
        if len(self.left) < MOST_LEFT:
            self.left.append((path, why))


class _Level(msgspec.Struct):
    """A directory on the way down: its name, which one it is, what is still to do in it."""

    name: str
    identity: tuple[int, int]
    entries: list[Entry]
    kept_some: bool = False


def remove_tree(parent: int, name: str, stop: Callable[[], bool]) -> Removal:
    """Remove the directory `name` of an open directory, as far as that is possible.

    `stop` is asked now and then; once it says so, nothing more is removed.
    """
    walk = _Walk(parent, stop)
    try:
        walk.enter(Entry(name, True))
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
                pass  # somebody else was faster
            except OSError as exc:
                self.keep(entry.name, exc.strerror or str(exc))

    def enter(self, entry: Entry) -> None:
        """Go down into a directory, and list it."""
        try:
            below = os.open(entry.name, LIST | NO_LINK, dir_fd=self.fd)
        except FileNotFoundError:
            return
        except OSError as exc:
            self.keep(entry.name, exc.strerror or str(exc))
            return
        try:
            found = os.fstat(below)
            if self.levels and found.st_dev != self.levels[0].identity[0]:
                self.keep(entry.name, "another file system is mounted there")
                os.close(below)
                return
            level = _Level(entry.name, (found.st_dev, found.st_ino), listed(below))
        except OSError as exc:
            os.close(below)
            self.keep(entry.name, exc.strerror or str(exc))
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
            self.keep(".", "it was moved while it was being deleted")
            self.removal.stopped = True
            return
        os.close(self.fd)
        self.fd = above
        if level.kept_some:
            self.spoil()
            return
        try:
            os.rmdir(level.name, dir_fd=above)
            self.removal.directories += 1
        except FileNotFoundError:
            pass
        except OSError as exc:
            self.keep(level.name, exc.strerror or str(exc))

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

    def keep(self, name: str, why: str) -> None:
        self.removal.keep("/".join([*(level.name for level in self.levels), name]), why)
        self.spoil()

    def spoil(self) -> None:
        if self.levels:
            self.levels[-1].kept_some = True


def listed(fd: int) -> list[Entry]:
    """Return the entries of an open directory, so that the last by name comes first."""
    with os.scandir(fd) as entries:
        found = [Entry(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    return sorted(found, reverse=True)
