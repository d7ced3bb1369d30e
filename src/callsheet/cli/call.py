"""`callsheet call`: runs one tool and shows what it does."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from callsheet.cli.options import (
    format_option,
    locale_option,
    protocol_option,
    record_history_option,
    tools_option,
)
from callsheet.report.errors import CallsheetError
from callsheet.report.json import JsonObject, JsonValue, is_object
from callsheet.tools.arguments import parse_json, value_of
from callsheet.tools.tool import Registry, Tool
from callsheet.tools.user_code import BadFile, tools_in

if TYPE_CHECKING:
    from callsheet.cli.run_tool import Format


@click.command(context_settings={"max_content_width": 100})
@click.argument("name", metavar="TOOL")
@click.argument("pairs", metavar="[KEY=VALUE]...", nargs=-1)
@click.option(
    "--json", "json_source", metavar="{…}", help="Arguments as a JSON object; @FILE or - reads it."
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
    help="The directory to work in. What is outside is refused.",
)
@click.option("--timeout", type=float, metavar="S", help="Seconds after which the tool is stopped.")
@tools_option
@record_history_option
def command(
    name: str,
    pairs: tuple[str, ...],
    json_source: str | None,
    format_: str,
    protocol: str,
    locale: str | None,
    cwd: str,
    timeout: float | None,
    tools_file: str | None,
    history: str | None,
) -> int:
    """Run one tool and show what it does.

    A VALUE is JSON where that is what the tool asks for (limit=5, ignore_case=true, env='{"A":"1"}'),
    else text. KEY=VALUE wins over --json. `callsheet tools` lists the tools and their arguments.

    You type it, so you permit it, inside of --cwd. What is shown has secrets taken out;
    --format result gives just what the tool gave.

    \b
    Exit codes: 0 ok, 1 the tool failed (or was stopped, because nobody reads its output any more),
    2 bad usage, 130 interrupted.
    """
    if timeout is not None and not (timeout > 0 and math.isfinite(timeout)):
        raise click.BadParameter(f"{timeout:g}: expected seconds above 0", param_hint="'--timeout'")
    tools = own_tools(tools_file)
    tool = tool_named(name, registry_of(tools))
    arguments = arguments_from(pairs, json_source, tool.schema)

    # Imported here, so that --help and mistakes are answered without them.
    from callsheet.cli.run_tool import CallPlan, run
    from callsheet.cli.settings import use_rules_or_exit

    if history is not None:
        _check_url(history)
    _check_arguments(tool, arguments)
    where = str(Path(cwd).absolute())
    use_rules_or_exit(where)
    form = cast("Format", format_)
    return run(
        CallPlan(tool, arguments, tools, form, int(protocol), locale, where, timeout, history)
    )


def _check_url(url: str) -> None:
    """Refuse a URL that was typed and names no store."""
    from callsheet.history.store_errors import BadUrl
    from callsheet.history.url import chosen_url

    try:
        chosen_url(url)
    except BadUrl as exc:
        raise click.BadParameter(str(exc), param_hint="'--history'") from None


def _check_arguments(tool: Tool, arguments: JsonObject) -> None:
    """Refuse arguments that the tool does not take, before anything runs."""
    try:
        tool.convert(arguments)
    except CallsheetError as exc:
        raise click.UsageError(str(exc)) from None


# Tools, which `callsheet tools` lists


def own_tools(file: str | None) -> list[Tool]:
    """Return the tools that a Python file makes with `@tool`."""
    if file is None:
        return []
    try:
        return tools_in(file)
    except BadFile as exc:
        raise click.UsageError(f"--tools: {exc}") from None


def registry_of(tools: list[Tool]) -> Registry:
    """Return the built-in tools and these."""
    try:
        return Registry(tools)
    except CallsheetError as exc:
        raise click.UsageError(f"--tools: {exc}") from None


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
    pairs: Iterable[str], json_source: str | None, schema: JsonObject | None
) -> dict[str, JsonValue]:
    """Return a tool's arguments; those of `key=value` win over those of `--json`."""
    return {**_from_json(json_source), **_from_pairs(pairs, schema or {})}


def _from_pairs(pairs: Iterable[str], schema: JsonObject) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{pair!r} is no argument; expected key=value")
        if key in found:
            raise click.UsageError(f"{key} is given twice")
        found[key] = value_of(text, key, schema)
    return found


def _from_json(json_source: str | None) -> dict[str, JsonValue]:
    if json_source is None:
        return {}
    text, where = _read(json_source)
    try:
        value = parse_json(text)
    except json.JSONDecodeError as exc:
        place = f"line {exc.lineno} column {exc.colno}"
        raise click.UsageError(f"{where}: not JSON: {exc.msg} at {place}") from None
    except (ValueError, RecursionError) as exc:
        raise click.UsageError(f"{where}: not JSON: {exc}") from None
    if not is_object(value):
        raise click.UsageError(
            f"{where}: expected an object of arguments such as "
            f'{{"path": "a.py"}}, got {type(value).__name__}'
        )
    return dict(value)


def _read(json_source: str) -> tuple[str, str]:
    """Return the text that is meant, and where it is from."""
    if json_source != "-" and not json_source.startswith("@"):
        return json_source, "--json"
    path = "stdin" if json_source == "-" else json_source[1:]
    try:
        raw = sys.stdin.buffer.read() if json_source == "-" else Path(path).read_bytes()
        return raw.decode("utf-8-sig"), f"--json {json_source}"
    except (OSError, ValueError) as exc:
        why = getattr(exc, "strerror", None) or "it is not UTF-8"
        raise click.UsageError(f"--json: {path} can't be read: {why}") from None
