"""Paths: what is one, where it leads, how it is shown.

Paths are judged by their text alone, against the session's directory; the process's directory and the
disk are never asked. So symlinks stay as they were written, and a path may name a file that doesn't
exist. POSIX and Windows paths both work on every system, since a session may be somewhere else.
"""

from __future__ import annotations

import ntpath
import posixpath
import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias
from urllib.parse import unquote

from callsheet.describe.titles import Redact, fit, isolate, one_line
from callsheet.report.errors import InvalidLocation
from callsheet.report.fields import MAX_LINE, ToolCallLocation
from callsheet.report.json import check_path
from callsheet.report.patterns import lazy

PATH_WIDTH = 80

MAX_LOCATIONS = 8
"""Editors open each one; more than a few do not help."""

Locations: TypeAlias = tuple[ToolCallLocation, ...]

MAX_PATH = 4096

OUTSIDE: Final = {"callsheet": {"outside": True}}
"""The `_meta` of a location outside the workspace."""

# One match proves that a path below the session's directory is normal and plain, and another one that a
# relative path is. Everything else takes the slow path.
_PLAIN = lazy(
    r"\.?[A-Za-z0-9_+@=,-][A-Za-z0-9_.+@=, -]*(?:/\.?[A-Za-z0-9_+@=,-][A-Za-z0-9_.+@=, -]*)*"
)
_PLAIN_RELATIVE = lazy(
    r"(?!(?:application|audio|font|image|message|model|multipart|text|video)/)"
    r"\.?[A-Za-z0-9_+@=,][A-Za-z0-9_.+@=,-]*(?:/\.?[A-Za-z0-9_+@=,-][A-Za-z0-9_.+@=, -]*)*"
)
_WINDOWS = lazy(r"[A-Za-z]:[\\/]|\\\\[^\\/]")
_URL = lazy(r"[A-Za-z][A-Za-z0-9+.-]+:(?://|(?!\d+(?::|$))[^\\/])")
_GLOB = lazy(r"[*?]|\{[^{}]*,[^{}]*\}|\[!|\[\w-\w\]")
_MIME = lazy(
    r"(?:application|audio|font|image|message|model|multipart|text|video)/"
    r"(?:(?:x-|vnd\.)[\w.+-]+|[\w.-]+\+(?:xml|json|zip|yaml)|html|plain|css|csv|xml|json|yaml|markdown"
    r"|javascript|pdf|zip|gzip|octet-stream|png|jpe?g|gif|webp|bmp|tiff|mpeg|mp[34]|ogg|wav|webm|woff2?"
    r"|form-data|mixed|rfc822|rtf|toml|sql|wasm|avif|heic|aac|flac)(?:;.*)?",
    re.IGNORECASE,
)
_LINE_SUFFIX = lazy(r"(.*[^:\s\d\\/]):(\d{1,9})(?:[:-]\d{1,9})*")
_FRAGMENT = lazy(r"#L(\d{1,9})\b.*")


def distinct(locations: Iterable[ToolCallLocation]) -> Locations:
    """Return each location once, the last few, in order: the last is where the work is."""
    by_place = {(location.path, location.line): location for location in locations}
    return tuple(by_place.values())[-MAX_LOCATIONS:]


