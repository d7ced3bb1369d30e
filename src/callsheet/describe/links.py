"""Locations that stand anywhere among the arguments, as file:// links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from callsheet.describe.arguments import Arguments
from callsheet.describe.drafts import Locations, distinct
from callsheet.describe.paths import Workspace


def linked(arguments: Arguments, workspace: Workspace) -> Locations:
    """Return where the file:// links among the arguments lead."""
    for value in arguments.values():
        if type(value) is str:
            if value[:5] == "file:" or value[:5].lower() == "file:":
                break
        elif isinstance(value, (dict, list)):
            break
    else:  # the usual case
        return ()
    links = (text for text in _texts(arguments, 3) if text[:7].lower() == "file://")
    return distinct(place for link in links if (place := workspace.locate(link)) is not None)


def _texts(value: object, depth: int) -> Iterator[str]:
    """Return the texts in a small value; of a large one, the first."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict) and depth:
        for item in list(cast(Arguments, value).values())[:32]:
            yield from _texts(item, depth - 1)
    elif isinstance(value, list) and depth:
        for item in cast(list[object], value)[:32]:
            yield from _texts(item, depth - 1)
