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
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from msgspec import Struct

from callsheet.report.values import EMPTY, JsonObject

from .errors import BadUrl, HistoryError, NotKept, StoreDamaged, StoreTooNew, StoreUnavailable
from .log import SessionLog, Waiting
from .places import store_at, without_password
from .rows import Batch, BlobRow, CallRow, MessageRow, Retention, SessionRow
from .store import Store

_T = TypeVar("_T")

LINGER = 0.05
"""Seconds in which more is waited for, before something is written."""

MUCH = 1000
"""Rows that are written at once, and bytes of them."""
MUCH_BYTES = 8 << 20

MOST_WAITING = 64 << 20
"""Bytes that may wait for a store that can't be written."""

RETRY, RETRY_MOST = 0.25, 15.0
IDLE = 2.0
"""Seconds without news after which there is time to index and to tidy up."""

TIDY_EVERY = 3600.0
PATIENCE = 5.0
"""Seconds that `flush` and `close` wait at most."""

KEEP = Retention(max_age=90 * 86400.0, max_calls=1_000_000, max_bytes=2 << 30)
"""How much is kept if nobody says otherwise."""


class HistoryHealth(Struct):
    """How well it goes. `problem` is what keeps the store from being written now."""

    written: int = 0
    lost: int = 0
    problem: str | None = None


class _Item(Struct, gc=False):
    row: CallRow | MessageRow
    blobs: list[BlobRow]
    size: int


