"""The history as the web inspector reads it: one store, one thread, and news of what has changed.

Nothing of the history is held here, so however many calls there are, memory stays flat. The store is asked
several times a second whether it has changed; whoever listens gets the newest state, and asks for what it
shows again. A store that is locked, gone, replaced or too new is closed, and opened again with the next
question.

It only reads, but for what every reader does: calls whose process is gone are closed as abandoned, and words
are indexed before a search.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from msgspec import to_builtins

from callsheet.history import HistoryError, NotKept, Query, Store, StoreUnavailable, store_at
from callsheet.history.url import canonical_url
from callsheet.processes.registry import running_processes

POLL = 0.2
"""Seconds between two looks at the store while somebody listens."""

SLOW_POLL = 1.0
"""Seconds between two looks at a store that can't be used, and at the processes that run."""

RECOVER = 5.0
"""Seconds after which open calls are looked at again: nobody else may end those of a process that is gone."""

MOST_WAITING = 64
"""Questions that may wait for the store's thread."""

MOST_LISTENERS = 32

_T = TypeVar("_T")

State = dict[str, Any]


class LiveHistory:
    """A store that is only read, and that comes back when it was away.

    Args:
        url: The store.
        shown: The URL to show instead, of which this store is a copy.
    """

    def __init__(self, url: str, shown: str | None = None) -> None:
        self.url: str = canonical_url(shown or url)
        """Where the store is, without a password."""
        self._make: Callable[[], Store] = lambda: store_at(url)
        self._store: Store | None = None
        self._thread: ThreadPoolExecutor = ThreadPoolExecutor(1, "callsheet-ui-store")
        self._waiting: int = 0
        self._listeners: int = 0
        self._state: State = {}
        self._changed: asyncio.Event = asyncio.Event()
        self._poller: asyncio.Task[None] | None = None
        self._running_at: float = 0.0
        self._recovered_at: float = 0.0
        self._is_ending: bool = False

    # Questions

    async def ask(self, question: Callable[[Store], _T]) -> _T:
        """Return the answer of the store to a question, which is asked in the store's thread.

        Raises:
            HistoryError: The store can't be read now.
        """
        if self._waiting >= MOST_WAITING:
            raise StoreUnavailable("Too many questions wait for the history; try it again.")
        self._waiting += 1
        try:
            return await asyncio.wrap_future(self._thread.submit(self._answer, question))
        finally:
            self._waiting -= 1

    def _answer(self, question: Callable[[Store], _T]) -> _T:
        try:
            if self._store is None:
                store = self._make()
                store.open(write=False)
                self._store = store
            return question(self._store)
        except HistoryError:
            self._close_store()
            raise

    def _close_store(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            with suppress(HistoryError):
                store.close()

    def close(self) -> None:
        """Close the store, and end the thread."""
        self._thread.submit(self._close_store)
        self._thread.shutdown()

    # News

    async def states(self, pause: float) -> AsyncGenerator[State | None]:
        """Yield the state now, and whenever it has changed; None if it has not for so many seconds.

        Raises:
            StoreUnavailable: Too many listen.
        """
        if self._listeners >= MOST_LISTENERS:
            raise StoreUnavailable(f"{MOST_LISTENERS} pages are open already; close one of them.")
        self._listeners += 1
        try:
            if self._poller is None or self._poller.done():
                self._state = await self._look({})
                self._poller = asyncio.create_task(self._poll())
            shown: State | None = None
            while not self._is_ending:
                if self._state is not shown:
                    shown = self._state
                    yield shown
                    continue
                try:
                    async with asyncio.timeout(pause):
                        await self._changed.wait()
                except TimeoutError:
                    yield None
        finally:
            self._listeners -= 1

    async def _poll(self) -> None:
        """Look whether something has changed, while somebody listens."""
        while self._listeners and not self._is_ending:
            await asyncio.sleep(SLOW_POLL if self._state["problem"] else POLL)
            found = await self._look(self._state)
            if found != self._state:
                self._state = found
                self._announce()

    def _announce(self) -> None:
        """Wake everybody who listens."""
        self._changed.set()
        self._changed = asyncio.Event()

    def end_news(self) -> None:
        """End what everybody listens to."""
        self._is_ending = True
        self._announce()

    async def _look(self, before: State) -> State:
        def look(store: Store) -> tuple[str, int]:
            version = store.version()
            if time.monotonic() >= self._recovered_at + RECOVER:
                self._recovered_at = time.monotonic()
                with suppress(StoreUnavailable):  # whoever may only read, reads
                    if store.heads(Query(status="open", limit=1)) and store.recover():
                        version = store.version()
            if version == before.get("version") and not before.get("problem"):
                return version, before["total"]
            return version, store.window(Query(), 0, 0).total

        problem, version, total, is_new = None, "", 0, False
        try:
            version, total = await self.ask(look)
        except NotKept:
            is_new = True
            problem = f"There is no history at {self.url} yet. Calls are shown as soon as some are stored."
        except HistoryError as exc:
            problem = str(exc)
        running = before.get("running", [])
        now = time.monotonic()
        if now >= self._running_at + SLOW_POLL:
            self._running_at, running = now, to_builtins(await asyncio.to_thread(running_processes))
        return {
            "version": version,
            "total": total,
            "running": running,
            "history": self.url,
            "problem": problem,
            "isNew": is_new,
        }
