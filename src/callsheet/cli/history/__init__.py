"""`callsheet history`: the stored calls, listed, counted, exported and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from callsheet.cli.history import export, lists, prune, stats
from callsheet.cli.options import filters, format_option, history_option, limit_option

if TYPE_CHECKING:
    from callsheet.history import Query


@click.group(
    "history",
    invoke_without_command=True,
    subcommand_metavar="[COMMAND]",
)
@filters
@limit_option("50", "How many calls")
@format_option(
    "table json", "table: for people, and lines with tabs into a pipe. json: for machines."
)
@history_option
@click.pass_context
def command(
    ctx: click.Context,
    query: Query,
    session: str | None,
    limit: int | None,
    format_: str | None,
    history: str | None,
) -> None:
    """List the stored calls, the newest first.

    An ID of the list is the end of the whole one; `callsheet show ID` takes both. --status takes ACP's
    statuses, open, and reasons: denied, cancelled, timeout, exit_code, tool_error, exception, abandoned.

    \b
      callsheet history --status failed --since 2h
      callsheet history --search 'connection refused' --tool bash
    """
    name = ctx.invoked_subcommand
    if name is None:
        lists.show_calls(history, query, session, limit, as_json=format_ == "json")
    elif any(value is not None for value in ctx.params.values()):
        # The subcommand would not see them.
        raise click.UsageError(f"options go after {name}: callsheet history {name} …")


for _subcommand in (
    lists.sessions,
    stats.stats,
    export.export,
    prune.prune,
    prune.vacuum,
    prune.forget,
):
    command.add_command(_subcommand)
