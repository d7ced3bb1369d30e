"""Own `list`, which lists a directory, directories first, without ignored files."""

from __future__ import annotations

import re
import stat
from pathlib import Path

from callsheet.report.humanize import bytes_text, plural
from callsheet.tools.fs.dirfd import check_directory
from callsheet.tools.result import ToolResult
from callsheet.tools.search.matches import escape_name
from callsheet.tools.search.walk import Walk, WalkEntry
from callsheet.tools.session import Call
from callsheet.tools.tool import tool

MAX_SHOWN = 1000
"""Maximum number of entries that are shown."""

_DIGITS = re.compile(r"(\d+)")
_KINDS = {
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFBLK: "device",
    stat.S_IFCHR: "device",
}


@tool(name="list", kind="read", read_only=True)
def list_files(call: Call, path: Path | None = None) -> ToolResult:
    """List what is in a directory: directories first, then files with their sizes.

    Hidden entries are shown. What ignore files (.gitignore, .ignore) leave out is not, but it is counted.

    Args:
        path: The directory. Without it, the session's directory.
    """
    base = path or call.workspace.cwd
    shown_path = escape_name(call.workspace.show(base))
    check_directory(base, shown_path, "; read shows it")
    with Walk(str(base)) as walk:
        found = sorted(walk.top(), key=_order)
        directories = sum(each.is_directory for each in found)
        lines = [_line(walk, each) for each in found[:MAX_SHOWN]]
    lines += [""] * bool(lines) + [_summary(shown_path, len(found), directories, walk.ignored)]
    return (
        call.success("\n".join(lines))
        .with_metadata("search_path", str(base))
        .with_metadata("results_count", len(found))
        .with_metadata("shown", min(len(found), MAX_SHOWN))
        .with_metadata("truncated", len(found) > MAX_SHOWN)
        .with_metadata("directories", directories)
        .with_metadata("ignored", walk.ignored)
    )


def _order(found: WalkEntry) -> tuple[object, ...]:
    """Return the sort key: directories first; then by name, ignoring case, with 9 before 10."""
    parts = _DIGITS.split(found.path.casefold())
    numbers = [int(part) if at % 2 else part for at, part in enumerate(parts)]
    return (not found.is_directory, numbers, found.path)


def _line(walk: Walk, found: WalkEntry) -> str:
    name = escape_name(found.path)
    if found.is_directory:
        return f"{name}/"
    entry = found.entry
    try:
        if entry.is_symlink():
            return f"{name} -> {escape_name(walk.read_link(found))}"
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return name  # it is gone already
    kind = _KINDS.get(stat.S_IFMT(status.st_mode))
    return f"{name}  {bytes_text(status.st_size) if kind is None else f'({kind})'}"


def _summary(path: str, total: int, directories: int, ignored: int) -> str:
    left_out = (
        f"; {ignored:,} ignored {'is' if ignored == 1 else 'are'} left out" if ignored else ""
    )
    if not total:
        return f"{path} is empty{left_out}."
    files = plural(total - directories, "file")
    what = f"{plural(directories, 'directory', 'directories')}, {files}" if directories else files
    cut = f"; the first {MAX_SHOWN:,} are shown" if total > MAX_SHOWN else ""
    return f"{what}{cut}{left_out}."
