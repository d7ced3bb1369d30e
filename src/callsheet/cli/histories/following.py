"""Calls as they come and go: the store is asked again and again.

What is new is found by its time, and what runs is looked at until it has ended. A call may be written a
little after it began, so the last minute is looked at each time.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence

from msgspec.structs import replace

from callsheet.cli.cards.board import TICK
from callsheet.history import Head, Query, Store

from . import pages
from .listing import reports_of
from .machines import as_fields, as_object, json_text
from .screen import Screen, is_closed, is_terminal, write
from .table import Key, Table, key_of
from .words import is_in

EVERY = 0.5
"""Seconds between two looks at the store."""

OVERLAP = 60.0
MOST_FIRST = 10_000
"""Calls that are shown to begin with, at most."""


class Follower:
    """Notices new calls, and what becomes of them."""

    def __init__(self, store: Store, query: Query) -> None:
        self._store: Store = store
        self._query: Query = query
        self._all: Query = replace(query, status=None, search=None)
        self._seen: dict[Key, tuple[float, str]] = {}
        self.open: dict[Key, Head] = {}
        """The calls that go on, the oldest first."""

    async def begin(self, limit: int) -> list[Head]:
        """Return the last calls, the oldest first, and notice from now on what changes."""
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
        async for page in pages.heads(self._store, replace(self._all, since=since), None):
            found |= {key_of(head): head for head in page}
        for session_id, call_id in [key for key in self.open if key not in found]:
            query = Query(session_id=session_id, call_id=call_id, limit=1)
            again = await self._store.heads(query)
            found |= {key_of(head): head for head in again}
            if not again:  # it was removed
                self.open.pop((session_id, call_id))
        news = [head for head in found.values() if self._is_news(head)]
        self._forget(since)
        news.sort(key=lambda head: (head.at, head.call_id))
        return [head for head in news if await self._is_wanted(head)]

    def _is_news(self, head: Head) -> bool:
        key, state = key_of(head), f"{head.status} {head.reason}"
        old = self._seen.get(key)
        self._seen[key] = head.at, state
        if head.is_open:
            self.open[key] = head
        else:
            self.open.pop(key, None)
        return old is None or old[1] != state

    def _forget(self, since: float) -> None:
        """Forget what is found no more."""
        old = [key for key, (at, _) in self._seen.items() if at < since and key not in self.open]
        for key in old:
            del self._seen[key]

    async def _is_wanted(self, head: Head) -> bool:
        if not is_in(head, self._query.status):
            return False
        if self._query.search is None:
            return True
        if head.is_open:  # only what has ended can be searched
            return False
        asked = replace(self._query, session_id=head.session_id, limit=1, since=None)
        return bool(await self._store.heads(replace(asked, call_id=head.call_id)))

    def wanted_open(self) -> list[Head]:
        """Return the calls that go on and are wanted, as far as can be told of them."""
        if self._query.search is not None:
            return []
        return [head for head in self.open.values() if is_in(head, self._query.status)]


async def follow(store: Store, query: Query, limit: int | None, *, as_json: bool) -> int:
    """Show calls as they come and go, until nobody reads any more."""
    follower = Follower(store, query)
    first = await follower.begin(limit or MOST_FIRST)
    if not as_json and is_terminal():
        return await _on_terminal(store, follower, first)
    news: Sequence[Head] = first
    while not is_closed():
        for head in news:
            write(json_text(as_object(head)) if as_json else as_fields(head))
        sys.stdout.flush()
        await asyncio.sleep(EVERY)
        news = await follower.news()
    return 0


async def _on_terminal(store: Store, follower: Follower, first: list[Head]) -> int:
    """Print calls that have ended, and draw those that go on below them."""
    screen, frame, looked = Screen(), 0, 0.0
    table = Table(screen.looks, first, live=True)
    screen.print([table.heading(screen.width)])
    news: Sequence[Head] = first
    try:
        while True:
            now = time.time()
            ended = [head for head in news if not head.is_open]
            if ended:
                reports = await reports_of(store, ended)
                screen.print(table.rows(ended, screen.width, now, reports))
            frame += 1
            live = follower.wanted_open()[-screen.height + 1 :]
            screen.draw([table.row(head, screen.width, now, frame=frame) for head in live])
            await asyncio.sleep(TICK)
            news = ()
            if time.monotonic() - looked >= EVERY:
                news, looked = await follower.news(), time.monotonic()
    finally:
        screen.draw([])
