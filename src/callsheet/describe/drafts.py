"""What a shape gives: the message of a title with its values, and where the call works.

A *shape* knows one way of using tools (reading a file, running a command, …): it reads the arguments and
gives a `Draft`. It doesn't know the language, and only some know the kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec import Struct

from callsheet.describe.arguments import Arguments
from callsheet.describe.paths import Workspace
from callsheet.report.fields import ToolCallLocation, ToolKind

MAX_LOCATIONS = 8
"""Editors open each one; more than a few help nobody."""

COMMAND_WIDTH = 100
PATTERN_WIDTH = 48
TEXT_WIDTH = 72
HALF_PATH_WIDTH = 48

Locations: TypeAlias = tuple[ToolCallLocation, ...]


class Draft(Struct, frozen=True, gc=False):
    """A description before it is put into words. No values: the arguments didn't say enough."""

    message: str
    values: dict[str, str | int] = {}
    locations: Locations = ()
    kind: ToolKind | None = None
    why: str = ""
    """Why the kind depends on the input, if it does."""


Shape: TypeAlias = Callable[[Arguments, Workspace], Draft]


def some(*locations: ToolCallLocation | None) -> Locations:
    """Return the locations that there are."""
    return distinct(location for location in locations if location is not None)


def distinct(locations: Iterable[ToolCallLocation]) -> Locations:
    """Return each location once, the last few, in order: the last is where the work is."""
    by_place = {(location.path, location.line): location for location in locations}
    return tuple(by_place.values())[-MAX_LOCATIONS:]
