"""The history of one process: a thread that writes what sessions say and do, in batches and in order.

Whoever reports is never held up: an item is put into a dict, where a later state of the same call takes the
place of an earlier one. The thread packs what waits and writes it in one transaction. `flush` returns when
everything that was put before is durable.

A store that can't be written is no reason to stop. It is said once; what is to be written waits, packed, and
the store is tried again and again. What waits is bounded: if it becomes too much, the oldest goes, and that
is said, too.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Self, TypeVar
from weakref import WeakSet

from msgspec import Struct

from callsheet.report.values import EMPTY, JsonObject

from . import leftovers
from .errors import BadUrl, HistoryError, NotKept, StoreDamaged, StoreTooNew, StoreUnavailable
from .log import SessionLog, Waiting
from .places import store_at, without_password
from .rows import KEEP, Retention, SessionRow
from .shelf import Shelf
from .store import Store

_T = TypeVar("_T")

LINGER = 0.2
"""Seconds in which more is waited for, before something is written: a short call is written once, at its end.
Who wants to know that it is durable does not wait for that: see `flush`.
"""

MOST_WAITING = 64 << 20
"""Bytes that may wait for a store that can't be written."""

RETRY, RETRY_MOST = 0.25, 15.0
IDLE = 2.0
"""Seconds without news after which there is time to index and to tidy up."""

TIDY_EVERY = 3600.0
PATIENCE = 5.0
"""Seconds that `flush` and `close` wait at most."""


class HistoryHealth(Struct):
    """How well it goes. `problem` is what keeps the store from being written now."""

    written: int = 0
    lost: int = 0
    problem: str | None = None


_OF_THE_STORE = (BadUrl, StoreTooNew, NotKept, StoreDamaged, StoreUnavailable)
"""Errors that say nothing of what was to be written."""

_all: WeakSet[History] = WeakSet()


