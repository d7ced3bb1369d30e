"""The filters that a user has saved, in a file that only the user can read.

Others may have put anything in its place: what is no file, or no filter, is passed over.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from msgspec import Struct, ValidationError, convert, json

from callsheet.observe.model import many, obj

MOST_BYTES = 64 * 1024
"""Bytes that the filters may take."""


class SavedFilter(Struct):
    """A filter, and what its user calls it."""

    name: str
    filter: str


class SavedFilters(Struct):
    """All of them, as they are sent and stored."""

    filters: list[SavedFilter]


def read_filters(file: Path) -> SavedFilters:
    """Return what is saved. What can't be read is not among it."""
    found: list[SavedFilter] = []
    with suppress(OSError, ValueError, RecursionError):
        data, _ = read_regular(file, 2 * MOST_BYTES)
        entries: list[Any] = many(obj(json.decode(data)).get("filters"))
        for entry in entries:
            with suppress(ValidationError):
                found.append(convert(entry, SavedFilter))
    return SavedFilters(found)


def write_filters(file: Path, saved: SavedFilters) -> None:
    """Save filters, in place of those that were saved before. Raise `OSError` if that is not possible."""
    data = json.encode(saved)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A new file, of mode 0600: under a fixed name there could be a link to another one.
    opened, part = mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(opened, "wb") as stream:
            stream.write(data)
        Path(part).replace(file)
    except OSError:
        Path(part).unlink(missing_ok=True)
        raise


def read_regular(file: str | Path, most: int) -> tuple[bytes, int]:
    """Return the first bytes of a file, and its mode.

    Raises:
        OSError: It can't be read, or is no regular file: a pipe could keep its reader waiting for ever.
    """
    opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(opened, "rb") as stream:
        mode = os.fstat(opened).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(0, "it is no regular file")
        return stream.read(most), mode
