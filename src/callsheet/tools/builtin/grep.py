"""The tool `grep`, which finds lines that match a pattern in the files of a tree, in the order of paths.

Lines are counted everywhere, and looked at closely only in the files that are shown. The first pass asks for
one number from each file that matches. So the totals are exact and the output is small, however much matches.
The second pass finds the first lines in the first files.

The first pass uses names, and a name may lead elsewhere a moment later, if another process puts a link in the
way. So its result is not trusted for the files that are shown: each of them is opened here, one directory
at a time and never through a link (`callsheet.tools.files.dirfd`), and ripgrep searches the open descriptors.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from heapq import nsmallest
from itertools import accumulate
from pathlib import Path
from typing import Annotated, BinaryIO, NamedTuple

from msgspec import Meta

from callsheet.report.fields import ToolCallLocation
from callsheet.report.humanize import plural
from callsheet.report.patterns import lazy
from callsheet.tools import ripgrep
from callsheet.tools.errors import InvalidArguments, NotFound, ToolError
from callsheet.tools.files.dirfd import open_regular, stat_of
from callsheet.tools.files.text_encoding import codec_of_bom
from callsheet.tools.globs import compile_glob, escape_name, path_filter
from callsheet.tools.invocation import in_thread
from callsheet.tools.result import ToolResult
from callsheet.tools.ripgrep import MAX_WIDTH, LineQuery
from callsheet.tools.session import Call
from callsheet.tools.tool import tool

MAX_SHOWN = 1000
"""Maximum number of matches that are shown."""

MAX_CONTEXT = 20

PLACES = 10
"""Maximum number of matches that are reported as locations."""

MAX_PATTERN = 10_000
"""Characters of a pattern."""

MAX_CHARACTERS = 60_000
"""Characters of an output, about."""

_COUNT = lazy(rb"([^\0]+)\0(\d+)\n")
_LINE = lazy(rb"([^\0]+)\0(\d+)(?::(\d+):|-)([^\n]*)\n")
_CUT = lazy(r" \[\.\.\. [^\]]+\]$")  # ripgrep's mark at the end of a line that it has cut

_MAX_TEXT = 4 * MAX_WIDTH
"""Characters of a line; ripgrep counts graphemes, which may have any number of them."""

_VERIFIED = 1000
"""Files at least, among those that match, that are opened to make sure that they are what they seem."""

_BATCH = 100
"""Files that are open at the same time."""

_OPEN_FILES = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"  # noqa: PTH112


@tool(kind="search", read_only=True)
async def grep(
    call: Call,
    pattern: str,
    path: Path | None = None,
    glob: str | None = None,
    ignore_case: bool = False,
    context: Annotated[int, Meta(ge=0)] = 0,
    limit: Annotated[int, Meta(ge=1)] = 100,
) -> ToolResult:
    r"""Search the contents of files for a regular expression, line by line.

    Files excluded by ignore files (.gitignore, .ignore), hidden files and binary files are not searched.
    The result is grouped by file, and says how many lines match in all.

    Args:
        pattern: A regular expression in the syntax of ripgrep, such as "def \w+" or "TODO|FIXME". It is
            matched within a line. Look-around and backreferences are not supported.
        path: The directory or file to search. Default: the session's directory.
        glob: Searches only files that this glob matches: "*.py" or "*.{ts,tsx}" by their names,
            "src/**/*.py" by their paths from the searched directory. A leading "!" excludes what matches.
        ignore_case: Whether to ignore case.
        context: Lines to show before and after each match, up to 20.
        limit: Matches to show at most, up to 1000. The totals count them all.
    """
    base = path or call.workspace.cwd
    is_file = _is_file(call, base)
    query = LineQuery(pattern, ignore_case, _checked(glob))
    limit, context = min(limit, MAX_SHOWN), min(context, MAX_CONTEXT)
    found, is_binary = Matches(), is_file and await in_thread(lambda: _is_binary(base))
    if not is_binary:
        found = await search(query, base, is_file=is_file, limit=limit, context=context)
    text, shown = render(found, context, call.workspace.show)
    _locate(call, shown)
    lines = [text, ""] if text else []
    if found.total:
        lines.append(_counted(found, len(shown), limit, is_file))
    else:
        lines.append(_nothing(call, query, base, is_file, is_binary))
    if found.unreadable:
        what = plural(found.unreadable, "file or directory", "files or directories")
        lines.append(f"{what} could not be read.")
    return call.success("\n".join(lines)).with_all_metadata(
        {
            "pattern": pattern,
            "search_path": str(base),
            "total_matches": found.total,
            "files_matched": found.files,
            "shown": len(shown),
            "truncated": len(shown) < found.total,
        }
    )


def _is_file(call: Call, base: Path) -> bool:
    shown = escape_name(call.workspace.show(base))
    found = stat_of(base)
    if found is None:
        raise NotFound(f"There is no file or directory {shown}", search_path=str(base))
    if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        raise InvalidArguments(f"path: {shown} is neither a directory nor a regular file")
    return stat.S_ISREG(found.st_mode)


def _checked(glob: str | None) -> str | None:
    """Return a glob for files. One for a directory matches everything in it."""
    if not glob:
        return None
    sign, meant = glob[: glob.startswith("!")], glob.removeprefix("!").removeprefix("./")
    meant = f"{meant}**" if meant.endswith("/") else meant
    compile_glob(meant)
    return f"{sign}{meant}"


def _is_binary(path: Path) -> bool:
    """Return whether there is a NUL anywhere in a file, as ripgrep decides."""
    with open_regular(path, str(path)) as file:
        pieces = iter(lambda: file.read(1 << 20), b"")
        first = next(pieces, b"")
        return codec_of_bom(first) is None and any(b"\0" in piece for piece in (first, *pieces))


def _nothing(call: Call, query: LineQuery, base: Path, is_file: bool, is_binary: bool) -> str:
    where = "" if base == call.workspace.cwd else f" in {escape_name(call.workspace.show(base))}"
    among = f" (files: {escape_name(query.glob)})" if query.glob and not is_file else ""
    why = "; it is a binary file" if is_binary else ""
    return f"No matches for '{escape_name(query.pattern)}'{where}{among}{why}."


def _counted(found: Matches, shown: int, limit: int, is_file: bool) -> str:
    total = f"{plural(found.total, 'match', 'matches')} in {plural(found.files, 'file')}"
    if shown == found.total:
        return f"{total}."
    first = "the first is shown" if shown == 1 else f"the first {shown:,} are shown"
    narrower = "a longer pattern" if is_file else "path, glob or a longer pattern"
    more = f", or show more with limit (at most {MAX_SHOWN})" if shown == limit < MAX_SHOWN else ""
    return f"{total}; {first}. Narrow it with {narrower}{more}."


def _locate(call: Call, shown: list[tuple[str, int]]) -> None:
    """Report the locations of the first matches, in reverse, because editors follow the last location."""
    firsts = dict(reversed(shown))
    chosen = [place for place in shown if firsts[place[0]] == place[1]][:PLACES]
    chosen += [place for place in shown if place not in chosen][: PLACES - len(chosen)]
    places = [
        ToolCallLocation(call.workspace.as_given(Path(path)), line)
        for path, line in sorted(chosen, key=shown.index, reverse=True)
        if _is_text(path)
    ]
    if places:
        call.update(locations=places)


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


# Searching


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
    for start in range(0, len(first), _BATCH):
        with ExitStack() as stack:
            opened = await in_thread(partial(_open_all, first[start : start + _BATCH], stack))
            found = await _find(query, opened, limit, context) if opened else []
        total += sum(one.total for one in found)
        files += len(found)
        limit -= sum(line.is_match for one in found for line in one.lines)
        shown += [one for one in found if one.lines]
    return Matches(total, files, tuple(shown), unreadable)


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
            path = name.removeprefix("./")
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


def _counts(output: BinaryIO) -> Iterator[tuple[str, int]]:
    rest = b""
    while piece := output.read(1 << 20):
        piece, end = rest + piece, 0
        for match in _COUNT.finditer(piece):
            yield os.fsdecode(match[1]), int(match[2])
            end = match.end()
        rest = piece[end:]


def _open_all(files: list[Path], stack: ExitStack) -> dict[str, Path]:
    """Open files, and return their paths by the names of their descriptors. What is a link is left out."""
    opened = dict[str, Path]()
    for path in files:
        with suppress(OSError, ToolError):
            file = stack.enter_context(open_regular(path, str(path)))
            opened[f"{_OPEN_FILES}/{file.fileno()}"] = path
    return opened


async def _find(
    query: LineQuery, opened: dict[str, Path], limit: int, context: int
) -> list[FileMatches]:
    """Search open files, and return those with matches, and the first matching lines of them all."""
    descriptors = [int(name.rpartition("/")[2]) for name in opened]
    async with ripgrep.run(query.count_files([*opened]), "/", descriptors) as finished:
        ripgrep.unreadable_count(finished)
        totals = dict(_counts(finished.output))
    found = {
        name: FileMatches(str(path), totals[name], [])
        for name, path in opened.items()
        if name in totals
    }
    before = [0, *accumulate(one.total for one in found.values())]
    names = [name for name, count in zip(found, before, strict=False) if count < limit]
    if names:
        command = query.show_lines(names, limit, context)
        async with ripgrep.run(command, "/", descriptors) as finished:
            for match in _LINE.finditer(finished.output.read()):
                found[os.fsdecode(match[1])].lines.append(_found_line(match))
        last = found[names[-1]]
        last.lines[:] = _first(last.lines, limit - before[len(names) - 1], context)
    return list(found.values())


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
    return [line for line in lines if line.number <= matches[-1] + context * (not line.is_match)]


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
