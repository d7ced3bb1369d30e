"""Calls for machines: JSON, lines with tabs between the fields, and CSV; and their export."""

from __future__ import annotations

import csv
import sys
from collections.abc import AsyncIterator, Sequence
from io import StringIO
from typing import Any

import click
import msgspec

from callsheet.cli.amounts import utc_time
from callsheet.cli.history.lookup import Trouble, head_pages, run, whole_calls, with_session
from callsheet.cli.output import replacing, visible
from callsheet.history import Head, Query, Store, StoredCall, StoredSession
from callsheet.history.codec import as_json_bytes
from callsheet.report.humanize import plural
from callsheet.report.json import JsonObject, JsonValue

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a cell begins that a spreadsheet takes for a formula."""


# JSON


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


# Lines with tabs


def call_fields(head: Head) -> str:
    """Return a call as a line: id, session, time, status, reason, milliseconds, tool, title."""
    took = "" if head.duration_ms is None else f"{head.duration_ms:.0f}"
    end = (head.status, head.reason or "", took)
    return _tabbed(head.call_id, head.session_id, utc_time(head.at), *end, head.name, head.title)


def session_fields(session: StoredSession) -> str:
    """Return a session as a line: id, time of its last use, number of calls, directory, title."""
    used = utc_time(session.updated_at)
    return _tabbed(session.session_id, used, str(session.calls), session.cwd, session.title)


def _tabbed(*fields: str) -> str:
    return "\t".join(map(visible, fields))


# Export


def export_calls(
    url: str | None,
    query: Query,
    session: str | None,
    limit: int | None,
    *,
    as_csv: bool,
    output: str | None,
) -> int:
    """Write calls out, and return the exit code."""

    async def work(store: Store) -> int:
        wanted = await with_session(store, query, session)
        lines = (_csv_lines if as_csv else _json_lines)(store, wanted, limit)
        written = 0
        if output is None or output == "-":
            async for line in lines:
                sys.stdout.write(line)
            return 0
        try:
            with replacing(output) as file:
                async for line in lines:
                    file.write(line.encode())
                    written += 1
        except OSError as exc:
            raise Trouble(f"{output} can't be written: {exc.strerror or exc}") from None
        click.echo(f"callsheet: {plural(written - as_csv, 'call')} in {output}", err=True)
        return 0

    return run(url, work, empty=None if output is not None or session is not None else "")


async def _json_lines(store: Store, query: Query, limit: int | None) -> AsyncIterator[str]:
    async for call in whole_calls(store, query, limit):
        yield json_text(whole_object(call)) + "\n"


async def _csv_lines(store: Store, query: Query, limit: int | None) -> AsyncIterator[str]:
    columns = [
        "id",
        "session",
        "tool",
        "title",
        "kind",
        "status",
        "reason",
        "at",
        "durationMs",
        "bytes",
    ]
    yield _csv_line(columns)
    async for page in head_pages(store, query, limit):
        for head in page:
            row = call_object(head)
            yield _csv_line([_cell(row[name]) for name in columns])


def _csv_line(cells: Sequence[str]) -> str:
    line = StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()


def _cell(value: JsonValue) -> str:
    """Return a cell that no program takes for a formula."""
    if not isinstance(value, str):
        return "" if value is None else f"{value}"
    text = value.replace("\0", "\ufffd")
    return f"'{text}" if text.startswith(_FORMULA) else text
