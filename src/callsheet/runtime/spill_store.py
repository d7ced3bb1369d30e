"""Spill files: values that a report has no room for, stored whole in a directory only its owner can read.

The store writes the spills of a `CutPlan` and finishes it with the paths of those that exist. It holds
itself to a total size, a number of files and an age; the oldest go first. Several processes can share
a directory. Nothing here raises: a file that can't be written is left out, and `failures` counts it.
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

from callsheet.limits.text import Phrases
from callsheet.limits.truncation import CutPlan, Spill
from callsheet.report.json import JsonObject
from callsheet.report.patterns import lazy

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

MAX_BYTES = 256 * 1024 * 1024
MAX_FILES = 2000
MAX_AGE = 7 * 24 * 3600.0

_OURS = lazy(r"(spill-[0-9a-f]{32}\.[a-z0-9]{1,4}|\.spill-[0-9a-f]{32})")
"""Names of our files, finished and half written. Others in the directory are left alone."""

_LOCK = ".lock"
_LOCK_TRIES = 20
_LOCK_PAUSE = 0.005
_HALF_WRITTEN_AGE = 3600.0


def default_directory() -> Path:
    """Return the directory for spills of this user: in the place for things that may be deleted."""
    from platformdirs import user_cache_path

    try:
        return user_cache_path("callsheet", appauthor=False) / "spill"
    except RuntimeError:  # no home
        return Path(tempfile.gettempdir()) / f"callsheet-{os.getuid()}" / "spill"


class _File(NamedTuple):
    modified: float
    name: str
    size: int


class SpillStore:
    """A directory of spill files. Methods may be called from any thread.

    Each spill is a file of its own, with a name that nobody can guess; with `by_content`, the same data
    is stored once, under a name that is always the same.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        max_bytes: int = MAX_BYTES,
        max_files: int = MAX_FILES,
        max_age: float = MAX_AGE,
        by_content: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.directory: Path = Path(directory).absolute()
        self.max_bytes: int = max_bytes
        self.max_files: int = max_files
        self.max_age: float = max_age
        self.by_content: bool = by_content
        self.failures: int = 0
        self.last_error: str | None = None
        self._now: Callable[[], float] = now

    def finish(
        self, plan: CutPlan, *, phrases: Phrases = None
    ) -> tuple[Mapping[str, Any], list[JsonObject]]:
        """Write a plan's spills, and return its fields and the records of its cuts."""
        kept = [self.keep(cut.spill) for cut in plan.cuts]
        there = [
            path if path and Path(path).exists() else None for path in kept
        ]  # others made room
        return plan.finish(there, phrases=phrases)

    def keep(self, spill: Spill) -> str | None:
        """Write a spill. Return the path of a file that exists and is whole, or None."""
        try:
            data = spill.data
            if len(data) > self.max_bytes or self.max_files < 1:
                return self._failed(f"{len(data)} bytes are more than a store of {self.max_bytes}")
            self._make_directory()
            return self._write(data, spill.suffix)
        except Exception as error:  # noqa: BLE001 - a report never fails for a file
            return self._failed(f"{type(error).__name__}: {error}")

    def forget(self, paths: Iterable[str]) -> int:
        """Remove spills that nothing refers to any more. Return how many; what is not ours stays."""
        count = 0
        for path in paths:
            file = Path(path)
            if file.parent == self.directory and _OURS.fullmatch(file.name):
                with suppress(OSError):
                    file.unlink()
                    count += 1
        return count

    def _failed(self, why: str) -> None:
        self.failures += 1
        self.last_error = why

    def _make_directory(self) -> None:
        str(
            self.directory
        ).encode()  # raises for a path that is not Unicode: a report could not name it
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check_directory()

    def _check_directory(self) -> None:
        """Raise unless the directory is a real one, and its owner's alone."""
        found = self.directory.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(f"{self.directory} is not a directory")
        if not hasattr(os, "getuid"):
            return
        if found.st_uid != os.geteuid():
            raise PermissionError(f"{self.directory} belongs to somebody else")
        if found.st_mode & 0o077:
            self.directory.chmod(0o700)

    def _write(self, data: bytes, suffix: str) -> str | None:
        own = sha256(data).hexdigest()[:32] if self.by_content else token_hex(16)
        half, whole = (
            self.directory / f".spill-{token_hex(16)}",
            self.directory / f"spill-{own}{suffix}",
        )
        try:
            _write_new(half, data)
            with self._locked():
                self._make_room(len(data), 1, half.name)
                half.replace(whole)
            found = whole.stat()
        except BaseException:
            half.unlink(missing_ok=True)
            raise
        return str(whole) if found.st_size == len(data) else self._failed("a file is not whole")

    def _make_room(self, size: int, files: int, *spared: str) -> None:
        """Remove what is too old, and then the oldest, until so much more fits."""
        kept = [file for file in self._files() if not self._is_stale(file)]
        kept = sorted(file for file in kept if file.name not in spared)
        total, count = sum(file.size for file in kept) + size, len(kept) + files
        for file in kept:
            if total <= self.max_bytes and count <= self.max_files:
                break
            (self.directory / file.name).unlink(missing_ok=True)
            total, count = total - file.size, count - 1

    def _is_stale(self, file: _File) -> bool:
        limit = min(_HALF_WRITTEN_AGE, self.max_age) if file.name[0] == "." else self.max_age
        if self._now() - file.modified <= limit:
            return False
        (self.directory / file.name).unlink(missing_ok=True)
        return True

    def _files(self) -> Iterator[_File]:
        with os.scandir(self.directory) as entries:
            for entry in entries:
                if _OURS.fullmatch(entry.name):
                    with suppress(FileNotFoundError):  # another process was quicker
                        found = entry.stat(follow_symlinks=False)
                        if stat.S_ISREG(found.st_mode):
                            yield _File(found.st_mtime, entry.name, found.st_size)

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Hold the directory's lock. Who can't have it soon goes without a file, not without an end."""
        if fcntl is None:
            yield
            return
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        lock = os.open(self.directory / _LOCK, flags, 0o600)
        try:
            for left in reversed(range(_LOCK_TRIES)):
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if not left:
                        raise
                    time.sleep(_LOCK_PAUSE)
            yield
        finally:
            os.close(lock)


def _write_new(file: Path, data: bytes) -> None:
    """Write a file that didn't exist, for its owner alone."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    handle = os.open(file, flags, 0o600)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
    finally:
        os.close(handle)
