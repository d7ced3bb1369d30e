"""Load the files that tools change, replace them atomically, and explain errors.

At any moment, a reader finds either the old content or the new one. The new content is written to a temporary
file in the same directory, which receives the mode, owner and attributes of the old file, is flushed to disk,
and is renamed over it. Immediately before the rename, the old file must be unchanged since it was read. A new
file is hard-linked to its name instead, which fails if another process has created that name in the meantime.

A thread can't be stopped from outside, and an abandoned one could change a file when nobody expects it. So
a cancelled write is not abandoned: `run_to_end` sets a flag, and waits for the thread, which either stops
before it changes the file or reports that it was too late.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from secrets import token_hex
from threading import Event
from typing import NamedTuple

from callsheet.tools.errors import (
    Cancelled,
    ExecutionFailed,
    InvalidArguments,
    NotFound,
    NotPermitted,
    ToolError,
    of_os_error,
)
from callsheet.tools.files.dirfd import (
    NO_LINK,
    READ,
    DirectoryEntry,
    may_write,
    open_regular,
    parent_of,
)
from callsheet.tools.files.text_encoding import (
    UTF8,
    TextCodec,
    codec_of,
    codec_of_bom,
    has_surrogates,
    is_binary,
)
from callsheet.tools.invocation import in_thread
from callsheet.tools.result import ToolResult
from callsheet.tools.workspace import Workspace

MAX_BYTES = 64 << 20
"""Maximum size in bytes of a file that is loaded."""

HARD_LINKS = "its other names (hard links) keep the old content"

_HEAD = 1 << 16
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK

_MAX_NAMES = 5000
"""Maximum number of names in a directory that are searched for similar ones."""


class Held(NamedTuple):
    """A file that a client, such as an editor, has open, and that is written through the client.

    Its line endings are those in which the client sends and receives it.
    """

    newline: str
    is_unsaved: bool


class Document(NamedTuple):
    """A file as it was read. `text` is None if the file is binary or too large to be loaded.

    If a client has unsaved changes to the file, text and data are the client's.
    """

    stat: os.stat_result
    codec: TextCodec
    text: str | None
    data: bytes
    is_binary: bool
    held: Held | None = None

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.stat.st_size

    @property
    def is_unsaved(self) -> bool:
        """Whether a client has unsaved changes to it."""
        return self.held is not None and self.held.is_unsaved

    @property
    def has_other_names(self) -> bool:
        """Whether hard links to it exist, which replacing it does not change."""
        return self.held is None and self.stat.st_nlink > 1


class New(NamedTuple):
    """The new content of a file, as text and as bytes."""

    text: str
    data: bytes


def load(path: Path, shown: str) -> Document:
    """Read a file that is to be changed. Error messages name it `shown`.

    Raises:
        InvalidArguments: It is not a regular file.
        OSError: The system refuses.
    """
    with open_regular(path, shown) as file:
        found = os.fstat(file.fileno())
        is_large = found.st_size > MAX_BYTES
        data = file.read(_HEAD if is_large else MAX_BYTES + 1)
    if is_binary(data):
        return Document(found, UTF8, None, data, True)
    if is_large:
        cut = data[: data.rfind(b"\n") + 1]
        return Document(found, codec_of_bom(data) or codec_of(cut), None, data, False)
    codec = codec_of(data)
    return Document(found, codec, codec.decode(data), data, False)


def check_text(name: str, text: str) -> None:
    """Raise if the text of an argument can't be written to a file."""
    if has_surrogates(text):
        raise InvalidArguments(
            f"{name}: it has halves of characters (surrogates), which are no text"
        )


def check_writable(path: Path, found: os.stat_result, shown: str) -> None:
    """Raise if a file is read-only. Renaming over it would succeed, but against the user's intent."""
    mode = stat.S_IMODE(found.st_mode)
    if not mode & 0o222 or not may_write(path):
        raise NotPermitted(
            f"{shown} is read-only (mode {mode:04o}); change its mode first if it may be written to"
        )


# Replacing a file


async def run_to_end(work: Callable[[Callable[[], None]], ToolResult]) -> ToolResult:
    """Run work on files in a thread, and wait for its end even if this is cancelled.

    Args:
        work: Receives a function to call before it changes anything, which raises `Cancelled` if the caller
            has been cancelled.

    Raises:
        Cancelled: The caller was cancelled; `output` states whether something was written nevertheless.
    """
    unwanted = Event()

    def check_wanted() -> None:
        if unwanted.is_set():
            raise Cancelled("stopped", output="Nothing was written")

    task = asyncio.ensure_future(in_thread(lambda: work(check_wanted)))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        unwanted.set()
        result = await task
        raise Cancelled("stopped too late", output=result.output, **dict(result.metadata)) from None


