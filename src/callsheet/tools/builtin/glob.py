"""Own `glob`, which finds files whose paths match a pattern, most recently changed first."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest
from pathlib import Path

from callsheet.report.humanize import plural
from callsheet.tools.errors import InvalidArguments
from callsheet.tools.fs.dirfd import check_directory
from callsheet.tools.result import ToolResult
from callsheet.tools.search.globs import Glob, GlobError, compile_glob
from callsheet.tools.search.matches import escape_name
from callsheet.tools.search.walk import Walk, WalkEntry
from callsheet.tools.session import Call
from callsheet.tools.tool import tool

MAX_SHOWN = 500
"""Maximum number of paths that are shown."""


@tool(kind="search", read_only=True)
def glob(call: Call, pattern: str, path: Path | None = None) -> ToolResult:
    """Find files by their paths. Those that were changed last come first.

    What ignore files (.gitignore, .ignore) leave out is not found; hidden files are. Links to directories
    are not followed.

    Args:
        pattern: A glob for paths from the directory that is searched: "*.py" finds files right there,
            "**/*.py" at any depth, "src/**/test_*.{ts,tsx}" those below src; [a-z] and ? stand for one
            character. With "/" at its end it finds directories.
        path: The directory to search. Without it, the session's directory.
    """
    base = path or call.workspace.cwd
    shown_base = escape_name(call.workspace.show(base))
    check_directory(base, shown_base)
    meant = _relative(pattern, base)
    compiled = _compiled(meant)
    first, total, unreadable = _find(call, base, compiled)
    prefix = "" if base == call.workspace.cwd else f"{call.workspace.show(base).rstrip('/')}/"
    mark = "/" if compiled.only_directories else ""
    lines = [escape_name(prefix + each) + mark for each in first]
    if total:
        kind = ("directory", "directories") if compiled.only_directories else ("file", "files")
        cut = f"; the {MAX_SHOWN} that were changed last are shown" if total > MAX_SHOWN else ""
        lines += ["", f"{plural(total, *kind)}{cut}."]
    else:
        where = f" in {shown_base}" if prefix else ""
        lines.append(f"No files match '{escape_name(pattern)}'{where}.{_deeper(call, base, meant)}")
    if unreadable:
        what = plural(unreadable, "directory", "directories")
        lines.append(f"{what} could not be read.")
    return (
        call.success("\n".join(lines))
        .with_metadata("pattern", pattern)
        .with_metadata("search_path", str(base))
        .with_metadata("results_count", total)
        .with_metadata("shown", len(first))
        .with_metadata("truncated", total > len(first))
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


def _compiled(pattern: str) -> Glob:
    try:
        return compile_glob(pattern)
    except GlobError as exc:
        raise InvalidArguments(f"pattern: {pattern!r}: {exc}") from None


def _find(call: Call, base: Path, pattern: Glob) -> tuple[list[str], int, int]:
    """Return the paths to show, and the numbers of all that match and of directories that can't be read."""
    total = 0

    def matches() -> Iterator[tuple[int, str]]:
        nonlocal total
        for found in walk:
            is_meant = found.is_directory == pattern.only_directories
            if is_meant and pattern.path.fullmatch(found.path) and not _leads_in(found):
                total += 1
                yield -_changed(found), found.path

    with Walk(str(base), inside=pattern.inside.fullmatch, ended=lambda: call.has_ended) as walk:
        first = [path for _, path in nsmallest(MAX_SHOWN, matches())]
        return first, total, walk.unreadable


def _leads_in(found: WalkEntry) -> bool:
    """Return whether an entry is a link to a directory."""
    return found.entry.is_symlink() and found.entry.is_dir()


def _changed(found: WalkEntry) -> int:
    try:
        return found.entry.stat(follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0  # it is gone already


def _deeper(call: Call, base: Path, pattern: str) -> str:
    """Return a hint at what a pattern for the directory itself would find below it."""
    if "/" in pattern:
        return ""
    deep = f"**/{pattern}"
    _, there, _ = _find(call, base, _compiled(deep))
    return f" {plural(there, 'file')} further down: {deep!r}." if there else ""
