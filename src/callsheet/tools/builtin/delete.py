"""Own `delete`, which deletes a file, a link or an empty directory; with `recursive`, a whole directory.

A link is deleted, never its target, and a directory that is swapped for a link meanwhile leads nowhere else.
Other file systems that are mounted inside are left alone: what can't be deleted ends it. The text of a small
file is reported as a diff, so that the user can see what was deleted.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from callsheet.report.content import ToolCallContent
from callsheet.report.humanize import plural
from callsheet.report.json import JsonObject
from callsheet.tools.errors import (
    Cancelled,
    ExecutionFailed,
    IOFailed,
    NotFound,
    NotPermitted,
    ToolError,
)
from callsheet.tools.files.dirfd import LIST, NO_LINK, DirectoryEntry, parent_of
from callsheet.tools.files.document import load
from callsheet.tools.files.text_encoding import presentable
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Call
from callsheet.tools.tool import tool
from callsheet.tools.workspace import Entry, Workspace

SHOWN = 64 * 1024
"""Maximum size in bytes of a text file that is shown as a diff when it is deleted."""

MAX_DEPTH = 200
"""Directories inside one another, each of which takes descriptors."""


def _preview(call: Call, path: Path, recursive: bool = False) -> list[ToolCallContent]:
    """Return the text that would be deleted, for the approval request."""
    del recursive
    _check(path, call.workspace)
    with parent_of(path) as entry:
        text = _text(path, _found(path, entry))
    return [ToolCallContent.diff(str(path), text, None)] if text else []


@tool(kind="delete", locations=("{path}",), preview=_preview)
def delete(call: Call, path: Entry, recursive: bool = False) -> ToolResult:
    """Delete a file, a link, or a directory.

    Args:
        path: What to delete, from the session's directory or absolute. Of a link, the link itself.
        recursive: Whether to delete a directory that is not empty, with everything in it.
    """
    _check(path, call.workspace)
    removal = Removal(stop=lambda: call.has_ended)
    with parent_of(path) as entry:
        found = _found(path, entry)
        is_directory, text = stat.S_ISDIR(found.st_mode), _text(path, found)
        if is_directory and not recursive:
            _remove_empty(path, entry)
            removal.directories = 1
        else:
            removal.remove(*entry)
    call.files.forget(path)
    facts: JsonObject = {
        "file_path": str(path),
        "files_deleted": removal.files,
        "directories_deleted": removal.directories,
    }
    if removal.problem:
        kind = Cancelled if removal.is_stopped else IOFailed
        deleted = plural(removal.files, "file")
        raise kind(f"{path} is not wholly deleted: {deleted} deleted, {removal.problem}", **facts)
    if text:
        call.diff(path, text, None)
    message = f"Deleted {call.workspace.show(path)}{_counted(removal) if is_directory else ''}"
    return call.success(message).with_all_metadata(facts)


def _check(path: Path, workspace: Workspace) -> None:
    if workspace.encloses(path):
        raise NotPermitted(
            f"{path} is the workspace itself, or above it; delete what is in it by name instead"
        )


def _found(path: Path, entry: DirectoryEntry) -> os.stat_result:
    found = entry.stat()
    if found is None:
        raise NotFound(f"path: {path} does not exist", file_path=str(path))
    return found


def _text(path: Path, found: os.stat_result) -> str | None:
    """Return the text of a file, if it is text and small."""
    if stat.S_ISREG(found.st_mode) and found.st_size <= SHOWN:
        with suppress(OSError, ToolError):
            document = load(path, str(path))
            return document.text and presentable(document.text)
    return None


def _remove_empty(path: Path, entry: DirectoryEntry) -> None:
    try:
        os.rmdir(entry.name, dir_fd=entry.directory)
    except OSError as exc:
        if exc.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        raise ExecutionFailed(
            f"{path} is a directory that is not empty; recursive=true deletes it with everything in it",
            file_path=str(path),
            files_deleted=0,
        ) from None


def _counted(removal: Removal) -> str:
    within = removal.directories - 1
    parts = [plural(removal.files, "file")] if removal.files else []
    parts += [plural(within, "directory", "directories")] if within else []
    return f" with {' and '.join(parts)} in it" if parts else ""


class Removal(msgspec.Struct):
    """Removes entries, and counts them, up to the first one that can't be removed.

    Args:
        stop: Called now and then; once it returns True, nothing more is removed.
    """

    stop: Callable[[], bool] = lambda: False
    files: int = 0
    directories: int = 0
    problem: str = ""
    """Why something is left."""
    is_stopped: bool = False

    def remove(self, parent: int, name: str, above: str = "", depth: int = 0) -> bool:
        """Remove an entry of an open directory, and return whether it is gone."""
        path = f"{above}{name}"
        try:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if self.stop():
                self.is_stopped, self.problem = True, "then it was stopped"
            elif not stat.S_ISDIR(found.st_mode):
                os.unlink(name, dir_fd=parent)
                self.files += 1
            elif depth >= MAX_DEPTH:
                self.problem = f"{path} is nested {MAX_DEPTH} directories deep"
            elif self._is_emptied(parent, name, path, depth):
                os.rmdir(name, dir_fd=parent)
                self.directories += 1
        except FileNotFoundError:
            pass  # another process removed it first
        except OSError as exc:
            self.problem = f"{path} could not be: {exc.strerror or exc}"
        return not self.problem

    def _is_emptied(self, parent: int, name: str, path: str, depth: int) -> bool:
        fd = os.open(name, LIST | NO_LINK, dir_fd=parent)
        try:
            if depth and os.fstat(fd).st_dev != os.fstat(parent).st_dev:
                self.problem = f"another file system is mounted at {path}"
                return False
            names = sorted(os.listdir(fd))  # noqa: PTH208 - it is a descriptor
            return all(self.remove(fd, each, f"{path}/", depth + 1) for each in names)
        finally:
            os.close(fd)
