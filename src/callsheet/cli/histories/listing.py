"""The list of calls: a table for people, lines for pipes, JSON for machines."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import click
from msgspec.structs import replace

from callsheet.history import Head, Query, Store, StoredSession
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason

from . import pages
from .finding import session_meant
from .machines import as_fields, as_object, json_text
from .opening import Nothing, run
from .screen import Screen, is_terminal, write
from .table import Key, Table, key_of

HOW = "Calls get there by `callsheet call`, `callsheet agent`, and sessions with a `SessionLog`."


class Listing(NamedTuple):
    """What is to be listed, and how. `limit` is None for all calls; nobody has asked for one of ours."""

    query: Query
    session: str | None
    limit: int | None
    limit_is_ours: bool
    json: bool
    follow: bool
    url: str | None


def show_list(wanted: Listing) -> int:
    """List calls, and give the exit code. No history is an empty list."""

    async def work(store: Store) -> int:
        query = await with_session(store, wanted.query, wanted.session)
        if wanted.follow:
            from .following import follow

            return await follow(store, query, wanted.limit, as_json=wanted.json)
        if wanted.json:
            shown = await _as_json(store, query, wanted.limit)
        elif is_terminal():
            shown = await _as_table(store, query, wanted.limit)
        else:
            shown = await _as_lines(store, query, wanted.limit)
        if shown == wanted.limit and (wanted.limit_is_ours or is_terminal()):
            await _say_how_many(store, query, shown)
        return 0

    try:
        return run(wanted.url, work)
    except Nothing as exc:
        if wanted.follow or wanted.session is not None:
            raise
        click.echo(f"callsheet: {exc.message}", err=True)
        if wanted.json:
            write("[]")
        return 0


async def with_session(store: Store, query: Query, session: str | None) -> Query:
    """Return a question with the session that is meant, if one is."""
    if session is None:
        return query
    return replace(query, session_id=(await session_meant(store, session)).session_id)


async def _as_json(store: Store, query: Query, limit: int | None) -> int:
    shown = 0
    async for page in pages.heads(store, query, limit):
        for head in page:
            sys.stdout.write((",\n " if shown else "[") + json_text(as_object(head)))
            shown += 1
    write("]" if shown else "[]")
    return shown


async def _as_lines(store: Store, query: Query, limit: int | None) -> int:
    shown = 0
    async for page in pages.heads(store, query, limit):
        for head in page:
            write(as_fields(head))
        shown += len(page)
    if not shown:
        await say_nothing(store, query)
    return shown


async def _as_table(store: Store, query: Query, limit: int | None) -> int:
    screen, table, shown = Screen(), None, 0
    async for heads in pages.heads(store, query, limit):
        if table is None:
            table = Table(screen.looks, heads, await sessions_of(store, heads))
            screen.print([table.heading(screen.width)])
        screen.print(table.rows(heads, screen.width, time.time(), await reports_of(store, heads)))
        shown += len(heads)
    if not shown:
        await say_nothing(store, query)
    return shown


async def _say_how_many(store: Store, query: Query, shown: int) -> None:
    """Say on stderr that there are more, if there are."""
    found = await store.count(query)
    if found > shown:
        sys.stdout.flush()
        said = f"These are the newest {shown:,} of {found:,}; --limit 0 gives all."
        click.echo(said if is_terminal() else f"callsheet: {said}", err=True)


async def sessions_of(store: Store, heads: Sequence[Head]) -> dict[str, StoredSession]:
    """Return the sessions of calls."""
    keys = dict.fromkeys(head.session_id for head in heads)
    found = [await store.session(key) for key in keys]
    return {one.session_id: one for one in found if one is not None}


async def reports_of(store: Store, heads: Sequence[Head]) -> dict[Key, ToolCallReport]:
    """Return the reports of the calls whose end can't be said without: those that have an exit code."""
    found: dict[Key, ToolCallReport] = {}
    for head in heads:
        if head.reason == Reason.EXIT_CODE:
            query = Query(session_id=head.session_id, call_id=head.call_id, limit=1)
            for call in await store.calls(query):
                found[key_of(head)] = call.record.report
    return found


async def say_nothing(store: Store, query: Query) -> None:
    """Say on stderr why nothing is listed."""
    if await store.heads(Query(limit=1)):
        said = "no call is like that"
        if query.since is not None or query.until is not None:
            said += " in that time"
        click.echo(f"callsheet: {said}; `callsheet history` lists all", err=True)
    else:
        click.echo(f"callsheet: there is no call in {store.url} yet. {HOW}", err=True)
