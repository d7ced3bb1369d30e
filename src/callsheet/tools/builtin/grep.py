"""`grep`: lines that match a pattern, in the files of a tree, in the order of their paths."""

from __future__ import annotations

import stat
from pathlib import Path

from callsheet.report.locations import ToolCallLocation
from callsheet.tools.errors import ExecutionFailed, InvalidArguments
from callsheet.tools.result import ToolResult
from callsheet.tools.search import ripgrep
from callsheet.tools.search.engine import Answer, Search, search
from callsheet.tools.search.globs import GlobError, compile_glob
from callsheet.tools.search.pattern_errors import PatternError, Unsupported
from callsheet.tools.search.show import plural, show_hits, show_name
from callsheet.tools.search.texts import open_text
from callsheet.tools.search.walk import scope_of
from callsheet.tools.session import Call
from callsheet.tools.threads import in_thread
from callsheet.tools.tool import tool

MOST = 1000
"""Matches that are shown at most."""

MOST_CONTEXT = 20

PLACES = 10
"""Hits that become locations."""


@tool(kind="search", read_only=True)
async def grep(
    call: Call,
    pattern: str,
    path: Path | None = None,
    glob: str | None = None,
    ignore_case: bool = False,
    context: int = 0,
    limit: int = 100,
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
    _check(limit, context, glob)
    mode = base.stat().st_mode
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        shown = show_name(call.workspace.show(base))
        raise InvalidArguments(f"path: {shown} is neither a directory nor a regular file")
    name = None if stat.S_ISDIR(mode) else base.name
    roots = map(str, call.workspace.roots)
    scope = scope_of(str(base if name is None else base.parent), roots)
    asked = Search(pattern, ignore_case, scope, name, glob)
    result = await _answered(call, asked, base, min(limit, MOST), min(context, MOST_CONTEXT))
    return result.with_metadata("pattern", pattern).with_metadata("search_path", str(base))


def _check(limit: int, context: int, glob: str | None) -> None:
    if limit < 1:
        raise InvalidArguments(f"limit: expected a number from 1 to {MOST}, got {limit}")
    if context < 0:
        raise InvalidArguments(
            f"context: expected a number from 0 to {MOST_CONTEXT}, got {context}"
        )
    if glob is not None:
        try:
            compile_glob(glob.removeprefix("!"))
        except GlobError as exc:
            raise InvalidArguments(
                f"glob: {glob!r}, at character {exc.position + 1}: {exc}"
            ) from None


async def _answered(call: Call, asked: Search, base: Path, limit: int, context: int) -> ToolResult:
    answer, binary = Answer(0, 0, [], 0), False
    if asked.file is not None:
        binary = await in_thread(lambda: _is_binary(base))
    if not binary:
        answer = await _found(asked, limit)
    text, shown = await in_thread(lambda: show_hits(answer.hits, context, call.workspace.show))
    _locate(call, shown)
    truncated = len(shown) < answer.total
    lines = [text, ""] if text else []
    lines.append(_summary(call, asked, base, answer, len(shown), binary))
    if answer.unreadable:
        what = plural(answer.unreadable, "file or directory", "files or directories")
        lines.append(f"{what} could not be read.")
    return (
        call.success("\n".join(lines))
        .with_metadata("total_matches", answer.total)
        .with_metadata("files_matched", answer.files)
        .with_metadata("shown", len(shown))
        .with_metadata("truncated", truncated)
    )


def _is_binary(path: Path) -> bool:
    text = open_text(str(path))
    try:
        return text.is_binary()
    finally:
        text.close()


async def _found(asked: Search, limit: int) -> Answer:
    try:
        return await search(asked, limit, ripgrep.find())
    except Unsupported as exc:
        raise ExecutionFailed(
            f"pattern, at character {exc.position + 1}: {exc}, which is not installed here "
            "(pip install ripgrep). Without it, plainer patterns can be searched for",
            position=exc.position,
        ) from None
    except PatternError as exc:
        raise InvalidArguments(
            f"pattern, at character {exc.position + 1}: {exc}", position=exc.position
        ) from None


def _summary(
    call: Call, asked: Search, base: Path, answer: Answer, shown: int, binary: bool
) -> str:
    if not answer.total:
        where = "" if base == call.workspace.cwd else f" in {show_name(call.workspace.show(base))}"
        among = f" (files: {asked.glob})" if asked.glob and asked.file is None else ""
        why = "; it is a binary file" if binary else ""
        return f"No matches for {asked.pattern!r}{where}{among}{why}."
    total = f"{plural(answer.total, 'match', 'matches')} in {plural(answer.files, 'file')}"
    if shown == answer.total:
        return f"{total}."
    narrower = "a longer pattern" if asked.file else "path, glob or a longer pattern"
    more = f", or show more with limit (at most {MOST})" if shown < MOST else ""
    return f"{total}; the first {shown:,} are shown. Narrow it with {narrower}{more}."


def _locate(call: Call, shown: list[tuple[str, int]]) -> None:
    """Show where the first hits are. Editors follow the last place, so the first hit comes last."""
    firsts = dict(reversed(shown))
    chosen = [place for place in shown if firsts[place[0]] == place[1]][:PLACES]
    chosen += [place for place in shown if place not in chosen][: PLACES - len(chosen)]
    places = [
        ToolCallLocation(path, line)
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
