"""Filling a tool's own title: "Reading {path}" with the arguments of a call.

Only names are looked up; nothing is ever evaluated. What is missing becomes an ellipsis, so that a title
never fails and still says what the tool's author meant it to say.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, cast

from callsheet.describe.arguments import DESTINATION, DIRECTORY, PATH, SOURCE, URL, Arguments, first
from callsheet.describe.drafts import TEXT_WIDTH
from callsheet.describe.finding import show_url
from callsheet.describe.parts import say_command
from callsheet.describe.paths import Workspace
from callsheet.describe.text import ELLIPSIS

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
_PATHS = frozenset((*PATH, *DIRECTORY, *SOURCE, *DESTINATION)) - {
    "target",
    "to",
    "from",
    "root",
    "uri",
}
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+").fullmatch
_SYNONYMS: dict[str, tuple[str, ...]] = {
    "path": PATH,
    "file": PATH,
    "source": SOURCE,
    "destination": DESTINATION,
    "directory": DIRECTORY,
    "url": URL,
}


def fill(template: str, arguments: Arguments, workspace: Workspace) -> str:
    """Put arguments into a template. Never raises; `{{` and `}}` are braces."""
    return "".join(
        [
            _value(piece, arguments, workspace) if is_name else piece
            for piece, is_name in _pieces(template)
        ]
    )


@lru_cache(maxsize=1024)
def _pieces(template: str) -> tuple[tuple[str, bool], ...]:
    """Cut a template into texts and names."""
    pieces: list[tuple[str, bool]] = []
    at = 0
    for match in _PLACEHOLDER.finditer(template):
        pieces.append((template[at : match.start()], False))
        name = match[1]
        if name is None:
            pieces.append((match[0][0], False))
        else:
            pieces.append((name.partition("!")[0].partition(":")[0].strip(), True))
        at = match.end()
    return (*pieces, (template[at:], False))


def _value(name: str, arguments: Arguments, workspace: Workspace) -> str:
    value = _find(name, arguments)
    if isinstance(value, str) and value.strip():
        if name in _PATHS and "://" not in value:
            return workspace.place(value)[0] or ELLIPSIS
        if _URL(value):
            is_file = value[:5].lower() == "file:"
            return workspace.place(value)[0] if is_file else show_url(value, workspace)
        if name in ("command", "cmd"):
            return say_command(value, TEXT_WIDTH, workspace)
        return workspace.say(value, TEXT_WIDTH)
    return _plain(value, workspace)


def _find(name: str, arguments: Arguments) -> Any:
    if name in arguments:
        return arguments[name]
    if "." in name:
        head, _, rest = name.partition(".")
        inner = arguments.get(head)
        return _find(rest, cast(Arguments, inner)) if isinstance(inner, dict) else None
    return first(arguments, _SYNONYMS.get(name, ()))


def _plain(value: object, workspace: Workspace) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 256:
        return ELLIPSIS
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, list) and value:
        items = cast(list[object], value)[:8]
        if all(isinstance(item, (str, int, float)) for item in items):
            return workspace.say(", ".join(map(str, items)), TEXT_WIDTH) or ELLIPSIS
    return ELLIPSIS
