"""The history of one process: a thread that writes what sessions report, in batches and in order.

Reporting never waits for the store: `put` adds an entry to a dict, where a later state of the same call
replaces an earlier one. The thread encodes the waiting entries and writes them in batches (see `writer`).
`flush` returns when everything that was put before is durable: in the store, or, if that takes too long, in a
local spool. Three counters track the progress: entries that were put (`_put_count`), that were encoded
(`_taken`), and that are durable (`_durable`). A flush is done when `_durable` reaches the `_put_count` that
the flush has seen.
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
"""Seconds to wait for more entries before writing, so that a short call is written once, at its end.
`flush` cuts this short.
"""

RETRY, RETRY_MOST = 0.25, 15.0
IDLE = 2.0
"""Seconds without a new entry after which the thread indexes and prunes."""

PATIENCE = 5.0
"""Seconds that `flush` and `close` wait at most."""

SOON = 1.0
"""Seconds that the store has before `flush` writes the waiting entries to the spool."""

LAST = 2.0
"""Seconds for the waiting entries at the exit of a process that has not closed its histories."""

START = 2.0
"""Seconds to wait for the thread to start."""


_all: WeakSet[History] = WeakSet()


def to_stderr(text: str) -> None:
    """Write a message to stderr. Do nothing if stderr can't be written."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"callsheet: history: {text}\n")
        sys.stderr.flush()


class History:
    """Store what sessions report, in a thread that writes to one store.

    Use it as an async context manager, and pass `history.session(…)` to a session as a sink. Nothing is
    opened before it is needed. A store that can't be written does not disturb sessions: users are notified,
    entries wait, and the store is tried again.

    Args:
        url: The store: `sqlite:///…`, a path, or `postgresql://…`.
        keep: The limits of what is stored; the oldest calls beyond them are removed.
        notify: Called with each message for users: about a problem, and when it is over.
        forget_spills: Called with the spill files of calls that were removed.
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
        """How many entries were written, wait or are lost, and the current problem, if any."""
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
        """Return the log of a session, which is a sink.

        Args:
            session_id: The session's id.
            cwd: The session's directory.
            title: The session's title, if it has one yet.
            info: Further facts about the session, stored as JSON.
            position: Where the timeline continues, if the session is stored already.
        """
        return SessionLog(self, session_id, cwd=cwd, title=title, info=info, position=position)

    async def __aenter__(self) -> Self:
        """Return the history. Nothing is opened before it is needed."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the history."""
        await self.close()

    # For those who report

    def put(self, key: tuple[str, str], item: Waiting, session: SessionRow) -> None:
        """Queue an entry to be written soon. A later one with the same key replaces it.

        After the history has closed, the entry is only counted as lost.
        """
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
        """Wait until everything so far is durable.

        An entry is durable when it is in the store, or, if that fails or takes too long, in a spool on the
        disk of this machine.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            Whether everything so far is durable.
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
        """Wait as `flush` does, but without an event loop, until a time of `time.monotonic`."""
        done, left = self._flushed(), until - time.monotonic()
        wait({done}, max(0.0, min(SOON, left)))
        return _is_true(done) or self._spool_waiting()

    def _spool_waiting(self) -> bool:
        """Write to the spool what is not in the store yet. Return whether everything is durable."""
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
        """Return a future of whether everything so far is durable. It is done at once if the store fails."""
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
        """Query the store, in its thread. Entries that were put before are written first, if possible.

        Args:
            question: Called with the open store. It is called again if the store turns out to be damaged.

        Returns:
            The result of `question`.

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
        """Remove a session with its calls and messages, and their spill files.

        Returns:
            What was removed.

        Raises:
            StoreUnavailable: The history is closed, or the store can't be used now.
        """
        return await self.ask(lambda _: self._writer.forget(session_id))

    async def close(self, timeout: float = PATIENCE) -> None:
        """Write the waiting entries, and close the store. What can't be written in time is spooled.

        Args:
            timeout: Seconds to wait for the entries, and again for the thread to end.
        """
        if self._thread is None:
            return
        await self.flush(timeout)
        thread = self._stop()
        if thread is not None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, self._join, thread, timeout)

    def close_now(self, timeout: float = PATIENCE) -> None:
        """Close as `close` does, but without an event loop."""
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
        """Wait as `wait` does, when the process exits, and notify users of entries that are only spooled."""
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
        """Return the thread's event loop, and start the thread if needed. Return None if that fails."""
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
                # With a timeout: a signal handler that interrupts the start would wait for itself for ever.
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
        """Wait before the store is tried again. Entries that arrive meanwhile are encoded, and bounded."""
        assert self._hurry is not None
        until = time.monotonic() + seconds
        while not self._hurry.is_set() and (left := until - time.monotonic()) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), min(left, 0.5))
            self._take()
        self._hurry.clear()

    async def _next_news(self) -> None:
        """Wait for an entry, and a little longer for more of them. Do the upkeep when idle."""
        assert self._news is not None
        assert self._hurry is not None
        while not (self._news.is_set() or self._is_closing):
            try:
                await asyncio.wait_for(self._news.wait(), IDLE)
            except TimeoutError:
                while not self._news.is_set() and await self._writer.upkeep():
                    await asyncio.sleep(0)  # let new entries arrive
                await self._news.wait()
        if not self._hurry.is_set() and not self._is_closing:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), LINGER)
        self._news.clear()
        self._hurry.clear()

    async def _write_waiting(self) -> bool:
        """Encode and write the waiting entries. Return whether they are in the store."""
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
        """Encode the waiting entries. Other threads pass their own codec, which is not thread-safe."""
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
        """Start afresh in a forked child: the waiting entries, the thread and the files are the parent's."""
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
"""The writers of the parent process. The references stay, so that no finalizer closes the parent's stores."""


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
