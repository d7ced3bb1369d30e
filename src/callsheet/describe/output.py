"""Locations in what a tool has put out: `path:line:` of grep and compilers, tracebacks.

One location for each file. Matches of a search and errors of a compiler count from the top; a traceback
counts from its end, where the fault is, and stands last, since that is where the work is now.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from callsheet.describe.drafts import MAX_LOCATIONS, Locations
from callsheet.describe.paths import Workspace, to_line
from callsheet.report.fields import ToolCallLocation

SCANNED = 64 * 1024
"""Characters at either end of the output that are looked at."""

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PATH = r"(?:[A-Za-z]:[\\/])?[^\s:\"'<>|()\[\]{}*?,;=][^:\"'<>|()\[\]{}*?\n]{0,400}?"
_MARKED = re.compile(
    rf"^[ \t]*(?:(?:-->|error:|warning:)[ \t]*)?({_PATH})"
    r"(?::(\d{1,9})(?=:)|\((\d{1,9}),\d+\)(?=:)|:(\d{1,9})(?=$))",
    re.MULTILINE,
)
_FRAMES = re.compile(
    r"^[ \t]*File \"([^\"\n]{1,400})\", line (\d{1,9})"
    rf"|^[ \t]*at (?:[^\n]{{0,200}}?[ (])?(?:file://)?({_PATH}):(\d{{1,9}}):\d+\)?$",
    re.MULTILINE,
)
_NAMES = frozenset(
    (
        "Makefile",
        "makefile",
        "GNUmakefile",
        "Dockerfile",
        "Rakefile",
        "Gemfile",
        "Jenkinsfile",
        "Justfile",
    )
)
_HOST = re.compile(r"[\w.-]+\.(?:com|org|net|io|dev|local|internal|app)")
_EXTENSION = re.compile(r".*[^./\\]\.[A-Za-z][\w+-]{0,11}")


def locate_output(
    text: str,
    cwd: str,
    *,
    roots: Sequence[str] = (),
    home: str | None = None,
    limit: int = MAX_LOCATIONS,
) -> Locations:
    """Return the places that an output names, at most `limit`. Relative paths are relative to `cwd`."""
    if limit < 1 or not text:
        return ()
    if len(text) > 2 * SCANNED:
        text = f"{text[:SCANNED]}\n{text[-SCANNED:]}"
    text = _ESCAPES.sub("", text)
    workspace = Workspace(cwd, roots, home)
    frames = _last(_places(_frames(text), workspace), limit)
    framed = {place.path for place in frames}
    marked = _first(_places(_marks(text), workspace), limit - len(frames), framed)
    return (*marked, *frames)


def _marks(text: str) -> Iterator[tuple[str, str]]:
    for match in _MARKED.finditer(text):
        path = match[1].strip()
        if _looks_like_a_file(path):
            yield path, match[2] or match[3] or match[4]


def _frames(text: str) -> Iterator[tuple[str, str]]:
    for match in _FRAMES.finditer(text):
        path, line = (match[1], match[2]) if match[1] else (match[3], match[4])
        if not path.startswith(("<", "node:")):
            yield path, line


def _looks_like_a_file(path: str) -> bool:
    """Whether a text before a colon is a file and not a time, a host or a word."""
    if path in _NAMES:
        return True
    name = path.replace("\\", "/").rpartition("/")[2]
    if name == path and _HOST.fullmatch(path):
        return False
    return _EXTENSION.fullmatch(name) is not None or (name != path and not path.startswith("//"))


def _places(found: Iterable[tuple[str, str]], workspace: Workspace) -> Iterator[ToolCallLocation]:
    for path, line in found:
        place = workspace.locate(path, to_line(line))
        if place is not None:
            yield place


def _first(places: Iterable[ToolCallLocation], limit: int, known: set[str]) -> Locations:
    by_path: dict[str, ToolCallLocation] = {}
    for place in places:
        if len(by_path) >= limit:
            break
        if place.path not in known:
            by_path.setdefault(place.path, place)
    return tuple(by_path.values())


def _last(places: Iterable[ToolCallLocation], limit: int) -> Locations:
    by_path: dict[str, ToolCallLocation] = {}
    for place in places:
        by_path.pop(place.path, None)
        by_path[place.path] = place
    return tuple(by_path.values())[-limit:]
