"""Searching for lines with ripgrep: counted everywhere, looked at closely only in the files that are shown.

The first pass asks for one number from each file that matches. So the totals are exact and the output is
small, however much matches. The second pass finds the first lines in the first files, in the order of paths.

The first pass uses names, and a name may lead elsewhere a moment later, if another process puts a link in the
way. So its result is not trusted for the files that are shown: each of them is opened here, one directory
at a time and never through a link (`callsheet.tools.fs.dirfd`), and ripgrep searches the open descriptors.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, NamedTuple, TypeAlias

from callsheet.tools.fs.dirfd import Descent
from callsheet.tools.invocation import in_thread
from callsheet.tools.search import ripgrep
from callsheet.tools.search.globs import path_filter
from callsheet.tools.search.ripgrep import PatternError
from callsheet.tools.search.walk import SearchScope, Walk

MAX_PATTERN = 10_000
"""Characters of a pattern."""

_COUNT = re.compile(rb"([^\0]+)\0(\d+)\n")
_LINE = re.compile(rb"([^\0]+)\0(\d+):(?:(\d+):)?(\d+):[^\n]*\n")

_INLINE = 1 << 18
"""Bytes of counts that are read in the event loop; more than that is read in a thread."""

_VERIFIED = 1000
"""Files at least, among those that match, that are opened to make sure that they are what they seem."""

_BATCH = 100
"""Files that are open at the same time."""

_OPEN_FILES = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"  # noqa: PTH112

_Count: TypeAlias = "tuple[bytes, bytes, int]"
"""How a path is sorted, the path, and the number of lines that match in it."""


class Search(NamedTuple):
    """What is searched for, and where."""

    pattern: str
    ignore_case: bool
    scope: SearchScope
    file: str | None = None
    """The name of a file in the scope's directory, if only that is searched."""
    glob: str | None = None


class MatchedLine(NamedTuple):
    """A line with a match: its number, the first match's byte in it (from 1), and the byte it begins at."""

    number: int
    column: int
    offset: int


class FileMatches(NamedTuple):
    """A file that was opened: how many of its lines match, and the first of them."""

    path: str
    total: int
    lines: list[MatchedLine]


class Matches(NamedTuple):
    """What was found. The totals count everything; `shown` has the first lines in the order of paths."""

    total: int = 0
    files: int = 0
    shown: tuple[FileMatches, ...] = ()
    unreadable: int = 0


async def search(query: Search, limit: int) -> Matches:
    """Search a tree or a file, and return the totals with the first lines.

    Args:
        query: What is searched for, and where.
        limit: Lines to return at most.

    Raises:
        PatternError: The pattern can't be searched for.
        ExecutionFailed: Ripgrep is not there, or can't be started.
    """
    if "\0" in query.pattern:
        raise PatternError("no line holds a NUL character", query.pattern.index("\0"))
    if len(query.pattern) > MAX_PATTERN:
        raise PatternError(f"longer than {MAX_PATTERN:,} characters", MAX_PATTERN)
    rg, unreadable = ripgrep.program(), 0
    tally = _Tally(max(limit, _VERIFIED))
    if query.file is not None:
        tally.add(os.fsencode(f"{_prefix(query.scope)}{query.file}"), 0)
    else:
        unreadable = await _count_tree(query, rg, tally)
    first, total, files = tally.finish()
    shown = list[FileMatches]()
    async for found in _verified(query, first, limit, rg):
        total += found.total
        files += found.total > 0
        if found.lines:
            shown.append(found)
    return Matches(total, files, tuple(shown), unreadable)


# The first pass


async def _count_tree(query: Search, rg: str, tally: _Tally) -> int:
    """Count matching lines in each file of a tree, and return how many files could not be read."""
    scope = query.scope

    def read(output: BinaryIO) -> None:
        with _filter(query) as wanted:
            for path, count in _counts(output):
                if wanted is None or wanted(path):
                    tally.add(path, count)

    with _rules_from_above(scope) as rules:
        command = ripgrep.count_tree_command(
            rg, query.pattern, query.ignore_case, scope, query.glob, rules
        )
        async with ripgrep.run(command, scope.top) as finished:
            unreadable = ripgrep.unreadable_count(query.pattern, finished)
            size = finished.output.seek(0, os.SEEK_END)
            finished.output.seek(0)
            if size > _INLINE:
                await in_thread(lambda: read(finished.output))
            else:
                read(finished.output)
    return unreadable