def replace_file(
    path: Path, data: bytes, old: os.stat_result | None, check_wanted: Callable[[], None]
) -> os.stat_result:
    """Replace or create a file atomically.

    Args:
        path: The file, links resolved.
        data: The new content.
        old: The state of the file when it was read; None if it must not exist yet.
        check_wanted: Called before the file is put in place; if it raises, nothing has changed.

    Returns:
        The new state.

    Raises:
        ExecutionFailed: The file was changed, deleted or created by another process in the meantime.
        OSError: The system refuses.
    """
    with parent_of(path, [] if old is None else None) as entry:
        temporary = (
            f".callsheet-{token_hex(8)}.tmp"  # most tools ignore names that begin with a dot
        )
        mode = 0o666 if old is None else 0o600
        handle = os.open(temporary, _NEW, mode, dir_fd=entry.directory)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
            if old is not None:
                _copy_attributes(handle, entry, old)
            os.fsync(handle)
            check_wanted()
            if old is None:
                _link(temporary, entry, path)
            else:
                _check_same(entry, old, path)
                _rename(temporary, entry)
            return os.fstat(handle)
        finally:
            with suppress(FileNotFoundError):  # it was renamed into place
                os.unlink(temporary, dir_fd=entry.directory)
            os.close(handle)


def _check_same(entry: DirectoryEntry, old: os.stat_result, path: Path) -> None:
    """Raise if a file has changed since it was read."""
    now = entry.stat()
    if now is None or _state(now) != _state(old):
        what = "deleted" if now is None else "changed"
        raise ExecutionFailed(
            f"{path} was {what} by somebody else meanwhile; nothing was written. "
            "Read it again before changing it",
            changed_since_read=True,
        )


def _state(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _link(temporary: str, entry: DirectoryEntry, path: Path) -> None:
    """Link a new file to its name, unless the name exists."""
    directory = entry.directory
    try:
        os.link(
            temporary,
            entry.name,
            src_dir_fd=directory,
            dst_dir_fd=directory,
            follow_symlinks=False,
        )
    except FileExistsError:
        raise ExecutionFailed(
            f"{path} was created by somebody else meanwhile; nothing was written. "
            "Read it before changing it",
            changed_since_read=True,
        ) from None
    except OSError:  # a file system without links
        if entry.stat() is not None:
            raise
        _rename(temporary, entry)


def _rename(temporary: str, entry: DirectoryEntry) -> None:
    directory = entry.directory
    os.replace(temporary, entry.name, src_dir_fd=directory, dst_dir_fd=directory)


def _copy_attributes(handle: int, entry: DirectoryEntry, old: os.stat_result) -> None:
    """Copy the owner, mode and attributes of the old file to the new one, as far as permitted."""
    mode, new = stat.S_IMODE(old.st_mode), os.fstat(handle)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(handle, old.st_uid, old.st_gid)
        except OSError:
            mode &= ~(
                stat.S_ISUID | stat.S_ISGID
            )  # setuid and setgid must not apply to another owner
            with suppress(OSError):
                os.fchown(handle, -1, old.st_gid)
    os.fchmod(handle, mode)
    # A file may be written but not read, and not every system and file system has extended attributes.
    with suppress(OSError, AttributeError):
        source = os.open(entry.name, READ, dir_fd=entry.directory)
        try:
            for name in os.listxattr(source):
                with suppress(OSError):
                    os.setxattr(handle, name, os.getxattr(source, name))
        finally:
            os.close(source)


# Errors


@contextmanager
def explained(path: Path, workspace: Workspace, doing: str) -> Generator[None]:
    """Convert an `OSError` into a tool error: "src/a.py can't be read: permission denied".

    Args:
        path: The file.
        workspace: Shows paths as users know them.
        doing: What is being done to the file: "read", "written", "edited".
    """
    try:
        yield
    except ToolError as exc:
        exc.metadata.setdefault("file_path", str(path))
        raise
    except FileNotFoundError as exc:
        raise _missing(path, Path(exc.filename or path), workspace) from None
    except OSError as exc:
        why = _explain(exc, path, workspace, doing)
        message = f"{workspace.show(path)} can't be {doing}: {why}"
        raise of_os_error(exc, message, file_path=str(path)) from exc


def _explain(exc: OSError, path: Path, workspace: Workspace, doing: str) -> str:
    """Return what was wrong, in words that help."""
    why = (exc.strerror or type(exc).__name__).lower()
    if exc.errno == errno.ELOOP:
        return "a part of its path has become a link meanwhile"
    if exc.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"there is no space left on the disk ({why}); nothing was changed"
    if exc.errno == errno.EACCES and doing != "read" and not may_write(path.parent):
        return "its directory may not be written to"
    if exc.errno == errno.ENOTDIR and exc.filename:
        return f"{workspace.show(exc.filename)} is a file, not a directory"
    return why


def _missing(path: Path, gone: Path, workspace: Workspace) -> NotFound:
    """Return the error for a file that doesn't exist. `gone` is the first missing part of its path."""
    text = f"{workspace.show(path)} does not exist"
    if gone != path:
        text += f": there is no directory {workspace.show(gone)}"
    if near := _near_names(gone):
        meant = [workspace.show(gone.parent / name / path.relative_to(gone)) for name in near]
        text += f"; did you mean {' or '.join(meant)}?"
    return NotFound(text, file_path=str(path))


def _near_names(path: Path) -> list[str]:
    """Return up to three names in a path's directory that are most similar to its own."""
    try:
        with os.scandir(path.parent) as entries:
            names = {entry.name.casefold(): entry.name for entry in islice(entries, _MAX_NAMES)}
    except OSError:
        return []
    return [names[key] for key in get_close_matches(path.name.casefold(), names, n=3)]
