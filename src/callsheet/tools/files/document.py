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

from callsheet.tools.errors import InvalidArguments, IOFailed, NotFound, NotPermitted, ToolError
from callsheet.tools.files.text_encoding import TextCodec, codec_of, codec_of_bom, is_binary
from callsheet.tools.fs.dirfd import may_write, open_regular, parent_of
from callsheet.tools.workspace import Workspace

from .line_ranges import FileBytes

MAX_BYTES = 64 << 20
"""Maximum size in bytes of a file that is loaded."""

_HEAD = 1 << 16

_MAX_NAMES = 5000
"""Maximum number of names in a directory that are searched for similar ones."""

_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_IMPOSSIBLE = {errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.EISDIR}


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
    with open_regular(path, shown) as (file, found):
        source = FileBytes(file, found.st_size, lambda: None)
        is_large = found.st_size > MAX_BYTES
        data = source.read(0, _HEAD if is_large else found.st_size)
    if is_binary(data):
        return Document(found, TextCodec(), None, data, True)
    if is_large:
        cut = data[: data.rfind(b"\n") + 1]
        return Document(found, codec_of_bom(data) or codec_of(cut), None, data, False)
    codec = codec_of(data)
    return Document(found, codec, codec.decode(data), data, False)


def is_there(path: Path) -> bool:
    """Return whether anything exists at a path."""
    try:
        with parent_of(None, path) as entry:
            return entry.stat() is not None
    except FileNotFoundError:
        return False


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
    except FileNotFoundError:
        raise missing(path, workspace) from None
    except OSError as exc:
        raise explain(exc, path, workspace.show(path), doing) from exc


def explain(exc: OSError, path: Path, shown: str, doing: str) -> ToolError:
    """Return the tool error for an `OSError`."""
    why = (exc.strerror or type(exc).__name__).lower()
    number = exc.errno
    if number == errno.ELOOP or (number == errno.ENOTDIR and _has_link(path)):
        why = "a part of its path has become a link meanwhile"
        return NotPermitted(f"{shown} can't be {doing}: {why}", file_path=str(path))
    if number in _FULL:
        why = f"there is no space left on the disk ({why}); nothing was changed"
    kind = IOFailed
    if number in _FORBIDDEN:
        kind = NotPermitted
    elif number in _IMPOSSIBLE:
        kind = InvalidArguments
    if number == errno.EACCES and doing != "read" and not may_write(path.parent):
        why = "its directory may not be written to"
    if number == errno.ENOTDIR:
        why = f"{_not_a_directory(path, shown)} is a file, not a directory"
    return kind(f"{shown} can't be {doing}: {why}", file_path=str(path))


def _has_link(path: Path) -> bool:
    return any(above.is_symlink() for above in path.parents)


def _not_a_directory(path: Path, shown: str) -> str:
    """Return the part of a path that should be a directory and isn't."""
    for above, short in zip(path.parents, Path(shown).parents, strict=False):
        if above.exists() and not above.is_dir():
            return str(short)
    return str(Path(shown).parent)


def missing(path: Path, workspace: Workspace) -> NotFound:
    """Return the error for a file that doesn't exist, with the missing part of its path and similar names."""
    shown, gone = workspace.show(path), path
    while not gone.parent.exists() and gone.parent != gone:
        gone = gone.parent
    near = near_names(gone)
    text = f"{shown} does not exist"
    if gone != path:
        text += f": there is no directory {workspace.show(gone)}"
    if near:
        meant = [workspace.show(gone.parent / name / path.relative_to(gone)) for name in near]
        text += f"; did you mean {_either(meant)}?"
    return NotFound(text, file_path=str(path))


def near_names(path: Path) -> list[str]:
    """Return up to three names in a path's directory that are most similar to its own."""
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in islice(entries, _MAX_NAMES)]
    except OSError:
        return []
    wanted = path.name.casefold()
    by_key = {name.casefold(): name for name in names}
    same_stem = [name for key, name in by_key.items() if _stem(key) == _stem(wanted)]
    close = [by_key[key] for key in get_close_matches(wanted, by_key, n=3, cutoff=0.6)]
    return list(dict.fromkeys([*close, *same_stem]))[:3]


def _stem(name: str) -> str:
    return name.lstrip(".").split(".")[0]


def _either(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