class PathContext:
    """The session's directory, and how things look from there."""

    __slots__ = ("_cwd_start", "_roots", "cwd", "home", "redact")

    def __init__(
        self,
        cwd: str,
        roots: Sequence[str] = (),
        home: str | None = None,
        redact: Redact | None = None,
    ) -> None:
        self.cwd: str = _normal(check_path(cwd, "session directory"))
        self.home: str | None = _normal(check_path(home, "home directory")) if home else None
        self.redact: Redact | None = redact
        self._cwd_start: str = _start(self.cwd)
        others = (_normal(check_path(root, "workspace root")) for root in roots)
        self._roots: tuple[str, ...] = (self.cwd, *others)

    def place(
        self,
        text: object,
        line: int | None = None,
        base: str | None = None,
        width: int = PATH_WIDTH,
    ) -> tuple[str, ToolCallLocation | None]:
        """Return how a path is shown, and its location; None for what is no path."""
        if not isinstance(text, str):
            return "", None
        start = self._cwd_start
        if len(text) <= width and start[0] == "/" and (base is None or base == self.cwd):
            if text.startswith(start):
                inside = text[len(start) :]
                if _PLAIN.fullmatch(inside):
                    return inside, ToolCallLocation(text, line)
            elif _PLAIN_RELATIVE.fullmatch(text):
                return text, ToolCallLocation(start + text, line)
        path, own_line = self.resolve(text, base)
        if path is None:
            return self.shorten(text, width), None
        try:
            outside = None if self.is_inside(path) else OUTSIDE
            location = ToolCallLocation(path, own_line if line is None else line, outside)
        except InvalidLocation:
            location = None
        return self.shorten(self.show(path), width), location

    def locate(
        self, text: object, line: int | None = None, base: str | None = None
    ) -> ToolCallLocation | None:
        """Return the location that a path names, or None if it is no path."""
        return self.place(text, line, base)[1]

    def shorten(self, text: str, width: int, line_break: str = " ") -> str:
        """Return a text of the input as a title shows it: clean, on one line, of bounded width."""
        if len(text) <= width and text.isascii() and text.isprintable() and "  " not in text:
            return text.strip()
        return isolate(fit(self.clean(text), width, line_break))

    def clean(self, text: str) -> str:
        """Take secrets out, if the session knows how. Before a cut, which could leave half of one."""
        return text if self.redact is None else self.redact(text)

    def resolve(self, text: str, base: str | None = None) -> tuple[str | None, int | None]:
        """Return the absolute, normal path that a text names, and the line that it has: `a.py:12`."""
        text, line = text.strip(), None
        if text[:5].lower() == "file:":
            text, line = _from_uri(text)
            if not text:
                return None, None
        elif not is_path(text):
            return None, None
        if ":" in text and (match := _LINE_SUFFIX.fullmatch(text)):
            text, line = match[1], to_line(int(match[2]))
        if text[:1] == "~":
            if self.home is None or text[1:2] not in ("", "/", "\\"):
                return None, None
            text = self.home + text[1:]
        elif not (text[:1] == "/" or _WINDOWS.match(text)):
            text = _start(base or self.cwd) + text
        return (_normal(text), line) if len(text) <= MAX_PATH else (None, None)

    def directory(self, text: object) -> str:
        """Return the directory that an argument names, for the paths that are relative to it."""
        return (isinstance(text, str) and text and self.resolve(text)[0]) or self.cwd

    def is_inside(self, path: str) -> bool:
        """Whether a normal path is in the session's directory or another root."""
        return any(_below(path, root) is not None for root in self._roots)

    def show(self, path: str) -> str:
        """Return a normal path in its readable form: relative to the session, else to the user's home."""
        inside = _below(path, self.cwd)
        if inside is not None:
            return inside or "."
        if self.home is not None:
            inside = _below(path, self.home)
            if inside is not None:
                return f"~{_separator(self.home)}{inside}" if inside else "~"
        return path


def is_path(text: str) -> bool:
    """Whether a text can be a path. Globs, URLs, MIME types and flags can't."""
    if not text or len(text) > MAX_PATH or text[0] in "-$`<|&" or "$(" in text:
        return False
    if _GLOB.search(text) or _MIME.fullmatch(text):
        return False
    if not text.isprintable() and one_line(text) != text:
        return False
    return not _URL.match(text)


def to_line(value: object) -> int | None:
    """Return a line number that starts at 1; 0 counts as 1, since some tools start there."""
    if type(value) is int:
        return (value or 1) if 0 <= value <= MAX_LINE else None
    if type(value) is str and value.isdecimal() and len(value) < 11:
        return to_line(int(value))
    return None


def _from_uri(uri: str) -> tuple[str, int | None]:
    """Return the path of a file:// link, and the line in its fragment (#L10)."""
    rest = uri[5:]
    fragment = _FRAGMENT.search(rest)
    line = to_line(int(fragment[1])) if fragment else None
    rest = unquote(rest.partition("#")[0].partition("?")[0])
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if _WINDOWS.match(rest[2:]):
            return rest[2:], line
        rest = f"{slash}{path}" if host.lower() in ("", "localhost") else rest.replace("/", "\\")
    if _WINDOWS.match(rest[1:]):
        rest = rest[1:]
    return rest, line


def _normal(path: str) -> str:
    if path[:1] == "/":
        path = posixpath.normpath(path)
        return path[1:] if path[:2] == "//" else path
    return ntpath.normpath(path)


def _separator(path: str) -> str:
    return "/" if path[:1] == "/" else "\\"


def _start(directory: str) -> str:
    separator = _separator(directory)
    return directory if directory.endswith(separator) else directory + separator


def _below(path: str, directory: str) -> str | None:
    """Return what comes after `directory` in `path`; None if it is elsewhere."""
    start = _start(directory)
    is_posix = path[:1] == "/" or directory[:1] == "/"
    same = str if is_posix else str.lower
    if same(path) == same(directory):
        return ""
    return path[len(start) :] if same(path).startswith(same(start)) else None
