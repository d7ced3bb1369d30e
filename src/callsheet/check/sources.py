"""The recordings that a command line names: files, those in directories, and standard input."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO, cast

from msgspec import Struct

ENDINGS = (".jsonl", ".ndjson", ".log")
STDIN = "-"


class Problem(Struct, frozen=True):
    """A path that can't be read, and why."""

    path: str
    message: str


class Source(Struct, frozen=True):
    """One recording that can be opened. `size` is 0 where it is not known."""

    path: str
    size: int
    open: Callable[[], AbstractContextManager[BinaryIO]]


class _Live:
    """A stream that gives what has come so far, and does not wait for more: it can be interrupted."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream: BinaryIO = stream

    def read(self, size: int) -> bytes:
        some = getattr(self._stream, "read1", self._stream.read)
        return cast("bytes", some(size))


def find(paths: list[str], stdin: BinaryIO) -> Iterator[Source | Problem]:
    """Return the recordings that paths name, each once, in order."""
    seen: set[str] = set()
    for path in paths:
        for found in _of(path, stdin):
            if found.path not in seen:
                seen.add(found.path)
                yield found


def _of(path: str, stdin: BinaryIO) -> Iterator[Source | Problem]:
    if path == STDIN:
        live = cast("BinaryIO", _Live(stdin))
        yield Source(STDIN, 0, lambda: nullcontext(live))
        return
    try:
        if not Path(path).is_dir():
            yield _file(Path(path))
            return
    except (OSError, ValueError) as exc:
        yield Problem(path, why(exc))
        return
    found = list(_in(Path(path)))
    if not any(isinstance(one, Source) for one in found):
        endings = ", ".join(f"*{ending}" for ending in ENDINGS)
        yield Problem(path, f"there is no recording in it ({endings})")
    yield from found


def _file(path: Path) -> Source:
    return Source(str(path), path.stat().st_size, lambda: path.open("rb"))


def _in(directory: Path) -> Iterator[Source | Problem]:
    """Return the recordings below a directory, sorted. Links to directories are not followed."""
    try:
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as exc:
        yield Problem(str(directory), why(exc))
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and entry.name != "node_modules":
                    yield from _in(Path(entry))
            elif entry.name.lower().endswith(ENDINGS) and entry.is_file():
                yield _file(Path(entry))
        except OSError as exc:
            yield Problem(entry.path, why(exc))


def why(exc: Exception) -> str:
    """Return what the system says, as a part of a sentence."""
    said = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
    return said[:1].lower() + said[1:]
