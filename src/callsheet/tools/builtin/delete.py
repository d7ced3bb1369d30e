"""Own `delete`, which deletes a file, a link or an empty directory; with `recursive`, a whole directory.

A link is deleted, never its target. The text of a small file is reported as a diff, so that the user can see
what was deleted.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

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
from callsheet.tools.files.document import load
from callsheet.tools.files.text_encoding import presentable
from callsheet.tools.fs.dirfd import DirectoryEntry, parent_of
from callsheet.tools.fs.trees import Removal
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Call
from callsheet.tools.tool import tool
from callsheet.tools.workspace import Entry, Workspace

SHOWN = 64 * 1024
"""Maximum size in bytes of a text file that is shown as a diff when it is deleted."""


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
    if removal.stopped or removal.left_count:
        raise _incomplete(path, removal, facts)
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


def _incomplete(path: Path, removal: Removal, facts: JsonObject) -> IOFailed | Cancelled:
    lines = [f"{path.parent / name}: {why}" for name, why in removal.left]
    if removal.left_count > len(lines):
        lines.append(f"… and {removal.left_count - len(lines):,} more")
    what = "then it was stopped"
    if lines:
        what = f"{plural(removal.left_count, 'entry', 'entries')} could not be deleted"
    return (IOFailed if lines else Cancelled)(
        f"{path} is not wholly deleted: {plural(removal.files, 'file')} deleted, {what}",
        output="\n".join(lines),
        **facts,
        left=removal.left_count,
    )
