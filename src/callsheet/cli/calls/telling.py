"""Tools in words: what each does, what it takes, and how it is called."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import NamedTuple

import click

from callsheet.report.json import JsonObject, JsonValue, is_list, is_object
from callsheet.tools.arguments import expected
from callsheet.tools.tool import Tool

_SAMPLES: dict[str, JsonValue] = {
    "path": "README.md",
    "pattern": "TODO",
    "command": "ls -l",
    "url": "https://example.com",
    "content": "Hello",
    "old_text": "before",
    "new_text": "after",
    "source": "old.txt",
    "destination": "new.txt",
    "thought": "First the tests",
}
_BY_TYPE: dict[str, JsonValue] = {
    "integer": 1,
    "number": 0.5,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}


_TYPES = {"string": "text", "array": "list"}
_FEW = 4
"""Choices that are all named."""


class Argument(NamedTuple):
    """One argument of a tool, as people are told of it."""

    name: str
    type: str
    wanted: str
    required: bool
    default: str
    description: str


def to_dict(tool: Tool) -> JsonObject:
    """Return a tool for machines."""
    return {
        "name": tool.name,
        "kind": str(tool.kind or "other"),
        "description": tool.description,
        "read_only": tool.read_only,
        "permission": permission_of(tool),
        "input_schema": tool.schema,
    }


def permission_of(tool: Tool) -> str:
    """Return whether an agent's user is asked before a tool runs: always, never, or it depends."""
    if callable(tool.permission):
        return "depends"
    return "ask" if tool.needs_permission({}) else "never"


def arguments_of(tool: Tool) -> list[Argument]:
    """Return what a tool takes."""
    properties = tool.schema.get("properties")
    required = tool.schema.get("required")
    needed = required if is_list(required) else []
    found: list[Argument] = []
    for name, given in (properties if is_object(properties) else {}).items():
        schema = given if is_object(given) else {}
        default = schema.get("default")
        said = "" if default is None else json.dumps(default, ensure_ascii=False)
        about = " ".join(str(schema.get("description", "")).split())
        schema = _without_null(_resolved(schema, tool.schema))
        kind, wanted = type_of(schema), expected(schema)
        found.append(Argument(name, kind, wanted, name in needed, said, about))
    return found


def type_of(schema: JsonObject) -> str:
    """Say in a word what a schema allows."""
    if is_list(some := schema.get("enum")):
        return "|".join(map(str, some)) if len(some) <= _FEW else "one of several"
    options = schema.get("anyOf") or schema.get("oneOf")
    if is_list(options):
        return "|".join(dict.fromkeys(type_of(one) for one in options if is_object(one)))
    kinds = schema.get("type", "any")
    return "|".join(_TYPES.get(str(kind), str(kind)) for kind in _as_list(kinds))


def table(tools: Iterable[Tool], width: int) -> Iterator[str]:
    """Return all tools in a few lines each."""
    known = list(tools)
    wide = max((len(tool.name) for tool in known), default=0) + 2
    kinds = max((len(str(tool.kind or "other")) for tool in known), default=0) + 2
    for tool in known:
        kind = str(tool.kind or "other").ljust(kinds)
        mark = "reads " if tool.read_only else "writes"
        first = tool.description.strip().split("\n")[0]
        before = wide + kinds + len(mark) + 2
        rows = wrap(first, max(20, width - before)) or [""]
        if width < before + 20:
            before, rows = 2, ["", *wrap(first, width - 2)]
        colour = "green" if tool.read_only else "yellow"
        head = click.style(tool.name.ljust(wide), bold=True)
        yield f"{head}{click.style(kind, fg='cyan')}{click.style(mark, fg=colour)}  {rows[0]}".rstrip()
        yield from (" " * before + row for row in rows[1:])
        takes = ", ".join(_short(argument) for argument in arguments_of(tool)) or "no arguments"
        for row in wrap(takes, width - 2, break_on_hyphens=False):
            yield click.style(f"  {row}", dim=True)
    yield ""
    for row in wrap("? marks what may be left out. One in full: callsheet tools NAME", width):
        yield click.style(row, dim=True)


