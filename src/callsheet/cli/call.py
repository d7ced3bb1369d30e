"""`callsheet call`: runs one tool and shows what it does."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import click

from callsheet.cli.options import (
    completing,
    format_option,
    history_option,
    hosts_option,
    locale_option,
    mcp_option,
    protocol_option,
    tools_option,
    usage_errors,
)
from callsheet.report.json import JsonObject, JsonValue, is_object
from callsheet.tools.arguments import parse_json, value_of
from callsheet.tools.builtin import BUILTIN
from callsheet.tools.tool import Registry, Tool
from callsheet.tools.user_code import tools_in

if TYPE_CHECKING:
    from callsheet.cli.run_tool import Format
    from callsheet.tools.mcp import McpServer


@click.command()
@click.argument("name", metavar="TOOL", shell_complete=completing(lambda: BUILTIN))
@click.argument("pairs", metavar="[KEY=VALUE]...", nargs=-1)
@click.option(
    "--json",
    "json_text",
    metavar="{…}",
    help="Arguments as a JSON object; - reads them from stdin.",
)
@format_option(
    "pretty acp result",
    "pretty: for people. acp: the session/update lines. result: the ToolResult as JSON.",
    "pretty",
)
@protocol_option("The version of ACP for --format acp.")
@locale_option
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False),
    default=".",
    help="The directory to work in. Paths outside it are refused.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Seconds after which the tool is stopped.",
)
@hosts_option
@tools_option
@mcp_option
@history_option
def command(
    name: str,
    pairs: tuple[str, ...],
    json_text: str | None,
    format_: str,
    protocol: str,
    locale: str | None,
    cwd: str,
    timeout: float | None,
    hosts: tuple[str, ...],
    tools_file: str | None,
    servers: tuple[McpServer, ...],
    history: str | None,
) -> int:
    """Run one tool and show what it does.

    A VALUE is read as JSON where the tool expects it (limit=5, ignore_case=true, env='{"A":"1"}'), else as
    text. KEY=VALUE overrides --json. `callsheet tools` lists the tools and their arguments.

    Nothing is asked: what you type is allowed, inside --cwd. Secrets are redacted in what is shown;
    --format result prints exactly what the tool returned.

    \b
    Exit codes: 0 ok, 1 the tool failed (or was stopped because its output was closed),
    2 bad usage, 130 interrupted.
    """
    tools, registry = load_tools(tools_file)
    request = CallRequest(name, pairs, json_arguments(json_text))
    if not servers:  # mistakes are answered before anything is started
        request.resolve(registry)

    # Imported here, so that --help and mistakes are answered without them.
    from callsheet.cli.run_tool import CallPlan, run
    from callsheet.cli.settings import use_rules

    where = str(Path(cwd).absolute())
    with usage_errors():
        use_rules(where)
    return run(
        CallPlan(
            request=request,
            tools=tools,
            servers=servers,
            format=cast("Format", format_),
            protocol=int(protocol),
            locale=locale,
            cwd=where,
            timeout=timeout,
            history=history,
            hosts=hosts,
        )
    )


class CallRequest(NamedTuple):
    """A call as it is typed. What its arguments mean depends on the tool, which a server may have."""

    name: str
    pairs: tuple[str, ...]
    given: JsonObject

    def resolve(self, registry: Registry) -> tuple[Tool, JsonObject]:
        """Return the tool and its arguments, or refuse what is wrong as bad usage."""
        tool = tool_named(self.name, registry)
        arguments = arguments_from(self.pairs, self.given, tool.schema)
        with usage_errors():
            tool.convert(arguments)
        return tool, arguments


# Tools, which `callsheet tools` lists


def load_tools(file: str | None) -> tuple[list[Tool], Registry]:
    """Return the tools that a Python file makes with `@tool`, and these beside the built-in ones."""
    with usage_errors("--tools: "):
        tools = [] if file is None else tools_in(file)
        return tools, Registry(tools)


def tool_named(name: str, registry: Registry) -> Tool:
    """Return a tool, or refuse its name and suggest one that is near."""
    found = registry.get(name)
    if found is None:
        near = registry.nearest(name)
        known = ", ".join(registry.names())
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {known}"
        raise click.UsageError(f"there is no tool {name!r}; {hint}")
    return found


# Arguments


def arguments_from(
    pairs: Iterable[str], given: JsonObject, schema: JsonObject | None
) -> dict[str, JsonValue]:
    """Return a tool's arguments; those of `key=value` win over those of `--json`."""
    found: dict[str, JsonValue] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{pair!r} is not an argument; expected key=value")
        if key in found:
            raise click.UsageError(f"{key} is given twice")
        found[key] = value_of(text, key, schema or {})
    return {**given, **found}


def json_arguments(text: str | None) -> dict[str, JsonValue]:
    """Return the arguments of `--json`, which may be on stdin."""
    if text is None:
        return {}
    try:
        value = parse_json(sys.stdin.read() if text == "-" else text)
    except (ValueError, RecursionError) as exc:
        raise click.UsageError(f"--json: not JSON: {exc}") from None
    if not is_object(value):
        raise click.UsageError(
            "--json: expected an object of arguments such as "
            f'{{"path": "a.py"}}, got {type(value).__name__}'
        )
    return dict(value)
