"""The history of one process: a thread that writes what sessions report, in batches and in order.

Whoever reports is never held up: an entry is put into a dict, where a later state of the same call takes the
place of an earlier one. The thread encodes what waits and writes it in one transaction (see `writer`).
`flush` returns when everything that was put before is durable: in the store, or, if that takes too long, in a
local spool. Three counts tell how far that is: entries that were put, that were taken by the thread, and that
are durable.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from secrets import token_hex
from typing import Self, TypeVar
from weakref import WeakSet

from callsheet.history.codec import Codec
from callsheet.history.rows import KEEP, Pruned, Retention, SessionRow
from callsheet.history.sink import SessionLog, Waiting
from callsheet.history.store import Store
from callsheet.history.store_errors import StoreDamaged, StoreUnavailable
from callsheet.history.url import without_password
from callsheet.history.writer import HistoryHealth, StoreWriter
from callsheet.report.json import EMPTY, JsonObject

_T = TypeVar("_T")

LINGER = 0.2
"""Seconds in which more is waited for, before something is written: a short call is written once, at its end.
Who wants to know that it is durable does not wait for that: see `flush`.
"""

RETRY, RETRY_MOST = 0.25, 15.0
IDLE = 2.0
"""Seconds without news after which there is time to index and to prune."""

PATIENCE = 5.0
"""Seconds that `flush` and `close` wait at most."""

SOON = 1.0
"""Seconds that the store has before `flush` puts what waits into the spool."""

LAST = 2.0
"""Seconds for what waits at the end of a process that has closed nothing."""

START = 2.0
"""Seconds in which the thread has begun."""


_all: WeakSet[History] = WeakSet()


def to_stderr(text: str) -> None:
    """Write a message for whoever started the program."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"callsheet: history: {text}\n")
        sys.stderr.flush()


