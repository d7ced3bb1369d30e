"""Which tools the command line knows: the built-in ones, and those of the user's own file."""

from __future__ import annotations

import click

from callsheet.report.errors import CallsheetError
from callsheet.tools.tool import Registry, Tool
from callsheet.tools.user_code import BadFile, tools_in


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
    """Return a tool, or say which name may have been meant."""
    found = registry.get(name)
    if found is None:
        near = registry.nearest(name)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {_names(registry)}"
        raise click.UsageError(f"there is no tool {name!r}; {hint}")
    return found


def _names(registry: Registry) -> str:
    return ", ".join(registry.names())
