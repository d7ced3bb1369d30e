"""`callsheet agent`: the ACP agent on stdio."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

import click

from callsheet.agent.startup import PERMISSIONS, start
from callsheet.cli.options import (
    budget_option,
    history_option,
    hosts_option,
    locale_option,
    mcp_option,
    protocol_option,
    tools_option,
    usage_errors,
)
from callsheet.cli.settings import use_rules
from callsheet.cli.start import history_factory, list_as_running

if TYPE_CHECKING:
    from callsheet.telemetry.budget import CostBudget
    from callsheet.tools.mcp import McpServer
    from callsheet.tools.permissions import Mode


@click.command("agent")
@protocol_option("The newest version of ACP to speak. 2 is a draft.")
@click.option(
    "--permission",
    type=click.Choice(PERMISSIONS),
    default="ask",
    show_default=True,
    help="What happens to calls that change or run something. The editor can change it.",
)
@history_option
@locale_option
@tools_option
@mcp_option
@hosts_option
@budget_option
@click.option(
    "--handler", metavar="MODULE:CLASS", help="Your own handler, as MODULE:CLASS or FILE.py:CLASS."
)
@click.option(
    "--prompt", metavar="TEXT", help="Run one turn on this terminal, without an editor, and exit."
)
def command(
    protocol: str,
    permission: str,
    history: str | None,
    locale: str | None,
    tools_file: str | None,
    servers: tuple[McpServer, ...],
    hosts: tuple[str, ...],
    budget: CostBudget | None,
    handler: str | None,
    prompt: str | None,
) -> int:
    """Serve an editor that speaks ACP, on stdin and stdout.

    Without a model, it runs what is typed: /read README.md, /grep TODO src, !make test. /help lists more.
    """
    if prompt is not None:
        from callsheet.cli.prompt import play, without_prompt

        return play(prompt, without_prompt(sys.argv[2:]), int(protocol))
    with usage_errors():
        use_rules()
        factory = history_factory(history)
        list_as_running("agent", ("callsheet", *sys.argv[1:]), factory)
        return start(
            protocol=2 if protocol == "2" else 1,
            permission=cast("Mode", permission),
            locale=locale,
            tools=tools_file,
            handler=handler,
            mcp_servers=servers,
            private_hosts=hosts,
            history=factory,
            budget=budget,
            options=sys.argv[2:],
        )
