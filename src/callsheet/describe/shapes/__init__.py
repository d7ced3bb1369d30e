"""Shapes: the ways of using tools, each a function that reads the arguments of a call.

A *shape* knows one way (reading a file, running a command, …) and returns a `DescriptionDraft`: the
message of a title with its values, and where the call works. It doesn't know the language, and only some know
the kind. Which tool has which shape is in `tools.toml`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from callsheet.describe.arguments import Arguments
from callsheet.describe.paths import Locations, PathContext
from callsheet.report.fields import ToolKind

COMMAND_WIDTH = 100
PATTERN_WIDTH = 48
TEXT_WIDTH = 72
HALF_PATH_WIDTH = 48


class DescriptionDraft(Struct, frozen=True, gc=False):
    """A description before it is put into words. No values: the arguments were not enough."""

    message: str
    values: dict[str, str | int] = {}
    locations: Locations = ()
    kind: ToolKind | None = None
    why: str = ""
    """Why the kind depends on the input, if it does."""


Shape: TypeAlias = Callable[[Arguments, PathContext], DescriptionDraft]
