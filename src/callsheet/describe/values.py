"""The values that stand in titles: how an argument is read and shown, and which locations it names.

A *form* does that for one sort of value (a path, an address, a command, …). `arguments.toml` has the form
of each role, `shapes.toml` the roles that fill a title's placeholders. A title that a tool declares is filled
by the same forms (`fill_template`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from callsheet.describe.arguments import (
    BARE_INPUT,
    COMMAND,
    ROLES,
    Arguments,
    Role,
    first,
    line_of,
    text_of,
)
from callsheet.describe.paths import Locations, PathContext
from callsheet.describe.shell.display import show_command
from callsheet.describe.shell.judge import text_of_command
from callsheet.describe.titles import ELLIPSIS, LINE_BREAK, humanise
from callsheet.report.patterns import lazy

TEXT_WIDTH = 72

Shown: TypeAlias = tuple[str | int, Locations]
"""How a value is shown ("" or 0: there is none), and the locations that it names."""

Form: TypeAlias = Callable[[Arguments, Role, PathContext, int], Shown]

_URL_IN_TEXT = lazy(r"https?://[^\s<>\"'`)\]]+")
_SHOWN_URL = lazy(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?//(?:[^/?#@]*@)?([^?#]*)(\?[^#]*)?")


def _path(arguments: Arguments, role: Role, workspace: PathContext, width: int) -> Shown:
    path = text_of(arguments, role.names)
    shown, place = workspace.place(path, line_of(arguments), width=width)
    return shown, () if place is None else (place,)


def _directory(arguments: Arguments, role: Role, workspace: PathContext, width: int) -> Shown:
    shown, place = workspace.place(text_of(arguments, role.names), width=width)
    # The session's own needs no name.
    return "" if shown == "." else shown, () if place is None else (place,)


def _sibling(arguments: Arguments, role: Role, workspace: PathContext, width: int) -> Shown:
    """Show the path that a new name makes of the one that is renamed."""
    name = text_of(arguments, role.names)
    source = text_of(arguments, (*ROLES["source"].names, *ROLES["path"].names))
    if not name or not source:
        return "", ()
    directory, separator, _ = source.rpartition("\\" if "\\" in source else "/")
    return _path({"path": f"{directory}{separator}{name}"}, ROLES["path"], workspace, width)


def _text(arguments: Arguments, role: Role, workspace: PathContext, width: int) -> Shown:
    return workspace.shorten(text_of(arguments, role.names), width), ()


def _words(arguments: Arguments, role: Role, workspace: PathContext, width: int) -> Shown:
    return workspace.shorten(humanise(text_of(arguments, role.names)), width), ()


def _question(arguments: Arguments, role: Role, workspace: PathContext, width: int) -> Shown:
    several = arguments.get("questions")
    if isinstance(several, list) and several and not text_of(arguments, role.names):
        asked = cast(list[object], several)[0]
        arguments = (
            cast(Arguments, asked) if isinstance(asked, dict) else {"text": plain_text(asked)}
        )
    return _text(arguments, role, workspace, width)


def _code(arguments: Arguments, role: Role, workspace: PathContext, width: int) -> Shown:
    return workspace.shorten(text_of(arguments, role.names), width, LINE_BREAK), ()


def _id(arguments: Arguments, role: Role, workspace: PathContext, width: int) -> Shown:
    value = first(arguments, role.names)
    return workspace.shorten(plain_text(value), width) if isinstance(value, (str, int)) else "", ()


def _count(arguments: Arguments, role: Role, _: PathContext, __: int) -> Shown:
    items = first(arguments, role.names)
    return len(cast(list[object], items)) if isinstance(items, list) else 0, ()


def _command(arguments: Arguments, role: Role, workspace: PathContext, width: int) -> Shown:
    command = command_text(arguments, role.names)
    return show_command(command, width, workspace) if command.strip() else "", ()


def command_text(arguments: Arguments, names: tuple[str, ...] = (*COMMAND, BARE_INPUT)) -> str:
    """Return the shell command among the arguments, with the words that stand beside it."""
    command = first(arguments, names)
    if type(command) is not str:
        command = text_of_command(command)
    words = arguments.get("args")
    if command and isinstance(words, list) and words:
        return f"{command} {shlex.join(map(plain_text, cast(list[object], words)))}"
    return command


def _url(arguments: Arguments, role: Role, workspace: PathContext, _: int) -> Shown:
    url = text_of(arguments, role.names)
    return (show_url(url, workspace), _file_of(url, workspace)) if url else ("", ())


def _url_in_text(arguments: Arguments, role: Role, workspace: PathContext, _: int) -> Shown:
    match = _URL_IN_TEXT.search(text_of(arguments, role.names))
    return show_url(match[0], workspace) if match else "", ()


def _uri(arguments: Arguments, role: Role, workspace: PathContext, width: int) -> Shown:
    uri = text_of(arguments, role.names)
    return workspace.shorten(uri, width), _file_of(uri, workspace)


def _file_of(url: str, workspace: PathContext) -> Locations:
    place = workspace.locate(url) if url[:5].lower() == "file:" else None
    return () if place is None else (place,)


def plain_text(value: object) -> str:
    """Return a text or a number as it is written; an ellipsis for what is neither, or too long to read."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    is_number = isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= 256)
    return str(value) if is_number else ELLIPSIS


