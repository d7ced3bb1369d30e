"""The words behind a slash command, as the arguments of its tool.

- `/read README.md 10 20`: words go to the arguments in the order of the schema, the required ones first.
- `/read path=README.md limit=5`: a known key names its argument.
- `/read {"path": "README.md"}`: all as JSON.
- `/bash make test`: the last required text takes the rest of the line as it stands, if no other text can
  follow it. If it begins with a quote, it ends with it (but not a shell's).
- Blocks of lines under the command fill the required texts that are missing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from callsheet.report.errors import CallsheetError
from callsheet.report.fields import ToolKind
from callsheet.report.json import JsonObject, JsonValue, is_list, is_object
from callsheet.tools.arguments import nearest
from callsheet.tools.tool import Tool
from callsheet.tools.typed import accepts, parse_json, property_of, value_of

from .words import QUOTES, Unclosed, key_at, skip, word_at

_FILE_TEXTS = ("content",)
"""Arguments that are whole files: a block of lines that is given for one ends with a newline."""


class BadCommand(CallsheetError):
    """What was typed can't be run. The message says why, and what can."""


def order_of(schema: JsonObject) -> list[str]:
    """Return the arguments in the order in which words fill them."""
    names = list(schema.get("properties", ()))
    required = schema.get("required", ())
    return [*(name for name in names if name in required), *(n for n in names if n not in required)]


def usage_of(tool: Tool) -> str:
    """Return what a command takes: `path [offset] [limit]`."""
    required = tool.schema.get("required", ())
    return " ".join(name if name in required else f"[{name}]" for name in order_of(tool.schema))


def arguments_of(tool: Tool, line: str, blocks: Sequence[str] = ()) -> dict[str, JsonValue]:
    """Read the arguments of a command: the rest of its line, and the blocks of lines under it."""
    if line.startswith("{"):
        found = _object(tool, "\n".join([line, *blocks]))
        if found is not None:
            return found
    reading = _Reading(tool, line)
    reading.read()
    reading.fill(blocks)
    return reading.arguments


def wants_text(tool: Tool, line: str) -> bool:
    """Whether a line leaves out a text that lines under it could be."""
    reading = _Reading(tool, line)
    try:
        reading.read()
    except BadCommand:
        return line.startswith("{")
    return bool(reading.missing_texts())


def _object(tool: Tool, text: str) -> dict[str, JsonValue] | None:
    """Return a JSON object; nothing if this is no try at one."""
    try:
        value = parse_json(text)
    except json.JSONDecodeError as exc:
        if text[1:].lstrip()[:1] not in ('"', "}"):
            return None
        place = f"line {exc.lineno} column {exc.colno}"
        raise BadCommand(f"/{tool.name}: not JSON: {exc.msg} at {place}") from None
    except (ValueError, RecursionError) as exc:
        raise BadCommand(f"/{tool.name}: not JSON: {exc}") from None
    return dict(value) if is_object(value) else None


class _Reading:
    """One line that is being read."""

    def __init__(self, tool: Tool, line: str) -> None:
        self.arguments: dict[str, JsonValue] = {}
        self._tool: Tool = tool
        self._line: str = line.rstrip()
        self._schema: JsonObject = tool.schema
        self._required: Sequence[str] = self._schema.get("required", ())
        self._known: JsonObject = self._schema.get("properties", {})
        self._order: list[str] = order_of(self._schema)
        self._rest: str | None = self._takes_rest()

    def read(self) -> None:
        """Read the words of the line."""
        place = skip(self._line, 0)
        while place < len(self._line):
            key = key_at(self._line, place)
            if key is not None and key in self._known:
                place = self._take(key, place, is_named=True)
            else:
                place = self._take(self._next(place, key), place)
            place = skip(self._line, place)

    def fill(self, blocks: Sequence[str]) -> None:
        """Fill the texts that are missing with blocks of lines; complain of what is missing still."""
        missing = self.missing_texts()
        if len(blocks) > len(missing):
            what = (
                f"needs no more than {' and '.join(missing)}" if missing else "needs no more text"
            )
            raise BadCommand(f"/{self._tool.name} {what}; {len(blocks)} blocks of lines follow it")
        for name, block in zip(missing, blocks, strict=False):
            self.arguments[name] = block + ("\n" if name in _FILE_TEXTS and block else "")
        left = [name for name in self._required if name not in self.arguments]
        if left:
            raise BadCommand(f"/{self._tool.name}: missing {', '.join(left)}; {self._usage()}")

    def missing_texts(self) -> list[str]:
        """Return the required texts that are not there yet."""
        needed = [name for name in self._order if name in self._required]
        left = [name for name in needed if name not in self.arguments]
        return [name for name in left if self._is_text(name) and not self._is_path(name)]

    # Words

    def _next(self, place: int, key: str | None) -> str:
        """Return the argument that the next word is for."""
        near = nearest(key, self._known) if key else []
        left = [name for name in self._order if name not in self.arguments]
        if near and left[:1] != [self._rest]:
            raise BadCommand(
                f"/{self._tool.name} has no argument {key!r}; did you mean {' or '.join(near)}?"
            )
        if left:
            return left[0]
        last = self._order[-1:]
        if last and is_list(self.arguments[last[0]]):  # a list takes all the words that come
            return last[0]
        extra = self._line[place:]
        raise BadCommand(f"/{self._tool.name}: {extra!r} is too much; {self._usage()}")

    def _take(self, name: str, place: int, *, is_named: bool = False) -> int:
        """Read the word for an argument, and give where it ends."""
        is_quoted = self._line[place] in QUOTES and self._tool.kind is not ToolKind.EXECUTE
        if name == self._rest and not is_named and not is_quoted:
            self.arguments[name] = self._line[place:]
            return len(self._line)
        try:
            word = word_at(self._line, place)
        except Unclosed as exc:
            raise BadCommand(f"/{self._tool.name}: {exc}") from None
        text = word.text if is_named or word.key is None else f"{word.key}={word.text}"
        value = self._value(name, text)
        known = self.arguments.get(name)
        if is_list(known) and is_list(value):
            value = [*known, *value]
        elif name in self.arguments:
            raise BadCommand(f"/{self._tool.name}: {name} is given twice")
        self.arguments[name] = value
        return word.end

    def _value(self, name: str, text: str) -> JsonValue:
        wanted = property_of(self._schema, name)
        value = value_of(text, wanted, self._schema)
        is_one = isinstance(value, str) and not accepts(value, wanted, self._schema)
        return [value] if is_one and accepts([], wanted, self._schema) else value

    # What the schema says

    def _takes_rest(self) -> str | None:
        """Return the argument that takes the rest of the line: a text that is not a path, the last one
        that is required or the only one, if no further text may follow it.
        """
        needed = [name for name in self._order if name in self._required]
        needed = self._order if len(self._order) == 1 else needed
        if not needed or not self._is_text(needed[-1]) or self._is_path(needed[-1]):
            return None
        follows = self._order[len(needed) : len(needed) + 1]
        return None if follows and self._is_text(follows[0]) else needed[-1]

    def _is_text(self, name: str) -> bool:
        return accepts("", property_of(self._schema, name), self._schema)

    def _is_path(self, name: str) -> bool:
        return any(path.name == name for path in self._tool.paths)

    def _usage(self) -> str:
        return f"it is /{self._tool.name} {usage_of(self._tool)}".rstrip()
