"""How the store is doing, in figures."""

from __future__ import annotations

from collections.abc import Iterator

import click

from callsheet.cli.cards.words import bytes_text, visible
from callsheet.history import Query, Stats, Store, ToolStats
from callsheet.report.json import JsonObject

from .finding import calls_text
from .listing import say_nothing, with_session
from .machines import json_text
from .opening import Nothing, run
from .screen import has_colours, write
from .words import local_time, took_text, utc_time


def show_stats(url: str | None, query: Query, session: str | None, *, as_json: bool) -> int:
    """Show the figures, and give the exit code."""

    async def work(store: Store) -> int:
        found = await store.stats(await with_session(store, query, session))
        if as_json:
            write(json_text(as_object(found, store.url)))
            return 0
        if not found.calls:
            await say_nothing(store, query)
            return 0
        colours = has_colours()
        for line in (*_overview(found, store.url), "", *_tools(found.tools)):
            click.echo(line, color=colours)
        return 0

    try:
        return run(url, work)
    except Nothing as exc:
        if as_json:
            raise
        click.echo(f"callsheet: {exc.message}", err=True)
        return 0


def as_object(stats: Stats, url: str) -> JsonObject:
    """Return what `--format json` says."""
    return {
        "url": url,
        "calls": stats.calls,
        "failed": stats.failed,
        "open": stats.open,
        "sessions": stats.sessions,
        "messages": stats.messages,
        "indexed": stats.indexed,
        "bytes": stats.size,
        "storedBytes": stats.stored,
        "savedBytes": max(0, stats.size - stats.stored),
        "fileBytes": stats.file_bytes,
        "oldest": None if stats.oldest is None else utc_time(stats.oldest),
        "newest": None if stats.newest is None else utc_time(stats.newest),
        "tools": [
            {
                "tool": tool.name,
                "calls": tool.calls,
                "failed": tool.failed,
                "cancelled": tool.cancelled,
                "open": tool.open,
                "p50Ms": tool.p50,
                "p95Ms": tool.p95,
                "bytes": tool.size,
            }
            for tool in stats.tools
        ],
    }


def _overview(stats: Stats, url: str) -> Iterator[str]:
    def fact(name: str, text: str) -> str:
        return f"{click.style(name.ljust(12), dim=True)}{text}"

    failed = _failed(stats.failed, stats.calls)
    ends = [f"{failed} failed"] if stats.failed else []
    ends += [f"{stats.open:,} open"] if stats.open else []
    yield fact("store", f"{visible(url)}, {bytes_text(stats.file_bytes)}")
    yield fact("calls", ", ".join([f"{stats.calls:,}", *ends]))
    said = "1 message" if stats.messages == 1 else f"{stats.messages:,} messages"
    yield fact("sessions", f"{stats.sessions:,}, with {said}")
    if stats.oldest is not None and stats.newest is not None:
        yield fact("made", f"{local_time(stats.oldest)} to {local_time(stats.newest)}")
    yield fact("compressed", _saved(stats))
    yield fact("indexed", f"{calls_text(stats.indexed)} for the search")


def _saved(stats: Stats) -> str:
    if stats.stored >= stats.size:
        return f"{bytes_text(stats.size)} of JSON"
    share = 1 - stats.stored / stats.size
    return (
        f"{bytes_text(stats.size)} of JSON into {bytes_text(stats.stored)}: "
        f"{bytes_text(stats.size - stats.stored)} saved, {share:.0%}"
    )


def _tools(tools: list[ToolStats]) -> Iterator[str]:
    names = {tool.name: _short(visible(tool.name) or "(none)") for tool in tools}
    wide = max(4, *map(len, names.values()))
    heading = f"{'TOOL':{wide}}  {'CALLS':>7}  {'FAILED':>7}  {'P50':>7}  {'P95':>7}  {'JSON':>7}"
    yield click.style(heading, dim=True)
    for tool in tools:
        failed = f"{tool.failed:,}".rjust(7) if tool.failed else " " * 7
        yield (
            f"{click.style(names[tool.name].ljust(wide), fg='cyan')}  {tool.calls:>7,}  "
            f"{click.style(failed, fg='red')}  {_took(tool.p50):>7}  {_took(tool.p95):>7}  "
            f"{bytes_text(tool.size):>7}"
        )


def _short(name: str, most: int = 32) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _failed(count: int, of: int) -> str:
    return f"{count:,} ({count / of:.0%})"


def _took(milliseconds: float | None) -> str:
    return "" if milliseconds is None else took_text(milliseconds)
