"""Shapes of tools that work on files: read, list, write, edit, delete, move, copy.

The shape of tools that apply patches, in whatever form: Codex's, unified diffs, changes by path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, cast

from msgspec.structs import replace

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
from callsheet.describe.i18n import N_, NP_
from callsheet.describe.paths import PathContext, distinct, some, to_line
from callsheet.describe.shapes import HALF_PATH_WIDTH, DescriptionDraft, Shape, one_path
from callsheet.report.fields import ToolKind

_READ, _EDIT, _DELETE, _MOVE = ToolKind.READ, ToolKind.EDIT, ToolKind.DELETE, ToolKind.MOVE

_READ_FILE = N_("Reading {path}")
_READ_LINE = N_("Reading {path} (line {first})")
_READ_LINES = N_("Reading {path} (lines {first}–{last})")
_READ_FROM = N_("Reading {path} (from line {first})")
_READ_MANY = NP_("Reading {count} file", "Reading {count} files")
_WRITE_FILE = N_("Writing to {path}")
_EDIT_FILE = N_("Editing {path}")
_EDIT_MANY = NP_("Editing {count} file", "Editing {count} files")
_EDIT_BARE = N_("Editing a file")
_DELETE_FILE = N_("Deleting {path}")
_DELETE_MANY = NP_("Deleting {count} file", "Deleting {count} files")

view = one_path(N_("Viewing {path}"), N_("Viewing an image"))
definitions = one_path(N_("Listing the definitions in {path}"), N_("Listing definitions"))
make_directory = one_path(N_("Creating the directory {path}"), N_("Creating a directory"))


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
        return _many(arguments, workspace, _READ_MANY, read, N_("Reading a file"))
    begin, end = lines_of(arguments)
    shown, location = workspace.place(path, begin)
    locations = () if location is None else (location,)
    values: dict[str, str | int] = {"path": shown}
    line = begin if location is None else location.line
    if end is None and line is None:
        return DescriptionDraft(_READ_FILE, values, locations)
    if end is None:
        message = _READ_LINE if begin is None or "line" in arguments else _READ_FROM
        return DescriptionDraft(message, {**values, "first": line or 1}, locations)
    if (begin or 1) == end:
        return DescriptionDraft(_READ_LINE, {**values, "first": end}, locations)
    return DescriptionDraft(_READ_LINES, {**values, "first": begin or 1, "last": end}, locations)


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


def listing(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """List a directory; the session's own needs no name."""
    path = text_of(arguments, DIRECTORY)
    shown, location = workspace.place(path)
    if not shown or shown == ".":
        return DescriptionDraft(N_("Listing files"), {}, some(location))
    return DescriptionDraft(N_("Listing {path}"), {"path": shown}, some(location))


def write(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Write a whole file."""
    path = path_of(arguments)
    if not path:
        return _many(arguments, workspace, _EDIT_MANY, write, N_("Writing a file"))
    shown, location = workspace.place(path)
    return DescriptionDraft(_WRITE_FILE, {"path": shown}, some(location))


def edit(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Change parts of one file, or of several."""
    path = path_of(arguments)
    if not path:
        return _many(arguments, workspace, _EDIT_MANY, edit, _EDIT_BARE)
    shown, location = workspace.place(path, line_of(arguments))
    return DescriptionDraft(_EDIT_FILE, {"path": shown}, some(location))


def delete(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Delete a file or a directory, or several."""
    path = path_of(arguments) or text_of(arguments, (*DIRECTORY, "target"))
    if not path or any(len(first(arguments, (key,)) or "") > 1 for key in MANY_PATHS):
        return _many(arguments, workspace, _DELETE_MANY, delete, N_("Deleting a file"))
    shown, location = workspace.place(path)
    return DescriptionDraft(_DELETE_FILE, {"path": shown}, some(location))


def _from_to(message: str, bare: str) -> Shape:
    """Return the shape of tools that work on two paths."""

    def placed(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
        source = text_of(arguments, SOURCE) or path_of(arguments)
        destination = text_of(arguments, DESTINATION) or _renamed(source, arguments)
        if not source or not destination:
            return DescriptionDraft(bare, {}, some(workspace.locate(source or destination)))
        shown_source, first_place = workspace.place(source, width=HALF_PATH_WIDTH)
        shown, last_place = workspace.place(destination, width=HALF_PATH_WIDTH)
        values: dict[str, str | int] = {"source": shown_source, "destination": shown}
        return DescriptionDraft(message, values, some(first_place, last_place))

    return placed


move = _from_to(N_("Moving {source} → {destination}"), N_("Moving a file"))
copy = _from_to(N_("Copying {source} → {destination}"), N_("Copying a file"))


def _renamed(source: str, arguments: Arguments) -> str:
    """Return the path beside `source` that a new name makes."""
    name = text_of(arguments, ("new_name", "newName", "name"))
    if not name or not source:
        return ""
    directory, separator, _ = source.rpartition("\\" if "\\" in source else "/")
    return f"{directory}{separator}{name}"


# One tool that does many things, by its argument `command`

_undo = one_path(N_("Undoing the last edit of {path}"), _EDIT_BARE, PATH)

_EDITOR: dict[str, tuple[Shape, ToolKind]] = {
    **dict.fromkeys(("view", "read"), (read, _READ)),
    **dict.fromkeys(("create", "write", "append"), (write, _EDIT)),
    **dict.fromkeys(("rename", "move"), (move, _MOVE)),
    **dict.fromkeys(("undo", "undo_edit"), (_undo, _EDIT)),
    "delete": (delete, _DELETE),
}


def editor(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Do what `command` names: view, create, str_replace, insert, undo_edit, delete, rename."""
    command = arguments.get("command") or arguments.get("action") or arguments.get("mode")
    name = command.lower() if isinstance(command, str) else ""
    shape, kind = _EDITOR.get(name, (edit, _EDIT))
    draft = shape(arguments, workspace)
    return replace(draft, kind=draft.kind or kind)


def reader(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Read a file, list a directory or search, depending on `mode`."""
    mode = arguments.get("mode")
    if isinstance(mode, str) and mode.lower() == "directory":
        return listing(arguments, workspace)
    return read(arguments, workspace)


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
    by_path: dict[str, _Change] = {}
    for change in _changes(body):  # each path once, in the order of the last mention
        by_path.pop(change.path, None)
        by_path[change.path] = change
    changes = list(by_path.values())
    if not changes:
        return edit(arguments, workspace)
    located = [workspace.place(change.path, change.line) for change in changes]
    locations = distinct(place for _, place in located if place is not None)
    only_deletes = all(change.verb == "Delete" for change in changes)
    kind = _DELETE if only_deletes else _EDIT
    if len(changes) > 1:
        message = _DELETE_MANY if only_deletes else _EDIT_MANY
        return DescriptionDraft(message, {"count": len(changes)}, locations, kind)
    message = {"Add": _WRITE_FILE, "Delete": _DELETE_FILE}.get(changes[0].verb, _EDIT_FILE)
    return DescriptionDraft(message, {"path": located[0][0]}, locations, kind)


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
