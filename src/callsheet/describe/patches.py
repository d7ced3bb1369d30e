"""The files that a patch changes, in whatever form it comes: Codex's own, a unified diff, changes by path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, cast

from callsheet.describe.arguments import BARE_INPUT, Arguments, first, texts_of
from callsheet.describe.paths import to_line
from callsheet.report.patterns import lazy

_PATCH_NAMES = (
    *("input", "patch", "patchText", "patch_text", "diff", "unified_diff", "changes"),
    BARE_INPUT,
)
_PATCH_LINE = lazy(
    r"^\*\*\* (?P<verb>Add|Update|Delete) File: (?P<file>.+)$"
    r"|^\*\*\* Move to: (?P<to>.+)$"
    r"|^--- (?P<old>[^\n]+)\n\+\+\+ (?P<new>[^\n]+)$"
    r"|^@@ -\d+(?:,\d+)? \+(?P<line>\d{1,9})(?:,\d+)? @@",
    re.MULTILINE,
)


class PatchedFile(NamedTuple):
    """What a patch does to one file."""

    verb: str
    """`Add`, `Update` or `Delete`; anything else counts as an update."""
    path: str
    line: int | None = None


def changes_of(arguments: Arguments) -> list[PatchedFile]:
    """Return what the patch among the arguments changes: each path once, in the order of the last mention."""
    by_path: dict[str, PatchedFile] = {}
    for change in _changes(first(arguments, _PATCH_NAMES)):
        by_path.pop(change.path, None)
        by_path[change.path] = change
    return list(by_path.values())


def _changes(body: object) -> Iterator[PatchedFile]:
    if isinstance(body, dict):
        yield from _changes_by_path(cast(Arguments, body))
    elif isinstance(body, str):
        yield from _changes_in_text(body)
    elif isinstance(body, list):
        for path, beside in texts_of(cast(list[object], body)):
            yield PatchedFile(_verb_of(first(beside, ("type", "operation", "action"))), path)


def _verb_of(value: object) -> str:
    return value.capitalize() if isinstance(value, str) else "Update"


def _changes_by_path(body: Arguments) -> Iterator[PatchedFile]:
    for path, change in body.items():
        if not isinstance(path, str) or not path.strip():
            continue
        details = cast(Arguments, change) if isinstance(change, dict) else {}
        patch = f"--- {path}\n+++ {path}\n{details.get('unified_diff') or ''}"
        hunk = next(_changes_in_text(patch), None)  # none if that is no path
        line = None if hunk is None else hunk.line
        moved = details.get("move_path")
        if isinstance(moved, str) and moved:
            yield PatchedFile("Update", path)
            yield PatchedFile("Update", moved, line)
        else:
            yield PatchedFile(_verb_of(details.get("type")), path, line)


def _changes_in_text(text: str) -> Iterator[PatchedFile]:
    current: PatchedFile | None = None
    for match in _PATCH_LINE.finditer(text):
        if match["line"]:
            if current is not None and current.line is None:
                current = current._replace(line=to_line(match["line"]))
            continue
        if current is not None:
            yield current
        current = _change_of(match)
    if current is not None:
        yield current


def _change_of(match: re.Match[str]) -> PatchedFile:
    if match["verb"]:
        return PatchedFile(match["verb"], match["file"].strip())
    if match["to"]:
        return PatchedFile("Update", match["to"].strip())
    old, new = _side(match["old"]), _side(match["new"])
    if new == "/dev/null":
        return PatchedFile("Delete", old)
    return PatchedFile("Add" if old == "/dev/null" else "Update", new)


def _side(header: str) -> str:
    """Return the path in a header of a unified diff: no time, no quotes, no `a/` and `b/`."""
    path = header.split("\t")[0].strip().strip('"')
    return path[2:] if path.startswith(("a/", "b/")) else path
