"""`callsheet tools`: which tools there are, and what they take."""

from __future__ import annotations

import json
import os
import sys

import click

from .calls.telling import one_tool, table, to_dict
from .calls.toolbox import own_tools, registry_of, tool_named


@click.command(context_settings={"max_content_width": 100})
@click.argument("name", metavar="[TOOL]", required=False)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="text: for people. json: with the whole input schemas.",
)
@click.option("--tools", "file", metavar="FILE.py", help="A Python file with tools of your own.")
def command(name: str | None, format_: str, file: str | None) -> int:
    """List the tools: what they do and what they take.

    With a TOOL, show all that is known of that one.
    """
    registry = registry_of(own_tools(file))
    found = list(registry) if name is None else [tool_named(name, registry)]
    if format_ == "json":
        data = [to_dict(tool) for tool in found]
        indent = 2 if sys.stdout.isatty() else None
        answer = data if name is None else data[0]
        click.echo(json.dumps(answer, ensure_ascii=False, indent=indent))
        return 0
    lines = table(found, _width()) if name is None else one_tool(found[0], _width(), file)
    for line in lines:
        click.echo(line if _has_colours() else click.unstyle(line))
    return 0


def _width() -> int:
    """Return the width to write in: a terminal's, else a comfortable one."""
    if not sys.stdout.isatty():
        return 100
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
    except OSError:
        return 80
    return max(30, min(columns, 110))


def _has_colours() -> bool:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") in (None, "", "dumb")
    return sys.stdout.isatty() and not plain
