"""Where tools may go: the session's directory and its additional ones, after following every link."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Annotated, NamedTuple, TypeAlias

from .errors import ExecutionFailed, InvalidArguments, NotPermitted

LONGEST_PATH = 4096
MOST_FILES = 10_000
"""Files whose state is remembered."""

_LONGEST_NAME = 255


class _EntryMark:
    """Marks a path that means the entry itself, not what a link leads to."""


ENTRY = _EntryMark()

Entry: TypeAlias = Annotated[Path, ENTRY]
"""A path whose last part is not followed, if it is a link: it is the link that is moved or deleted."""


class Workspace:
    """The directories that tools may touch."""

    def __init__(self, cwd: str, additional: Sequence[str] = ()) -> None:
        self.given_cwd: str = cwd
        self.cwd: Path = _real(cwd)
        others = [_real(os.path.join(cwd, path)) for path in additional]  # noqa: PTH118 - as text
        self.roots: tuple[Path, ...] = tuple(dict.fromkeys([self.cwd, *others]))

    def holds(self, path: Path) -> bool:
        """Whether a path, links followed, is inside."""
        return any(path == root or root in path.parents for root in self.roots)

    def find(self, text: str | os.PathLike[str], *, entry: bool = False) -> Path:
        """Give the path that is meant, links followed, wherever it is."""
        given = os.fspath(text)
        _check(given)
        joined = os.path.join(self.cwd, given)  # noqa: PTH118 - pathlib would take out the dots
        try:
            if not entry:
                return _real(joined)
            head, last = os.path.split(joined.rstrip("/"))
            if last in ("", ".", ".."):
                raise InvalidArguments(
                    f"path: {given!r} has no name at its end that could be meant"
                )
            return _real(head) / last
        except OSError as exc:
            raise InvalidArguments(f"path: {_short(given)}: {exc.strerror}") from None

    def resolve(self, text: str | os.PathLike[str], *, entry: bool = False) -> Path:
        """Give the path that is meant, links followed. Raises if it is not inside."""
        path = self.find(text, entry=entry)
        if not self.holds(path):
            raise outside(text, path, self)
        return path

    def show(self, path: str | os.PathLike[str]) -> str:
        """Give a path as people are shown it: from the session's directory, if it is inside."""
        shown = os.fspath(path)
        for root in (str(self.cwd), self.given_cwd):
            if shown == root:
                return "."
            if shown.startswith(root.rstrip("/") + "/"):
                return shown[len(root.rstrip("/")) + 1 :]
        return shown


def outside(text: str | os.PathLike[str], path: Path, workspace: Workspace) -> NotPermitted:
    """Say that a path is not inside."""
    given = os.fspath(text)
    leads = "" if given == str(path) else f" leads to {path}, which"
    roots = ", ".join(str(root) for root in workspace.roots)
    return NotPermitted(f"{_short(given)}{leads} is outside the workspace ({roots})")


class Stamp(NamedTuple):
    """What tells that a file has changed."""

    mtime_ns: int
    size: int
    inode: int
    device: int


class FileMemory:
    """Which files this session's tools have seen, and in what state. Tools ask from their threads."""

    def __init__(self) -> None:
        self._seen: dict[str, Stamp] = {}
        self._lock: Lock = Lock()

    def saw(self, path: Path, found: os.stat_result) -> None:
        """Remember the state in which a file was read or written."""
        with self._lock:
            self._seen.pop(str(path), None)
            if len(self._seen) >= MOST_FILES:
                self._seen.pop(next(iter(self._seen)))
            self._seen[str(path)] = _stamp(found)

    def forget(self, path: Path) -> None:
        """Forget a file that was moved or deleted, and everything below it."""
        name = str(path)
        with self._lock:
            for seen in [one for one in self._seen if one == name or one.startswith(name + "/")]:
                del self._seen[seen]

    def check(self, path: Path) -> None:
        """Raise if somebody has changed a file since it was seen."""
        seen = self._seen.get(str(path))
        if seen is None:
            return
        try:
            now = _stamp(path.stat())
        except FileNotFoundError:
            raise ExecutionFailed(
                f"{path} was deleted since it was read; look again before changing it",
                file_path=str(path),
                changed_since_read=True,
            ) from None
        if now != seen:
            raise ExecutionFailed(
                f"{path} was changed since it was read; read it again before changing it",
                file_path=str(path),
                changed_since_read=True,
            )


def _stamp(found: os.stat_result) -> Stamp:
    return Stamp(found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev)


def _real(path: str) -> Path:
    return Path(os.path.realpath(path))


def _check(text: str) -> None:
    if "\0" in text:
        raise InvalidArguments("path: a NUL character can't be part of a path")
    if not text:
        raise InvalidArguments('path: it is empty; the session\'s directory is "."')
    try:
        raw = os.fsencode(text)
    except UnicodeEncodeError:
        raise InvalidArguments("path: it has characters that can't be part of a path") from None
    longest = max(map(len, raw.split(b"/")))
    if len(raw) >= LONGEST_PATH or longest > _LONGEST_NAME:
        raise InvalidArguments(
            f"path: too long ({len(raw)} bytes, its longest name {longest}); "
            f"{LONGEST_PATH - 1} and {_LONGEST_NAME} are allowed"
        )


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:120]}…{text[-60:]}"
