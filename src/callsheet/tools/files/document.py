"""Load the files that tools change, check whether they may be changed, and explain errors.

`explained` converts an `OSError` into a tool error that shows the path as users know it, and suggests similar
names.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from callsheet.tools.errors import (
    InvalidArguments,
    NotFound,
    NotPermitted,
    ToolError,
    of_os_error,
)
from callsheet.tools.files.text_encoding import (
    UTF8,
    TextCodec,
    codec_of,
    codec_of_bom,
    has_surrogates,
    is_binary,
)
from callsheet.tools.fs.dirfd import may_write, open_regular
from callsheet.tools.workspace import Workspace

MAX_BYTES = 64 << 20
"""Maximum size in bytes of a file that is loaded."""

HARD_LINKS = "its other names (hard links) keep the old content"

_HEAD = 1 << 16

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
