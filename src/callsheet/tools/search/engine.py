"""Searching for lines: counted everywhere, looked at closely only in the files that are shown.

The first pass asks for one number from each file that matches. So the totals are exact, and the
output is small, however much matches. The second pass finds the first lines in the first files, in
the order of paths.

The first pass goes by names, and names may lead elsewhere a moment later (see `descent`). So what it
says of the first files is not taken for granted: they are opened here, and searched anew as what is open.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from typing import BinaryIO, NamedTuple, TypeAlias

from callsheet.tools.threads import in_thread

from . import fallback, ripgrep
from .children import Done, run
from .descent import Descent
from .dialect import translate
from .fallback import Line, wanted_by
from .pattern_errors import PatternError
from .walk import Scope, Walk

_COUNT = re.compile(rb"([^\0]+)\0(\d+)\n")
_LINE = re.compile(rb"([^\0]+)\0(\d+):(?:(\d+):)?(\d+):[^\n]*\n")

LONGEST_PATTERN = 10_000

_INLINE = 1 << 18
"""Bytes of counts that are read in the event loop; more than that is read in a thread."""

_SURE = 1000
"""Files at least, among those that match, of which it is made sure that they are where they seem to be."""

_AT_ONCE = 100
"""Files that are open at the same time."""

_OPEN = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"  # noqa: PTH112

_Count: TypeAlias = "tuple[bytes, bytes, int]"
"""How a path is sorted, the path, and the number of lines that match in it."""


class Search(NamedTuple):
    """What is searched for, and where."""

    pattern: str
    ignore_case: bool
    scope: Scope
    file: str | None = None
    """The name of a file in the scope's directory, if only that is searched."""
    glob: str | None = None


class Hits(NamedTuple):
    """A file, and the first lines in it that match."""

    path: str
    lines: list[Line]


class Answer(NamedTuple):
    """What was found. The totals count everything, the hits are the first of them."""

    total: int
    files: int
    hits: list[Hits]
    unreadable: int


async def search(asked: Search, most: int, rg: str | None) -> Answer:
    """Search with ripgrep, or without if there is none. Raises `PatternError`."""
    if "\0" in asked.pattern:
        raise PatternError("no line holds a NUL character", asked.pattern.index("\0"))
    if len(asked.pattern) > LONGEST_PATTERN:
        message = f"longer than {LONGEST_PATTERN:,} characters"
        raise PatternError(message, LONGEST_PATTERN)
    if rg is None:
        translate(asked.pattern, asked.ignore_case)
    tally, unreadable = Tally(asked, most), 0
    if asked.file is not None:
        tally.add(os.fsencode(f"{_prefix(asked.scope)}{asked.file}"), 0)
    else:
        async with _counting(asked, rg) as done:
            unreadable = _check(asked, done)
            size = done.output.seek(0, os.SEEK_END)
            done.output.seek(0)
            if size > _INLINE:
                await in_thread(lambda: tally.read(done.output))
            else:
                tally.read(done.output)
    first, total, files = tally.first()
    hits = list[Hits]()
    async for found in _looked_at(asked, first, most, rg):
        total += found.matches
        files += found.matches > 0
        if found.lines:
            hits.append(Hits(found.path, found.lines))
    return Answer(total, files, hits, unreadable)


# The first pass


@asynccontextmanager
async def _counting(asked: Search, rg: str | None) -> AsyncGenerator[Done, None]:
    scope = asked.scope
    if rg is None:
        async with run(fallback.command(), scope.top, _request(asked, [], 0)) as done:
            yield done
        return
    with _rules(scope) as rules:
        command = ripgrep.count_command(
            rg, asked.pattern, asked.ignore_case, scope, asked.glob, rules
        )
        async with run(command, scope.top) as done:
            yield done


@contextmanager
def _rules(scope: Scope) -> Generator[str | None, None, None]:
    """Write the rules above a directory to a file, if there are any."""
    above = ripgrep.rules_file(scope)
    if not above:
        yield None
        return
    with tempfile.NamedTemporaryFile(prefix="callsheet-ignore-") as file:
        file.write(above)
        file.flush()
        yield file.name


def _request(asked: Search, files: list[str], most: int) -> bytes:
    """Write down for the fallback what it is to do."""
    request = {
        "pattern": asked.pattern,
        "ignore_case": asked.ignore_case,
        "scope": asked.scope,
        "glob": asked.glob,
        "files": files,
        "most": most,
    }
    return json.dumps(request).encode()


def _prefix(scope: Scope) -> str:
    return f"./{scope.below}/" if scope.below else "./"


def _check(asked: Search, done: Done) -> int:
    """Return how many files could not be read. Raises `PatternError` if the search was refused."""
    if done.code < 2 and done.code >= 0:
        return 0
    unreadable = sum("(os error" in line for line in done.complaints.splitlines())
    if done.code != 2:
        raise ChildProcessError(f"the search ended with {done.code}: {done.complaints[:500]}")
    if ripgrep.is_refusal(done.complaints):
        raise ripgrep.complaint(asked.pattern, done.complaints)
    return unreadable


