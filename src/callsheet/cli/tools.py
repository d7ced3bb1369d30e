"""`callsheet tools`: which tools there are, and what they take."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from typing import NamedTuple

import click

from callsheet.cli.call import own_tools, registry_of, tool_named
from callsheet.cli.options import format_option, tools_option
from callsheet.cli.output import Page
from callsheet.report.json import JsonObject, is_list, is_object
from callsheet.tools.arguments import expected
from callsheet.tools.tool import Tool


@click.command(context_settings={"max_content_width": 100})
@click.argument("name", metavar="[TOOL]", required=False)
@format_option("text json", "text: for people. json: with the whole input schemas.", "text")
@tools_option
def command(name: str | None, format_: str, tools_file: str | None) -> int:
    """List the tools: what they do and what they take.

    With a TOOL, show all that is known of that one.
    """
    registry = registry_of(own_tools(tools_file))
    found = list(registry) if name is None else [tool_named(name, registry)]
    if format_ == "json":
        data = [to_dict(tool) for tool in found]
        indent = 2 if sys.stdout.isatty() else None
        answer = data if name is None else data[0]
        click.echo(json.dumps(answer, ensure_ascii=False, indent=indent))
    elif name is None:
        show_list(Page(), found)
    else:
        show_tool(Page(), found[0], tools_file)
    return 0


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
    """Return whether an agent's user is asked before a tool runs: `ask`, `never`, or it `depends`."""
    if callable(tool.permission):
        return "depends"
    return "ask" if tool.needs_permission({}) else "never"


# As text


def show_list(page: Page, tools: Sequence[Tool]) -> None:
    """Write each tool in a few lines: its name, kind and description, and what it takes."""
    names = max((len(tool.name) for tool in tools), default=0) + 2
    kinds = max((len(str(tool.kind or "other")) for tool in tools), default=0) + 2
    for tool in tools:
        mark, colour = ("reads ", "green") if tool.read_only else ("writes", "yellow")
        page.line(
            (tool.name.ljust(names), "bold"),
            (str(tool.kind or "other").ljust(kinds), "cyan"),
            (mark, colour),
            (f"  {tool.description.strip().split(chr(10))[0]}", ""),
            hang=names + kinds + len(mark) + 2,
        )
        arguments = [one.name if one.required else f"{one.name}?" for one in arguments_of(tool)]
        page.line((", ".join(arguments) or "no arguments", "dim"), indent=2)
    page.blank()
    page.line(("? marks what may be left out. One in full: callsheet tools NAME", "dim"))


def show_tool(page: Page, tool: Tool, file: str | None = None) -> None:
    """Write all that is known of a tool."""
    facts = [str(tool.kind or "other"), "only reads" if tool.read_only else "writes"]
    facts.append(f"permission: {permission_of(tool)}")
    if tool.timeout is not None:
        facts.append(f"timeout: {tool.timeout:g} s")
    page.line((tool.name, "bold"))
    page.line((" · ".join(facts), "dim"))
    for paragraph in tool.description.strip().split("\n\n"):
        page.blank()
        lines = paragraph.split("\n")
        # What is set in lines of its own, such as a list, stays so; other text is wrapped anew.
        is_list_ = any(line[:1] in (" ", "-", "*", "\t") for line in lines)
        for line in lines if is_list_ else [" ".join(lines)]:
            page.line((line, ""))
    arguments = arguments_of(tool)
    if arguments:
        page.blank()
        page.line(("Arguments", "bold"))
    for one in arguments:
        need = f"default {one.default}" if one.default else "required" if one.required else ""
        page.line(
            (one.name, "cyan"),
            (f"  {', '.join(filter(None, (one.wanted, need)))}", "dim"),
            indent=2,
        )
        if one.description:
            page.line((one.description, ""), indent=6)
    page.blank()
    page.line(("Usage", "bold"))
    page.verbatim(f"  {usage(tool, file)}")


def usage(tool: Tool, file: str | None = None) -> str:
    """Return a command line that calls a tool with what it needs."""
    needed = [f"{one.name}={one.name.upper()}" for one in arguments_of(tool) if one.required]
    words = ["callsheet", "call", tool.name, *needed]
    return " ".join(words + (["--tools", shlex.quote(file)] if file else []))


# Arguments


class Argument(NamedTuple):
    """One argument of a tool, in words."""

    name: str
    wanted: str
    required: bool
    default: str
    description: str


def arguments_of(tool: Tool) -> list[Argument]:
    """Return what a tool takes."""
    properties, required = tool.schema.get("properties"), tool.schema.get("required")
    found: list[Argument] = []
    for name, given in (properties if is_object(properties) else {}).items():
        schema = given if is_object(given) else {}
        default = schema.get("default")
        found.append(
            Argument(
                name,
                expected(_without_null(_resolved(schema, tool.schema))),
                is_list(required) and name in required,
                "" if default is None else json.dumps(default, ensure_ascii=False),
                " ".join(str(schema.get("description", "")).split()),
            )
        )
    return found


def _resolved(schema: JsonObject, root: JsonObject) -> JsonObject:
    reference, known = schema.get("$ref"), root.get("$defs")
    if isinstance(reference, str) and is_object(known):
        found = known.get(reference.removeprefix("#/$defs/"))
        return found if is_object(found) else {}
    return schema


def _without_null(schema: JsonObject) -> JsonObject:
    """Return a schema without null, which only means that the argument is optional."""
    options = schema.get("anyOf")
    if is_list(options):
        others = [one for one in options if not (is_object(one) and one.get("type") == "null")]
        if len(others) == 1 and is_object(others[0]):
            return {**schema, **others[0], "anyOf": None}
    kinds = schema.get("type")
    if is_list(kinds) and "null" in kinds and len(kinds) > 1:
        return {**schema, "type": [kind for kind in kinds if kind != "null"]}
    return schema
