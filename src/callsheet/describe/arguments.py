"""Reading a tool's input, whatever its author called the arguments.

The same argument has a dozen names in the wild. `arguments.toml` has, for each role, the names that
are known, the usual first, so that every title and location is found in the same way.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from typing import Any, TypeAlias, cast

import msgspec

from callsheet.describe.paths import to_line
from callsheet.report.fields import MAX_LINE

Arguments: TypeAlias = dict[str, Any]

NONE: Arguments = {}


def _roles() -> dict[str, tuple[str, ...]]:
    text = files("callsheet.describe").joinpath("arguments.toml").read_text(encoding="utf-8")
    return {role: tuple(row["names"].split()) for role, row in tomllib.loads(text).items()}


_ROLES = _roles()

PATH, DIRECTORY, MANY_PATHS = _ROLES["path"], _ROLES["directory"], _ROLES["many_paths"]
SOURCE, DESTINATION = _ROLES["source"], _ROLES["destination"]
PATTERN, QUERY, GLOB, URL = _ROLES["pattern"], _ROLES["query"], _ROLES["glob"], _ROLES["url"]
COMMAND, WORKING_DIRECTORY = _ROLES["command"], _ROLES["working_directory"]
_COMMANDS = frozenset(name.lower().replace("_", "") for name in COMMAND)
_EDITOR_VERBS = frozenset(
    (
        *("view", "create", "str_replace", "insert", "undo_edit", "undo", "write", "append"),
        *("delete", "rename", "move", "read", "edit", "replace"),
    )
)
"""What the `command` of an editor tool is: no shell command, if a path stands beside it."""
_DEEPEST = 8
_FIRST_LINE, _LAST_LINE = _ROLES["first_line"], _ROLES["last_line"]
_OFFSET, _LIMIT, _RANGE = _ROLES["offset"], _ROLES["limit"], _ROLES["range"]
_SPAN = re.compile(r"\s*L?(\d{1,9})\s*(?:[-–:,]\s*L?(\d{1,9}))?\s*")

_LINE_KEYS = frozenset((*_FIRST_LINE, *_LAST_LINE, *_OFFSET, *_LIMIT, *_RANGE))
_EDIT_KEYS = frozenset((*_FIRST_LINE, *_RANGE, "insert_line"))
_OTHER_LINE_KEYS = _LINE_KEYS - {"offset", "limit"}

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
    return {"": text} if text.strip() else NONE


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
            if isinstance(item, str) and item:
                yield item, NONE
            elif isinstance(item, dict):
                beside = cast(Arguments, item)
                path = text_of(beside, PATH)
                if path:
                    yield path, beside


def lines_of(arguments: Arguments) -> Lines:
    """Return the lines that a reading tool was asked for."""
    if "limit" in arguments and _OTHER_LINE_KEYS.isdisjoint(arguments):  # the usual case
        limit = arguments["limit"]
        begin = arguments.get("offset")
        if type(limit) is int and 0 < limit < MAX_LINE:
            if begin is None:
                return None, limit
            if type(begin) is int and 0 <= begin < MAX_LINE:
                return begin or 1, (begin or 1) + limit - 1
    elif _LINE_KEYS.isdisjoint(arguments):
        return ALL_LINES
    return _lines_of(arguments)


def _lines_of(arguments: Arguments) -> Lines:
    begin = _first_number(arguments, _FIRST_LINE)
    if begin is None and "offset" not in arguments and "limit" not in arguments:
        ranged = _range(arguments)
        if ranged is not ALL_LINES:
            return ranged
    if begin is None:
        begin = _first_number(arguments, _OFFSET)
    end = _first_number(arguments, _LAST_LINE)
    if end is None:
        count = _first_number(arguments, _LIMIT)
        if count and (begin is not None or not _counts_from_end(arguments)):
            end = (begin or 1) + count - 1
    return (begin, end) if end is None or end >= (begin or 1) else (begin, None)


def line_of(arguments: Arguments) -> int | None:
    """Return the line that an editing tool names, if it names one."""
    if _EDIT_KEYS.isdisjoint(arguments):
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


def _counts_from_end(arguments: Arguments) -> bool:
    return any(type(arguments.get(key)) is int and arguments[key] < 0 for key in _OFFSET)


def _range(arguments: Arguments) -> Lines:
    for key in _RANGE:
        if key in arguments:
            found = _one_range(arguments[key])
            if found is not ALL_LINES:
                return found
    return ALL_LINES


def _one_range(value: object) -> Lines:
    if isinstance(value, dict):
        return _range_of_object(cast(Arguments, value))
    if isinstance(value, str):
        match = _SPAN.fullmatch(value)
        return (to_line(match[1]), to_line(match[2])) if match else ALL_LINES
    if isinstance(value, (list, tuple)) and value:
        items = cast("list[object]", value)
        if not isinstance(items[0], int):
            return _one_range(items[0])
        begin = to_line(items[0])
        end = to_line(items[1]) if len(items) > 1 else begin
        return (begin, end) if begin is not None else ALL_LINES
    return ALL_LINES


def _range_of_object(value: Arguments) -> Lines:
    begin: Any = value.get("start")
    end: Any = value.get("end")
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
        given = cast(Arguments, value)
        return any(_is_command(key, given) for key in given) or any(
            has_command(inner, depth + 1) for inner in given.values()
        )
    if isinstance(value, list):
        return any(has_command(inner, depth + 1) for inner in cast(list[object], value))
    return False


def _is_command(key: object, given: Arguments) -> bool:
    if not isinstance(key, str) or key.lower().replace("_", "").replace("-", "") not in _COMMANDS:
        return False
    value: object = given[key]
    if isinstance(value, str):
        is_verb = value.lower() in _EDITOR_VERBS and not given.keys().isdisjoint((*PATH, *SOURCE))
        return bool(value.strip()) and not is_verb
    return isinstance(value, (list, dict)) and value not in ([], {})
