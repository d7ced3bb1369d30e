"""`callsheet agent`: the ACP agent on stdio."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from callsheet.agent.startup import PERMISSIONS, start
from callsheet.cli.options import (
    history_option,
    locale_option,
    protocol_option,
    tools_option,
    usage_errors,
)
from callsheet.cli.settings import use_rules
from callsheet.cli.start import history_factory

if TYPE_CHECKING:
    from callsheet.tools.permissions import Mode


@click.command("agent")
@protocol_option("The newest version of ACP to speak. 2 is a draft.")
@click.option(
    "--permission",
    type=click.Choice(PERMISSIONS),
    default="ask",
    show_default=True,
    help="What happens to calls that change or run something. An editor can choose anew.",
)
@history_option
@locale_option
@tools_option
@click.option(
    "--handler", metavar="MODULE:CLASS", help="A handler of your own; FILE.py:CLASS is fine, too."
)
def command(
    protocol: str,
    permission: str,
    history: str | None,
    locale: str | None,
    tools_file: str | None,
    handler: str | None,
) -> int:
    """Serve an editor that speaks ACP, on stdin and stdout.

    Without a model, it runs what is typed: /read README.md, /grep TODO src, !make test. /help lists more.
    """
    with usage_errors():
        use_rules()
        return start(
            protocol=2 if protocol == "2" else 1,
            permission=cast("Mode", permission),
            locale=locale,
            tools=tools_file,
            handler=handler,
            history=history_factory(history),
        )
