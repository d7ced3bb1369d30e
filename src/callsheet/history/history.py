"""The history of one process: a thread that writes what sessions report, in batches and in order.

Reporting never waits for the store: `put` adds an entry to a dict (see `Writer.put`). The thread encodes the
waiting entries and writes them in batches (see `writer`). `flush` returns when everything that was put
before is durable: in the store, or, if that takes too long, in a local spool.

The thread waits for jobs. None means that there are entries, which may wait a little for more of them.
Anything else is run after the entries before it are written, as far as they can be: a question, a flush,
the end.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from queue import Empty, SimpleQueue
from secrets import token_hex
from typing import Self, TypeAlias, TypeVar
from weakref import WeakSet

from callsheet.history.rows import KEEP, Pruned, Retention, SessionRow
from callsheet.history.sink import SessionLog, Waiting
from callsheet.history.store import Store
from callsheet.history.store_errors import StoreUnavailable
from callsheet.history.url import without_password
from callsheet.history.writer import HistoryHealth, Writer
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

Job: TypeAlias = Callable[[], None]

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
        self._make: Callable[[], Writer] = lambda: Writer(url, keep, notify, forget_spills)
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        self.run: str = token_hex(8)
        self._writer: Writer = self._make()
        self._thread: threading.Thread | None = None
        # A `SimpleQueue` can be put to by a signal handler that has interrupted a `put`.
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._is_awake: bool = False
        self._is_closing: bool = False
        self._is_closed: bool = False

    @property
    def health(self) -> HistoryHealth:
        """How many entries were written, wait or are lost, and the current problem, if any."""
        return self._writer.health

    @property
    def lock(self) -> threading.RLock:
        """The lock that is held while an entry is put."""
        return self._writer.lock

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
                self._writer.put_count += 1
                self.health.lost += 1
                return
            self._writer.put(key, item, session)
            if self._is_awake:
                return
            self._is_awake = True
        self._jobs.put(None)
        if not self._start():
            self._is_awake = False  # the next that is put tries again

    async def flush(self, timeout: float = PATIENCE) -> bool:
        """Wait until everything so far is durable.

        An entry is durable when it is in the store, or, if that fails or takes too long, in a spool on the
        disk of this machine.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            Whether everything so far is durable.
        """
        mark = self._writer.put_count
        done = asyncio.wrap_future(self._flushed())
        await asyncio.wait({done}, timeout=min(SOON, timeout))
        if self._is_durable(mark):
            return True
        try:
            await asyncio.to_thread(self._spool)
        except RuntimeError:  # no thread can be started
            self._spool()
        if not self._is_durable(mark) and not done.done():
            await asyncio.wait({done}, timeout=max(0.0, timeout - SOON))
        return self._is_durable(mark)

    def wait(self, until: float) -> bool:
        """Wait as `flush` does, but without an event loop, until a time of `time.monotonic`."""
        mark, done = self._writer.put_count, self._flushed()
        wait({done}, max(0.0, min(SOON, until - time.monotonic())))
        if not self._is_durable(mark):
            self._spool()
        return self._is_durable(mark)

    def _flushed(self) -> Future[None]:
        """Return a future that is done when the entries so far are written, or the store fails."""
        is_durable = self._is_durable(self._writer.put_count)
        done = None if is_durable else self._submit(lambda: None)
        if done is None or self.health.problem is not None:
            done = Future[None]()
            done.set_result(None)
        return done

    def _is_durable(self, mark: int) -> bool:
        return self._writer.durable >= mark

    def _spool(self) -> None:
        if not self._is_closed:
            self._writer.spool()

    async def ask(self, question: Callable[[Store], _T]) -> _T:
        """Query the store, in its thread. Entries that were put before are written first, if possible.

        Args:
            question: Called with the open store. It is called again if the store turns out to be damaged.

        Returns:
            The result of `question`.

        Raises:
            StoreUnavailable: The history is closed, or the store can't be used now.
        """

        def answer() -> _T:
            if self._is_closed:
                raise StoreUnavailable("The history was closed meanwhile.")
            return self._writer.ask(question)

        done = self._submit(answer)
        if done is None:
            problem = "The history is closed." if self._is_closed else self.health.problem
            raise StoreUnavailable(problem or "The history can't be asked now.")
        return await asyncio.wrap_future(done)

    async def forget(self, session_id: str) -> Pruned:
        """Remove a session with its calls and messages, and their spill files.

        Returns:
            What was removed.

        Raises:
            StoreUnavailable: The history is closed, or the store can't be used now.
        """
        pruned = await self.ask(lambda store: store.forget(session_id))
        self._writer.release_spills(pruned)
        return pruned

    async def close(self, timeout: float = PATIENCE) -> None:
        """Write the waiting entries, and close the store. What can't be written in time is spooled.

        Args:
            timeout: Seconds to wait for the entries, and again for the thread to end.
        """
        if self._thread is not None:
            await self.flush(timeout)
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, self._stop, timeout)

    def close_now(self, timeout: float = PATIENCE) -> None:
        """Close as `close` does, but without an event loop."""
        if self._thread is not None:
            self.wait(time.monotonic() + timeout)
            self._stop(timeout)

    def _stop(self, timeout: float) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._is_closing = True
        self._jobs.put(lambda: None)
        thread.join(timeout)
        if thread.is_alive():  # the store takes longer than there is time
            self._writer.leave()

    def at_last(self, until: float) -> bool:
        """Wait as `wait` does, when the process exits, and notify users of entries that are only spooled."""
        if self._is_closed:
            return True
        is_durable = self.wait(until)
        self._writer.leave()
        return is_durable

    # The thread

    def _start(self) -> bool:
        """Start the thread, unless it runs. Return whether it does."""
        with self.lock:
            if self._thread is None and not self._is_closing:
                thread = threading.Thread(target=self._work, name="callsheet-history", daemon=True)
                self._thread = thread
                try:
                    thread.start()
                except RuntimeError as exc:
                    self._thread = None
                    self._writer.stuck(f"No thread can be started: {exc}.")
            return self._thread is not None

    def _submit(self, work: Callable[[], _T]) -> Future[_T] | None:
        """Let the thread do something soon. Return None if it can't."""
        done: Future[_T] = Future()

        def job() -> None:
            if done.set_running_or_notify_cancel():
                try:
                    done.set_result(work())
                except BaseException as exc:  # noqa: BLE001 - whoever waits for it gets it
                    done.set_exception(exc)

        with self.lock:
            if self._is_closed or not self._start():
                return None
            self._jobs.put(job)
        return done

    def _work(self) -> None:
        pause = RETRY
        while True:
            jobs = self._gather(pause) if self._writer.is_behind else self._next_jobs()
            self._is_awake = False
            is_written = self._writer.write()
            for job in jobs:
                job()
            if self._is_closing and not (is_written and self._writer.entries):
                break
            pause = RETRY if is_written else min(2 * pause, RETRY_MOST)
        with self.lock:
            self._is_closed = True
        self._writer.end()
        for job in self._waiting_jobs():
            job()

    def _next_jobs(self) -> list[Job]:
        """Wait for something to do, and a little longer for more entries. Do the upkeep when idle."""
        try:
            job = self._jobs.get(timeout=IDLE)
        except Empty:
            while self._jobs.empty() and self._writer.upkeep():
                pass
            job = self._jobs.get()
        return self._gather(LINGER) if job is None else [job, *self._waiting_jobs()]

    def _gather(self, seconds: float) -> list[Job]:
        """Wait so long, or until there is a job. Entries that arrive meanwhile are encoded, and bounded."""
        until = time.monotonic() + seconds
        while not self._is_closing and (left := until - time.monotonic()) > 0:
            try:
                job = self._jobs.get(timeout=min(left, 0.5))
            except Empty:
                self._writer.encode()
            else:
                if job is not None:
                    return [job, *self._waiting_jobs()]
        return self._waiting_jobs()

    def _waiting_jobs(self) -> list[Job]:
        jobs: list[Job] = []
        with suppress(Empty):
            while True:
                job = self._jobs.get_nowait()
                if job is not None:
                    jobs.append(job)
        return jobs

    def after_fork(self) -> None:
        """Start afresh in a forked child: the waiting entries, the thread and the files are the parent's."""
        _parents.append(self._writer)
        self._writer.spool_file.drop()
        self._writer.drop_claimed()
        self._begin()


_parents: list[Writer] = []
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


os.register_at_fork(after_in_child=_forked)
