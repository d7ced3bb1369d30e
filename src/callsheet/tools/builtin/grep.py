"""Own `grep`, which finds lines that match a pattern in the files of a tree, in the order of paths."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from callsheet.report.fields import ToolCallLocation
from callsheet.report.humanize import plural
from callsheet.tools.errors import InvalidArguments, NotFound
from callsheet.tools.files.text_encoding import codec_of_bom
from callsheet.tools.fs.dirfd import open_regular, stat_of
from callsheet.tools.invocation import in_thread
from callsheet.tools.result import ToolResult
from callsheet.tools.search.globs import compile_glob
from callsheet.tools.search.matches import Matches, escape_name, render, search
from callsheet.tools.search.ripgrep import LineQuery
from callsheet.tools.session import Call
from callsheet.tools.tool import tool

MAX_SHOWN = 1000
"""Maximum number of matches that are shown."""

MAX_CONTEXT = 20

PLACES = 10
"""Maximum number of matches that are reported as locations."""


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

    Files that ignore files (.gitignore, .ignore) leave out, hidden files and binary files are not searched.
    The result is grouped by file, and says how many lines match in all.

    Args:
        pattern: A regular expression in the syntax of ripgrep, such as "def \w+" or "TODO|FIXME". It is
            matched within a line. Look-around and backreferences are not supported.
        path: The directory or file to search. Without it, the session's directory.
        glob: Searches only files that this glob matches: "*.py" or "*.{ts,tsx}" by their names,
            "src/**/*.py" by their paths from the directory that is searched. "!" in front turns it round.
        ignore_case: Whether upper and lower case are the same.
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
