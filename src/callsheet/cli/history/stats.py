"""`callsheet history stats`: how many calls there are, how long they took, and what was used and paid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import click
from msgspec.structs import asdict

from callsheet.cli.history.lists import json_text, report_nothing, usage_object
from callsheet.cli.history.lookup import opened, with_session
from callsheet.cli.options import filters, format_option, history_option
from callsheet.cli.output import Page, TableColumn, visible, write
from callsheet.history import Query, Stats, ToolStats
from callsheet.history.amounts import local_time, utc_time
from callsheet.history.figures import BY, By, Used, unfit
from callsheet.report.humanize import bytes_text, duration_text, plural
from callsheet.report.json import JsonObject


@click.command("stats", short_help="Count calls, failures, durations and bytes.")
@click.option(
    "--by",
    type=click.Choice(BY),
    help="Count calls, turns, tokens and costs for each of these instead. A day is one of UTC.",
)
@filters
@format_option("table json", "table: for people. json: for machines.")
@history_option
def stats(
    query: Query, session: str | None, format_: str | None, history: str | None, by: str | None
) -> None:
    """Count calls, failures, durations and bytes, for each tool and in all; or what was used, by whom.

    \b
      callsheet history stats --by agent --since 7d

    Costs are what agents report, else estimates from tokens and prices, marked with ≈.
    """
    as_json = format_ == "json"
    if by is not None and (wrong := unfit(query)):
        raise click.UsageError(
            f"--by {by} counts whole turns, which have no {', '.join(wrong)}: choose with --session, "
            "--since, --until and --filter user:, host:, agent:, client:, source:, session: or workspace:"
        )
    with opened(history, empty=("[]" if by else None) if as_json else "") as store:
        wanted = with_session(store, query, session)
        if by is not None:
            used = store.used_by(cast("By", by), wanted)
            if as_json:
                write(json_text([used_object(one) for one in used]))
            elif not used:
                report_nothing(store, wanted)
            else:
                _show_used(Page(), by, used)
            return
        found = store.stats(wanted)
        if as_json:
            write(json_text(stats_object(found, store.url)))
        elif not found.calls:
            report_nothing(store, wanted)
        else:
            page = Page()
            page.facts(_overview(found, store.url))
            page.line()
            _show_tools(page, found.tools)


_NAMES = {
    "name": "tool",
    "size": "bytes",
    "stored": "storedBytes",
    "file_bytes": "fileBytes",
    "p50": "p50Ms",
    "p95": "p95Ms",
}


def stats_object(stats: Stats, url: str) -> JsonObject:
    """Return what `--format json` has."""
    return {
        "url": url,
        **_renamed(stats),
        "savedBytes": max(0, stats.size - stats.stored),
        "oldest": None if stats.oldest is None else utc_time(stats.oldest),
        "newest": None if stats.newest is None else utc_time(stats.newest),
        "tools": [_renamed(tool) for tool in stats.tools],
    }


def _renamed(figures: Stats | ToolStats) -> JsonObject:
    return {_NAMES.get(name, name): value for name, value in asdict(figures).items()}


def _overview(stats: Stats, url: str) -> Iterator[tuple[str, str]]:
    ends = [f"{stats.failed:,} ({stats.failed / stats.calls:.0%}) failed"] if stats.failed else []
    ends += [f"{stats.open:,} open"] if stats.open else []
    yield "store", f"{url}, {bytes_text(stats.file_bytes)}"
    yield "calls", ", ".join([f"{stats.calls:,}", *ends])
    yield "sessions", f"{stats.sessions:,}, with {plural(stats.messages, 'message')}"
    if stats.oldest is not None and stats.newest is not None:
        yield "made", f"{local_time(stats.oldest)} to {local_time(stats.newest)}"


def _show_tools(page: Page, tools: Sequence[ToolStats]) -> None:
    names = ("CALLS", "FAILED", "MEDIAN", "P95", "SIZE")
    columns = [TableColumn("TOOL", "cyan", fills=True)]
    columns += [TableColumn(name, "red" if name == "FAILED" else "", right=True) for name in names]
    rows: list[list[str]] = []
    for tool in tools:
        took = ["" if ms is None else duration_text(ms) for ms in (tool.p50, tool.p95)]
        failed = f"{tool.failed:,}" if tool.failed else ""
        name = visible(tool.name) or "(none)"
        rows.append([name, f"{tool.calls:,}", failed, *took, bytes_text(tool.size)])
    page.table(columns, rows)


# What was used

NOT_REPORTED = "not reported"


def used_object(used: Used) -> JsonObject:
    """Return what `--format json` has of what somebody has used; null is what was not reported."""
    return {
        "name": used.name or None,
        "calls": used.calls,
        "failed": used.failed,
        "turns": used.turns,
        **usage_object(used),
    }


def _show_used(page: Page, by: str, found: Sequence[Used]) -> None:
    names = ("CALLS", "FAILED", "TURNS", "INPUT", "OUTPUT", "COST")
    columns = [TableColumn(by.upper(), "cyan", fills=True)]
    columns += [TableColumn(name, "red" if name == "FAILED" else "", right=True) for name in names]
    page.table(columns, [_used_row(one) for one in found])
    partly = [one for one in found if 0 < one.counted < one.turns]
    notes = ["* Not all of the turns have reported it."] if partly or _is_partly_paid(found) else []
    if any(cost.estimated for one in found for cost in one.costs):
        from callsheet.telemetry.prices import prices_in_use

        notes.append(
            f"≈ Estimated, as agents report no cost. Prices now: {prices_in_use() or 'none installed'}."
        )
    elif any(one.counted and not one.costs for one in found):
        from callsheet.telemetry.prices import INSTALL, load

        if load() is None:
            notes.append(f"Costs can be estimated from now on: {INSTALL}")
    for note in notes:
        page.line((note, "dim"))


def _used_row(used: Used) -> list[str]:
    def tokens(count: int | None) -> str:
        if count is None:
            return NOT_REPORTED if used.turns else ""
        return f"{count:,}{'*' if used.counted < used.turns else ''}"

    costs = " + ".join(map(str, used.costs)) or (NOT_REPORTED if used.turns else "")
    star = "*" if _is_partly_paid([used]) else ""
    return [
        visible(used.name) or "(unknown)",
        f"{used.calls:,}",
        f"{used.failed:,}" if used.failed else "",
        f"{used.turns:,}" if used.turns else "",
        tokens(used.input_tokens),
        tokens(used.output_tokens),
        visible(costs) + star,
    ]


def _is_partly_paid(found: Sequence[Used]) -> bool:
    return any(one.costs and sum(cost.turns for cost in one.costs) < one.turns for one in found)
