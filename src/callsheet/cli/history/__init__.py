"""`callsheet history`: the stored calls, listed, followed, counted, exported and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from callsheet.cli.options import age, filters, format_option, history_option, size

if TYPE_CHECKING:
    from callsheet.history import Query

_format = format_option(
    "table json", "table: for people, and lines with tabs into a pipe. json: for machines."
)


def _limit(default: str, noun: str = "How many") -> Any:
    return click.option(
        "--limit",
        type=click.IntRange(min=0),
        metavar="N",
        help=f"{noun}; 0 means all.  [default: {default}]",
    )


@click.group(
    "history",
    invoke_without_command=True,
    context_settings={"max_content_width": 100},
    subcommand_metavar="[COMMAND]",
)
@filters
@_limit("50; with --follow, 10", "How many calls")
@_format
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
    """List the stored calls, the newest first.

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
    query, as_json = query_of(which), format_ == "json"
    if follow:
        from callsheet.cli.history.follow import follow_calls

        return follow_calls(url, query, which["session"], limit, as_json=as_json)
    from callsheet.cli.history.table import show_calls

    return show_calls(url, query, which["session"], limit, as_json=as_json)


@command.command("sessions")
@_limit("50")
@_format
@history_option
@click.pass_context
def sessions(ctx: click.Context, **given: Any) -> int:
    """List the sessions, the one that was used last first."""
    given = merged(ctx, given)

    from callsheet.cli.history.table import show_sessions

    return show_sessions(given["url"], given["limit"], as_json=given["format_"] == "json")


@command.command("stats", short_help="Count calls, failures, durations and bytes.")
@filters
@_format
@history_option
@click.pass_context
def stats(ctx: click.Context, **given: Any) -> int:
    """Count calls, failures, durations and bytes, for each tool and in all."""
    given = merged(ctx, given)
    query = query_of(given)

    from callsheet.cli.history.stats import show_stats

    as_json = given["format_"] == "json"
    return show_stats(given["url"], query, given["session"], as_json=as_json)


@command.command("export")
@filters
@format_option(
    "jsonl csv",
    "jsonl: a line for each call, with all of it. csv: what a list shows of it.",
    "jsonl",
)
@click.option("-o", "--output", metavar="FILE", help="Where to; else stdout. It is replaced.")
@_limit("0")
@history_option
@click.pass_context
def export(ctx: click.Context, **given: Any) -> int:
    """Write calls out, the newest first."""
    given = merged(ctx, given)
    query = query_of(given)

    from callsheet.cli.history.formats import export_calls

    return export_calls(
        given["url"],
        query,
        given["session"],
        given["limit"] or None,
        as_csv=given["format_"] == "csv",
        output=given["output"],
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
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@history_option
@click.pass_context
def prune(ctx: click.Context, **given: Any) -> int:
    """Remove the oldest calls, with their spill files, and give the space back.

    Without a limit, those of the settings hold. Calls that run stay.
    """
    given = merged(ctx, given)

    from callsheet.cli.history.prune import prune as prune_calls

    return prune_calls(given)


@command.command("vacuum", short_help="Make the store as small as it can be.")
@history_option
@click.pass_context
def vacuum(ctx: click.Context, **given: Any) -> int:
    """Make the store as small as it can be."""
    given = merged(ctx, given)

    from callsheet.cli.history.prune import vacuum as vacuum_store

    return vacuum_store(given["url"])


@command.command("forget", short_help="Remove a session.")
@click.argument("session", metavar="SESSION")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@history_option
@click.pass_context
def forget(ctx: click.Context, session: str, **given: Any) -> int:
    """Remove a session, with all its messages and calls, and its spill files.

    SESSION is its id, its beginning or its end, if no other has the same, or last. You are asked before,
    unless --yes is given.
    """
    given = merged(ctx, given)

    from callsheet.cli.history.prune import forget as forget_session

    return forget_session(given["url"], session, is_sure=given["yes"])


def query_of(given: dict[str, Any]) -> Query:
    """Return the query that the filters ask for, without the session, which must be looked up first."""
    from callsheet.history import Query

    since, until, search = given.get("since"), given.get("until"), given.get("search")
    if since is not None and until is not None and since >= until:
        raise click.UsageError("--since is not before --until, so no call can be meant")
    if search is not None and not any(sign.isalnum() for sign in search):
        raise click.UsageError(f"--search {search!r}: there is no word in it")
    return Query(
        tool=given.get("tool"), status=given.get("status"), since=since, until=until, search=search
    )


def merged(ctx: click.Context, own: dict[str, Any]) -> dict[str, Any]:
    """Return a subcommand's options, completed by those that stand before its name.

    So `history --tool bash stats` is `history stats --tool bash`. One that the subcommand does not have is
    refused.
    """
    parent = ctx.parent
    if parent is None:
        return own
    for name, value in parent.params.items():
        source = parent.get_parameter_source(name)
        if source is None or source.name == "DEFAULT":
            continue
        if name not in own:
            option = next(one.opts[0] for one in parent.command.params if one.name == name)
            raise click.UsageError(f"{option} means nothing to {ctx.info_name}", ctx)
        if own[name] is None:
            own[name] = value
    return own