class History:
    """Stores what sessions report.

    Args:
        url: Where the store is.
        keep: How much of it is kept.
        notify: Is called with each message that users should see: what is wrong, and that it is over.
        forget_spills: Is called with the spill files of calls that were removed.
    """

    def __init__(
        self,
        url: str,
        *,
        keep: Retention = KEEP,
        notify: Callable[[str], None] = to_stderr,
        forget_spills: Callable[[list[str]], object] | None = None,
    ) -> None:
        self.url: str = without_password(url)
        self.lock: threading.RLock = threading.RLock()
        self.run: str = token_hex(8)
        self._make: Callable[[], StoreWriter] = lambda: StoreWriter(
            url, keep, notify, forget_spills
        )
        self._writer: StoreWriter = self._make()
        self._thread: threading.Thread | None = None
        self._ready: threading.Event = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: asyncio.Event | None = None
        self._hurry: asyncio.Event | None = None
        self._waiting: dict[tuple[str, str], Waiting] = {}
        self._sessions: dict[str, SessionRow] = {}
        self._in_hand: dict[str, SessionRow] = {}
        self._put_count: int = 0
        self._taken: int = 0
        self._durable: int = 0
        self._flushes: list[tuple[int, Future[bool]]] = []
        self._is_awake: bool = False
        self._is_closing: bool = False
        self._is_closed: bool = False
        self._taking: threading.RLock = threading.RLock()
        _all.add(self)

    @property
    def health(self) -> HistoryHealth:
        """How well the store is written."""
        return self._writer.health

    def session(
        self,
        session_id: str,
        *,
        cwd: str = "",
        title: str = "",
        info: JsonObject = EMPTY,
        position: int = 0,
    ) -> SessionLog:
        """Return the log of a session: a sink for it. `position` is where its timeline goes on."""
        return SessionLog(self, session_id, cwd=cwd, title=title, info=info, position=position)

    async def __aenter__(self) -> Self:
        """Nothing is opened before it is needed."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Write what waits, and let go of the store."""
        await self.close()

    # For whoever reports

    def put(self, key: tuple[str, str], item: Waiting, session: SessionRow) -> None:
        """Write an entry soon. A later one under the same key takes its place."""
        with self.lock:
            if self._is_closed:
                self._put_count += 1
                self.health.lost += 1
                return
            self._waiting[key] = item
            self._sessions[session.session_id] = session
            self._put_count += 1
            if self._is_awake:
                return
            self._is_awake = True
        self._wake()

    async def flush(self, timeout: float = PATIENCE) -> bool:
        """Wait until everything so far is durable, `timeout` seconds at most.

        Durable is what is in the store, or, if that fails or takes too long, in a spool on the disk of this
        machine.

        Returns:
            Whether it is.
        """
        done = asyncio.wrap_future(self._flushed())
        await asyncio.wait({done}, timeout=min(SOON, timeout))
        if _is_true(done):
            return True
        try:
            is_durable = await asyncio.to_thread(self._spool_waiting)
        except RuntimeError:  # no thread can be started
            is_durable = self._spool_waiting()
        if is_durable:
            return True
        await asyncio.wait({done}, timeout=max(0.0, timeout - SOON))
        return _is_true(done)

    def wait(self, until: float) -> bool:
        """Do the same without an event loop, until a monotonic time."""
        done, left = self._flushed(), until - time.monotonic()
        wait({done}, max(0.0, min(SOON, left)))
        return _is_true(done) or self._spool_waiting()

    def _spool_waiting(self) -> bool:
        """Spool what is not in the store yet. Return whether everything is durable."""
        with self._taking:
            self._take(Codec())
            with self.lock:
                count, sessions = self._taken, {**self._in_hand, **self._sessions}
                if self._durable >= count:
                    return True
            if self._is_closed or not self._writer.spool_pending(sessions):
                return False
            with self.lock:
                self._durable = max(self._durable, count)
        return True

    def _flushed(self) -> Future[bool]:
        """Return the future of whether everything so far is durable."""
        done: Future[bool] = Future()
        with self.lock:
            is_durable, failing = self._durable >= self._put_count, self.health.problem is not None
            if is_durable or failing or self._is_closed:
                done.set_result(is_durable)
            else:
                self._flushes.append((self._put_count, done))
        if not is_durable:
            self._wake(hurry=True)
            if self._loop is None:
                self._answer_flushes()
        return done

    async def ask(self, question: Callable[[Store], Awaitable[_T]]) -> _T:
        """Ask the store something, in its thread. What was put before is written first, if it can be.

        Raises:
            StoreUnavailable: The history is closed, or the store can't be used now.
        """
        await self.flush()
        if self._is_closed:
            raise StoreUnavailable("The history is closed.")
        loop = self._started()
        if loop is None:
            raise StoreUnavailable(self.health.problem or "The history can't be asked now.")

        async def answer() -> _T:
            await self._writer.open()
            try:
                return await question(self._writer.store)
            except StoreDamaged:  # work goes on in a new one
                await self._writer.renew()
            await self._writer.open()
            return await question(self._writer.store)

        there = asyncio.run_coroutine_threadsafe(answer(), loop)
        try:
            return await asyncio.wrap_future(there)
        except asyncio.CancelledError:
            if self._is_closing and there.cancelled():
                raise StoreUnavailable("The history was closed meanwhile.") from None
            raise

    async def forget(self, session_id: str) -> Pruned:
        """Remove a session with its calls and messages, and their spill files."""
        return await self.ask(lambda _: self._writer.forget(session_id))

    async def close(self, timeout: float = PATIENCE) -> None:
        """Write what waits, and let go of the store."""
        if self._thread is None:
            return
        await self.flush(timeout)
        thread = self._stop()
        if thread is not None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, self._join, thread, timeout)

    def close_now(self, timeout: float = PATIENCE) -> None:
        """Do the same without an event loop."""
        if self._thread is not None:
            self.wait(time.monotonic() + timeout)
            thread = self._stop()
            if thread is not None:
                self._join(thread, timeout)

    def _join(self, thread: threading.Thread, timeout: float) -> None:
        thread.join(timeout)
        if thread.is_alive():  # the store takes longer than there is time
            self._take(Codec())
            self._writer.leave({**self._in_hand, **self._sessions})

    def at_last(self, until: float) -> bool:
        """Wait as `wait` does, at the end of the process, and notify of what is in the spool only."""
        if self._is_closed:
            return True
        is_durable = self.wait(until)
        self._writer.leave({**self._in_hand, **self._sessions})
        return is_durable

    def _stop(self) -> threading.Thread | None:
        thread, self._thread = self._thread, None
        self._is_closing = True
        self._wake(hurry=True)
        return thread

    # The thread

    def _started(self) -> asyncio.AbstractEventLoop | None:
        """Return the loop of the thread, which is started when it is first needed. None: it can't be."""
        with self.lock:
            if self._loop is None and self._thread is None:
                self._thread = threading.Thread(
                    target=lambda: asyncio.run(self._work()), name="callsheet-history", daemon=True
                )
                try:
                    self._thread.start()
                except RuntimeError as exc:
                    self._thread = None
                    self._writer.stuck(f"No thread can be started: {exc}.")
            if self._thread is not None:
                # Not for ever: a signal's handler may report in the midst of the start.
                self._ready.wait(START)
            return self._loop

    def _wake(self, *, hurry: bool = False) -> None:
        loop = self._started()
        if loop is None:
            self._is_awake = False  # the next that is put tries again
            return

        def wake() -> None:
            assert self._news is not None
            assert self._hurry is not None
            self._news.set()
            if hurry:
                self._hurry.set()

        with suppress(RuntimeError):  # it has ended
            loop.call_soon_threadsafe(wake)

    async def _work(self) -> None:
        self._news, self._hurry = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._ready.set()
        pause = RETRY
        while True:
            if not self._writer.is_behind:
                await self._next_news()
            is_written = await self._write_waiting()
            if self._is_closing and not (is_written and self._waiting):
                break
            if is_written:
                pause = RETRY
            else:
                await self._pause(pause)
                pause = min(2 * pause, RETRY_MOST)
        await self._end()

    async def _end(self) -> None:
        self._take()
        with self.lock:
            self._is_closed = True
        await self._writer.end({**self._in_hand, **self._sessions})
        self._answer_flushes()

    async def _pause(self, seconds: float) -> None:
        """Wait before the store is tried again. What comes in meanwhile is encoded, and bounded."""
        assert self._hurry is not None
        until = time.monotonic() + seconds
        while not self._hurry.is_set() and (left := until - time.monotonic()) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), min(left, 0.5))
            self._take()
        self._hurry.clear()

    async def _next_news(self) -> None:
        """Wait for something to write, and a little longer for more of it. Do the upkeep meanwhile."""
        assert self._news is not None
        assert self._hurry is not None
        while not (self._news.is_set() or self._is_closing):
            try:
                await asyncio.wait_for(self._news.wait(), IDLE)
            except TimeoutError:
                while not self._news.is_set() and await self._writer.upkeep():
                    await asyncio.sleep(0)  # news may come in
                await self._news.wait()
        if not self._hurry.is_set() and not self._is_closing:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), LINGER)
        self._news.clear()
        self._hurry.clear()

    async def _write_waiting(self) -> bool:
        """Encode and write what waits. Return whether it is durable."""
        self._take()
        with self.lock:
            self._in_hand |= self._sessions
            self._sessions = {}
            taken = self._taken
        is_written = await self._writer.write(self._in_hand)
        if is_written:
            with self.lock:
                self._durable = max(self._durable, taken)
        self._answer_flushes()
        return is_written

    def _take(self, codec: Codec | None = None) -> None:
        """Encode what waits. Threads other than ours have a codec of their own for it."""
        with self._taking:
            with self.lock:
                waiting, self._waiting = self._waiting, {}
                self._taken = self._put_count
                self._is_awake = self._is_awake and codec is not None
                sessions = {**self._in_hand, **self._sessions}
            self._writer.take(waiting, sessions, codec)

    def _answer_flushes(self) -> None:
        with self.lock:
            failing = self.health.problem is not None or self._is_closing
            waiting, durable = self._flushes, self._durable
            self._flushes = [one for one in waiting if not failing and one[0] > durable]
        for mark, done in waiting:
            if (failing or mark <= durable) and done.set_running_or_notify_cancel():
                done.set_result(mark <= durable)

    def after_fork(self) -> None:
        """Begin anew in a forked child: what waits is the parent's to write, by its thread, to its file."""
        _parents.append(self._writer)
        self._writer.spool.drop()
        self._writer.drop_claimed()
        self.lock, self._taking, self._flushes = threading.RLock(), threading.RLock(), []
        self.run = token_hex(8)
        self._thread = self._loop = self._news = self._hurry = None
        self._ready = threading.Event()
        self._waiting, self._sessions, self._in_hand = {}, {}, {}
        self._writer = self._make()
        self._durable = self._taken = self._put_count
        self._is_awake = self._is_closing = self._is_closed = False


def _is_true(done: asyncio.Future[bool] | Future[bool]) -> bool:
    return done.done() and not done.cancelled() and done.result()


_parents: list[StoreWriter] = []
"""Those of a parent, whose stores a child must not close."""


def _forked() -> None:
    for history in list(_all):
        history.after_fork()


@atexit.register
def _end() -> None:
    until = time.monotonic() + LAST
    for history in list(_all):
        with suppress(Exception):  # one must not keep the others from their end
            history.at_last(until)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
