"""Shapes: the ways of using tools. A shape reads a call's arguments and describes what it does, and where.

`shapes.toml` has a row for each. Most are nothing but titles and the arguments that fill them; the functions
here read what needs more: files, patches, shell commands. A shape returns a `DescriptionDraft`, which knows
no language, and the kind only where that depends on the input. Which tool has which shape is in `tools.toml`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from callsheet.describe.arguments import (
    ALL_LINES,
    MANY_PATHS,
    PATH,
    ROLES,
    WORKING_DIRECTORY,
    Arguments,
    Lines,
    first,
    line_of,
    lines_of,
    text_of,
    texts_of,
)
from callsheet.describe.i18n import Message
from callsheet.describe.patches import changes_of
from callsheet.describe.paths import Locations, PathContext, distinct
from callsheet.describe.shell.display import show_command
from callsheet.describe.shell.judge import files_read
from callsheet.describe.tables import read_table
from callsheet.describe.values import FORMS, command_text
from callsheet.report.fields import ToolKind
from callsheet.report.patterns import lazy

_PLACEHOLDER = lazy(r"\{(\w+)\}")
_SEVERAL = (*MANY_PATHS, "edits", "changes")


class DescriptionDraft(Struct, frozen=True, gc=False):
    """A description before it is put into words. No values: the arguments were not enough."""

    message: Message
    values: dict[str, str | int] = {}
    locations: Locations = ()
    kind: ToolKind | None = None
    """The kind, if it depends on the input."""


Shape: TypeAlias = Callable[[Arguments, PathContext], DescriptionDraft]


class _Case(Struct, frozen=True, forbid_unknown_fields=True):
    shape: str
    values: tuple[str, ...] = ()
    kind: ToolKind | None = None


class ShapeRow(Struct, frozen=True, forbid_unknown_fields=True):
    """A row of `shapes.toml`, which explains the fields."""

    titles: tuple[Message, ...] = ()
    values: dict[str, tuple[str, ...]] = {}
    width: int = 100
    lined: bool = False
    lists_first: bool = False
    harmless: dict[str, frozenset[str]] = {}
    function: str = "fill_titles"
    by: tuple[str, ...] = ()
    cases: tuple[_Case, ...] = ()


@cache
def shape_rows() -> dict[str, ShapeRow]:
    """Return the rows of `shapes.toml` by their names."""
    return msgspec.convert(read_table("shapes.toml"), dict[str, ShapeRow])


@cache
def shape_of(name: str) -> Shape:
    """Return the shape of this name."""
    row = shape_rows()[name]
    return _by_argument(row) if row.cases else _FUNCTIONS[row.function](row)


def _by_argument(row: ShapeRow) -> Shape:
    """Return a shape that is another one, depending on an argument."""
    cases = {
        value: (shape_of(case.shape), case.kind) for case in row.cases for value in case.values
    }
    other = shape_of(row.cases[-1].shape), row.cases[-1].kind

    def chosen(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
        value = first(arguments, row.by)
        shape, kind = cases.get(value, other) if isinstance(value, str) else other
        return replace(shape(arguments, workspace), kind=kind)

    return chosen


def _fill_titles(row: ShapeRow) -> Shape:
    """Return a shape that uses the first title whose placeholders the arguments fill."""
    titles = [(title, frozenset(_PLACEHOLDER.findall("".join(title)))) for title in row.titles]
    slots = [(name, [ROLES[role] for role in roles]) for name, roles in row.values.items()]

    def filled(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
        values: dict[str, str | int] = {}
        locations: Locations = ()
        for placeholder, roles in slots:
            for role in roles:
                width = role.width if role.width < row.width else row.width
                shown, places = FORMS[role.form](arguments, role, workspace, width)
                locations += places
                # What a search looks for may be its glob, too; it need not be shown twice.
                if shown and (places or shown not in values.values()):
                    values[placeholder] = shown
                    break
        if len(locations) > 1:
            locations = distinct(locations)
        kind = ToolKind.EXECUTE if row.harmless and _does_more(row, arguments) else None
        for title, needed in titles:
            if needed <= values.keys():
                return DescriptionDraft(title, values if needed else {}, locations, kind)
        raise AssertionError("the last title of a shape needs no values")

    return filled


def _does_more(row: ShapeRow, arguments: Arguments) -> bool:
    for name, harmless in row.harmless.items():
        value = arguments.get(name)
        if value and not (isinstance(value, str) and value.lower() in harmless):
            return True
    return False


# Files


def _files(row: ShapeRow) -> Shape:
    """Return a shape of reading or changing one file, or several. With titles for them, it shows lines."""
    one, *with_lines, many, bare = row.titles
    lists_first = row.lists_first
    lines = (lines_of if with_lines else _first_line) if row.lined else _no_lines
    names = tuple(name for role in row.values["path"] for name in ROLES[role].names)

    def describe_files(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
        path = ""
        for name in names:
            if name in arguments and type(value := arguments[name]) is str and value.strip():
                path = value
                break
        if not path or (lists_first and _has_list(arguments)):
            return _several(arguments, workspace, describe_files, names, many, bare)
        begin, end = lines(arguments)
        shown, location = workspace.place(path, begin)
        locations = () if location is None else (location,)
        line = begin if location is None else location.line
        if not with_lines or (line is None and end is None):
            return DescriptionDraft(one, {"path": shown}, locations)
        one_line, some_lines, from_line = with_lines
        if end is not None and end != (begin or 1):
            values: dict[str, str | int] = {"path": shown, "first": begin or 1, "last": end}
            return DescriptionDraft(some_lines, values, locations)
        is_one = end is not None or begin is None or "line" in arguments
        values = {"path": shown, "first": line or 1}
        return DescriptionDraft(one_line if is_one else from_line, values, locations)

    return describe_files


def _first_line(arguments: Arguments) -> Lines:
    return line_of(arguments), None


def _no_lines(_: Arguments) -> Lines:
    return ALL_LINES


def _has_list(arguments: Arguments) -> bool:
    return any(len(list(texts_of(arguments.get(name)))) > 1 for name in MANY_PATHS)


def _several(
    arguments: Arguments,
    workspace: PathContext,
    one: Shape,
    names: tuple[str, ...],
    many: Message,
    bare: Message,
) -> DescriptionDraft:
    """Describe a call for a list of files; for just one in the list, as if it stood alone."""
    found: list[tuple[str, Arguments]] = []
    for name in (*_SEVERAL, *names):
        if name in arguments and (found := list(texts_of(arguments[name]))):
            break
    if not found:
        return DescriptionDraft(bare)
    count = len({path for path, _ in found})
    if count == 1:
        path, beside = found[0]
        alone = {name: value for name, value in beside.items() if name not in _SEVERAL}
        return one({**alone, "path": path}, workspace)
    located = (workspace.locate(path, lines_of(beside)[0]) for path, beside in found)
    return DescriptionDraft(many, {"count": count}, distinct(place for place in located if place))


def _patch(_: ShapeRow) -> Shape:
    """Return the shape of applying a patch. Its titles are those of writing, editing and deleting."""
    edit = shape_of("edit")
    titles = {
        verb: shape_rows()[shape].titles
        for verb, shape in (("Add", "write"), ("Update", "edit"), ("Delete", "delete"))
    }

    def patched(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
        changes = changes_of(arguments)
        if not changes:
            return edit(arguments, workspace)
        located = [workspace.place(change.path, change.line) for change in changes]
        locations = distinct(place for _, place in located if place is not None)
        only_deletes = all(change.verb == "Delete" for change in changes)
        kind = ToolKind.DELETE if only_deletes else ToolKind.EDIT
        verb = changes[0].verb if len(changes) == 1 else "Delete" if only_deletes else "Update"
        one, many, _ = titles.get(verb, titles["Update"])
        if len(changes) > 1:
            return DescriptionDraft(many, {"count": len(changes)}, locations, kind)
        return DescriptionDraft(one, {"path": located[0][0]}, locations, kind)

    return patched


# Commands


def _shell(row: ShapeRow) -> Shape:
    """Return the shape of running a shell command. The files that it only reads are its locations."""
    run, bare = row.titles

    def shell(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
        command = command_text(arguments)
        if not command.strip():
            return DescriptionDraft(bare)
        locations: Locations = ()
        if files := files_read(command):
            here = workspace.directory(first(arguments, WORKING_DIRECTORY))
            located = (workspace.locate(file.path, file.line, here) for file in files)
            locations = distinct(place for place in located if place is not None)
        shown = show_command(command, row.width, workspace)
        return DescriptionDraft(run, {"command": shown}, locations)

    return shell


def _anything(_: ShapeRow) -> Shape:
    """Return the shape of an unknown tool: only its name and its path are known."""

    def anything(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
        path = text_of(arguments, PATH)
        shown, location = workspace.place(path) if path else ("", None)
        if location is None:
            return DescriptionDraft("")
        return DescriptionDraft("", {"path": shown}, (location,))

    return anything


_FUNCTIONS: dict[str, Callable[[ShapeRow], Shape]] = {
    "fill_titles": _fill_titles,
    "files": _files,
    "patch": _patch,
    "shell": _shell,
    "anything": _anything,
}
"""The functions that make shapes of rows, by their names in `shapes.toml`."""
