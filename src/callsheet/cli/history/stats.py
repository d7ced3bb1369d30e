"""`callsheet history stats`: how many calls there are, how long they took, how much room they take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click
from msgspec.structs import asdict

from callsheet.cli.amounts import local_time, utc_time
from callsheet.cli.history.lists import json_text, report_nothing
from callsheet.cli.history.lookup import opened, with_session
from callsheet.cli.options import filters, format_option, history_option
from callsheet.cli.output import Page, TableColumn, visible, write
from callsheet.history import Query, Stats, ToolStats
from callsheet.report.humanize import bytes_text, plural, short_duration
from callsheet.report.json import JsonObject


@click.command("stats", short_help="Count calls, failures, durations and bytes.")
@filters
@format_option("table json", "table: for people. json: for machines.")
@history_option
def stats(query: Query, session: str | None, format_: str | None, history: str | None) -> None:
    """Count calls, failures, durations and bytes, for each tool and in all."""
    as_json = format_ == "json"
    with opened(history, empty=None if as_json else "") as store:
        wanted = with_session(store, query, session)
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
    names = ("CALLS", "FAILED", "P50", "P95", "JSON")
    columns = [TableColumn("TOOL", "cyan", fills=True)]
    columns += [TableColumn(name, "red" if name == "FAILED" else "", right=True) for name in names]
    rows: list[list[str]] = []
    for tool in tools:
        took = ["" if ms is None else short_duration(ms) for ms in (tool.p50, tool.p95)]
        failed = f"{tool.failed:,}" if tool.failed else ""
        name = visible(tool.name) or "(none)"
        rows.append([name, f"{tool.calls:,}", failed, *took, bytes_text(tool.size)])
    page.table(columns, rows)
