"""`callsheet history`: the calls that are kept, listed, counted, exported, removed."""

from __future__ import annotations

from typing import Any

import click

from .histories.options import age, filters, history_option, merged, query_of, size

_json_option = click.option(
    "--format",
    "format_",
    type=click.Choice(["table", "json"]),
    default=None,
    help="table: for people, and lines with tabs into a pipe. json: for machines.",
)


@click.group(
    "history",
    invoke_without_command=True,
    context_settings={"max_content_width": 100},
    subcommand_metavar="[COMMAND]",
)
@filters
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="How many calls; 0 means all.  [default: 50; with --follow, 10]",
)
@_json_option
@click.option("--follow", "-f", is_flag=True, help="Go on, and show what comes, until Ctrl-C.")
@history_option
@click.pass_context
def command(
    ctx: click.Context,
    limit: int | None,
    format_: str | None,
    follow: bool,
    url: str | None,
    **which: Any,
) -> int:
    """List the calls that are kept, the newest first.

    An ID of the list is the end of the whole one; `callsheet show ID` takes both. --status takes ACP's
    statuses, open, and reasons: denied, cancelled, timeout, exit_code, tool_error, exception, abandoned.

    \b
      callsheet history --status failed --since 2h
      callsheet history --search 'connection refused' --tool bash
      callsheet history --follow
    """
    if ctx.invoked_subcommand is not None:
        return 0
    if follow and which["until"] is not None:
        raise click.UsageError("--follow goes on, so --until means nothing to it")
    query = query_of(which)

    from .histories.listing import Listing, show_list

    most = (10 if follow else 50) if limit is None else limit or None
    wanted = Listing(query, which["session"], most, limit is None, format_ == "json", follow, url)
    return show_list(wanted)


@command.command("sessions")
@click.option(
    "--limit", type=click.IntRange(min=0), metavar="N", help="How many; 0 means all.  [50]"
)
@_json_option
@history_option
@click.pass_context
def sessions(ctx: click.Context, **given: Any) -> int:
    """List the sessions, the one that was used last first."""
    given = merged(ctx, given)

    from .histories.sessions import show_sessions

    as_json = given["format_"] == "json"
    return show_sessions(given["url"], given["limit"], as_json=as_json)


@command.command("stats", short_help="Count calls, failures, durations and bytes.")
@filters
@_json_option
@history_option
@click.pass_context
def stats(ctx: click.Context, **given: Any) -> int:
    """Count calls, failures, durations and bytes, for each tool and in all."""
    given = merged(ctx, given)
    query = query_of(given)

    from .histories.figures import show_stats

    as_json = given["format_"] == "json"
    return show_stats(given["url"], query, given["session"], as_json=as_json)


@command.command("export")
@filters
@click.option(
    "--format",
    "format_",
    type=click.Choice(["jsonl", "csv"]),
    default="jsonl",
    show_default=True,
    help="jsonl: a line for each call, with all of it. csv: what a list shows of it.",
)
@click.option("-o", "--output", metavar="FILE", help="Where to; else stdout. It is replaced.")
@click.option(
    "--limit", type=click.IntRange(min=0), metavar="N", help="How many; 0 means all.  [0]"
)
@history_option
@click.pass_context
def export(ctx: click.Context, **given: Any) -> int:
    """Write calls out, the newest first."""
    given = merged(ctx, given)
    query = query_of(given)

    from .histories.exporting import Export, write_out

    limit = given["limit"] or None
    return write_out(
        Export(query, given["session"], limit, given["format_"], given["output"], given["url"])
    )


@command.command("prune", short_help="Remove the oldest calls.")
@click.option("--older-than", callback=age, metavar="AGE", help="Remove calls of such an age: 30d.")
@click.option("--keep-calls", type=click.IntRange(min=0), metavar="N", help="Keep the newest N.")
@click.option("--max-size", callback=size, metavar="SIZE", help="Keep what takes that much: 500MB.")
@click.option(
    "--per-session-calls", type=click.IntRange(min=0), metavar="N", help="Keep N of each session."
)
@click.option(
    "--per-session-size", callback=size, metavar="SIZE", help="Keep that much of each session."
)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@history_option
@click.pass_context
def prune(ctx: click.Context, **given: Any) -> int:
    """Remove the oldest calls, with their spill files, and give the space back.

    Without a limit, those of the settings hold. Calls that run stay.
    """
    given = merged(ctx, given)

    from .histories.tidying import prune as prune_it

    return prune_it(given)


@command.command("vacuum", short_help="Make the store as small as it can be.")
@history_option
@click.pass_context
def vacuum(ctx: click.Context, **given: Any) -> int:
    """Make the store as small as it can be; learn to compress its calls better, if that is possible."""
    given = merged(ctx, given)

    from .histories.tidying import vacuum as vacuum_it

    return vacuum_it(given["url"])


@command.command("forget", short_help="Remove a session.")
@click.argument("session", metavar="SESSION")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@history_option
@click.pass_context
def forget(ctx: click.Context, session: str, **given: Any) -> int:
    """Remove a session, with all that was said and done in it, and its spill files.

    SESSION is its id, its beginning or its end, if no other has the same, or last. It is asked before, unless
    --yes is said.
    """
    given = merged(ctx, given)

    from .histories.tidying import forget as forget_it

    return forget_it(given["url"], session, is_sure=given["yes"])