def to_stderr(text: str) -> None:
    """Say something to whoever started the program."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"callsheet: history: {text}\n")
        sys.stderr.flush()


class History:
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
        self.url: str = without_password(url)
        self._full_url: str = url
        self.health: HistoryHealth = HistoryHealth()
        self._store: Store = store_at(url)
        self._keep: Retention = keep
        self._tell: Callable[[str], None] = tell
        self._forget_spills: Callable[[list[str]], object] | None = forget_spills
        self.lock: threading.RLock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: asyncio.Event | None = None
        self._hurry: asyncio.Event | None = None
        # What waits: as it was given, and packed. Counts tell what of it is durable.
        self._given: dict[tuple[str, str], Waiting] = {}
        self._sessions: dict[str, SessionRow] = {}
        self._shelf: Shelf = Shelf()
        self._put_count: int = 0
        self._taken: int = 0
        self._durable: int = 0
        self._flushes: list[tuple[int, Future[bool]]] = []
        self._is_awake: bool = False
        self._is_closing: bool = False
        self._is_closed: bool = False
        self._is_open: bool = False
        self._opening: asyncio.Lock = asyncio.Lock()
        self._is_hopeless: bool = False
        self._said_lost: bool = False
        self._said_refused: bool = False
        self._tidied: float | None = None
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

    # The thread

    def _started(self) -> asyncio.AbstractEventLoop:
        """Give the loop of the thread, which is started when it is first needed."""
        with self.lock:
            if self._loop is None:
                ready = threading.Event()
                self._thread = threading.Thread(
                    target=lambda: asyncio.run(self._work(ready)),
                    name="callsheet-history",
                    daemon=True,
                )
                self._thread.start()
                ready.wait()
            assert self._loop is not None
            return self._loop

    def _wake(self, *, hurry: bool = False) -> None:
        loop = self._started()

        def wake() -> None:
            assert self._news is not None
            assert self._hurry is not None
            self._news.set()
            if hurry:
                self._hurry.set()

        with suppress(RuntimeError):  # it has ended
            loop.call_soon_threadsafe(wake)

    async def _work(self, ready: threading.Event) -> None:
        self._news, self._hurry = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        ready.set()
        pause = RETRY
        while True:
            if not (self._shelf and self.health.problem):
                await self._next_news()
            problem = await self._write_waiting()
            if self._is_closing and (problem or not self._has_news()):
                break
            if problem:
                self._answer_flushes()
                await self._pause(pause)
                pause = min(2 * pause, RETRY_MOST)
            else:
                pause = RETRY
        await self._end()

    async def _end(self) -> None:
        with self.lock:
            self._is_closed = True
        self._take()
        left = len(self._shelf)
        if left and not self._is_hopeless:
            self._set_by(left)
        self._shelf.drop(-1)
        self._answer_flushes()
        with suppress(Exception):
            await self._store.close()

    async def _pause(self, seconds: float) -> None:
        """Wait before the store is tried again. What comes in meanwhile is packed, and bounded."""
        assert self._hurry is not None
        until = time.monotonic() + seconds
        while not self._hurry.is_set() and (left := until - time.monotonic()) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), min(left, 0.5))
            self._take()
            self._drop(0 if self._is_hopeless else MOST_WAITING)
        self._hurry.clear()

    async def _next_news(self) -> None:
        """Wait for something to write, and a little longer for more of it. Tidy up meanwhile."""
        assert self._news is not None
        assert self._hurry is not None
        while not (self._news.is_set() or self._is_closing):
            try:
                await asyncio.wait_for(self._news.wait(), IDLE)
            except TimeoutError:
                while not self._news.is_set() and await self._tidy():
                    await asyncio.sleep(0)  # news may come in
                await self._news.wait()
        if not self._hurry.is_set() and not self._is_closing:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), LINGER)
        self._news.clear()
        self._hurry.clear()

    def _has_news(self) -> bool:
        with self.lock:
            return bool(self._given)

    async def _write_waiting(self) -> str | None:
        """Pack and write what waits. Gives what is wrong with the store, if anything is."""
        self._take()
        with self.lock:
            sessions, self._sessions = self._sessions, {}
        try:
            await self._opened()
            while self._shelf or sessions:
                await self._write_some(sessions)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the work goes on
            with self.lock:
                self._sessions = {**sessions, **self._sessions}
            await self._failed(exc)
            return str(exc)
        self._succeeded()
        return None

    def _take(self) -> None:
        """Pack what was given."""
        with self.lock:
            given, self._given = self._given, {}
            self._taken, self._is_awake = self._put_count, False
        self._shelf.put(given, self._store.packer, self._refused)

    def _refused(self, exc: Exception) -> None:
        """Note that something can't be kept, whatever the store does."""
        self.health.lost += 1
        if not self._said_refused:
            self._said_refused = True
            self._say(f"An entry can't be kept: {type(exc).__name__}: {exc}")

    async def _write_some(self, sessions: dict[str, SessionRow]) -> None:
        """Write as much as is written at once. What can't be written is found, and let go."""
        batch, keys = self._shelf.batch(sessions.values())
        try:
            await self._store.write(batch)
        except (HistoryError, ValueError, TypeError) as exc:
            if type(exc) in _OF_THE_STORE:
                raise
            if len(keys) > 1:
                self._shelf.smaller(keys)
            elif sessions:
                sessions.clear()
            else:
                self._shelf.wrote(keys)
                self._refused(exc)
            return
        self._shelf.wrote(keys)
        sessions.clear()
        self.health.written += len(keys)

    async def _opened(self) -> None:
        async with self._opening:
            if self._is_open:
                return
            if self._is_hopeless:
                raise StoreUnavailable(self.health.problem or "The history can't be used.")
            for news in await self._store.open():
                self._say(news)
            self._is_open = True
            await self._take_leftovers()

    async def _take_leftovers(self) -> None:
        """Write what earlier processes could not."""
        for file, batch in leftovers.take(self._full_url):
            try:
                await self._store.write(batch)
            except BaseException:
                leftovers.put_back(file)
                raise
            leftovers.done(file)
            self._say(f"{len(batch.calls)} calls that could not be written earlier are kept now.")

    def _set_by(self, left: int) -> None:
        """Put what could not be written into a file, for the next process."""
        try:
            file = leftovers.set_by(self._full_url, self._shelf.all(self._sessions.values()))
        except (OSError, RuntimeError) as exc:
            self.health.lost += left
            self._say(f"{left} entries could not be written to {self.url}, and are lost: {exc}.")
        else:
            self._say(f"{left} entries wait in {file}, and are written the next time.")

    def _succeeded(self) -> None:
        problem, self.health.problem = self.health.problem, None
        with self.lock:
            self._durable = max(self._durable, self._taken)
        self._answer_flushes()
        if problem is not None:
            lost = f"; {self.health.lost} entries were lost" if self._said_lost else ""
            self._say(f"{self.url} is written again, with all that has waited{lost}.")
            self._said_lost = False

    async def _failed(self, exc: Exception) -> None:
        """Say once what is wrong, and hold what waits within its bounds."""
        if not isinstance(exc, HistoryError):
            exc = HistoryError(f"{type(exc).__name__}: {exc}")
        first, self.health.problem = self.health.problem is None, str(exc)
        hopeless = self._is_hopeless or isinstance(exc, (BadUrl, StoreTooNew, NotKept))
        if first and hopeless:
            self._say(f"{exc} Nothing is kept.")
        elif first:
            self._say(
                f"{exc} The work goes on; what is to be kept waits, and is written when it can be."
            )
        if hopeless:
            self._is_hopeless = True
            self._drop(0)
        else:
            if isinstance(exc, StoreDamaged):  # it is opened anew, and set aside
                with suppress(Exception):
                    await self._store.close()
                self._is_open = False
            self._drop(MOST_WAITING)

    def _drop(self, limit: int) -> None:
        """Let go of the oldest, until what waits is small enough."""
        lost = self._shelf.drop(limit)
        self.health.lost += lost
        if lost and not self._said_lost and not self._is_hopeless:
            self._said_lost = True
            self._say(
                f"More than {limit >> 20} MB wait for {self.url}: the oldest calls are let go."
            )

    def _say(self, text: str) -> None:
        with suppress(Exception):  # whoever is told must not keep us from writing
            self._tell(text)

    def _answer_flushes(self) -> None:
        with self.lock:
            failing = self.health.problem is not None or self._is_closing
            waiting, self._flushes, durable = self._flushes, [], self._durable
            self._flushes = [one for one in waiting if not failing and one[0] > durable]
        for mark, done in waiting:
            if (failing or mark <= durable) and done.set_running_or_notify_cancel():
                done.set_result(mark <= durable)

    async def _tidy(self) -> bool:
        """Do a little of what can be done when there is time. Gives whether there is more."""
        if not self._is_open:
            return False
        try:
            if await self._store.index():
                return True
            if self._tidied is None or time.monotonic() - self._tidied > TIDY_EVERY:
                pruned = await self._store.prune(self._keep, now=time.time())
                if pruned.spills and self._forget_spills is not None:
                    self._forget_spills(list(pruned.spills))
                if pruned.calls or pruned.messages:
                    return True
                self._tidied = time.monotonic()
        except Exception:  # noqa: BLE001 - whatever it is, the next write will say so
            return False
        return False

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


_parents: list[Store] = []
"""Stores of a parent, which a child must not close."""


def _forked() -> None:
    for history in list(_all):
        history.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
