"""Own `list`, which lists a directory, directories first."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from callsheet.report.humanize import bytes_text, plural
from callsheet.report.patterns import lazy
from callsheet.tools.files.dirfd import LIST, NO_LINK, check_directory, open_directory
from callsheet.tools.globs import escape_name
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Call
from callsheet.tools.tool import tool

MAX_SHOWN = 1000
"""Maximum number of entries that are shown."""

_DIGITS = lazy(r"(\d+)")
_KINDS = {
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFBLK: "device",
    stat.S_IFCHR: "device",
}


@tool(name="list", kind="read", read_only=True)
def list_files(call: Call, path: Path | None = None) -> ToolResult:
    """List a directory: directories first, then files with their sizes.

    All entries are shown, including hidden ones and those that .gitignore excludes from searches.

    Args:
        path: The directory. Default: the session's directory.
    """
    base = path or call.workspace.cwd
    shown_path = escape_name(call.workspace.show(base))
    check_directory(base, shown_path, "; read shows it")
    with _opened(base) as directory, os.scandir(directory) as entries:
        found = sorted(entries, key=_order)
        directories = sum(entry.is_dir(follow_symlinks=False) for entry in found)
        lines = [_line(directory, entry) for entry in found[:MAX_SHOWN]]
    lines += [""] * bool(lines) + [_summary(shown_path, len(found), directories)]
    return call.success("\n".join(lines)).with_all_metadata(
        {
            "search_path": str(base),
            "results_count": len(found),
            "shown": min(len(found), MAX_SHOWN),
            "truncated": len(found) > MAX_SHOWN,
            "directories": directories,
        }
    )


@contextmanager
def _opened(base: Path) -> Generator[int]:
    """Open a directory to be listed, following no link."""
    entered = open_directory(base)
    try:
        listed = os.open(".", LIST | NO_LINK, dir_fd=entered)
    finally:
        os.close(entered)
    try:
        yield listed
    finally:
        os.close(listed)


def _order(entry: os.DirEntry[str]) -> tuple[object, ...]:
    """Return the sort key: directories first; then by name, ignoring case, with 9 before 10."""
    parts = _DIGITS.split(entry.name.casefold())
    numbers = [int(part) if at % 2 else part for at, part in enumerate(parts)]
    return (not entry.is_dir(follow_symlinks=False), numbers, entry.name)


def _line(directory: int, entry: os.DirEntry[str]) -> str:
    name = escape_name(entry.name)
    if entry.is_dir(follow_symlinks=False):
        return f"{name}/"
    try:
        if entry.is_symlink():
            return f"{name} -> {escape_name(os.readlink(entry.name, dir_fd=directory))}"
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return name  # it is gone already
    kind = _KINDS.get(stat.S_IFMT(status.st_mode))
    return f"{name}  {bytes_text(status.st_size) if kind is None else f'({kind})'}"


def _summary(path: str, total: int, directories: int) -> str:
    if not total:
        return f"{path} is empty."
    files = plural(total - directories, "file")
    what = f"{plural(directories, 'directory', 'directories')}, {files}" if directories else files
    cut = f"; the first {MAX_SHOWN:,} are shown" if total > MAX_SHOWN else ""
    return f"{what}{cut}."
