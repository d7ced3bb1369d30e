"""Searching for lines: counted everywhere, looked at closely only in the files that are shown.

The first pass asks for one number from each file that matches. So the totals are exact, and the
output is small, however much matches. The second pass finds the first lines in the first files, in
the order of paths.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import BinaryIO, NamedTuple, TypeAlias

from callsheet.tools.threads import in_thread

from . import fallback, ripgrep
from .children import Done, run
from .dialect import translate
from .fallback import Line, wanted_by
from .pattern_errors import PatternError
from .walk import Scope, Walk

_COUNT = re.compile(rb"([^\0]+)\0(\d+)\n")
_LINE = re.compile(rb"([^\0]+)\0(\d+):(?:(\d+):)?(\d+):[^\n]*\n")

LONGEST_PATTERN = 10_000

_INLINE = 1 << 18
"""Bytes of counts that are read in the event loop; more than that is read in a thread."""

_MOST_ARGUMENTS = 1 << 16
"""Bytes of paths that one command gets."""

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
    tally = Tally(asked, most)
    async with _counting(asked, rg) as done:
        unreadable = _check(asked, done)
        size = done.output.seek(0, os.SEEK_END)
        done.output.seek(0)
        if size > _INLINE:
            await in_thread(lambda: tally.read(done.output))
        else:
            tally.read(done.output)
    hits = [hits async for hits in _first_lines(asked, tally.first(), most, rg)]
    return Answer(tally.total, tally.files, hits, unreadable)


# The first pass


@asynccontextmanager
async def _counting(asked: Search, rg: str | None) -> AsyncGenerator[Done, None]:
    scope = asked.scope
    if rg is None:
        request = _request(asked, _named(asked), 0)
        async with run(fallback.command(), scope.top, request) as done:
            yield done
    elif asked.file is not None:
        files = _named(asked)
        command = ripgrep.count_files_command(rg, asked.pattern, asked.ignore_case, files)
        async with run(command, scope.top) as done:
            yield done
    else:
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


def _named(asked: Search) -> list[str]:
    return [] if asked.file is None else [f"{_prefix(asked.scope)}{asked.file}"]


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
    """Give how many files could not be read. Raises `PatternError` if the search was refused."""
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
        self.total: int = 0
        self.files: int = 0
        self._most: int = most
        self._kept: list[_Count] = []
        self._wanted: Callable[[bytes], bool] | None = _filter(asked)

    def read(self, output: BinaryIO) -> None:
        """Read what the first pass has written."""
        for path, count in _records(output):
            if self._wanted is None or self._wanted(path):
                self.files += 1
                self.total += count
                self._kept.append((path.replace(b"/", b"\0"), path, count))
                if len(self._kept) > 4 * self._most + 1000:
                    self._cut()

    def first(self) -> list[tuple[bytes, int]]:
        """Give as many files as are needed, in the order of paths, with their counts."""
        self._cut()
        left, first = self._most, list[tuple[bytes, int]]()
        for _, path, count in self._kept:
            if left <= 0:
                break
            first.append((path, min(count, left)))
            left -= count
        return first

    def _cut(self) -> None:
        self._kept.sort()
        del self._kept[self._most :]


def _records(output: BinaryIO) -> Iterator[tuple[bytes, int]]:
    rest = b""
    while piece := output.read(1 << 20):
        piece, end = rest + piece, 0
        for match in _COUNT.finditer(piece):
            yield match[1], int(match[2])
            end = match.end()
        rest = piece[end:]


def _filter(asked: Search) -> Callable[[bytes], bool] | None:
    """Make the last word on whether a file is meant, where ripgrep is asked loosely."""
    if asked.glob is None or asked.file is not None:
        return None
    wanted, skip = wanted_by(asked.glob), len(_prefix(asked.scope))
    walk = Walk(asked.scope, hidden=False)

    def is_wanted(path: bytes) -> bool:
        shown = os.fsdecode(path)[skip:]
        hidden = shown[shown.rfind("/") + 1 :].startswith(".")
        return wanted(shown) and not (hidden and walk.is_left_out(shown))

    return is_wanted


# The second pass


async def _first_lines(
    asked: Search, files: list[tuple[bytes, int]], most: int, rg: str | None
) -> AsyncIterator[Hits]:
    left = most
    for some in _portions(files):
        names = [os.fsdecode(path) for path, _ in some]
        if rg is None:
            command, request = fallback.command(), _request(asked, names, left)
        else:
            command = ripgrep.lines_command(rg, asked.pattern, asked.ignore_case, names, left)
            request = b""
        async with run(command, asked.scope.top, request) as done:
            for hits in hits_in(asked.scope, done.output.read()):
                lines = hits.lines[:left]
                left -= len(lines)
                if lines:
                    yield Hits(hits.path, lines)


def _portions(files: list[tuple[bytes, int]]) -> Iterator[list[tuple[bytes, int]]]:
    some, size = list[tuple[bytes, int]](), 0
    for file in files:
        if some and size + len(file[0]) > _MOST_ARGUMENTS:
            yield some
            some, size = [], 0
        some.append(file)
        size += len(file[0]) + 1
    if some:
        yield some


def hits_in(scope: Scope, output: bytes) -> list[Hits]:
    """Read what the second pass has written."""
    found: dict[bytes, list[Line]] = {}
    for match in _LINE.finditer(output):
        path, number, column, offset = match.groups()
        found.setdefault(path, []).append(Line(int(number), int(column or 1), int(offset)))
    root = scope.top.rstrip("/")
    return [Hits(f"{root}/{os.fsdecode(path)[2:]}", lines) for path, lines in found.items()]
