"""Own `move`, which moves a file, a link or a directory to a new path. Nothing is ever replaced.

The destination is the new path, even where `mv` would move into an existing directory, so that exactly the
change that was requested and approved is made. Missing directories above it are created. A link is moved, not
its target. Between file systems, the copy at the destination is complete before the source is removed.
"""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import suppress
from pathlib import Path

from callsheet.tools.errors import ExecutionFailed, InvalidArguments, NotFound, NotPermitted
from callsheet.tools.fs.dirfd import parent_of, remove_made, root_of
from callsheet.tools.fs.trees import Copied, copy_entry, remove_copied, remove_tree, rename_new
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Call
from callsheet.tools.tool import tool
from callsheet.tools.workspace import Entry, Workspace

_MAX_NAMED = 10


@tool(kind="move", locations=("{source}", "{destination}"))
def move(call: Call, source: Entry, destination: Entry) -> ToolResult:
    """Move or rename a file, a link or a directory. Never replaces anything.

    Directories that are missing above the destination are made.

    Args:
        source: What to move, from the session's directory or absolute.
        destination: Its new path, with its new name at the end. It must not exist yet.
    """
    _check(source, destination, call.workspace)
    made: list[Path] = []
    to_root = root_of(destination, call.workspace.roots)
    try:
        with parent_of(root_of(source, call.workspace.roots), source) as (from_fd, old):
            _check_exists(source, from_fd, old)
            with parent_of(to_root, destination, made) as (to_fd, new):
                _Move(call, source, destination).run(from_fd, old, to_fd, new)
    except BaseException:
        remove_made(to_root, made)
        raise
    call.files.forget(source)
    shown = f"{call.workspace.show(source)} → {call.workspace.show(destination)}"
    return (
        call.success(f"Moved {shown}")
        .with_metadata("source", str(source))
        .with_metadata("destination", str(destination))
    )


def _check(source: Path, destination: Path, workspace: Workspace) -> None:
    for path in (source, destination):
        if workspace.encloses(path):
            raise NotPermitted(f"{path} is the workspace itself, or above it; that is not moved")
    if source == destination:
        raise InvalidArguments(f"destination: it is the same as the source, {source}")
    if source in destination.parents:
        raise InvalidArguments(f"destination: {destination} is inside the source, {source}")


def _check_exists(source: Path, fd: int, name: str) -> None:
    try:
        os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        raise NotFound(f"source: {source} does not exist", source=str(source)) from None


class _Move:
    """One move between two open directories."""

    def __init__(self, call: Call, source: Path, destination: Path) -> None:
        self.call: Call = call
        self.source: Path = source
        self.destination: Path = destination

    def run(self, from_fd: int, old: str, to_fd: int, new: str) -> None:
        try:
            rename_new(from_fd, old, to_fd, new)
        except FileExistsError:
            raise self._exists(to_fd, new) from None
        except FileNotFoundError:
            raise NotFound(f"source: {self.source} does not exist any more") from None
        except OSError as exc:
            if exc.errno != errno.EXDEV:
                raise OSError(
                    exc.errno, exc.strerror, str(self.source), None, str(self.destination)
                ) from None
            self._across(from_fd, old, to_fd, new)

    def _across(self, from_fd: int, old: str, to_fd: int, new: str) -> None:
        """Move to another file system: copy beside the destination, rename, remove the source."""
        beside = f".callsheet-{secrets.token_hex(8)}"
        try:
            copied = copy_entry(from_fd, old, to_fd, beside, self._is_over)
            rename_new(to_fd, beside, to_fd, new)
        except BaseException as exc:
            _remove(to_fd, beside)
            if isinstance(exc, FileExistsError):
                raise self._exists(to_fd, new) from None
            raise
        self._remove_source(from_fd, copied)

    def _remove_source(self, from_fd: int, copied: Copied) -> None:
        left = remove_copied(from_fd, copied)
        if left:
            named = ", ".join(left[:_MAX_NAMED])
            more = f" and {len(left) - _MAX_NAMED} more" if len(left) > _MAX_NAMED else ""
            raise ExecutionFailed(
                f"{self.destination} is complete, but some of the source was changed meanwhile or "
                f"can't be removed, and is still in {self.source.parent}: {named}{more}",
                source=str(self.source),
                destination=str(self.destination),
                left=len(left),
            )

    def _is_over(self) -> bool:
        return self.call.has_ended

    def _exists(self, to_fd: int, new: str) -> ExecutionFailed:
        hint = "move or delete it first, or give another name"
        with suppress(OSError):
            os.close(os.open(new, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=to_fd))
            inside = self.call.workspace.show(self.destination / self.source.name)
            hint = f"it is a directory: to move into it, give {inside} as destination"
        return ExecutionFailed(
            f"destination: {self.destination} exists, and nothing is replaced; {hint}",
            source=str(self.source),
            destination=str(self.destination),
        )


def _remove(fd: int, name: str) -> None:
    """Remove an unneeded copy of any kind, if it exists."""
    with suppress(OSError):
        try:
            os.unlink(name, dir_fd=fd)
        except (IsADirectoryError, PermissionError):  # the latter on macOS
            remove_tree(fd, name, lambda: False)
