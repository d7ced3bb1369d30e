"""Shapes: the ways of using tools, each a function that reads the arguments of a call.

A *shape* knows one way (reading a file, running a command, …) and returns a `DescriptionDraft`: the
message of a title with its values, and where the call works. It doesn't know the language, and only some know
the kind. Which tool has which shape is in `tools.toml`. Shapes that only quote one argument, or none, are
made by `fixed`, `quoting` and `one_path`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec import Struct

from callsheet.describe.arguments import DIRECTORY, PATH, Arguments, text_of
from callsheet.describe.paths import Locations, PathContext, some
from callsheet.report.fields import ToolKind

COMMAND_WIDTH = 100
PATTERN_WIDTH = 48
TEXT_WIDTH = 72
HALF_PATH_WIDTH = 48
NAME_WIDTH = 40


class DescriptionDraft(Struct, frozen=True, gc=False):
    """A description before it is put into words. No values: the arguments were not enough."""

    message: str
    values: dict[str, str | int] = {}
    locations: Locations = ()
    kind: ToolKind | None = None
    """The kind, if it depends on the input."""


Shape: TypeAlias = Callable[[Arguments, PathContext], DescriptionDraft]


def fixed(message: str) -> Shape:
    """Return the shape of tools whose arguments say nothing more."""
    draft = DescriptionDraft(message)
    return lambda _, __: draft


def quoting(
    message: str, bare: str, value: str, keys: Iterable[str], width: int = TEXT_WIDTH
) -> Shape:
    """Return the shape of tools of which one argument is quoted; without it, `bare` is the title."""
    names = tuple(keys)

    def quoted(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
        text = text_of(arguments, names)
        if not text:
            return DescriptionDraft(bare)
        return DescriptionDraft(message, {value: workspace.shorten(text, width)})

    return quoted


def one_path(message: str, bare: str, keys: Iterable[str] = (*PATH, *DIRECTORY)) -> Shape:
    """Return the shape of tools that work on one path."""
    names = tuple(keys)

    def placed(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
        path = text_of(arguments, names)
        if not path:
            return DescriptionDraft(bare)
        shown, location = workspace.place(path)
        return DescriptionDraft(message, {"path": shown}, some(location))

    return placed