def one_tool(tool: Tool, width: int, file: str | None = None) -> Iterator[str]:
    """Return all that is known of a tool."""
    mark = "only reads" if tool.read_only else "writes"
    facts = [str(tool.kind or "other"), mark, f"permission: {permission_of(tool)}"]
    if tool.timeout is not None:
        facts.append(f"timeout: {tool.timeout:g} s")
    yield click.style(tool.name, bold=True)
    for row in wrap(" · ".join(facts), width):
        yield click.style(row, dim=True)
    yield ""
    yield from _paragraphs(tool.description, width)
    arguments = arguments_of(tool)
    if arguments:
        yield ""
        yield click.style("Arguments", bold=True)
        for argument in arguments:
            yield from _in_full(argument, width)
    yield ""
    yield click.style("Example", bold=True)
    yield f"  {example(tool, file)}"


def example(tool: Tool, file: str | None = None) -> str:
    """Return a line that calls a tool with what it needs."""
    words = ["callsheet", "call", tool.name]
    properties = tool.schema.get("properties")
    for argument in arguments_of(tool):
        if argument.required and is_object(properties):
            sample = _sample(argument.name, properties[argument.name], tool.schema)
            text = sample if isinstance(sample, str) else json.dumps(sample, ensure_ascii=False)
            words.append(f"{argument.name}={shlex.quote(text)}")
    return " ".join(words + (["--tools", shlex.quote(file)] if file else []))


def _short(argument: Argument) -> str:
    mark = "" if argument.required else "?"
    return f"{argument.name}{mark}: {argument.type}"


def _in_full(argument: Argument, width: int) -> Iterator[str]:
    need = "required" if argument.required else ""
    need = f"default {argument.default}" if argument.default else need
    said = ", ".join(filter(None, (argument.wanted, need)))
    yield f"  {click.style(argument.name, fg='cyan')}  {click.style(said, dim=True)}"
    for row in wrap(argument.description, width - 6):
        yield f"      {row}"


def _paragraphs(text: str, width: int) -> Iterator[str]:
    """Break text anew for the width. What is set in lines of its own, such as a list, stays so."""
    for index, paragraph in enumerate(text.strip().split("\n\n")):
        if index:
            yield ""
        lines = paragraph.split("\n")
        if any(line[:1] in (" ", "-", "*", "\t") for line in lines):
            yield from lines
        else:
            yield from wrap(" ".join(lines), width)


def _sample(name: str, given: JsonValue, root: JsonObject) -> JsonValue:
    schema = _resolved(given, root) if is_object(given) else {}
    for key in ("examples", "enum"):
        if is_list(some := schema.get(key)) and some:
            return some[0]
    if "const" in schema:
        return schema["const"]
    options = schema.get("anyOf") or schema.get("oneOf")
    if is_list(options) and options:
        return _sample(name, options[0], root)
    kind = next(iter(_as_list(schema.get("type"))), None)
    return _BY_TYPE[kind] if kind in _BY_TYPE else _SAMPLES.get(name, "…")


def _resolved(schema: JsonObject, root: JsonObject) -> JsonObject:
    reference, known = schema.get("$ref"), root.get("$defs")
    if isinstance(reference, str) and is_object(known):
        found = known.get(reference.removeprefix("#/$defs/"))
        return found if is_object(found) else {}
    return schema


def _without_null(schema: JsonObject) -> JsonObject:
    """Return what may be said instead of leaving an argument out."""
    options = schema.get("anyOf")
    if is_list(options):
        others = [one for one in options if not (is_object(one) and one.get("type") == "null")]
        if len(others) == 1 and is_object(others[0]):
            return {**schema, **others[0], "anyOf": None}
    kinds = schema.get("type")
    if is_list(kinds) and "null" in kinds and len(kinds) > 1:
        return {**schema, "type": [kind for kind in kinds if kind != "null"]}
    return schema


def _as_list(value: JsonValue) -> list[JsonValue]:
    return list(value) if is_list(value) else [value]
