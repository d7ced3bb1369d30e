"""Shapes of tools that work on files: read, list, write, edit, delete, move, copy.

The shape of tools that apply patches, in whatever form: Codex's, unified diffs, changes by path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, cast

from callsheet.describe import i18n as say
from callsheet.describe.arguments import (
    DESTINATION,
    DIRECTORY,
    MANY_PATHS,
    PATH,
    SOURCE,
    Arguments,
    first,
    line_of,
    lines_of,
    text_of,
    texts_of,
)
from callsheet.describe.paths import PathContext, distinct, some, to_line
from callsheet.describe.shapes import HALF_PATH_WIDTH, DescriptionDraft, Shape
from callsheet.report.fields import ToolKind

_READ, _EDIT, _DELETE, _MOVE = ToolKind.READ, ToolKind.EDIT, ToolKind.DELETE, ToolKind.MOVE


def path_of(arguments: Arguments) -> str:
    """Return the path that a tool works on."""
    for key in PATH:
        if key in arguments:
            path = arguments[key]
            if type(path) is str and path:
                return path
    return ""


def read(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Read one file, perhaps some lines of it, or several files."""
    path = path_of(arguments)
    if not path:
        return _many(arguments, workspace, say.READ_MANY, read, say.READ_BARE)
    begin, end = lines_of(arguments)
    shown, location = workspace.place(path, begin)
    locations = () if location is None else (location,)
    if end is None:
        line = location.line if location is not None else begin
        if line is None:
            return DescriptionDraft(say.READ, {"path": shown}, locations)
        message = say.READ_LINE if begin is None or "line" in arguments else say.READ_FROM
        return DescriptionDraft(message, {"path": shown, "first": line}, locations)
    if begin == end:
        return DescriptionDraft(say.READ_LINE, {"path": shown, "first": end}, locations)
    if (begin or 1) == end:
        return DescriptionDraft(say.READ_LINE, {"path": shown, "first": end}, locations)
    return DescriptionDraft(
        say.READ_LINES, {"path": shown, "first": begin or 1, "last": end}, locations
    )


def _many(
    arguments: Arguments, workspace: PathContext, message: str, one: Shape, bare: str
) -> DescriptionDraft:
    """Describe a call for several files; for just one in a list, as if it stood alone."""
    found = list(texts_of(first(arguments, (*MANY_PATHS, "edits", "changes"))))
    paths = {path: None for path, _ in found}
    if len(paths) == 1:
        path, beside = found[0]
        return one({**beside, "path": path}, workspace)
    if not found:
        return DescriptionDraft(bare)
    located = (workspace.locate(path, lines_of(beside)[0]) for path, beside in found)
    return DescriptionDraft(
        message, {"count": len(paths)}, distinct(place for place in located if place)
    )


