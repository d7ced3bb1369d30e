"""The lists of calls and of sessions: tables on a terminal, lines with tabs into a pipe, JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import click
from rich.cells import cell_len
from rich.text import Text

from callsheet.cli.amounts import ago, clock_time
from callsheet.cli.cards.card import cut_text
from callsheet.cli.cards.footer import end_text
from callsheet.cli.cards.style import COLOURS, Glyphs, glyphs_for
from callsheet.cli.history.formats import (
    call_fields,
    call_object,
    json_text,
    session_fields,
    session_object,
)
from callsheet.cli.history.lookup import all_sessions, head_pages, run, with_session
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
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

Key = tuple[str, str]
"""A call: its session and its id."""

HOW = "Calls get there by `callsheet call`, `callsheet agent`, and sessions with a `SessionLog`."
FEW = 50
"""Calls or sessions that are listed by default."""

SHORT_ID = 8
"""Characters of an id that a table shows: its last ones, for ids begin with the time."""

WIDE = 110
"""Columns from which there is room for the session."""

_COLOURS = {status.value: colour for status, colour in COLOURS.items()}
_ENOUGH, _SHORT, _LONG = 16, 60, 80
"""Columns of a title: with fewer, other columns go; so many for short ones; and the most."""


# Calls


def show_calls(
    url: str | None, query: Query, session: str | None, limit: int | None, *, as_json: bool
) -> int:
    """List calls, and return the exit code. No limit means `FEW`, and 0 means all."""
    most = FEW if limit is None else limit or None

    async def work(store: Store) -> int:
        wanted = await with_session(store, query, session)
        show = _as_json if as_json else _as_table if is_terminal() else _as_lines
        shown = await show(store, wanted, most)
        if not shown and not as_json:
            await report_nothing(store, wanted)
        if shown == most and (limit is None or is_terminal()):
            await _report_more(store, wanted, shown)
        return 0

    return run(url, work, empty=None if session is not None else "[]" if as_json else "")


async def _as_json(store: Store, query: Query, limit: int | None) -> int:
    shown = 0
    async for page in head_pages(store, query, limit):
        for head in page:
            sys.stdout.write((",\n " if shown else "[") + json_text(call_object(head)))
            shown += 1
    write("]" if shown else "[]")
    return shown


async def _as_lines(store: Store, query: Query, limit: int | None) -> int:
    shown = 0
    async for page in head_pages(store, query, limit):
        for head in page:
            write(call_fields(head))
        shown += len(page)
    return shown


async def _as_table(store: Store, query: Query, limit: int | None) -> int:
    console, calls, shown = console_for(), None, 0
    async for heads in head_pages(store, query, limit):
        if is_first := calls is None:
            keys = dict.fromkeys(head.session_id for head in heads)
            sessions = [found for key in keys if (found := await store.session(key)) is not None]
            calls = CallTable(heads, glyphs_for(console.encoding), sessions)
        reports = await exit_reports(store, heads)
        for part in calls.parts(heads, console.width, time.time(), reports, header=is_first):
            console.print(part)
        shown += len(heads)
    return shown


async def exit_reports(store: Store, heads: Sequence[Head]) -> dict[Key, ToolCallReport]:
    """Return the reports of the calls that ended by an exit code, which only the report has."""
    found: dict[Key, ToolCallReport] = {}
    for head in heads:
        if head.reason == Reason.EXIT_CODE:
            query = Query(session_id=head.session_id, call_id=head.call_id, limit=1)
            for call in await store.calls(query):
                found[key_of(head)] = call.record.report
    return found


async def _report_more(store: Store, query: Query, shown: int) -> None:
    """Report on stderr that there are more calls, if there are."""
    found = await store.count(query)
    if found > shown:
        sys.stdout.flush()
        text = f"These are the newest {shown:,} of {found:,}; --limit 0 gives all."
        click.echo(text if is_terminal() else f"callsheet: {text}", err=True)


async def report_nothing(store: Store, query: Query) -> None:
    """Report on stderr why nothing is listed."""
    if await store.heads(Query(limit=1)):
        in_time = " in that time" if query.since is not None or query.until is not None else ""
        text = f"no call is like that{in_time}; `callsheet history` lists all"
    else:
        text = f"there is no call in {store.url} yet. {HOW}"
    click.echo(f"callsheet: {text}", err=True)


def key_of(head: Head) -> Key:
    """Return which call it is."""
    return head.session_id, head.call_id


class CallTable:
    """Lays out calls. The first of them decide the columns, so that all further tables match.

    A call is one row, however long its title is. The title has what other columns leave; where that is
    little, other columns go, but for the id. Calls of several sessions that follow each other stand under
    the name of their session, or have it in a column of its own if there is room.
    """

    def __init__(
        self,
        sample: Sequence[Head],
        glyphs: Glyphs,
        sessions: Sequence[StoredSession] = (),
        *,
        live: bool = False,
    ) -> None:
        """A `live` table stays while time goes by, so it has times of the clock."""
        self._glyphs: Glyphs = glyphs
        self._is_live: bool = live
        self._sessions: dict[str, StoredSession] = {one.session_id: one for one in sessions}
        is_mixed = len({head.session_id for head in sample}) > 1
        runs = sum(1 for _ in groupby(sample, lambda head: head.session_id))
        self._is_grouped: bool = bool(sessions) and is_mixed and runs * 3 <= len(sample)
        self._ids: dict[str, str] = short_ids([head.call_id for head in sample])
        self._session_ids: dict[str, str] = short_ids([head.session_id for head in sample])
        self._widths: dict[str, int] = {
            "WHEN": 10,
            "TOOL": max((cell_len(visible(head.name)) for head in sample), default=4),
            "TOOK": 7,
            "ID": max(map(len, self._ids.values()), default=SHORT_ID),
        }
        if is_mixed and not self._is_grouped:
            self._widths["SESSION"] = max(map(len, self._session_ids.values()))
        title = max(map(_title_width, sample), default=0)
        self._widest_title: int = _LONG if live else min(_LONG, max(_SHORT, title))

    def parts(
        self,
        heads: Sequence[Head],
        width: int,
        now: float,
        reports: Mapping[Key, ToolCallReport],
        *,
        header: bool = False,
    ) -> Iterator[RenderableType]:
        """Yield tables, and where calls are grouped, the name of each session before its calls."""
        if not self._is_grouped:
            yield self.table(heads, width, now, reports, header=header)
            return
        if header:
            yield self.table([], width, now, header=True)
        for key, group in groupby(heads, lambda head: head.session_id):
            session = self._sessions.get(key)
            names = [self._session_ids.get(key, key)]
            names += [session.title, path_text(session.cwd, "", home())] if session else []
            text = self._glyphs.dot.join(visible(name) for name in names if name)
            yield Text(cut_text(text, width, self._glyphs), "bold")
            yield self.table(list(group), width, now, reports)

    def table(
        self,
        heads: Sequence[Head],
        width: int,
        now: float,
        reports: Mapping[Key, ToolCallReport] | None = None,
        *,
        header: bool = False,
        frame: int | None = None,
    ) -> Table:
        """Return calls as a table. With a `frame`, those that run have a spinner."""
        columns = self._columns(width)
        table = new_table(None)
        table.show_header = header
        table.add_column("", width=1, no_wrap=True)
        for name, size in columns.items():
            table.add_column(
                name,
                width=size,
                no_wrap=True,
                overflow="ellipsis" if self._glyphs.more == "…" else "crop",
                justify="right" if name == "TOOK" else "left",
                style={"TOOL": "cyan", "CALL": "", "ID": ""}.get(name, "dim"),
            )
        for head in heads:
            report = None if reports is None else reports.get(key_of(head))
            cells = {
                "WHEN": clock_time(head.at, now) if self._is_live else ago(head.at, now),
                "TOOL": Text(visible(head.name)),
                "CALL": self._title(head, end_of(head, report), columns["CALL"]),
                "TOOK": self._took(head, now),
                "ID": Text(visible(self._ids.get(head.call_id) or _short_id(head.call_id))),
                "SESSION": Text(visible(self._session_ids.get(head.session_id, head.session_id))),
            }
            table.add_row(self._mark(head, frame), *(cells[name] for name in columns))
        return table

    def _columns(self, width: int) -> dict[str, int]:
        """Return the columns that fit into a width, in order, and how wide each is."""
        sizes = dict(self._widths)
        sizes["TOOL"] = min(sizes["TOOL"], max(8, width // 7))
        if width < WIDE:
            sizes.pop("SESSION", None)

        def left() -> int:
            return width - 3 - sum(size + 2 for size in sizes.values())

        for name in ("TOOK", "TOOL", "WHEN"):
            if left() < _ENOUGH:
                del sizes[name]
        sizes["CALL"] = min(self._widest_title, max(1, left()))
        order = ("WHEN", "TOOL", "CALL", "TOOK", "ID", "SESSION")
        return {name: sizes[name] for name in order if name in sizes}

    def _mark(self, head: Head, frame: int | None) -> Text:
        glyphs = self._glyphs
        still = "●" if glyphs.more == "…" else "@"
        running = still if frame is None else glyphs.spinner[frame % len(glyphs.spinner)]
        mark = glyphs.marks.get(head.status, running)
        return Text(mark, f"bold {_COLOURS.get(head.status, '')}")

    def _title(self, head: Head, end: str, width: int) -> Text:
        """Return the title, cut so that how the call ended stands behind it."""
        if head.status == "in_progress":
            end = ""  # the mark shows it
        room = width - (cell_len(end) + 2 if end else 0)
        title = cut_text(visible(head.title or head.name), max(6, room), self._glyphs)
        return Text.assemble(title, "  " if end else "", (end, _COLOURS.get(head.status, "")))

    def _took(self, head: Head, now: float) -> str:
        if head.is_open:
            return short_duration(max(0.0, now - head.at) * 1000)
        return "" if head.duration_ms is None else short_duration(head.duration_ms)


def _title_width(head: Head) -> int:
    return cell_len(visible(head.title or head.name)) + 2 + cell_len(end_of(head))


def end_of(head: Head, report: ToolCallReport | None = None) -> str:
    """Return in a word or two how a call ended, or its status. With a report, an exit code is named."""
    if head.is_open:
        return {"in_progress": "running"}.get(head.status, head.status)
    if head.status == "completed":
        return ""
    if report is not None and head.reason == Reason.EXIT_CODE:
        return end_text(report).removeprefix("failed: ").replace("exit code ", "exit ")
    reason = head.reason or head.status
    return "timed out" if reason == Reason.TIMEOUT else reason.replace("_", " ")


def short_ids(keys: Sequence[str]) -> dict[str, str]:
    """Return the ends of ids, as long as it takes to distinguish them."""
    known = set(keys)
    for size in range(SHORT_ID, 40):
        found = {key: _short_id(key, size) for key in known}
        if len(set(found.values())) == len(known):
            return found
    return {key: key for key in known}


def _short_id(key: str, size: int = SHORT_ID) -> str:
    return key if len(key) <= size + 4 else key[-size:]


# Sessions


def show_sessions(url: str | None, limit: int | None, *, as_json: bool) -> int:
    """List the sessions, and return the exit code. No limit means `FEW`, and 0 means all."""
    most = FEW + 1 if limit is None else limit or None

    async def work(store: Store) -> int:
        found = [session async for session in all_sessions(store, most)]
        if is_cut := limit is None and len(found) > FEW:
            found.pop()
        if as_json:
            lines = ",\n ".join(json_text(session_object(one)) for one in found)
            write(f"[{lines}]")
        elif not found:
            click.echo(f"callsheet: there is no session in {store.url} yet. {HOW}", err=True)
        elif is_terminal():
            _show_session_table(found)
        else:
            for one in found:
                write(session_fields(one))
        if is_cut:
            sys.stdout.flush()
            click.echo(
                f"callsheet: these {FEW} were used last; there are more: --limit 0 gives all",
                err=True,
            )
        return 0

    return run(url, work, empty="[]" if as_json else "")


def _show_session_table(found: list[StoredSession]) -> None:
    console, now = console_for(), time.time()
    ids = {one.session_id: one.session_id for one in found}
    if console.width < WIDE:
        ids = short_ids(list(ids))
    dot = glyphs_for(console.encoding).dot
    table = new_table(console.width)
    table.add_column("USED", style="dim", no_wrap=True)
    table.add_column("CALLS", justify="right", no_wrap=True)
    table.add_column("SESSION", no_wrap=True)
    table.add_column("IN", no_wrap=True, overflow="ellipsis", ratio=1, min_width=12)
    for one in found:
        where = (one.title, path_text(one.cwd, "", home()))
        name = Text(dot.join(visible(text) for text in where if text))
        key = Text(visible(ids[one.session_id]))
        table.add_row(ago(one.updated_at, now), f"{one.calls:,}", key, name)
    console.print(table)
