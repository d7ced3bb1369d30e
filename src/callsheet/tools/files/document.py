"""A file that is to be changed: what is in it now, and whether it may be changed."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

from callsheet.tools.errors import NotPermitted

from .line_ranges import Source
from .opening import may_write, opened, place_of
from .text import Codec, codec_of, codec_of_bom, is_binary

MOST_BYTES = 64 << 20
"""A larger file is not loaded."""

_HEAD = 1 << 16


class Held(NamedTuple):
    """Says that somebody else has the file open, and that it is written through them.

    Its line endings are those in which they give and take it.
    """

    newline: str
    is_unsaved: bool


class Document(NamedTuple):
    """A file as it was read. `text` is None where it is binary or too large to be loaded.

    If somebody holds the file and has not saved it, text and data are theirs.
    """

    stat: os.stat_result
    codec: Codec
    text: str | None
    data: bytes
    is_binary: bool
    held: Held | None = None

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.stat.st_size

    @property
    def is_unsaved(self) -> bool:
        """Whether somebody has changed it and not saved that."""
        return self.held is not None and self.held.is_unsaved


class New(NamedTuple):
    """What a file is to be: its text, and that as bytes."""

    text: str
    data: bytes


def load(path: Path, shown: str) -> Document:
    """Read a file that is to be changed. Raises what the system says, and if it is no regular file."""
    with opened(path, shown) as (file, found):
        source = Source(file, found.st_size, lambda: None)
        is_large = found.st_size > MOST_BYTES
        data = source.read(0, _HEAD if is_large else found.st_size)
    if is_binary(data):
        return Document(found, Codec(), None, data, True)
    if is_large:
        cut = data[: data.rfind(b"\n") + 1]
        return Document(found, codec_of_bom(data) or codec_of(cut), None, data, False)
    codec = codec_of(data)
    return Document(found, codec, codec.decode(data), data, False)


def is_there(path: Path) -> bool:
    """Whether there is anything at a path."""
    try:
        with place_of(path) as place:
            return place.stat() is not None
    except FileNotFoundError:
        return False


def check_writable(path: Path, found: os.stat_result, shown: str) -> None:
    """Raise if a file is read-only. Taking its name would work all the same, but isn't wanted."""
    mode = stat.S_IMODE(found.st_mode)
    if not mode & 0o222 or not may_write(path):
        raise NotPermitted(
            f"{shown} is read-only (mode {mode:04o}); change its mode first if it may be written to"
        )
