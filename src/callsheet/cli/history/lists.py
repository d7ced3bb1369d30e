"""The lists of calls and of sessions: tables on a terminal, lines with tabs into a pipe, JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import click
import msgspec

from callsheet.cli.amounts import ago, utc_time
from callsheet.cli.history import lookup
from callsheet.cli.options import format_option, history_option, limit_option
from callsheet.cli.output import Page, Part, TableColumn, visible, write
from callsheet.history import Head, Query, Store, StoredCall, StoredSession
from callsheet.history.codec import as_json_bytes
from callsheet.report.humanize import short_duration
from callsheet.report.json import JsonObject, JsonValue
from callsheet.report.status import Reason, ToolCallStatus

HOW = "Calls get there by `callsheet call`, `callsheet agent`, and sessions with a `SessionLog`."
FEW = 50
"""Calls or sessions that are listed by default."""

LONGEST_NAME = 16
"""Characters of a tool's name that a table shows."""

SHORT_ID = 8
"""Characters of an id that a table shows: its last ones, for ids begin with the time."""

WIDE = 76
"""Columns of a terminal from which there is room for all columns of the table."""

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
    show: Callable[[Page, Sequence[_T], bool], None],
    *,
    limit: int | None,
    as_json: bool,
) -> int:
    """Write a list, page by page, and return how many there were. No limit means `FEW`, and 0 means all."""
    count = 0
    output = Page()
    wanted = islice(found, FEW if limit is None else limit or None)
    while page := list(islice(wanted, lookup.PAGE)):
        if as_json:
            begin = ",\n " if count else "["
            sys.stdout.write(begin + ",\n ".join(json_text(to_object(one)) for one in page))
        elif output.is_terminal:
            show(output, page, not count)
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
            show_table,
            limit=limit,
            as_json=as_json,
        )
        if not found and not as_json:
            report_nothing(store, wanted)


def show_table(page: Page, heads: Sequence[Head], header: bool = True) -> None:
    """Show calls as a table, a row for each, with less of each where a terminal is narrow."""
    from callsheet.cli.cards.card import COLOURS, mark

    now, is_wide = time.time(), page.width >= WIDE
    columns = [
        TableColumn(),
        TableColumn("CALL", fills=True),
        TableColumn("END"),
        TableColumn("ID"),
    ]
    if is_wide:
        columns[1:1] = TableColumn("WHEN", "dim"), TableColumn("TOOL", "cyan")
        columns.insert(5, TableColumn("TOOK", "dim", right=True))
    rows: list[list[str | Part]] = []
    for head in heads:
        colour = COLOURS[ToolCallStatus(head.status)]
        row: list[str | Part] = [
            (mark(head.status), f"bold {colour}"),
            visible(head.title or head.name),
            (end_of(head), colour),
            visible(short_id(head.call_id)),
        ]
        if is_wide:
            row[1:1] = ago(head.at, now), visible(head.name[:LONGEST_NAME])
            row.insert(5, _took(head, now))
        rows.append(row)
    page.table(columns, rows, header=header)


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


def short_id(key: str) -> str:
    """Return the end of a long id."""
    return key if len(key) <= SHORT_ID + 4 else key[-SHORT_ID:]


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
            show_session_table,
            limit=limit,
            as_json=as_json,
        )
        if not found and not as_json:
            click.echo(f"callsheet: there is no session in {store.url} yet. {HOW}", err=True)


def show_session_table(page: Page, found: Sequence[StoredSession], header: bool) -> None:
    """Show sessions as a table. On a narrow terminal, their ids are shortened."""
    columns = (
        TableColumn("USED", "dim"),
        TableColumn("CALLS", right=True),
        TableColumn("SESSION"),
        TableColumn("IN", fills=True),
    )
    rows: list[list[str]] = []
    for one in found:
        name = " · ".join(visible(text) for text in (one.title, one.cwd) if text)
        key = visible(one.session_id if page.width >= WIDE else short_id(one.session_id))
        rows.append([ago(one.updated_at, time.time()), f"{one.calls:,}", key, name])
    page.table(columns, rows, header=header)
