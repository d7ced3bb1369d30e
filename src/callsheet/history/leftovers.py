"""What could not be written before a process ended, set by in a file until the store can be written again.

A store may be gone for longer than the process lives: a server that is down, a disk that is full. Then what
waits is put into a file of its own in the user's data directory, and the next process that opens the same
store writes it there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex

import msgspec

from .places import default_file
from .rows import Batch

_ENDING = ".left"
_CLAIMED = ".taken"
_HALF = ".half"
GONE = 600.0
"""Seconds after which a process that has taken one counts as gone."""


def directory() -> Path:
    """Give where they are kept."""
    return default_file().with_name("leftovers")


def set_by(url: str, batch: Batch) -> Path:
    """Keep a batch for a store. Gives the file; raises `OSError` if it can't be written."""
    place = directory()
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    # What was set by later is written later: it may be a later state of the same.
    file = place / f"{_name(url)}-{time.time_ns():020}-{token_hex(4)}{_ENDING}"
    half = file.with_suffix(_HALF)
    handle = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(msgspec.msgpack.encode(batch))
            out.flush()
            os.fsync(out.fileno())
        half.rename(file)
    except BaseException:
        half.unlink(missing_ok=True)
        raise
    return file


def take(url: str) -> Iterator[tuple[Path, Batch]]:
    """Give what was set by for a store, each to one process only. Call `done` or `put_back` for each."""
    with suppress(OSError, RuntimeError):
        for file in sorted(directory().glob(f"{_name(url)}-*")):
            claimed = file.with_suffix(_CLAIMED)
            try:
                if not _is_free(file):
                    if (
                        file.suffix == _HALF and _age(file) > GONE
                    ):  # its process was killed meanwhile
                        file.unlink()
                    continue
                file.rename(claimed)
                os.utime(claimed)
                batch = msgspec.msgpack.decode(claimed.read_bytes(), type=Batch)
            except (OSError, msgspec.DecodeError):  # another was quicker, or it is no longer whole
                continue
            yield claimed, batch


def _is_free(file: Path) -> bool:
    """Whether nobody is at it. Who took it and has not been done for so long is gone."""
    if file.suffix == _CLAIMED:
        return _age(file) > GONE
    return file.suffix == _ENDING


def _age(file: Path) -> float:
    return time.time() - file.stat().st_mtime


def put_back(claimed: Path) -> None:
    """Leave it for another time."""
    with suppress(OSError):
        claimed.rename(claimed.with_suffix(_ENDING))


def done(claimed: Path) -> None:
    """Remove what was written."""
    with suppress(OSError):
        claimed.unlink()


def _name(url: str) -> str:
    return blake2b(url.encode(errors="surrogateescape"), digest_size=8).hexdigest()
