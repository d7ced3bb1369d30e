"""Follow the history: show calls as they start and end.

The store is polled. New calls are found by their time; a call may be written a little after it began, so each
poll covers the last minute again. Of calls that run for longer, the end is noticed when the store no longer
lists them as open.
"""

from __future__ import annotations

import sys
import time

from msgspec.structs import replace

from callsheet.cli.cards.board import TICK
from callsheet.cli.history.formats import call_fields, call_object, json_text
from callsheet.cli.history.lookup import head_pages, run, with_session
from callsheet.cli.history.table import call_table
from callsheet.cli.output import console_for, fit, is_closed, is_terminal, live_region, write
from callsheet.history import Head, Query, Store

EVERY = 0.5
"""Seconds between two looks at the store."""

OVERLAP = 60.0
FIRST = 10
"""Calls that are shown to begin with, by default."""
MOST_FIRST = 10_000
"""And the most of them."""
MOST_OPEN = 1000

Key = tuple[str, str]
"""A call: its session and its id."""


def follow_calls(
    url: str | None, query: Query, session: str | None, limit: int | None, *, as_json: bool
) -> int:
    """Show calls as they come and go, until nobody reads any more. Return the exit code."""

    def work(store: Store) -> int:
        follower = Follower(store, with_session(store, query, session))
        news = follower.begin(FIRST if limit is None else limit or MOST_FIRST)
        if not as_json and is_terminal():
            return _on_terminal(follower, news)
        while not is_closed():
            for head in news:
                write(json_text(call_object(head)) if as_json else call_fields(head))
            sys.stdout.flush()
            time.sleep(EVERY)
            news = follower.news()
        return 0

    return run(url, work)


def _on_terminal(follower: Follower, news: list[Head]) -> int:
    """Print calls that have ended, and draw those that run below them."""
    console, frame, looked = console_for(), 0, 0.0
    console.print(call_table([], console.width, time.time(), live=True))
    with live_region(console) as live:
        while True:
            fit(console)
            width, now, frame = console.width, time.time(), frame + 1
            running = follower.running()[-max(1, console.height - 1) :]
            live.update(call_table(running, width, now, header=False, live=True, frame=frame))
            if ended := [head for head in news if not head.is_open]:
                console.print(call_table(ended, width, now, header=False, live=True))
            live.refresh()
            time.sleep(TICK)
            news = []
            if time.monotonic() - looked >= EVERY:
                news, looked = follower.news(), time.monotonic()


class Follower:
    """Notices new calls, and what becomes of them."""

    def __init__(self, store: Store, query: Query) -> None:
        self._store: Store = store
        self._query: Query = query
        self._seen: dict[Key, str] = {}
        self._open: dict[Key, Head] = {}

    def begin(self, limit: int) -> list[Head]:
        """Return the last calls, the oldest first, and notice changes from now on."""
        self.news()
        last = self._store.heads(replace(self._query, limit=limit))
        self._seen |= {_key(head): _state(head) for head in last}
        return last[::-1]

    def news(self) -> list[Head]:
        """Return the calls that are new or in another status, the oldest first."""
        query, since = self._query, max(time.time() - OVERLAP, self._query.since or 0.0)
        # What runs is followed whatever the filters say, for how it ends may be what they ask for.
        every = replace(query, status="open", search=None, limit=MOST_OPEN)
        is_open = {_key(head): head for head in self._store.heads(every)}
        found: dict[Key, Head] = {}
        for page in head_pages(self._store, replace(query, since=since), None):
            found |= {_key(head): head for head in page}
        for key in self._open.keys() - is_open.keys() - found.keys():
            one = replace(query, session_id=key[0], call_id=key[1], limit=1)
            found |= {_key(head): head for head in self._store.heads(one)}
        news = [head for key, head in found.items() if self._seen.get(key) != _state(head)]
        self._open = is_open
        self._seen = {key: _state(head) for key, head in found.items()}
        return sorted(news, key=lambda head: (head.at, head.call_id))

    def running(self) -> list[Head]:
        """Return the calls that run and are wanted, the oldest first, as far as can be known of them."""
        wanted, heads = self._query.status, list(self._open.values())[::-1]
        if self._query.search is not None:  # only what has ended can be searched
            return []
        return [head for head in heads if wanted in (None, "open", head.status)]


def _key(head: Head) -> Key:
    return head.session_id, head.call_id


def _state(head: Head) -> str:
    return f"{head.status} {head.reason}"
