"""Own `move`, which moves a file, a link or a directory to a new path. Nothing is ever replaced.

The destination is the new path, even where `mv` would move into an existing directory, so that exactly the
change that was requested and approved is made. Missing directories above it are created. A link is moved, not
its target. A move is one rename, so nothing is ever half moved; to another file system there is none.

`rename(2)` silently replaces a file that has the new name, and looking first is no help: the file may come in
between. So a file gets its second name by a hard link, which is never replaced. A directory replaces at most
an empty one.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from callsheet.report.json import JsonObject
from callsheet.tools.errors import (
    ExecutionFailed,
    InvalidArguments,
    NotFound,
    NotPermitted,
    ToolError,
)
from callsheet.tools.files.dirfd import DirectoryEntry, parent_of, remove_made
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Call
from callsheet.tools.tool import tool
from callsheet.tools.workspace import Entry, Workspace

_NO_LINKS = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)


@tool(kind="move", locations=("{source}", "{destination}"))
def move(call: Call, source: Entry, destination: Entry) -> ToolResult:
    """Move or rename a file, a link or a directory. Never replaces anything.

    Missing parent directories of the destination are created.

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


def rename_new(from_fd: int, old: str, to_fd: int, new: str) -> None:
    """Rename an entry of one open directory to a new entry of another.

    Raises:
        FileExistsError: An entry of that name exists, even if it was created at this very moment.
    """
    found = os.stat(old, dir_fd=from_fd, follow_symlinks=False)
    by_link = not stat.S_ISDIR(found.st_mode)
    with suppress(FileNotFoundError):
        there = os.stat(new, dir_fd=to_fd, follow_symlinks=False)
        # On a file system that ignores the case of letters, both names may be those of one entry. Two hard
        # links are two entries, and renaming one to the other would do nothing.
        if not os.path.samestat(found, there) or (by_link and found.st_nlink > 1):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), old, None, new)
        by_link = False
    if by_link:
        try:
            os.link(old, new, src_dir_fd=from_fd, dst_dir_fd=to_fd, follow_symlinks=False)
        except OSError as exc:
            if exc.errno not in _NO_LINKS:
                raise
        else:
            _unlink_or_undo(from_fd, old, to_fd, new)
            return
    os.rename(old, new, src_dir_fd=from_fd, dst_dir_fd=to_fd)


def _unlink_or_undo(from_fd: int, old: str, to_fd: int, new: str) -> None:
    try:
        os.unlink(old, dir_fd=from_fd)
    except OSError:
        os.unlink(new, dir_fd=to_fd)
        raise
