"""Reading a tool's input, whatever its author called the arguments.

The same argument has a dozen names in the wild. `arguments.toml` has, for each role, the names that
are known, the usual first, so that every title and location is found in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct

from callsheet.describe.paths import to_line
from callsheet.describe.tables import read_table
from callsheet.report.patterns import lazy

Arguments: TypeAlias = dict[str, Any]

NONE: Arguments = {}

BARE_INPUT = "(input)"
"""The name of an input that is one text, as the tools of some agents have."""


class Role(Struct, frozen=True):
    """What an argument means: its names, and how its value looks in a title."""

    names: tuple[str, ...]
    form: str = "text"
    width: int = 72


def _roles() -> dict[str, Role]:
    rows = read_table("arguments.toml").items()
    return {
        role: msgspec.convert({**row, "names": row["names"].split()}, Role) for role, row in rows
    }


ROLES = _roles()

PATH, DIRECTORY = ROLES["path"].names, ROLES["directory"].names
MANY_PATHS, SOURCE = ROLES["many_paths"].names, ROLES["source"].names
DESTINATION, PATTERN = ROLES["destination"].names, ROLES["pattern"].names
QUERY, GLOB, URL = ROLES["query"].names, ROLES["glob"].names, ROLES["url"].names
COMMAND, WORKING_DIRECTORY = ROLES["command"].names, ROLES["working_directory"].names
_FILE_NAMES = frozenset((*PATH, *SOURCE))
_EDITOR_VERBS = frozenset(
    (
        *("view", "create", "str_replace", "insert", "undo_edit", "undo", "write", "append"),
        *("delete", "rename", "move", "read", "edit", "replace"),
    )
)
"""What the `command` of an editor tool is: no shell command, if a path stands beside it."""
_DEEPEST = 8
_FIRST_LINE, _LAST_LINE = ROLES["first_line"].names, ROLES["last_line"].names
_OFFSET, _LIMIT, _RANGE = ROLES["offset"].names, ROLES["limit"].names, ROLES["range"].names
_SPAN = lazy(r"\s*L?(\d{1,9})\s*(?:[-–:,]\s*L?(\d{1,9}))?\s*")

_NUMBERS = {
    name: role
    for role, names in enumerate((_FIRST_LINE, _LAST_LINE, _OFFSET, _LIMIT))
    for name in names
}
"""The names of line numbers: the first, the last, how many are skipped, how many are read."""
_OFFSET_ROLE = 2
LINE_NAMES = frozenset((*_FIRST_LINE, *_LAST_LINE, *_OFFSET, *_LIMIT, *_RANGE, "insert_line"))

Lines: TypeAlias = tuple[int | None, int | None]
"""First and last line. Both None: the whole file. Only the last None: to the end."""

ALL_LINES: Lines = (None, None)


def to_arguments(raw_input: object) -> Arguments:
    """Return the input as a dict: an object, an object written as JSON, a list of words, a bare text."""
    if isinstance(raw_input, dict):
        return cast(Arguments, raw_input)
    if isinstance(raw_input, Mapping):
        return dict(cast(Mapping[str, Any], raw_input))
    if isinstance(raw_input, str):
        return _from_text(raw_input)
    if isinstance(raw_input, (list, tuple)):
        words = cast("list[object] | tuple[object, ...]", raw_input)
        return {"command": list(words)}
    return NONE


def _from_text(text: str) -> Arguments:
    if text.lstrip()[:1] == "{":
        try:
            value: object = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return NONE
        return cast(Arguments, value) if isinstance(value, dict) else NONE
    return {BARE_INPUT: text} if text.strip() else NONE


def first(arguments: Arguments, keys: Iterable[str]) -> Any:
    """Return the first of these arguments that is not empty, or None."""
    for key in keys:
        if key in arguments:
            value = arguments[key]
            if value or value == 0:
                return value
    return None


def text_of(arguments: Arguments, keys: Iterable[str]) -> str:
    """Return the first of these arguments that is text. Of a list, its only or first text counts."""
    for key in keys:
        if key in arguments:
            value = arguments[key]
            if isinstance(value, list) and value:
                value = cast(list[object], value)[0]
            if isinstance(value, str) and value.strip():
                return value
    return ""


def texts_of(value: object) -> Iterator[tuple[str, Arguments]]:
    """Return the paths in a list of texts or of objects that have one, with what stands beside each."""
    if isinstance(value, dict):
        inner: object = cast(Arguments, value).get("file") or cast(object, value)
        value = cast("list[object]", inner) if isinstance(inner, list) else [inner]
    if isinstance(value, str):
        value = [value]
    if isinstance(value, (list, tuple)):
        for item in cast("list[object]", value):
            if isinstance(item, str) and item.strip():
                yield item, NONE
            elif isinstance(item, dict):
                beside = cast(Arguments, item)
                path = text_of(beside, PATH)
                if path:
                    yield path, beside


def lines_of(arguments: Arguments) -> Lines:
    """Return the lines that a reading tool was asked for."""
    if LINE_NAMES.isdisjoint(arguments):
        return ALL_LINES
    numbers: list[int | None] = [None, None, None, None]
    from_end = False  # a negative offset counts from the end
    for key in arguments:
        if key in _NUMBERS:
            role, value = _NUMBERS[key], arguments[key]
            line = to_line(value)
            if line is None:
                from_end = from_end or (role == _OFFSET_ROLE and type(value) is int)
            elif numbers[role] is None:
                numbers[role] = line
    begin, end, offset, count = numbers
    if begin is None:
        if "offset" not in arguments and "limit" not in arguments:
            ranged = _range(arguments)
            if ranged is not ALL_LINES:
                return ranged
        begin = offset
    if end is None and count and (begin is not None or not from_end):
        end = (begin or 1) + count - 1
    return (begin, end) if end is None or end >= (begin or 1) else (begin, None)


def line_of(arguments: Arguments) -> int | None:
    """Return the line that an editing tool names, if it names one."""
    if LINE_NAMES.isdisjoint(arguments):
        return None
    line = _first_number(arguments, _FIRST_LINE)
    if line is None and "insert_line" in arguments:
        after = arguments["insert_line"]
        line = to_line(after + 1) if type(after) is int else None
    return line if line is not None else _range(arguments)[0]


def _first_number(arguments: Arguments, keys: tuple[str, ...]) -> int | None:
    for key in keys:
        if key in arguments:
            line = to_line(arguments[key])
            if line is not None:
                return line
    return None


def _range(arguments: Arguments) -> Lines:
    for key in _RANGE:
        if key in arguments:
            found = _one_range(arguments[key])
            if found is not ALL_LINES:
                return found
    return ALL_LINES


def _one_range(value: object) -> Lines:
    if isinstance(value, (list, tuple)) and value:
        items = cast("list[object]", value)
        if isinstance(items[0], int):
            begin = to_line(items[0])
            end = to_line(items[1]) if len(items) > 1 else begin
            return (begin, end) if begin is not None else ALL_LINES
        value = items[0]  # of several ranges, the first
        if isinstance(value, (list, tuple)):
            value = dict(zip(("start", "end"), cast("list[object]", value), strict=False))
    if isinstance(value, str):
        match = _SPAN.fullmatch(value)
        return (to_line(match[1]), to_line(match[2])) if match else ALL_LINES
    if not isinstance(value, dict):
        return ALL_LINES
    begin, end = (cast(Arguments, value).get(side) for side in ("start", "end"))
    if isinstance(begin, dict) and isinstance(end, dict):  # a range of the Language Server Protocol
        lines = cast(Arguments, begin).get("line"), cast(Arguments, end).get("line")
        if type(lines[0]) is int and type(lines[1]) is int:
            return to_line(lines[0] + 1), to_line(lines[1] + 1)
    return to_line(cast(object, begin)), to_line(cast(object, end))


def has_command(value: object, depth: int = 0) -> bool:
    """Whether there is a shell command anywhere in an input. What is nested too deeply may be one."""
    if depth > _DEEPEST:
        return isinstance(value, (dict, list))
    if isinstance(value, dict):
        arguments: Arguments = value  # pyright: ignore[reportUnknownVariableType]  a cast costs
        if _OTHER_NAMES.issuperset(arguments) and _BARE.issuperset(map(type, arguments.values())):
            return False  # nearly always
        for key, inner in arguments.items():
            if _plain_name(key) in _COMMANDS and _runs(inner, arguments):
                return True
            if isinstance(inner, (dict, list)) and has_command(inner, depth + 1):  # pyright: ignore[reportUnknownArgumentType]
                return True
        return False
    return isinstance(value, list) and any(
        has_command(inner, depth + 1) for inner in cast(list[object], value)
    )


def _plain_name(key: object) -> str:
    return key.lower().replace("_", "").replace("-", "") if isinstance(key, str) else ""


_COMMANDS = frozenset(map(_plain_name, COMMAND))
_OTHER_NAMES = frozenset(
    name for role in ROLES.values() for name in role.names if _plain_name(name) not in _COMMANDS
)
"""Names that are certainly not a command's: most arguments of most calls."""
_BARE = frozenset((str, int, bool, float, type(None)))


def _runs(value: object, arguments: Arguments) -> bool:
    """Whether the value of an argument with the name of a command is one."""
    if isinstance(value, str):
        is_verb = value.lower() in _EDITOR_VERBS and not _FILE_NAMES.isdisjoint(arguments)
        return bool(value.strip()) and not is_verb
    return isinstance(value, (list, dict)) and value not in ([], {})
