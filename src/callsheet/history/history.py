"""The history of one process: what sessions say and do is put here, and a thread writes it, in order.

Whoever reports is never held up: an item is put into a dict, where a later state of the same call takes the
place of an earlier one. The thread packs what waits and writes it in one transaction (see `scribe`). `flush`
returns when everything that was put before is durable.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Self, TypeVar
from weakref import WeakSet

from callsheet.report.values import EMPTY, JsonObject

from .errors import StoreUnavailable
from .log import SessionLog, Waiting
from .places import store_at
from .rows import KEEP, Retention, SessionRow
from .scribe import HistoryHealth, Scribe, to_stderr
from .shelf import Shelf
from .store import Store

_T = TypeVar("_T")

PATIENCE = 5.0
"""Seconds that `flush` and `close` wait at most."""

__all__ = ["KEEP", "History", "HistoryHealth", "to_stderr"]


class History(Scribe):
    """Keeps what sessions say and do in a store.

    `tell` hears of what people should know; `forget_spills` gets the spill files of calls that were removed.
    """

    def __init__(
        self,
        url: str,
        *,
        keep: Retention = KEEP,
        tell: Callable[[str], None] = to_stderr,
        forget_spills: Callable[[list[str]], object] | None = None,
    ) -> None:
        super().__init__(url, keep=keep, tell=tell, forget_spills=forget_spills)
        _all.add(self)

    def session(
        self,
        session_id: str,
        *,
        cwd: str = "",
        title: str = "",
        info: JsonObject = EMPTY,
        position: int = 0,
    ) -> SessionLog:
        """Give the log of a session: a sink for it. `position` is where its timeline goes on."""
        return SessionLog(self, session_id, cwd=cwd, title=title, info=info, position=position)

    async def __aenter__(self) -> Self:
        """Nothing is opened before it is needed."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Write what waits, and let go of the store."""
        await self.close()

    # For whoever reports

    def put(self, key: tuple[str, str], item: Waiting, session: SessionRow) -> None:
        """Write an item down soon. A later one under the same key takes its place."""
        with self.lock:
            if self._is_closed:
                self._put_count += 1
                self.health.lost += 1
                return
            self._given[key] = item
            self._sessions[session.session_id] = session
            self._put_count += 1
            if self._is_awake:
                return
            self._is_awake = True
        self._wake()

    async def flush(self, timeout: float = PATIENCE) -> bool:
        """Return when everything so far is durable, and give whether it is. What fails is not waited for."""
        done = self._flushed()
        try:
            return await asyncio.wait_for(asyncio.wrap_future(done), timeout)
        except TimeoutError:
            return False

    def wait(self, until: float) -> bool:
        """Wait until everything so far is durable, or until a monotonic time. For those without a loop."""
        try:
            return self._flushed().result(max(0.0, until - time.monotonic()))
        except TimeoutError:
            return False

    def _flushed(self) -> Future[bool]:
        """Give what will tell whether everything is durable."""
        done: Future[bool] = Future()
        with self.lock:
            is_durable, failing = self._durable >= self._put_count, self.health.problem is not None
            if is_durable or failing or self._is_closed:
                done.set_result(is_durable)
            else:
                self._flushes.append((self._put_count, done))
        if not is_durable:
            self._wake(hurry=True)
        return done

    async def ask(self, question: Callable[[Store], Awaitable[_T]]) -> _T:
        """Ask the store something, in its thread. What was put before is written first, if it can be."""
        await self.flush()
        if self._is_closed:
            raise StoreUnavailable("The history is closed.")
        loop = self._started()

        async def answer() -> _T:
            await self._opened()
            return await question(self._store)

        there = asyncio.run_coroutine_threadsafe(answer(), loop)
        try:
            return await asyncio.wrap_future(there)
        except asyncio.CancelledError:
            if self._is_closing and there.cancelled():
                raise StoreUnavailable("The history was closed meanwhile.") from None
            raise

    async def close(self, timeout: float = PATIENCE) -> None:
        """Write what waits, and let go of the store."""
        if self._thread is None:
            return
        await self.flush(timeout)
        thread = self._stop()
        if thread is not None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, thread.join, timeout)

    def close_now(self, timeout: float = PATIENCE) -> None:
        """Do the same without an event loop."""
        if self._thread is not None:
            self.wait(time.monotonic() + timeout)
            thread = self._stop()
            if thread is not None:
                thread.join(timeout)

    def _stop(self) -> threading.Thread | None:
        thread, self._thread = self._thread, None
        self._is_closing = True
        self._wake(hurry=True)
        return thread

    def after_fork(self) -> None:
        """Begin anew in a forked child: what waits is the parent's to write, by its thread, to its file."""
        _parents.append(self._store)
        self.lock, self._flushes = threading.RLock(), []
        self._thread = self._loop = self._news = self._hurry = None
        self._opening = asyncio.Lock()
        self._given, self._sessions, self._shelf = {}, {}, Shelf()
        self._store = store_at(self._full_url)
        self._durable = self._taken = self._put_count
        self._is_awake = self._is_closing = self._is_closed = self._is_open = False
        self.health = HistoryHealth()


_all: WeakSet[History] = WeakSet()
_parents: list[Store] = []
"""Stores of a parent, which a child must not close."""


def _forked() -> None:
    for history in list(_all):
        history.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
