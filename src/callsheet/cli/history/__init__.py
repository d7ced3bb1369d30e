"""`callsheet history`: the stored calls, listed, counted, exported and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from callsheet.cli.history import export, prune, stats, table
from callsheet.cli.options import filters, format_option, history_option, limit_option

if TYPE_CHECKING:
    from callsheet.history import Query


@click.group(
    "history",
    invoke_without_command=True,
    context_settings={"max_content_width": 100},
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
    url: str | None,
) -> int:
    """List the stored calls, the newest first.

    An ID of the list is the end of the whole one; `callsheet show ID` takes both. --status takes ACP's
    statuses, open, and reasons: denied, cancelled, timeout, exit_code, tool_error, exception, abandoned.

    \b
      callsheet history --status failed --since 2h
      callsheet history --search 'connection refused' --tool bash
    """
    if ctx.invoked_subcommand is not None:
        _refuse_options_before(ctx, ctx.invoked_subcommand)
        return 0
    return table.show_calls(url, query, session, limit, as_json=format_ == "json")


def _refuse_options_before(ctx: click.Context, name: str) -> None:
    """Refuse options that stand before a subcommand, which would not see them."""
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name or "")
        if source is not None and source.name != "DEFAULT":
            option = parameter.opts[0]
            raise click.UsageError(
                f"{option} stands before {name}; options go after it: "
                f"callsheet history {name} {option} …"
            )


for _subcommand in (
    table.sessions,
    stats.stats,
    export.export,
    prune.prune,
    prune.vacuum,
    prune.forget,
):
    command.add_command(_subcommand)
