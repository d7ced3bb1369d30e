"""Where a call works: absolute paths, and lines that start at 1."""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import force_setattr

from .errors import InvalidLocation
from .values import JsonObject, check_text, own_objects

MAX_LINE = 2**32 - 1

_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\[^\\/]")


class ToolCallLocation(Struct, frozen=True, gc=False):
    """A file, and a line in it if one is known. Editors follow along by it."""

    path: str
    line: int | None = None
    meta: JsonObject | None = None
    extra: JsonObject | None = None

    def __post_init__(self) -> None:
        path, line = self.path, self.line
        if type(path) is not str or path[:1] != "/" or not path.isascii() or "\0" in path:
            force_setattr(self, "path", check_path(path))
        if line is not None and (type(line) is not int or not 1 <= line <= MAX_LINE):
            raise InvalidLocation(f"line {line!r}: lines are whole numbers from 1 to {MAX_LINE}")
        if self.meta is not None or self.extra is not None:
            own_objects(self, "meta", "extra")


def check_path(path: object, what: str = "location path") -> str:
    """Return an absolute path as text, POSIX or Windows, else raise `InvalidLocation`."""
    if hasattr(path, "__fspath__"):
        path = path.__fspath__()  # pyright: ignore
    text = check_text(path, what, InvalidLocation)  # pyright: ignore[reportUnknownArgumentType]
    if not (text.startswith("/") or _WINDOWS.match(text)):
        raise InvalidLocation(
            f"{what} {text!r} is not absolute; give the whole path (/home/me/a.py)"
        )
    if "\0" in text:
        raise InvalidLocation(f"{what} {text!r} has a NUL character")
    return text
