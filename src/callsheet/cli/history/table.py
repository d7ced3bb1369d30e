"""The lists of calls and of sessions: tables on a terminal, lines with tabs into a pipe, JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from callsheet.cli.amounts import ago
from callsheet.cli.history.formats import (
    call_fields,
    call_object,
    json_text,
    session_fields,
    session_object,
)
from callsheet.cli.history.lookup import all_sessions, head_pages, run, with_session
from callsheet.cli.options import format_option, history_option, limit_option
from callsheet.cli.output import (
    console_for,
    home,
    is_terminal,
    new_table,
    path_text,
    visible,
    write,
)
from callsheet.history import Head, Query, Store, StoredSession
from callsheet.report.humanize import short_duration
from callsheet.report.status import Reason, ToolCallStatus

if TYPE_CHECKING:
    from rich.table import Table

HOW = "Calls get there by `callsheet call`, `callsheet agent`, and sessions with a `SessionLog`."
FEW = 50
"""Calls or sessions that are listed by default."""

SHORT_ID = 8
"""Characters of an id that a table shows: its last ones, for ids begin with the time."""

WIDE = 110
"""Columns from which there is room for the session."""

# Columns of a terminal from which there is room for a column of the table.
_ROOM = {"END": 46, "WHEN": 56, "TOOL": 68, "TOOK": 76}


# Calls


def show_calls(
    url: str | None, query: Query, session: str | None, limit: int | None, *, as_json: bool
) -> int:
    """List calls, and return the exit code. No limit means `FEW`, and 0 means all."""
    most = FEW if limit is None else limit or None

    def work(store: Store) -> int:
        wanted = with_session(store, query, session)
        shown = 0
        for page in head_pages(store, wanted, most):
            if as_json:
                begin = ",\n " if shown else "["
                sys.stdout.write(begin + ",\n ".join(json_text(call_object(one)) for one in page))
            elif is_terminal():
                console = console_for()
                console.print(call_table(page, console.width, time.time(), header=not shown))
            else:
                for head in page:
                    write(call_fields(head))
            shown += len(page)
        if as_json:
            write("]" if shown else "[]")
        elif not shown:
            report_nothing(store, wanted)
        if shown == most and (limit is None or is_terminal()):
            _report_more(store, wanted, shown)
        return 0

    return run(url, work, empty=None if session is not None else "[]" if as_json else "")


def _report_more(store: Store, query: Query, shown: int) -> None:
    total = store.count(query)
    if total > shown:
        sys.stdout.flush()
        text = f"These are the newest {shown:,} of {total:,}; --limit 0 gives all."
        click.echo(f"callsheet: {text}", err=True)


def report_nothing(store: Store, query: Query) -> None:
    """Report on stderr why there is nothing to show."""
    if store.heads(Query(limit=1)):
        in_time = " in that time" if query.since is not None or query.until is not None else ""
        text = f"no call is like that{in_time}; `callsheet history` lists all"
    else:
        text = f"there is no call in {store.url} yet. {HOW}"
    click.echo(f"callsheet: {text}", err=True)


def call_table(heads: Sequence[Head], width: int, now: float, *, header: bool = True) -> Table:
    """Return calls as a table, a row for each. Where a terminal is narrow, columns are left out.

    Args:
        heads: The calls.
        width: Columns of the terminal.
        now: The time, in seconds since 1970.
        header: Whether the columns are named.
    """
    from rich.text import Text

    from callsheet.cli.cards.card import COLOURS, mark

    ids = short_ids([head.call_id for head in heads])
    sessions = short_ids([head.session_id for head in heads])
    names = [
        name for name in ("WHEN", "TOOL", "CALL", "END", "TOOK") if width >= _ROOM.get(name, 0)
    ]
    names += ["ID", *(["SESSION"] if len(sessions) > 1 and width >= WIDE else [])]
    table = new_table(width, show_header=header)
    table.add_column("", width=1)
    for name in names:
        table.add_column(
            name,
            ratio=1 if name == "CALL" else None,
            max_width=16 if name == "TOOL" else None,
            no_wrap=True,
            overflow="ellipsis",
            justify="right" if name == "TOOK" else "left",
            style={"TOOL": "cyan", "CALL": "", "END": "", "ID": ""}.get(name, "dim"),
        )
    for head in heads:
        colour = COLOURS[ToolCallStatus(head.status)]
        cells = {
            "WHEN": Text(ago(head.at, now)),
            "TOOL": Text(visible(head.name)),
            "CALL": Text(visible(head.title or head.name)),
            "END": Text(end_of(head), colour),
            "TOOK": Text(_took(head, now)),
            "ID": Text(visible(ids[head.call_id])),
            "SESSION": Text(visible(sessions[head.session_id])),
        }
        row = (cells[name] for name in names)
        table.add_row(Text(mark(head.status), f"bold {colour}"), *row)
    return table


def end_of(head: Head) -> str:
    """Return in a word or two how a call ended, or its status."""
    if head.is_open:
        return {"in_progress": "running"}.get(head.status, head.status)
    if head.status == "completed":
        return ""
    reason = head.reason or head.status
    return "timed out" if reason == Reason.TIMEOUT else reason.replace("_", " ")


def _took(head: Head, now: float) -> str:
    if head.is_open:
        return short_duration(max(0.0, now - head.at) * 1000)
    return "" if head.duration_ms is None else short_duration(head.duration_ms)


def short_ids(keys: Sequence[str]) -> dict[str, str]:
    """Return the ends of ids, as long as it takes to distinguish them."""
    known = set(keys)
    for size in range(SHORT_ID, 40):
        found = {key: key if len(key) <= size + 4 else key[-size:] for key in known}
        if len(set(found.values())) == len(known):
            return found
    return {key: key for key in known}


# Sessions


@click.command("sessions")
@limit_option("50")
@format_option(
    "table json", "table: for people, and lines with tabs into a pipe. json: for machines."
)
@history_option
def sessions(limit: int | None, format_: str | None, url: str | None) -> int:
    """List the sessions, the one that was used last first."""
    as_json = format_ == "json"
    most = FEW + 1 if limit is None else limit or None

    def work(store: Store) -> int:
        found = list(all_sessions(store, most))
        if is_cut := limit is None and len(found) > FEW:
            found.pop()
        if as_json:
            lines = ",\n ".join(json_text(session_object(one)) for one in found)
            write(f"[{lines}]")
        elif not found:
            click.echo(f"callsheet: there is no session in {store.url} yet. {HOW}", err=True)
        elif is_terminal():
            _show_sessions(found)
        else:
            for one in found:
                write(session_fields(one))
        if is_cut:
            sys.stdout.flush()
            text = f"these {FEW} were used last; there are more: --limit 0 gives all"
            click.echo(f"callsheet: {text}", err=True)
        return 0

    return run(url, work, empty="[]" if as_json else "")


def _show_sessions(found: list[StoredSession]) -> None:
    from rich.text import Text

    console, now = console_for(), time.time()
    ids = {one.session_id: one.session_id for one in found}
    if console.width < WIDE:
        ids = short_ids(list(ids))
    table = new_table(console.width)
    table.add_column("USED", style="dim", no_wrap=True)
    table.add_column("CALLS", justify="right", no_wrap=True)
    table.add_column("SESSION", no_wrap=True)
    table.add_column("IN", no_wrap=True, overflow="ellipsis", ratio=1, min_width=12)
    for one in found:
        where = (one.title, path_text(one.cwd, "", home()))
        name = Text(" · ".join(visible(text) for text in where if text))
        key = Text(visible(ids[one.session_id]))
        table.add_row(ago(one.updated_at, now), f"{one.calls:,}", key, name)
    console.print(table)