def _answer(flushes: list[Future[bool]], is_durable: bool) -> None:
    for done in flushes:
        if done.set_running_or_notify_cancel():
            done.set_result(is_durable)


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
        forget_spills: Callable[[list[str]], None] | None = None,
    ) -> None:
        self.url: str = without_password(url)
        self.health: HistoryHealth = HistoryHealth()
        self._store: Store = store_at(url)
        self._keep: Retention = keep
        self._tell: Callable[[str], None] = tell
        self._forget_spills: Callable[[list[str]], None] | None = forget_spills
        self.lock: threading.RLock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: asyncio.Event | None = None
        self._hurry: asyncio.Event | None = None
        # What waits, under the lock; and what the thread has taken of it, until that is durable.
        self._given: dict[tuple[str, str], Waiting] = {}
        self._sessions: dict[str, SessionRow] = {}
        self._flushes: list[Future[bool]] = []
        self._is_awake: bool = False
        self._is_behind: bool = False
        self._taken_sessions: dict[str, SessionRow] = {}
        self._packed: dict[tuple[str, str], _Item] = {}
        self._packed_bytes: int = 0
        self._is_closing: bool = False
        self._has_ended: bool = False
        self._is_open: bool = False
        self._is_hopeless: bool = False
        self._said_lost: bool = False
        self._tidied: float | None = None

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

    # For whoever reports

    def put(self, key: tuple[str, str], item: Waiting, session: SessionRow) -> None:
        """Write an item down soon. A later one under the same key takes its place."""
        with self.lock:
            self._given[key] = item
            self._sessions[session.session_id] = session
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
            if not self._given and not self._is_behind:
                done.set_result(True)
            elif self.health.problem is not None or self._has_ended:
                done.set_result(False)
            else:
                self._flushes.append(done)
        if not done.done():
            self._wake(hurry=True)
        return done

    async def ask(self, question: Callable[[Store], Awaitable[_T]]) -> _T:
        """Ask the store something, in its thread. What was put before is written first, if it can be."""
        await self.flush()
        loop = self._started()

        async def answer() -> _T:
            await self._opened()
            return await question(self._store)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(answer(), loop))

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
            if not (self._packed and self.health.problem):
                await self._next_news()
            problem = await self._write_waiting()
            if self._is_closing and (problem or not self._given):
                break
            if problem:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._hurry.wait(), pause)
                self._hurry.clear()
                pause = min(2 * pause, RETRY_MOST)
            else:
                pause = RETRY
        with self.lock:
            self._has_ended, flushes = True, self._flushes
        _answer(flushes, False)
        await self._store.close()

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

    async def _write_waiting(self) -> str | None:
        """Pack and write what waits. Gives what is wrong with the store, if anything is."""
        with self.lock:
            given, self._given = self._given, {}
            flushes, self._flushes = self._flushes, []
            self._taken_sessions |= self._sessions
            self._sessions = {}
            self._is_behind, self._is_awake = True, False
        self._pack(given)
        try:
            await self._opened()
            while self._packed or self._taken_sessions:
                await self._write_some()
        except Exception as exc:  # noqa: BLE001 - whatever it is, the work goes on
            await self._failed(exc)
            _answer(flushes, False)
            return str(exc)
        self._succeeded()
        _answer(flushes, True)
        return None

    def _pack(self, given: dict[tuple[str, str], Waiting]) -> None:
        packer = self._store.packer
        for key, item in given.items():
            try:
                row, blobs = item.pack(packer)
            except Exception as exc:  # noqa: BLE001 - one that can't be kept must not keep the others from it
                self.health.lost += 1
                self._tell(f"The entry {key[1]} can't be kept: {type(exc).__name__}: {exc}")
                continue
            size = len(row.payload) + 500
            if blobs:
                size += sum([len(blob.data) for blob in blobs])
            old = self._packed.get(key)
            self._packed_bytes += size - (old.size if old else 0)
            self._packed[key] = _Item(row, blobs, size)

    async def _write_some(self) -> None:
        """Write as much as is written at once."""
        sessions, keys, size = list(self._taken_sessions.values()), list[tuple[str, str]](), 0
        batch = Batch(sessions=sessions)
        for key, item in self._packed.items():
            (batch.calls if isinstance(item.row, CallRow) else batch.messages).append(item.row)  # pyright: ignore[reportArgumentType]
            batch.blobs += item.blobs
            keys.append(key)
            size += item.size
            if len(keys) >= MUCH or size >= MUCH_BYTES:
                break
        await self._store.write(batch)
        self._taken_sessions = {}
        for key in keys:
            self._packed_bytes -= self._packed.pop(key).size
        self.health.written += len(keys)

    async def _opened(self) -> None:
        if not self._is_open:
            if self._is_hopeless:
                raise StoreUnavailable(self.health.problem or "The history can't be used.")
            for news in await self._store.open():
                self._tell(news)
            self._is_open = True

    def _succeeded(self) -> None:
        problem, self.health.problem = self.health.problem, None
        self._is_behind = False
        if problem is not None:
            lost = f" {self.health.lost} entries were lost." if self.health.lost else ""
            self._tell(f"{self.url} is written again, with all that has waited.{lost}")
            self._said_lost = False

    async def _failed(self, exc: Exception) -> None:
        """Say once what is wrong, and hold what waits within its bounds."""
        if not isinstance(exc, HistoryError):
            exc = HistoryError(f"{type(exc).__name__}: {exc}")
        first, self.health.problem = self.health.problem is None, str(exc)
        hopeless = isinstance(exc, (BadUrl, StoreTooNew, NotKept))
        if first and hopeless:
            self._tell(f"{exc} Nothing is kept.")
        elif first:
            self._tell(
                f"{exc} The work goes on; what is to be kept waits, and is written when it can be."
            )
        if hopeless:
            self._is_hopeless = True
            self._drop(0)
        else:
            if isinstance(exc, StoreDamaged):  # it is opened anew, and set aside
                await self._store.close()
                self._is_open = False
            self._drop(MOST_WAITING)

    def _drop(self, limit: int) -> None:
        """Let go of the oldest, until what waits is small enough."""
        while self._packed and self._packed_bytes > limit:
            key = next(iter(self._packed))
            self._packed_bytes -= self._packed.pop(key).size
            self.health.lost += 1
            if not self._said_lost and not self._is_hopeless:
                self._said_lost = True
                self._tell(
                    f"More than {limit >> 20} MB wait for {self.url}: the oldest calls are let go."
                )

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
        except HistoryError:  # whatever it is, the next write will say so
            return False
        return False