def show_url(url: str, workspace: PathContext) -> str:
    """Return a URL in its readable form: no scheme, no fragment, and never a user's name or password."""
    match = _SHOWN_URL.match(url.strip())
    if match is None:
        return workspace.shorten(url, TEXT_WIDTH)
    shown = f"{match[1]}{match[2]}" if match[2] else match[1].rstrip("/")
    return workspace.shorten(shown, TEXT_WIDTH) or workspace.shorten(url, TEXT_WIDTH)


FORMS: dict[str, Form] = {
    "path": _path,
    "directory": _directory,
    "sibling": _sibling,
    "text": _text,
    "words": _words,
    "question": _question,
    "code": _code,
    "id": _id,
    "count": _count,
    "command": _command,
    "url": _url,
    "url_in_text": _url_in_text,
    "uri": _uri,
}
"""The forms, by their names in `arguments.toml`."""


# Titles that a tool declares: "Reading {path}" with the arguments of a call. Only names are looked up;
# nothing is ever evaluated. What is missing becomes an ellipsis, so that a title never fails and still
# shows what the tool's author meant it to show.

_ARGUMENT = lazy(r"\{\{|\}\}|\{([^{}]*)\}")
_IS_URL = lazy(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_PATH_ROLES = ("path", "directory", "source", "destination")
_PATH_NAMES = frozenset(name for role in _PATH_ROLES for name in ROLES[role].names) - {
    "target",
    "to",
    "from",
    "root",
    "uri",
}
_SYNONYMS = {"file": "path", **{role: role for role in (*_PATH_ROLES, "url")}}
"""Names that stand for any name of a role."""


def fill_template(template: str, arguments: Arguments, workspace: PathContext) -> str:
    """Put arguments into a template. Never raises; `{{` and `}}` are braces."""

    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        name = match[1].partition("!")[0].partition(":")[0].strip()
        return _declared_value(name, arguments, workspace) or ELLIPSIS

    return _ARGUMENT.sub(value, template)


def _declared_value(name: str, arguments: Arguments, workspace: PathContext) -> str:
    value = _find(name, arguments)
    if isinstance(value, list):
        items = map(plain_text, cast(list[object], value)[:8])
        return workspace.shorten(", ".join(items), TEXT_WIDTH)
    if not isinstance(value, str) or not value.strip():
        return plain_text(value).strip()
    is_url = _IS_URL.fullmatch(value)
    if (name in _PATH_NAMES and "://" not in value) or (is_url and value[:5].lower() == "file:"):
        return workspace.place(value)[0]
    if is_url:
        return show_url(value, workspace)
    if name in ("command", "cmd"):
        return show_command(value, TEXT_WIDTH, workspace)
    return workspace.shorten(value, TEXT_WIDTH)


def _find(name: str, arguments: Arguments) -> Any:
    if name in arguments:
        return arguments[name]
    if "." in name:
        head, _, rest = name.partition(".")
        inner = arguments.get(head)
        return _find(rest, cast(Arguments, inner)) if isinstance(inner, dict) else None
    return first(arguments, ROLES[_SYNONYMS[name]].names) if name in _SYNONYMS else None
