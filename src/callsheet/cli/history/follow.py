"""Follow the history: show calls as they start and end.

The store is polled. New calls are found by their time, and running ones are queried until they have ended. A
call may be written a little after it began, so each poll covers the last minute again.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence

from msgspec.structs import replace

from callsheet.cli.cards.board import TICK
from callsheet.cli.cards.style import glyphs_for
from callsheet.cli.history.formats import call_fields, call_object, json_text
from callsheet.cli.history.lookup import head_pages, run, with_session
from callsheet.cli.history.table import CallTable, Key, exit_reports, key_of
from callsheet.cli.output import (
    console_for,
    fit,
    is_closed,
    is_terminal,
    live_region,
    write,
)
from callsheet.history import Head, Query, Store

EVERY = 0.5
"""Seconds between two looks at the store."""

OVERLAP = 60.0
FIRST = 10
"""Calls that are shown to begin with, by default."""
MOST_FIRST = 10_000
"""And the most of them."""


def follow_calls(
    url: str | None, query: Query, session: str | None, limit: int | None, *, as_json: bool
) -> int:
    """Show calls as they come and go, until nobody reads any more. Return the exit code."""

    async def work(store: Store) -> int:
        follower = Follower(store, await with_session(store, query, session))
        news = await follower.begin(FIRST if limit is None else limit or MOST_FIRST)
        if not as_json and is_terminal():
            return await _on_terminal(store, follower, news)
        while not is_closed():
            for head in news:
                write(json_text(call_object(head)) if as_json else call_fields(head))
            sys.stdout.flush()
            await asyncio.sleep(EVERY)
            news = await follower.news()
        return 0

    return run(url, work)


async def _on_terminal(store: Store, follower: Follower, first: list[Head]) -> int:
    """Print calls that have ended, and draw those that run below them."""
    console, frame, looked = console_for(), 0, 0.0
    calls = CallTable(first, glyphs_for(console.encoding), live=True)
    console.print(calls.table([], console.width, time.time(), header=True))
    news: Sequence[Head] = first
    with live_region(console) as live:
        while True:
            fit(console)
            now = time.time()
            frame += 1
            running = follower.running()[-max(1, console.height - 1) :]
            live.update(calls.table(running, console.width, now, frame=frame), refresh=True)
            if ended := [head for head in news if not head.is_open]:
                reports = await exit_reports(store, ended)
                console.print(calls.table(ended, console.width, now, reports))
            await asyncio.sleep(TICK)
            news = ()
            if time.monotonic() - looked >= EVERY:
                news, looked = await follower.news(), time.monotonic()


class Follower:
    """Notices new calls, and what becomes of them."""

    def __init__(self, store: Store, query: Query) -> None:
        self._store: Store = store
        self._query: Query = query
        self._all: Query = replace(query, status=None, search=None)
        self._seen: dict[Key, tuple[float, str]] = {}
        self._open: dict[Key, Head] = {}

    async def begin(self, limit: int) -> list[Head]:
        """Return the last calls, the oldest first, and notice changes from now on."""
        for head in await self._store.heads(replace(self._all, status="open", limit=1000)):
            self._is_news(head)
        await self.news()
        last = await self._store.heads(replace(self._query, limit=limit))
        for head in last:
            self._is_news(head)
        return last[::-1]

    async def news(self) -> list[Head]:
        """Return the calls that are new or in another status, the oldest first."""
        since = max(time.time() - OVERLAP, self._all.since or 0.0)
        found: dict[Key, Head] = {}
        async for page in head_pages(self._store, replace(self._all, since=since), None):
            found |= {key_of(head): head for head in page}
        for session_id, call_id in [key for key in self._open if key not in found]:
            query = Query(session_id=session_id, call_id=call_id, limit=1)
            again = await self._store.heads(query)
            found |= {key_of(head): head for head in again}
            if not again:  # it was removed
                self._open.pop((session_id, call_id))
        news = [head for head in found.values() if self._is_news(head)]
        # Forget what is not found any more.
        for key in [key for key, (at, _) in self._seen.items() if at < since]:
            if key not in self._open:
                del self._seen[key]
        news.sort(key=lambda head: (head.at, head.call_id))
        return [head for head in news if await self._is_wanted(head)]

    def running(self) -> list[Head]:
        """Return the calls that run and are wanted, the oldest first, as far as can be known of them."""
        if self._query.search is not None:
            return []
        return [head for head in self._open.values() if is_in(head, self._query.status)]

    def _is_news(self, head: Head) -> bool:
        key, state = key_of(head), f"{head.status} {head.reason}"
        old = self._seen.get(key)
        self._seen[key] = head.at, state
        if head.is_open:
            self._open[key] = head
        else:
            self._open.pop(key, None)
        return old is None or old[1] != state

    async def _is_wanted(self, head: Head) -> bool:
        if not is_in(head, self._query.status):
            return False
        if self._query.search is None:
            return True
        if head.is_open:  # only what has ended can be searched
            return False
        asked = replace(self._query, session_id=head.session_id, limit=1, since=None)
        return bool(await self._store.heads(replace(asked, call_id=head.call_id)))


def is_in(head: Head, status: str | None) -> bool:
    """Return whether a call is in a status, `open`, or ended for a reason."""
    if status is None or head.status == status:
        return True
    if status == "open":
        return head.is_open
    return head.status != "completed" and head.reason == status and status != "cancelled"
