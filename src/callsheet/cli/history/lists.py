"""The lists of calls and of sessions: tables on a terminal, lines with tabs into a pipe, JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias, TypeVar

import click
import msgspec
from msgspec.structs import asdict

from callsheet.cli.history import lookup
from callsheet.cli.options import format_option, history_option, limit_option, who_option
from callsheet.cli.output import Page, Part, TableColumn, visible, write
from callsheet.history import Head, Query, Store, StoredSession
from callsheet.history.amounts import ago, utc_time
from callsheet.history.figures import Used
from callsheet.history.rows import FACTS, Origin
from callsheet.report.humanize import duration_text
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

WIDER = 100
"""Columns from which there is room to say who, too."""

LONGEST_WHO = 20
"""Characters of who it was that a table shows."""

# What a line with tabs has, by the names in JSON.
_CALL_FIELDS = ("id", "session", "at", "status", "reason", "durationMs", "tool", "title")
_SESSION_FIELDS = ("id", "updatedAt", "calls", "cwd", "title")

_T = TypeVar("_T")

ListedSession: TypeAlias = tuple[StoredSession, Used | None]
"""A session, and what its turns have used, if it had any."""


Listed = tuple[Head, Origin, str]
"""A call, who made it, and in which directory."""

# For machines


def call_object(listed: Listed) -> JsonObject:
    """Return what `--format json` has of a call. What is not known of who made it is null."""
    head, origin, cwd = listed
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
        "cwd": cwd,
        **origin.facts(),
    }


def session_object(listed: ListedSession) -> JsonObject:
    """Return what `--format json` has of a session. What it has used is null if nothing is known of that."""
    session, used = listed
    return {
        "id": session.session_id,
        "title": session.title,
        "cwd": session.cwd,
        "calls": session.calls,
        "createdAt": utc_time(session.created_at),
        "updatedAt": utc_time(session.updated_at),
        "usage": usage_object(used) if used is not None else None,
        **session.origin.facts(),
    }


def usage_object(used: Used) -> JsonObject:
    """Return tokens and costs for machines; null is what was not reported."""
    return {
        "turnsWithTokens": used.counted,
        "inputTokens": used.input_tokens,
        "outputTokens": used.output_tokens,
        "cachedReadTokens": used.cached_read_tokens,
        "cachedWriteTokens": used.cached_write_tokens,
        "totalTokens": used.total_tokens,
        "costs": [asdict(cost) for cost in used.costs],
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
    history: str | None,
    query: Query,
    session: str | None,
    limit: int | None,
    *,
    as_json: bool,
    who: bool,
) -> None:
    """List calls, with `who` also who made them. No limit means `FEW`, and 0 means all."""
    empty = None if session is not None else "[]" if as_json else ""
    with lookup.opened(history, empty=empty) as store:
        wanted = lookup.with_session(store, query, session)
        found = _write_list(
            lookup.with_origins(store, lookup.all_heads(store, wanted), lambda head: head),
            call_object,
            (*_CALL_FIELDS, *(FACTS if who else ())),
            CallTable(who),
            limit=limit,
            as_json=as_json,
        )
        if not found and not as_json:
            report_nothing(store, wanted)


class WhoColumns:
    """The columns that say who: those that differ among the first that are shown, where there is room.

    Args:
        is_wanted: Whether both are shown in any case.
    """

    def __init__(self, is_wanted: bool) -> None:
        self._is_wanted: bool = is_wanted
        self._shown: tuple[int, ...] = ()

    def choose(self, origins: Sequence[Origin], width: int) -> None:
        """Choose the columns of a table by its first rows."""
        texts = [self._texts(one) for one in origins]
        differ = [place for place in (0, 1) if len({text[place] for text in texts}) > 1]
        self._shown = (0, 1) if self._is_wanted else tuple(differ if width >= WIDER else ())

    @staticmethod
    def _texts(origin: Origin) -> tuple[str, str]:
        user = "@".join(filter(None, (origin.user, origin.host)))
        return visible(user) or "unknown", visible(origin.agent_name) or "unknown"

    @property
    def columns(self) -> list[TableColumn]:
        """The columns."""
        return [TableColumn(("USER", "AGENT")[place]) for place in self._shown]

    def cells(self, origin: Origin) -> list[str]:
        """Return the cells of a row."""
        texts = self._texts(origin)
        return [texts[place][:LONGEST_WHO] for place in self._shown]


class CallTable:
    """Shows calls as a table, a row for each, with less of each where a terminal is narrow.

    Args:
        who: Whether it says who made them, also if that is the same for all.
    """

    def __init__(self, who: bool = False) -> None:
        self._who: WhoColumns = WhoColumns(who)

    def __call__(self, page: Page, calls: Sequence[Listed], header: bool = True) -> None:
        """Show some calls: the first ones with the header."""
        from callsheet.cli.cards.card import COLOURS, mark

        now, is_wide = time.time(), page.width >= WIDE
        if header:
            self._who.choose([origin for _, origin, _ in calls], page.width)
        columns = [
            TableColumn(),
            TableColumn("CALL", fills=True),
            TableColumn("END"),
            *self._who.columns,
            TableColumn("ID"),
        ]
        if is_wide:
            columns[1:1] = TableColumn("WHEN", "dim"), TableColumn("TOOL", "cyan")
            columns.insert(5, TableColumn("TOOK", "dim", right=True))
        rows: list[list[str | Part]] = []
        for head, origin, _ in calls:
            colour = COLOURS[ToolCallStatus(head.status)]
            row: list[str | Part] = [
                (mark(head.status), f"bold {colour}"),
                visible(head.title or head.name),
                (end_of(head), colour),
                *self._who.cells(origin),
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
        return duration_text(max(0.0, now - head.at) * 1000)
    return "" if head.duration_ms is None else duration_text(head.duration_ms)


def short_id(key: str) -> str:
    """Return the end of a long id."""
    return key if len(key) <= SHORT_ID + 4 else key[-SHORT_ID:]


# Sessions


@click.command("sessions")
@limit_option("50")
@format_option(
    "table json", "table: for people, and lines with tabs into a pipe. json: for machines."
)
@who_option
@history_option
def sessions(limit: int | None, format_: str | None, who: bool | None, history: str | None) -> None:
    """List the sessions, the one that was used last first."""
    as_json = format_ == "json"
    with lookup.opened(history, empty="[]" if as_json else "") as store:
        found = _write_list(
            _with_usage(store),
            session_object,
            (*_SESSION_FIELDS, *(FACTS if who else ())),
            SessionTable(bool(who)),
            limit=limit,
            as_json=as_json,
        )
        if not found and not as_json:
            click.echo(f"callsheet: there is no session in {store.url} yet. {HOW}", err=True)


def _with_usage(store: Store) -> Iterator[ListedSession]:
    found = lookup.all_sessions(store)
    while some := list(islice(found, lookup.PAGE)):
        used = store.used_in(one.session_id for one in some)
        yield from ((one, used.get(one.session_id)) for one in some)


class SessionTable:
    """Shows sessions as a table. On a narrow terminal, their ids are shortened.

    Args:
        who: Whether it says whose they are, also if that is the same for all.
    """

    def __init__(self, who: bool) -> None:
        self._who: WhoColumns = WhoColumns(who)

    def __call__(self, page: Page, found: Sequence[ListedSession], header: bool) -> None:
        """Show some sessions: the first ones with the header."""
        if header:
            self._who.choose([one.origin for one, _ in found], page.width)
        columns = (
            TableColumn("USED", "dim"),
            TableColumn("CALLS", right=True),
            TableColumn("SESSION"),
            *self._who.columns,
            TableColumn("IN", fills=True),
            TableColumn("COST", right=True),
        )
        rows: list[list[str]] = []
        for one, used in found:
            name = " · ".join(visible(text) for text in (one.title, one.cwd) if text)
            key = visible(one.session_id if page.width >= WIDE else short_id(one.session_id))
            cost = " + ".join(map(str, used.costs)) if used is not None else ""
            when, who = ago(one.updated_at, time.time()), self._who.cells(one.origin)
            rows.append([when, f"{one.calls:,}", key, *who, name, visible(cost)])
        page.table(columns, rows, header=header)
