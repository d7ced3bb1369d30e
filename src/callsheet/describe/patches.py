"""The shape of tools that apply patches, in whatever form: Codex's, unified diffs, changes by path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, cast

from callsheet.describe import messages as say
from callsheet.describe.arguments import Arguments, first, texts_of
from callsheet.describe.drafts import Draft, distinct
from callsheet.describe.files import edit
from callsheet.describe.paths import Workspace, to_line
from callsheet.report.fields import ToolKind

_EDIT, _DELETE = ToolKind.EDIT, ToolKind.DELETE

_PATCH_KEYS = ("input", "patch", "patchText", "patch_text", "diff", "unified_diff", "changes", "")
_PATCH_LINE = re.compile(
    r"^\*\*\* (?P<verb>Add|Update|Delete) File: (?P<file>.+)$"
    r"|^\*\*\* Move to: (?P<to>.+)$"
    r"|^--- (?P<old>[^\n]+)\n\+\+\+ (?P<new>[^\n]+)$"
    r"|^@@ -\d+(?:,\d+)? \+(?P<line>\d{1,9})(?:,\d+)? @@",
    re.MULTILINE,
)


class _Change(NamedTuple):
    verb: str
    path: str
    line: int | None = None


def patch(arguments: Arguments, workspace: Workspace) -> Draft:
    """Apply a patch: that of Codex, a unified diff, or changes by path."""
    body = first(arguments, _PATCH_KEYS)
    changes = list(_merged(_changes(body)))
    if not changes:
        return edit(arguments, workspace)
    located = [workspace.place(change.path, change.line) for change in changes]
    locations = distinct(place for _, place in located if place is not None)
    verbs = {change.verb for change in changes}
    kind = _DELETE if verbs == {"Delete"} else _EDIT
    why = "the patch only deletes" if kind is _DELETE else ""
    if len(changes) > 1:
        message = say.DELETE_MANY if kind is _DELETE else say.EDIT_MANY
        return Draft(message, {"count": len(changes)}, locations, kind, why)
    message = {"Add": say.WRITE, "Delete": say.DELETE}.get(changes[0].verb, say.EDIT)
    return Draft(message, {"path": located[0][0]}, locations, kind, why)


def _changes(body: object) -> Iterator[_Change]:
    if isinstance(body, dict):
        yield from _changes_by_path(cast(Arguments, body))
    elif isinstance(body, str):
        yield from _changes_in_text(body)
    elif isinstance(body, list):
        for path, beside in texts_of(cast(list[object], body)):
            verb = str(first(beside, ("type", "operation", "action")) or "Update")
            yield _Change(verb.capitalize(), path)


def _changes_by_path(body: Arguments) -> Iterator[_Change]:
    for path, change in body.items():
        if not isinstance(path, str) or not path.strip():
            continue
        details = cast(Arguments, change) if isinstance(change, dict) else {}
        verb = str(details.get("type") or "Update").capitalize()
        patch = f"--- {path}\n+++ {path}\n{details.get('unified_diff') or ''}"
        hunk = next(_changes_in_text(patch), None)  # none if that is no path
        line = None if hunk is None else hunk.line
        moved = details.get("move_path")
        if isinstance(moved, str) and moved:
            yield _Change("Update", path)
            yield _Change("Update", moved, line)
        else:
            yield _Change(verb, path, line)


def _changes_in_text(text: str) -> Iterator[_Change]:
    current: _Change | None = None
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


def _change_of(match: re.Match[str]) -> _Change:
    if match["verb"]:
        return _Change(match["verb"], match["file"].strip())
    if match["to"]:
        return _Change("Update", match["to"].strip())
    old, new = _side(match["old"]), _side(match["new"])
    if new == "/dev/null":
        return _Change("Delete", old)
    return _Change("Add" if old == "/dev/null" else "Update", new)


def _side(header: str) -> str:
    """Return the path in a header of a unified diff: no time, no quotes, no `a/` and `b/`."""
    path = header.split("\t")[0].strip().strip('"')
    return path[2:] if path.startswith(("a/", "b/")) else path


def _merged(changes: Iterable[_Change]) -> Iterator[_Change]:
    """Return each path once, in the order of the last mention."""
    by_path: dict[str, _Change] = {}
    for change in changes:
        by_path.pop(change.path, None)
        by_path[change.path] = change
    yield from by_path.values()
