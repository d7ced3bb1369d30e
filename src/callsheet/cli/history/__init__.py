"""`callsheet history`: the stored calls, listed, counted, exported, imported and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from callsheet.cli.app import LazyGroup
from callsheet.cli.options import (
    filters,
    format_option,
    history_option,
    limit_option,
    who_option,
)

if TYPE_CHECKING:
    from callsheet.history import Query


COMMANDS = {
    "sessions": ("history.lists:sessions", "List the sessions, the one that was used last first."),
    "stats": ("history.stats:stats", "Count calls, failures, durations and bytes."),
    "export": ("history.export:export", "Write calls out, the newest first."),
    "import": ("history.importer:import_", "Store recordings of any agent."),
    "prune": ("history.prune:prune", "Remove the oldest calls."),
    "vacuum": ("history.prune:vacuum", "Make the store as small as it can be."),
    "forget": ("history.prune:forget", "Remove a session."),
}


@click.group(
    "history",
    cls=LazyGroup,
    lazy=COMMANDS,
    invoke_without_command=True,
    subcommand_metavar="[COMMAND]",
)
@filters
@limit_option("50", "How many calls")
@format_option(
    "table json", "table: for people, and lines with tabs into a pipe. json: for machines."
)
@who_option
@history_option
@click.pass_context
def command(
    ctx: click.Context,
    query: Query,
    session: str | None,
    limit: int | None,
    format_: str | None,
    who: bool | None,
    history: str | None,
) -> None:
    """List the stored calls, the newest first.

    An ID of the list is the end of the whole one; `callsheet show ID` takes both. --status takes ACP's
    statuses, open, and reasons: denied, cancelled, timeout, exit_code, tool_error, exception, abandoned.
    Who made them, and where, is a part of --filter: user, host, agent, client, workspace, and source (agent,
    tap, call, adapter or import).

    \b
      callsheet history --status failed --since 2h
      callsheet history --search 'connection refused' --tool bash
      callsheet history --filter 'tool:bash dur>2s -status:completed'
      callsheet history --filter 'user:ada source:tap' --who
    """
    name = ctx.invoked_subcommand
    if name is None:
        from callsheet.cli.history import lists

        lists.show_calls(history, query, session, limit, as_json=format_ == "json", who=bool(who))
    elif any(value is not None for value in ctx.params.values()):
        # The subcommand would not see them.
        raise click.UsageError(f"options go after {name}: callsheet history {name} …")
