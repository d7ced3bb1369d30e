"""The lists of calls and of sessions: tables on a terminal, lines with tabs into a pipe, JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from callsheet.cli.amounts import ago, utc_time
from callsheet.cli.history import lookup
from callsheet.cli.options import format_option, history_option, limit_option
from callsheet.cli.output import (
    console_for,
    is_terminal,
    new_table,
    visible,
    write,
)
from callsheet.history import Head, Query, Store, StoredCall, StoredSession
from callsheet.history.codec import as_json_bytes
from callsheet.report.humanize import short_duration
from callsheet.report.json import JsonObject, JsonValue
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

# What a line with tabs has, by the names in JSON.
_CALL_FIELDS = ("id", "session", "at", "status", "reason", "durationMs", "tool", "title")
_SESSION_FIELDS = ("id", "updatedAt", "calls", "cwd", "title")

_T = TypeVar("_T")


# For machines


def call_object(head: Head) -> JsonObject:
    """Return what `--format json` has of a call."""
    return {
        "id": head.call_id,
        "session": head.session_id,
        "tool": head.name,
        "title": head.title,
        "kind": head.kind,
        "status": head.status,
        "reason": head.reason,
        "at": utc_time(head.at),
        "durationMs": head.duration_ms,
        "bytes": head.size,
    }


def whole_object(call: StoredCall, session: StoredSession | None = None) -> JsonObject:
    """Return a whole call: ACP's `tool_call`, where and when it was made, and its terminals' output."""
    body: dict[str, Any] = msgspec.json.decode(as_json_bytes(call.record))
    made = {"sessionId": call.head.session_id, "at": utc_time(call.head.at), **body["call"]}
    if session is not None:
        made["cwd"] = session.cwd
    if body.get("terminals"):
        made["terminals"] = body["terminals"]
    return made


def session_object(session: StoredSession) -> JsonObject:
    """Return what `--format json` has of a session."""
    return {
        "id": session.session_id,
        "title": session.title,
        "cwd": session.cwd,
        "calls": session.calls,
        "createdAt": utc_time(session.created_at),
        "updatedAt": utc_time(session.updated_at),
    }


def json_text(value: Any) -> str:
    """Return a value as one line of JSON."""
    return msgspec.json.encode(value).decode()


def _field(value: JsonValue) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if isinstance(value, float) else visible(f"{value}")


# For all


def _write_list(
    found: Iterator[_T],
    to_object: Callable[[_T], JsonObject],
    fields: Sequence[str],
    to_table: Callable[[Sequence[_T], int, bool], Table],
    *,
    limit: int | None,
    as_json: bool,
) -> int:
    """Write a list, page by page, and return how many there were. No limit means `FEW`, and 0 means all."""
    count = 0
    wanted = islice(found, FEW if limit is None else limit or None)
    while page := list(islice(wanted, lookup.PAGE)):
        if as_json:
            begin = ",\n " if count else "["
            sys.stdout.write(begin + ",\n ".join(json_text(to_object(one)) for one in page))
        elif is_terminal():
            console = console_for()
            console.print(to_table(page, console.width, not count))
        else:
            for row in map(to_object, page):
                write("\t".join(_field(row[name]) for name in fields))
        count += len(page)
    if as_json:
        write("]" if count else "[]")
    if limit is None and next(found, None) is not None:
        sys.stdout.flush()
        click.echo(f"callsheet: there are more than these {count}; --limit 0 lists all", err=True)
    return count


def report_nothing(store: Store, query: Query) -> None:
    """Report on stderr why there is nothing to show."""
    if store.heads(Query(limit=1)):
        in_time = " in that time" if query.since is not None or query.until is not None else ""
        text = f"no call is like that{in_time}; `callsheet history` lists all"
    else:
        text = f"there is no call in {store.url} yet. {HOW}"
    click.echo(f"callsheet: {text}", err=True)


# Calls


def show_calls(
    history: str | None, query: Query, session: str | None, limit: int | None, *, as_json: bool
) -> None:
    """List calls. No limit means `FEW`, and 0 means all."""
    empty = None if session is not None else "[]" if as_json else ""
    with lookup.opened(history, empty=empty) as store:
        wanted = lookup.with_session(store, query, session)
        found = _write_list(
            lookup.all_heads(store, wanted),
            call_object,
            _CALL_FIELDS,
            lambda heads, width, header: call_table(heads, width, time.time(), header=header),
            limit=limit,
            as_json=as_json,
        )
        if not found and not as_json:
            report_nothing(store, wanted)


def call_table(heads: Sequence[Head], width: int, now: float, *, header: bool = True) -> Table:
    """Return calls as a table, a row for each. Where a terminal is narrow, columns are left out.

    Args:
        heads: The calls.
        width: Columns of the terminal.
        now: The time, in seconds since 1970.
        header: Whether the columns are named.
    """
    from rich.table import Column
    from rich.text import Text

    from callsheet.cli.cards.card import COLOURS, mark

    ids = short_ids(head.call_id for head in heads)
    sessions = short_ids(head.session_id for head in heads)
    names = [
        name for name in ("WHEN", "TOOL", "CALL", "END", "TOOK") if width >= _ROOM.get(name, 0)
    ]
    names += ["ID", *(["SESSION"] if len(sessions) > 1 and width >= WIDE else [])]
    columns = [
        Column(
            name,
            ratio=1 if name == "CALL" else None,
            max_width=16 if name == "TOOL" else None,
            no_wrap=True,
            overflow="ellipsis",
            justify="right" if name == "TOOK" else "left",
            style={"TOOL": "cyan", "CALL": "", "END": "", "ID": ""}.get(name, "dim"),
        )
        for name in names
    ]
    table = new_table(Column("", width=1), *columns, expand=True, show_header=header)
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


def short_ids(keys: Iterable[str]) -> dict[str, str]:
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
def sessions(limit: int | None, format_: str | None, history: str | None) -> None:
    """List the sessions, the one that was used last first."""
    as_json = format_ == "json"
    with lookup.opened(history, empty="[]" if as_json else "") as store:
        found = _write_list(
            lookup.all_sessions(store),
            session_object,
            _SESSION_FIELDS,
            session_table,
            limit=limit,
            as_json=as_json,
        )
        if not found and not as_json:
            click.echo(f"callsheet: there is no session in {store.url} yet. {HOW}", err=True)


def session_table(found: Sequence[StoredSession], width: int, header: bool) -> Table:
    """Return sessions as a table. On a narrow terminal, their ids are shortened."""
    from rich.table import Column
    from rich.text import Text

    ids = {one.session_id: one.session_id for one in found}
    if width < WIDE:
        ids = short_ids(ids)
    table = new_table(
        Column("USED", style="dim", no_wrap=True),
        Column("CALLS", justify="right", no_wrap=True),
        Column("SESSION", no_wrap=True),
        Column("IN", no_wrap=True, overflow="ellipsis", ratio=1, min_width=12),
        expand=True,
        show_header=header,
    )
    for one in found:
        where = (one.title, one.cwd)
        name = Text(" · ".join(visible(text) for text in where if text))
        key = Text(visible(ids[one.session_id]))
        table.add_row(ago(one.updated_at, time.time()), f"{one.calls:,}", key, name)
    return table
