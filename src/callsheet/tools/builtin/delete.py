"""Own `delete`, which deletes a file, a link or an empty directory; with `recursive`, a whole directory.

A link is deleted, never its target. The text of a small file is reported as a diff, so that the user can see
what was deleted.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from callsheet.report.content import ToolCallContent
from callsheet.tools.errors import Cancelled, ExecutionFailed, IOFailed, NotFound, NotPermitted
from callsheet.tools.fs.dirfd import READ, parent_of, root_of
from callsheet.tools.fs.trees import Removal, remove_tree
from callsheet.tools.result import ToolResult
from callsheet.tools.search.excerpts import plural
from callsheet.tools.session import Call
from callsheet.tools.tool import tool
from callsheet.tools.workspace import Entry, Workspace

SHOWN = 64 * 1024
"""Maximum size in bytes of a text file that is shown as a diff when it is deleted."""

_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)


def _preview(call: Call, path: Path, recursive: bool = False) -> list[ToolCallContent]:
    """Return the text that would be deleted, for the approval request."""
    del recursive
    _check(path, call.workspace)
    with parent_of(root_of(path, call.workspace.roots), path) as (parent, name):
        found = _found(path, parent, name)
        text = _text(parent, name) if stat.S_ISREG(found.st_mode) else None
    return [ToolCallContent.diff(str(path), text, None)] if text else []


@tool(kind="delete", locations=("{path}",), preview=_preview)
def delete(call: Call, path: Entry, recursive: bool = False) -> ToolResult:
    """Delete a file, a link, or a directory.

    Args:
        path: What to delete, from the session's directory or absolute. Of a link, the link itself.
        recursive: Whether to delete a directory that is not empty, with everything in it.
    """
    _check(path, call.workspace)
    with parent_of(root_of(path, call.workspace.roots), path) as (parent, name):
        found = _found(path, parent, name)
        if not stat.S_ISDIR(found.st_mode):
            removal = _delete_file(call, path, parent, name, found)
        elif recursive:
            removal = remove_tree(parent, name, lambda: call.has_ended)
        else:
            removal = _delete_empty(path, parent, name)
    call.files.forget(path)
    if removal.stopped or removal.left_count:
        raise _incomplete(path, removal)
    shown = call.workspace.show(path)
    return (
        call.success(f"Deleted {shown}{_counted(found, removal, recursive)}")
        .with_metadata("file_path", str(path))
        .with_metadata("files_deleted", removal.files)
        .with_metadata("directories_deleted", removal.directories)
    )


def _check(path: Path, workspace: Workspace) -> None:
    if workspace.encloses(path):
        raise NotPermitted(
            f"{path} is the workspace itself, or above it; delete what is in it by name instead"
        )


def _found(path: Path, parent: int, name: str) -> os.stat_result:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        raise NotFound(f"path: {path} does not exist", file_path=str(path)) from None


def _delete_file(call: Call, path: Path, parent: int, name: str, found: os.stat_result) -> Removal:
    text = _text(parent, name) if stat.S_ISREG(found.st_mode) else None
    os.unlink(name, dir_fd=parent)
    if text:
        call.diff(path, text, None)
    return Removal(files=1)


def _delete_empty(path: Path, parent: int, name: str) -> Removal:
    try:
        os.rmdir(name, dir_fd=parent)
    except OSError as exc:
        if exc.errno not in _NOT_EMPTY:
            raise
        raise ExecutionFailed(
            f"{path} is a directory that is not empty; recursive=true deletes it with everything in it",
            file_path=str(path),
            files_deleted=0,
        ) from None
    return Removal(directories=1)


def _text(parent: int, name: str) -> str | None:
    """Return the text of a file, if it is text and small."""
    try:
        fd = os.open(name, READ, dir_fd=parent)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > SHOWN:
            return None
        data = os.read(fd, SHOWN)
        return None if b"\0" in data else data.decode()
    except (OSError, UnicodeDecodeError):
        return None
    finally:
        os.close(fd)


def _counted(found: os.stat_result, removal: Removal, recursive: bool) -> str:
    if not recursive or not stat.S_ISDIR(found.st_mode):
        return ""
    within = removal.directories - 1
    parts = [plural(removal.files, "file")] if removal.files else []
    parts += [plural(within, "directory", "directories")] if within else []
    return f" with {' and '.join(parts)} in it" if parts else ""


def _incomplete(path: Path, removal: Removal) -> ExecutionFailed | IOFailed | Cancelled:
    lines = [f"{path.parent / name}: {why}" for name, why in removal.left]
    more = removal.left_count - len(removal.left)
    if more:
        lines.append(f"… and {more:,} more")
    kind = Cancelled if removal.stopped and not lines else IOFailed
    done = f"{plural(removal.files, 'file')} deleted"
    what = f"{plural(removal.left_count, 'entry', 'entries')} could not be deleted"
    message = f"{path} is not wholly deleted: {done}, {what if lines else 'then it was stopped'}"
    return kind(
        message,
        output="\n".join(lines),
        file_path=str(path),
        files_deleted=removal.files,
        directories_deleted=removal.directories,
        left=removal.left_count,
    )
