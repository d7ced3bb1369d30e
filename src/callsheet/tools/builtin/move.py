"""Own `move`, which moves a file, a link or a directory to a new path. Nothing is ever replaced.

The destination is the new path, even where `mv` would move into an existing directory, so that exactly the
change that was requested and approved is made. Missing directories above it are created. A link is moved, not
its target. A move is one rename, so nothing is ever half moved; to another file system there is none.
"""

from __future__ import annotations

import errno
import stat
from pathlib import Path

from callsheet.report.json import JsonObject
from callsheet.tools.errors import (
    ExecutionFailed,
    InvalidArguments,
    NotFound,
    NotPermitted,
    ToolError,
)
from callsheet.tools.fs.dirfd import DirectoryEntry, parent_of, remove_made
from callsheet.tools.fs.trees import rename_new
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Call
from callsheet.tools.tool import tool
from callsheet.tools.workspace import Entry, Workspace


@tool(kind="move", locations=("{source}", "{destination}"))
def move(call: Call, source: Entry, destination: Entry) -> ToolResult:
    """Move or rename a file, a link or a directory. Never replaces anything.

    Directories that are missing above the destination are made.

    Args:
        source: What to move, from the session's directory or absolute.
        destination: Its new path, with its new name at the end. It must not exist yet.
    """
    _check(source, destination, call.workspace)
    facts: JsonObject = {"source": str(source), "destination": str(destination)}
    made: list[Path] = []
    try:
        _move(call, source, destination, made)
    except BaseException as exc:
        remove_made(made)
        if isinstance(exc, ToolError):
            exc.metadata |= facts
        raise
    call.files.forget(source)
    shown = f"{call.workspace.show(source)} → {call.workspace.show(destination)}"
    return call.success(f"Moved {shown}").with_all_metadata(facts)


def _check(source: Path, destination: Path, workspace: Workspace) -> None:
    for path in (source, destination):
        if workspace.encloses(path):
            raise NotPermitted(f"{path} is the workspace itself, or above it; that is not moved")
    if source == destination:
        raise InvalidArguments(f"destination: it is the same as the source, {source}")
    if source in destination.parents:
        raise InvalidArguments(f"destination: {destination} is inside the source, {source}")


def _move(call: Call, source: Path, destination: Path, made: list[Path]) -> None:
    with parent_of(source) as old:
        if old.stat() is None:
            raise NotFound(f"source: {source} does not exist")
        with parent_of(destination, made) as new:
            try:
                rename_new(*old, *new)
            except FileExistsError:
                raise _exists(call, source, destination, new) from None
            except FileNotFoundError:
                raise NotFound(f"source: {source} does not exist any more") from None
            except OSError as exc:
                if exc.errno != errno.EXDEV:
                    raise OSError(exc.errno, exc.strerror, str(source)) from None
                raise ExecutionFailed(
                    f"destination: {destination} is on another file system, to which nothing can be renamed; "
                    "copy it with bash (cp -a), and delete the source then"
                ) from None


def _exists(call: Call, source: Path, destination: Path, new: DirectoryEntry) -> ExecutionFailed:
    hint, found = "move or delete it first, or give another name", new.stat()
    if found is not None and stat.S_ISDIR(found.st_mode):
        inside = call.workspace.show(destination / source.name)
        hint = f"it is a directory: to move into it, give {inside} as destination"
    return ExecutionFailed(f"destination: {destination} exists, and nothing is replaced; {hint}")
