"""`callsheet tools`: which tools there are, and what they take."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from callsheet.cli.call import load_tools, tool_named
from callsheet.cli.options import completing, format_option, mcp_option, tools_option
from callsheet.cli.output import Page, Part, TableColumn, write_json
from callsheet.report.json import JsonObject, is_list, is_object
from callsheet.tools.arguments import expected
from callsheet.tools.builtin import BUILTIN
from callsheet.tools.tool import Registry, Tool

if TYPE_CHECKING:
    from callsheet.tools.mcp import McpServer


@click.command()
@click.argument(
    "name", metavar="[TOOL]", required=False, shell_complete=completing(lambda: BUILTIN)
)
@format_option("text json", "text: for people. json: with the whole input schemas.", "text")
@tools_option
@mcp_option
def command(
    name: str | None, format_: str, tools_file: str | None, servers: tuple[McpServer, ...]
) -> int:
    """List the tools, what they do and their arguments.

    With TOOL, show everything about that one. Exits with 1 if an MCP server can't be used.
    """
    tools, registry = load_tools(tools_file)
    is_well = True
    if servers:
        registry, is_well = asyncio.run(_with_servers(tools, servers))
    found = list(registry) if name is None else [tool_named(name, registry)]
    if format_ == "json":
        data = [to_dict(tool) for tool in found]
        write_json(data if name is None else data[0])
    elif name is None:
        show_list(Page(), found)
    else:
        options = ["--tools", tools_file] if tools_file else []
        for server in servers:
            started = server.url or shlex.join([server.command or "", *server.args])
            options += ["--mcp", f"{server.name}={started}"]
        show_tool(Page(), found[0], options)
    return 0 if is_well else 1


async def _with_servers(
    tools: Sequence[Tool], servers: Sequence[McpServer]
) -> tuple[Registry, bool]:
    """Return the tools of MCP servers beside the others, and whether all servers could be used."""
    from callsheet.cli.run_tool import connected
    from callsheet.tools.session import Session

    async with Session(tools=tools, mcp_servers=servers) as session:
        return session.tools, await connected(session)


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
    rows: list[tuple[Part, Part, Part, str]] = []
    for tool in tools:
        mark = ("reads", "green") if tool.read_only else ("writes", "yellow")
        names = [name if is_needed else f"{name}?" for name, _, is_needed in arguments_of(tool)]
        about = (
            f"{tool.description.strip().split(chr(10))[0]}\n{', '.join(names) or 'no arguments'}"
        )
        rows.append(((tool.name, "bold"), (str(tool.kind or "other"), "cyan"), mark, about))
    columns = (*[TableColumn()] * 3, TableColumn(wraps=True))
    page.table(columns, rows, header=False)
    page.line()
    page.line(("? marks optional arguments. More about one: callsheet tools NAME", "dim"))


def show_tool(page: Page, tool: Tool, options: Sequence[str] = ()) -> None:
    """Write all that is known of a tool. `options` are those that `callsheet call` needs to find it."""
    facts = [str(tool.kind or "other"), "only reads" if tool.read_only else "writes"]
    facts.append(f"permission: {permission_of(tool)}")
    if tool.timeout is not None:
        facts.append(f"timeout: {tool.timeout:g} s")
    page.line((tool.name, "bold"), (f"  {' · '.join(facts)}", "dim"))
    page.line()
    # Paragraphs are wrapped anew; what is set in lines of its own, such as a list, stays so.
    page.line((re.sub(r"(?<!\n)\n(?![\s*-])", " ", tool.description.strip()), ""))
    page.line()
    rows: list[tuple[Part, str]] = []
    for name, schema, is_needed in arguments_of(tool):
        # That an argument may be null only means that it is optional.
        wanted = "an object" if "$ref" in schema else expected(schema).replace(" or null", "")
        if is_needed:
            wanted += ", required"
        elif schema.get("default") is not None:
            wanted += f", default {json.dumps(schema['default'], ensure_ascii=False)}"
        about = " ".join(str(schema.get("description", "")).split())
        rows.append(((name, "cyan"), "\n".join(filter(None, (wanted, about)))))
    if rows:
        page.table((TableColumn(), TableColumn(wraps=True)), rows, header=False)
        page.line()
    page.line((usage(tool, options), ""), wrap=False)


def usage(tool: Tool, options: Sequence[str] = ()) -> str:
    """Return a command line that calls a tool with what it needs."""
    needed = [f"{name}={name.upper()}" for name, _, is_needed in arguments_of(tool) if is_needed]
    return shlex.join(["callsheet", "call", tool.name, *needed, *options])


def arguments_of(tool: Tool) -> list[tuple[str, JsonObject, bool]]:
    """Return what a tool takes: names, schemas, and whether each is required."""
    properties, required = tool.schema.get("properties"), tool.schema.get("required")
    return [
        (name, schema if is_object(schema) else {}, is_list(required) and name in required)
        for name, schema in (properties if is_object(properties) else {}).items()
    ]
