"""Own `glob`, which finds files whose paths match a pattern, most recently changed first."""

from __future__ import annotations

import os
from contextlib import suppress
from heapq import nsmallest
from pathlib import Path

from callsheet.report.humanize import plural
from callsheet.tools import ripgrep
from callsheet.tools.errors import InvalidArguments, NotPermitted
from callsheet.tools.files.dirfd import check_directory, stat_of
from callsheet.tools.globs import compile_glob, escape_name
from callsheet.tools.invocation import in_thread
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Call
from callsheet.tools.tool import tool

MAX_SHOWN = 500
"""Maximum number of paths that are shown."""


@tool(kind="search", read_only=True)
async def glob(call: Call, pattern: str, path: Path | None = None) -> ToolResult:
    """Find files by their paths, the most recently changed first.

    Files excluded by ignore files (.gitignore, .ignore) are not found; hidden files are. Links are neither
    found nor followed.

    Args:
        pattern: A glob for paths from the directory that is searched: "*.py" finds files right there,
            "**/*.py" at any depth, "src/**/test_*.{ts,tsx}" those below src; [a-z] and ? stand for one
            character. With "/" at its end it finds directories that hold files.
        path: The directory to search. Default: the session's directory.
    """
    base = path or call.workspace.cwd
    shown_base = escape_name(call.workspace.show(base))
    check_directory(base, shown_base)
    meant = _relative(pattern, base)
    bare = meant.rstrip("/")
    mark = "/" if bare != meant else ""
    matches = compile_glob(bare, "pattern")
    async with ripgrep.run(ripgrep.list_files(base), str(base)) as finished:
        unreadable = ripgrep.unreadable_count(finished)
        listed = await in_thread(
            lambda: _listed(finished.output.read(), only_directories=bool(mark))
        )
    found = [each for each in listed if matches(each)]
    first = await in_thread(lambda: _newest(base, found))
    total = len(found)
    prefix = "" if base == call.workspace.cwd else f"{call.workspace.show(base).rstrip('/')}/"
    lines = [escape_name(prefix + each) + mark for each in first]
    if total:
        kind = ("directory", "directories") if mark else ("file", "files")
        cut = f"; the {MAX_SHOWN} that were changed last are shown" if total > MAX_SHOWN else ""
        lines += ["", f"{plural(total, *kind)}{cut}."]
    else:
        where = f" in {shown_base}" if prefix else ""
        lines.append(f"No files match '{escape_name(pattern)}'{where}.{_deeper(meant, listed)}")
    if unreadable:
        what = plural(unreadable, "directory", "directories")
        lines.append(f"{what} could not be read.")
    return call.success("\n".join(lines)).with_all_metadata(
        {
            "pattern": pattern,
            "search_path": str(base),
            "results_count": total,
            "shown": len(first),
            "truncated": total > len(first),
        }
    )


def _relative(pattern: str, base: Path) -> str:
    """Return a pattern for paths below the base. A pattern that leads elsewhere is refused."""
    meant = pattern
    if meant.startswith("/"):
        inside = f"{base}/".replace("//", "/")
        if not meant.startswith(inside):
            raise InvalidArguments(
                f"pattern: {pattern!r} is absolute and not below {base}; "
                "give the directory as path, and a pattern for paths in it"
            )
        meant = meant[len(inside) :].lstrip("/")
    while meant.startswith("./"):
        meant = meant[2:].lstrip("/")
    if ".." in meant.replace("{", "/").replace(",", "/").replace("}", "/").split("/"):
        raise InvalidArguments(f"pattern: {pattern!r} has '..'; give another directory as path")
    if not meant.strip("/"):
        raise InvalidArguments('pattern: it is empty; "*" finds all files, "**/*" at any depth')
    return meant


def _listed(output: bytes, *, only_directories: bool) -> list[str]:
    """Return the paths that ripgrep has listed, or those of the directories around them."""
    paths = [os.fsdecode(name.removeprefix(b"./")) for name in output.split(b"\0") if name]
    if not only_directories:
        return paths
    around, waiting = set[str](), {path.rpartition("/")[0] for path in paths} - {""}
    while waiting:
        around |= waiting
        waiting = {path.rpartition("/")[0] for path in waiting} - {""} - around
    return list(around)


def _newest(base: Path, paths: list[str]) -> list[str]:
    """Return the paths to show. What is gone by now, or behind a link put in the way, is not shown."""
    shown: list[str] = []
    for _, path in nsmallest(MAX_SHOWN, ((-_changed(base, path), path) for path in paths)):
        with suppress(NotPermitted):
            shown += [path] if stat_of(base / path) is not None else []
    return shown


def _changed(base: Path, path: str) -> int:
    try:
        return os.lstat(f"{base}/{path}").st_mtime_ns
    except OSError:
        return 0  # it is gone already


def _deeper(pattern: str, listed: list[str]) -> str:
    """Return a hint at what a pattern for the directory itself would find below it."""
    if "/" in pattern:
        return ""
    deep = f"**/{pattern}"
    there = sum(map(compile_glob(deep), listed))
    return f" {plural(there, 'file')} further down: {deep!r}." if there else ""
