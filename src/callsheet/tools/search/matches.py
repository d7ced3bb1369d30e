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
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, suppress
from heapq import nsmallest
from pathlib import Path
from typing import BinaryIO, NamedTuple

from callsheet.report.patterns import lazy
from callsheet.tools.errors import InvalidArguments, ToolError
from callsheet.tools.fs.dirfd import open_regular
from callsheet.tools.invocation import in_thread
from callsheet.tools.search import ripgrep
from callsheet.tools.search.globs import path_filter
from callsheet.tools.search.ripgrep import MAX_WIDTH, LineQuery

MAX_PATTERN = 10_000
"""Characters of a pattern."""

MAX_CHARACTERS = 60_000
"""Characters of an output, about."""

_COUNT = lazy(rb"([^\0]+)\0(\d+)\n")
_LINE = lazy(rb"([^\0]+)\0(\d+)(?::(\d+):|-)([^\n]*)\n")
_CUT = lazy(r" \[\.\.\. [^\]]+\]$")  # ripgrep's mark at the end of a line that it has cut
_CONTROL = lazy(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

_MAX_TEXT = 4 * MAX_WIDTH
"""Characters of a line; ripgrep counts graphemes, which may have any number of them."""

_VERIFIED = 1000
"""Files at least, among those that match, that are opened to make sure that they are what they seem."""

_BATCH = 100
"""Files that are open at the same time."""

_OPEN_FILES = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"  # noqa: PTH112


class FoundLine(NamedTuple):
    """A line that is shown: one with a match, or one near it."""

    number: int
    text: str
    is_match: bool


class FileMatches(NamedTuple):
    """A file that was opened: how many of its lines match, and the first of them with lines around them."""

    path: str
    total: int
    lines: list[FoundLine]


class Matches(NamedTuple):
    """What was found. The totals count everything; `shown` has the first lines in the order of paths."""

    total: int = 0
    files: int = 0
    shown: tuple[FileMatches, ...] = ()
    unreadable: int = 0


async def search(
    query: LineQuery, base: Path, *, is_file: bool, limit: int, context: int
) -> Matches:
    """Search a tree or a file, and return the totals with the first lines.

    Args:
        query: What is searched for.
        base: The directory or file, without links.
        is_file: Whether it is a file.
        limit: Matching lines to return at most.
        context: Lines to return before and after each of them.

    Raises:
        InvalidArguments: The pattern can't be searched for.
        ExecutionFailed: Ripgrep is not there, or can't be started.
    """
    if "\0" in query.pattern:
        raise InvalidArguments("pattern: no line holds a NUL character")
    if len(query.pattern) > MAX_PATTERN:
        raise InvalidArguments(f"pattern: it is longer than {MAX_PATTERN:,} characters")
    first, total, files, unreadable = [base], 0, 0, 0
    if not is_file:
        first, total, files, unreadable = await _count_tree(query, base, max(limit, _VERIFIED))
    shown = list[FileMatches]()
    async for found in _verified(query, first, limit, context):
        total += found.total
        files += found.total > 0
        if found.lines:
            shown.append(found)
    return Matches(total, files, tuple(shown), unreadable)


# The first pass


async def _count_tree(query: LineQuery, base: Path, limit: int) -> tuple[list[Path], int, int, int]:
    """Count matching lines in each file of a tree.

    Returns:
        The first files in the order of paths, the numbers of matching lines and of files beyond them, and the
        number of files that could not be read.
    """
    wanted = path_filter(query.glob) if query.glob else None
    total = files = 0

    def read(output: BinaryIO) -> Iterator[tuple[bytes, str, int]]:
        nonlocal total, files
        for name, count in _counts(output):
            path = os.fsdecode(name).removeprefix("./")
            # Narrowing a search by names brings back hidden files.
            if wanted is not None and ("/." in f"/{path}" or not wanted(path)):
                continue
            total += count
            files += 1
            # Sorted so, what is in a directory stands together: "/" comes before every other character.
            yield os.fsencode(path).replace(b"/", b"\0"), path, count

    async with ripgrep.run(query.count_tree(base), str(base)) as finished:
        unreadable = ripgrep.unreadable_count(finished)
        first = await in_thread(lambda: nsmallest(limit, read(finished.output)))
    total -= sum(count for _, _, count in first)
    return [base / path for _, path, _ in first], total, files - len(first), unreadable


def _counts(output: BinaryIO) -> Iterator[tuple[bytes, int]]:
    rest = b""
    while piece := output.read(1 << 20):
        piece, end = rest + piece, 0
        for match in _COUNT.finditer(piece):
            yield match[1], int(match[2])
            end = match.end()
        rest = piece[end:]


# The second pass


async def _verified(
    query: LineQuery, files: list[Path], limit: int, context: int
) -> AsyncIterator[FileMatches]:
    """Open files, and search what is open. What has become a link, or is gone, is left out."""
    for start in range(0, len(files), _BATCH):
        batch = files[start : start + _BATCH]
        with ExitStack() as stack:
            opened = await in_thread(lambda batch=batch, stack=stack: _open_all(batch, stack))
            totals = await _count_files(query, opened) if opened else {}
            lines = await _find_lines(query, totals, limit, context) if limit > 0 else {}
        for name, total in totals.items():
            found = lines.get(name, [])
            limit -= sum(line.is_match for line in found)
            yield FileMatches(str(opened[name]), total, found)


def _open_all(files: list[Path], stack: ExitStack) -> dict[str, Path]:
    """Open files, and return their paths by the names of their descriptors."""
    opened = dict[str, Path]()
    for path in files:
        with suppress(OSError, ToolError):
            file = stack.enter_context(open_regular(path, str(path)))
            opened[f"{_OPEN_FILES}/{file.fileno()}"] = path
    return opened


async def _count_files(query: LineQuery, opened: dict[str, Path]) -> dict[str, int]:
    """Return the number of matching lines of each file that has some, in the order of `opened`."""
    names = list(opened)
    async with ripgrep.run(query.count_files(names), "/", _descriptors(names)) as finished:
        ripgrep.unreadable_count(finished)
        counts = {os.fsdecode(name): count for name, count in _counts(finished.output)}
    return {name: counts[name] for name in names if name in counts}


async def _find_lines(
    query: LineQuery, totals: dict[str, int], limit: int, context: int
) -> dict[str, list[FoundLine]]:
    """Return the first matching lines of files, and those around them."""
    names, wanted = list[str](), dict[str, int]()
    for name, total in totals.items():
        if limit > 0:
            names.append(name)
            wanted[name] = min(total, limit)
            limit -= total
    found: dict[str, list[FoundLine]] = {name: [] for name in names}
    if not names:
        return found
    command = query.show_lines(names, max(wanted.values()), context)
    async with ripgrep.run(command, "/", _descriptors(names)) as finished:
        for match in _LINE.finditer(finished.output.read()):
            found[os.fsdecode(match[1])].append(_found_line(match))
    return {name: _first(lines, wanted[name], context) for name, lines in found.items()}


def _found_line(match: re.Match[bytes]) -> FoundLine:
    text = match[4].decode(errors="replace").removesuffix("\r").removeprefix("\ufeff")
    column = int(match[3] or 1)
    if len(match[4]) > MAX_WIDTH and (cut := _CUT.search(text)):
        text = f"{text[: min(cut.start(), _MAX_TEXT)]}…"
        if column > MAX_WIDTH:
            text += f" (it matches at byte {column:,} of the line)"
    return FoundLine(int(match[2]), text, match[3] is not None)


def _first(lines: list[FoundLine], limit: int, context: int) -> list[FoundLine]:
    """Return lines up to the last match that is wanted, and those behind that one."""
    matches = [line.number for line in lines if line.is_match][:limit]
    end = matches[-1] + context if matches else 0
    numbers = set(matches)
    return [
        line
        for line in lines
        if line.number in numbers or (not line.is_match and line.number <= end)
    ]


def _descriptors(names: list[str]) -> list[int]:
    return [int(name.rpartition("/")[2]) for name in names]


# What users and models see


def escape_name(path: str) -> str:
    """Return a path that takes one line, whatever characters are in it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        path = os.fsencode(path).decode("utf-8", "backslashreplace")
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], path)


def render(
    found: Matches, context: int, show_path: Callable[[str], str]
) -> tuple[str, list[tuple[str, int]]]:
    """Return matches as text, and the lines that fitted into it: path and number.

    Args:
        found: The matches.
        context: Lines that are shown before and after each match.
        show_path: Returns a path as it is shown.
    """
    blocks, shown, room = list[str](), list[tuple[str, int]](), MAX_CHARACTERS
    for path, _, lines in found.shown:
        written, last = [escape_name(show_path(path))], 0
        for number, text, is_match in lines:
            room -= len(text)
            if room < 0 and shown:
                break
            if context and last and number > last + 1:
                written.append("--")
            written.append(f"{number}{':' if is_match else '-'} {text}")
            last = number
            if is_match:
                shown.append((path, number))
        if last:
            blocks.append("\n".join(written))
        if room < 0:
            break
    return "\n\n".join(blocks), shown