def view(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Look at an image."""
    return _one_path(arguments, workspace, say.VIEW, say.VIEW_BARE)


def definitions(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """List what a file or directory defines."""
    return _one_path(arguments, workspace, say.DEFINITIONS, say.DEFINITIONS_BARE)


def make_directory(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Create a directory."""
    return _one_path(arguments, workspace, say.MKDIR, say.MKDIR_BARE)


def listing(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """List a directory; the session's own needs no name."""
    path = text_of(arguments, DIRECTORY)
    shown, location = workspace.place(path)
    if not shown or shown == ".":
        return DescriptionDraft(say.LIST_BARE, {}, some(location))
    return DescriptionDraft(say.LIST, {"path": shown}, some(location))


def _one_path(
    arguments: Arguments, workspace: PathContext, message: str, bare: str
) -> DescriptionDraft:
    path = text_of(arguments, (*PATH, *DIRECTORY))
    if not path:
        return DescriptionDraft(bare)
    shown, location = workspace.place(path)
    return DescriptionDraft(message, {"path": shown}, some(location))


def write(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Write a whole file."""
    path = path_of(arguments)
    if not path:
        return _many(arguments, workspace, say.EDIT_MANY, write, say.WRITE_BARE)
    shown, location = workspace.place(path)
    return DescriptionDraft(say.WRITE, {"path": shown}, () if location is None else (location,))


def edit(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Change parts of one file, or of several."""
    path = path_of(arguments)
    if not path:
        return _many(arguments, workspace, say.EDIT_MANY, edit, say.EDIT_BARE)
    shown, location = workspace.place(path, line_of(arguments))
    return DescriptionDraft(say.EDIT, {"path": shown}, () if location is None else (location,))


def delete(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Delete a file or a directory, or several."""
    path = path_of(arguments) or text_of(arguments, (*DIRECTORY, "target"))
    if not path or any(len(first(arguments, (key,)) or "") > 1 for key in MANY_PATHS):
        return _many(arguments, workspace, say.DELETE_MANY, delete, say.DELETE_BARE)
    shown, location = workspace.place(path)
    return DescriptionDraft(say.DELETE, {"path": shown}, some(location))


def move(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Move or rename a file."""
    return _from_to(arguments, workspace, say.MOVE, say.MOVE_BARE)


def copy(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Copy a file."""
    return _from_to(arguments, workspace, say.COPY, say.COPY_BARE)


def _from_to(
    arguments: Arguments, workspace: PathContext, message: str, bare: str
) -> DescriptionDraft:
    source = text_of(arguments, SOURCE) or path_of(arguments)
    destination = text_of(arguments, DESTINATION) or _renamed(source, arguments)
    if not source or not destination:
        return DescriptionDraft(bare, {}, some(workspace.locate(source or destination)))
    shown_source, first_place = workspace.place(source, width=HALF_PATH_WIDTH)
    shown, last_place = workspace.place(destination, width=HALF_PATH_WIDTH)
    values: dict[str, str | int] = {"source": shown_source, "destination": shown}
    return DescriptionDraft(message, values, some(first_place, last_place))


def _renamed(source: str, arguments: Arguments) -> str:
    """Return the path beside `source` that a new name makes."""
    name = text_of(arguments, ("new_name", "newName", "name"))
    if not name or not source:
        return ""
    directory, separator, _ = source.rpartition("\\" if "\\" in source else "/")
    return f"{directory}{separator}{name}"


# One tool that does many things, by its argument `command`

_EDITOR = {
    "view": (read, _READ),
    "read": (read, _READ),
    "create": (write, _EDIT),
    "write": (write, _EDIT),
    "append": (write, _EDIT),
    "delete": (delete, _DELETE),
    "rename": (move, _MOVE),
    "move": (move, _MOVE),
}


def editor(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Do what `command` names: view, create, str_replace, insert, undo_edit, delete, rename."""
    command = arguments.get("command") or arguments.get("action") or arguments.get("mode")
    command = command if isinstance(command, str) else ""
    if command.startswith("undo"):
        shown, location = workspace.place(path_of(arguments))
        draft = (
            DescriptionDraft(say.UNDO, {"path": shown}, some(location))
            if shown
            else DescriptionDraft(say.EDIT_BARE)
        )
        return _with_kind(draft, _EDIT, command)
    shape, kind = _EDITOR.get(command.lower(), (edit, _EDIT))
    return _with_kind(shape(arguments, workspace), kind, command)


def reader(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Read a file, list a directory or search, depending on `mode`."""
    mode = arguments.get("mode")
    if isinstance(mode, str) and mode.lower() == "directory":
        return listing(arguments, workspace)
    return read(arguments, workspace)


def _with_kind(draft: DescriptionDraft, kind: ToolKind, command: str) -> DescriptionDraft:
    why = f"its command is {command[:40]}" if command else ""
    return DescriptionDraft(draft.message, draft.values, draft.locations, draft.kind or kind, why)


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


def patch(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
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
        return DescriptionDraft(message, {"count": len(changes)}, locations, kind, why)
    message = {"Add": say.WRITE, "Delete": say.DELETE}.get(changes[0].verb, say.EDIT)
    return DescriptionDraft(message, {"path": located[0][0]}, locations, kind, why)


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