class Tally:
    """Adds up counts, and keeps the first files."""

    def __init__(self, asked: Search, most: int) -> None:
        self._total: int = 0
        self._files: int = 0
        self._most: int = max(most, _SURE)
        self._kept: list[_Count] = []
        self._asked: Search = asked

    def read(self, output: BinaryIO) -> None:
        """Read what the first pass has written."""
        with _filter(self._asked) as wanted:
            for path, count in _records(output):
                if wanted is None or wanted(path):
                    self.add(path, count)

    def add(self, path: bytes, count: int) -> None:
        """Take in a file."""
        self._kept.append((path.replace(b"/", b"\0"), path, count))
        if len(self._kept) > 4 * self._most:
            self._cut()

    def first(self) -> tuple[list[str], int, int]:
        """Return the first files in the order of paths, and how many lines and files there are beyond."""
        self._cut()
        return [os.fsdecode(path) for _, path, _ in self._kept], self._total, self._files

    def _cut(self) -> None:
        self._kept.sort()
        beyond = self._kept[self._most :]
        del self._kept[self._most :]
        self._files += len(beyond)
        self._total += sum(count for _, _, count in beyond)


def _records(output: BinaryIO) -> Iterator[tuple[bytes, int]]:
    rest = b""
    while piece := output.read(1 << 20):
        piece, end = rest + piece, 0
        for match in _COUNT.finditer(piece):
            yield match[1], int(match[2])
            end = match.end()
        rest = piece[end:]


@contextmanager
def _filter(asked: Search) -> Generator[Callable[[bytes], bool] | None, None, None]:
    """Make the last word on whether a file is meant, where ripgrep is asked loosely."""
    if asked.glob is None:
        yield None
        return
    wanted, skip = wanted_by(asked.glob), len(_prefix(asked.scope))
    with Walk(asked.scope, hidden=False) as walk:

        def is_wanted(path: bytes) -> bool:
            shown = os.fsdecode(path)[skip:]
            hidden = shown[shown.rfind("/") + 1 :].startswith(".")
            return wanted(shown) and not (hidden and walk.is_left_out(shown))

        yield is_wanted


# The second pass


class _Found(NamedTuple):
    """A file that was opened: how many of its lines match, and the first of them."""

    path: str
    matches: int
    lines: list[Line]


async def _looked_at(
    asked: Search, files: list[str], most: int, rg: str | None
) -> AsyncIterator[_Found]:
    root = asked.scope.top.rstrip("/")
    left = most
    with Descent(asked.scope.top) as descent:
        for start in range(0, len(files), _AT_ONCE):
            some = files[start : start + _AT_ONCE]
            opened = await in_thread(lambda some=some: _opened(descent, some))
            try:
                names = {f"{_OPEN}/{fd}": path for path, fd in opened.items()}
                counts = await _counts(asked, list(names), rg) if names else {}
                lines = await _lines(asked, [name for name in names if counts.get(name)], left, rg)
            finally:
                for fd in opened.values():
                    os.close(fd)
            for name, path in names.items():
                found = lines.get(name, [])[:left]
                left -= len(found)
                yield _Found(f"{root}/{path[2:]}", counts.get(name, 0), found)


def _opened(descent: Descent, files: list[str]) -> dict[str, int]:
    """Open files. What has become a link, or is gone, is not among them."""
    opened = dict[str, int]()
    for path in files:
        with suppress(OSError):
            opened[path] = descent.open(path[2:])
    return opened


async def _counts(asked: Search, names: list[str], rg: str | None) -> dict[str, int]:
    if rg is None:
        command, request = fallback.command(), _request(asked, names, 0)
    else:
        command = ripgrep.count_files_command(rg, asked.pattern, asked.ignore_case, names)
        request = b""
    async with _run_open(command, names, request) as done:
        _check(asked, done)
        return {os.fsdecode(name): count for name, count in _records(done.output)}


async def _lines(
    asked: Search, names: list[str], most: int, rg: str | None
) -> dict[str, list[Line]]:
    if not names or most <= 0:
        return {}
    if rg is None:
        command, request = fallback.command(), _request(asked, names, most)
    else:
        command = ripgrep.lines_command(rg, asked.pattern, asked.ignore_case, names, most)
        request = b""
    async with _run_open(command, names, request) as done:
        return lines_in(done.output.read())


def _run_open(
    command: list[str], names: list[str], request: bytes
) -> AbstractAsyncContextManager[Done]:
    return run(command, "/", request, [int(name.rpartition("/")[2]) for name in names])


def lines_in(output: bytes) -> dict[str, list[Line]]:
    """Read what the second pass has written: lines, by the names of their files."""
    found: dict[str, list[Line]] = {}
    for match in _LINE.finditer(output):
        path, number, column, offset = match.groups()
        line = Line(int(number), int(column or 1), int(offset))
        found.setdefault(os.fsdecode(path), []).append(line)
    return found