@contextmanager
def _rules_from_above(scope: SearchScope) -> Generator[str | None, None, None]:
    """Write the ignore rules above a directory to a file, if there are any."""
    above = ripgrep.rules_file(scope)
    if not above:
        yield None
        return
    with tempfile.NamedTemporaryFile(prefix="callsheet-ignore-") as file:
        file.write(above)
        file.flush()
        yield file.name


def _prefix(scope: SearchScope) -> str:
    return f"./{scope.below}/" if scope.below else "./"


class _Tally:
    """Adds up counts, and holds the first files in the order of paths, however many files there are."""

    def __init__(self, limit: int) -> None:
        self._total: int = 0
        self._files: int = 0
        self._limit: int = limit
        self._first: list[_Count] = []

    def add(self, path: bytes, count: int) -> None:
        # Sorted so, what is in a directory stands together: "/" comes before every other character.
        self._first.append((path.replace(b"/", b"\0"), path, count))
        if len(self._first) > 4 * self._limit:
            self._cut()

    def finish(self) -> tuple[list[str], int, int]:
        """Return the first files, and how many lines and files there are beyond."""
        self._cut()
        return [os.fsdecode(path) for _, path, _ in self._first], self._total, self._files

    def _cut(self) -> None:
        self._first.sort()
        beyond = self._first[self._limit :]
        del self._first[self._limit :]
        self._files += len(beyond)
        self._total += sum(count for _, _, count in beyond)


def _counts(output: BinaryIO) -> Iterator[tuple[bytes, int]]:
    rest = b""
    while piece := output.read(1 << 20):
        piece, end = rest + piece, 0
        for match in _COUNT.finditer(piece):
            yield match[1], int(match[2])
            end = match.end()
        rest = piece[end:]


@contextmanager
def _filter(query: Search) -> Generator[Callable[[bytes], bool] | None, None, None]:
    """Make the filter that decides about a glob, which ripgrep is asked for only loosely."""
    if query.glob is None:
        yield None
        return
    wanted, skip = path_filter(query.glob), len(_prefix(query.scope))
    with Walk(query.scope, hidden=False) as walk:

        def is_wanted(path: bytes) -> bool:
            shown = os.fsdecode(path)[skip:]
            hidden = shown[shown.rfind("/") + 1 :].startswith(".")
            return wanted(shown) and not (hidden and walk.is_left_out(shown))

        yield is_wanted


# The second pass


async def _verified(
    query: Search, files: list[str], limit: int, rg: str
) -> AsyncIterator[FileMatches]:
    """Open files, and search what is open. What has become a link, or is gone, is left out."""
    root = query.scope.top.rstrip("/")
    with Descent(query.scope.top) as descent:
        for start in range(0, len(files), _BATCH):
            batch = files[start : start + _BATCH]
            opened = await in_thread(lambda batch=batch: _open_all(descent, batch))
            try:
                names = {f"{_OPEN_FILES}/{fd}": path for path, fd in opened.items()}
                totals = await _count_files(query, list(names), rg) if names else {}
                matching = [name for name in names if totals.get(name)]
                lines = await _find_lines(query, matching, limit, rg) if limit > 0 else {}
            finally:
                for fd in opened.values():
                    os.close(fd)
            for name, path in names.items():
                found = lines.get(name, [])[:limit]
                limit -= len(found)
                yield FileMatches(f"{root}/{path[2:]}", totals.get(name, 0), found)


def _open_all(descent: Descent, files: list[str]) -> dict[str, int]:
    opened = dict[str, int]()
    for path in files:
        with suppress(OSError):
            opened[path] = descent.open(path[2:])
    return opened


async def _count_files(query: Search, names: list[str], rg: str) -> dict[str, int]:
    command = ripgrep.count_files_command(rg, query.pattern, query.ignore_case, names)
    async with ripgrep.run(command, "/", _descriptors(names)) as finished:
        ripgrep.unreadable_count(query.pattern, finished)
        return {os.fsdecode(name): count for name, count in _counts(finished.output)}


async def _find_lines(
    query: Search, names: list[str], limit: int, rg: str
) -> dict[str, list[MatchedLine]]:
    found: dict[str, list[MatchedLine]] = {}
    if not names:
        return found
    command = ripgrep.lines_command(rg, query.pattern, query.ignore_case, names, limit)
    async with ripgrep.run(command, "/", _descriptors(names)) as finished:
        for match in _LINE.finditer(finished.output.read()):
            path, number, column, offset = match.groups()
            line = MatchedLine(int(number), int(column or 1), int(offset))
            found.setdefault(os.fsdecode(path), []).append(line)
    return found


def _descriptors(names: list[str]) -> list[int]:
    return [int(name.rpartition("/")[2]) for name in names]
