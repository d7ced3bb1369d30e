"""The history of one process: a thread that writes what sessions report, in batches and in order.

Reporting never waits for the store: `put` adds an entry to a dict. The thread encodes the
waiting entries and writes them in batches (see `writer`). `flush` returns when everything that was put
before is durable: in the store, or, if that takes too long, in a local spool.

The thread waits for jobs. None means that there are entries, which may wait a little for more of them.
Any other job is run after the entries before it are written, as far as they can be: a question, a flush, the
end.
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
from hashlib import blake2b
from queue import Empty, SimpleQueue
from secrets import token_hex
from typing import Self, TypeAlias, TypeVar
from weakref import WeakSet

from msgspec.structs import replace

from callsheet.history.call_records import Price, Waiting, column_text
from callsheet.history.origin import here, hidden
from callsheet.history.rows import KEEP, UNKNOWN, Origin, Pruned, Retention, SessionRow
from callsheet.history.sink import SessionLog
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
    """Write a message to stderr. Do nothing if stderr can't be written, or was closed at the start."""
    with suppress(OSError, ValueError, AttributeError):
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
        price: Estimates what a turn has cost whose agent reports no cost, such as
            `callsheet.telemetry.prices.estimated`.
    """

    def __init__(
        self,
        url: str,
        *,
        keep: Retention = KEEP,
        notify: Callable[[str], None] = to_stderr,
        forget_spills: Callable[[list[str]], object] | None = None,
        price: Price | None = None,
    ) -> None:
        self.url: str = without_password(url)
        self._make: Callable[[], Writer] = lambda: Writer(url, keep, notify, forget_spills, price)
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        self.run: str = token_hex(8)
        self._writer: Writer = self._make()
        self.health: HistoryHealth = self._writer.health
        """How many entries were written, wait or are lost, and the current problem, if any."""
        self.lock: threading.RLock = self._writer.lock
        """The lock that is held while an entry is put."""
        self._thread: threading.Thread | None = None
        # A `SimpleQueue` can be put to by a signal handler that has interrupted a `put`.
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._is_awake: bool = False
        self._is_closing: bool = False
        self._is_closed: bool = False

    @property
    def fingerprint(self) -> str:
        """What tells this store from others, without saying where it is."""
        return blake2b(self.url.encode(), digest_size=8).hexdigest()

    def session(
        self,
        session_id: str,
        *,
        cwd: str = "",
        title: str = "",
        info: JsonObject = EMPTY,
        origin: Origin = UNKNOWN,
        position: int = 0,
    ) -> SessionLog:
        """Return the log of a session, which is a sink.

        Args:
            session_id: The session's id.
            cwd: The session's directory.
            title: The session's title, if it has one yet.
            info: Further facts about the session, stored as JSON.
            origin: Who makes its calls. The user and the machine are this process's, unless it names them,
                and without a source it is an agent that reports by itself.
            position: Where the timeline continues, if the session is stored already.
        """
        now = time.time()
        row = SessionRow(
            session_id=column_text(session_id),
            cwd=column_text(hidden(cwd)),
            title=column_text(hidden(title)),
            info=info,
            created_at=now,
            updated_at=now,
            origin=here(origin if origin.source else replace(origin, source="agent")),
        )
        return SessionLog(self, row, position)

    async def __aenter__(self) -> Self:
        """Return the history. Nothing is opened before it is needed."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the history."""
        await self.close()

    # For those who report

    def put(self, entry: Waiting) -> None:
        """Queue an entry to be written soon, while `lock` is held. A later one with its key replaces it.

        After the history has closed, the entry is only counted as lost.
        """
        writer = self._writer
        writer.put_count += 1
        if self._is_closed:
            self.health.lost += 1
            return
        writer.entries[entry.key] = entry
        if not self._is_awake:
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
        is_durable = self._writer.durable >= self._writer.put_count
        return is_durable or await _in_thread(lambda: self.wait(time.monotonic() + timeout))

    def wait(self, until: float) -> bool:
        """Wait as `flush` does, but without an event loop, until a time of `time.monotonic`."""
        writer, mark = self._writer, self._writer.put_count
        if writer.durable >= mark:
            return True
        # What fails is not waited for.
        done = self._submit(lambda: None) if self.health.problem is None else None
        for patience in (SOON, PATIENCE):
            if done is not None and writer.durable < mark:
                wait({done}, max(0.0, min(patience, until - time.monotonic())))
            if writer.durable < mark and not self._is_closed:
                writer.spool()
        return writer.durable >= mark

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
            await _in_thread(lambda: self.close_now(timeout))

    def close_now(self, timeout: float = PATIENCE) -> None:
        """Close as `close` does, but without an event loop."""
        thread = self._thread
        if thread is None:
            return
        self.wait(time.monotonic() + timeout)
        self._thread, self._is_closing = None, True
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
            job = self._next_job(pause)
            self._is_awake = False
            is_written = self._writer.write()
            if job is not None:
                job()
            if self._is_closing and not (is_written and self._writer.entries):
                break
            pause = RETRY if is_written else min(2 * pause, RETRY_MOST)
        with self.lock:
            self._is_closed = True
        self._writer.end()
        while not self._jobs.empty():
            if (job := self._jobs.get()) is not None:
                job()

    def _next_job(self, pause: float) -> Job | None:
        """Wait for a job. Return None if entries are to be written, which may have waited for more of them.

        Args:
            pause: Seconds after which to try it again, if something waits that could not be written.
        """
        if not self._writer.is_behind:
            try:
                job = self._jobs.get(timeout=IDLE)
            except Empty:
                while self._jobs.empty() and self._writer.upkeep():
                    pass
                job = self._jobs.get()
            if job is not None:
                return job
            pause = LINGER
        until = time.monotonic() + pause
        while not self._is_closing and (left := until - time.monotonic()) > 0:
            try:
                job = self._jobs.get(timeout=min(left, 0.5))
            except Empty:
                if self._writer.is_behind:  # what comes during an outage is spooled
                    self._writer.spool()
            else:
                if job is not None:
                    return job
        return None

    def after_fork(self) -> None:
        """Start afresh in a forked child: the waiting entries, the thread and the files are the parent's."""
        _parents.append(self._writer)
        self._writer.release_locks()
        self._begin()


_parents: list[Writer] = []
"""The writers of the parent process. The references stay, so that no finalizer closes the parent's stores."""


async def _in_thread(work: Callable[[], _T]) -> _T:
    """Return what a function returns that may wait, without holding up the event loop."""
    try:
        return await asyncio.to_thread(work)
    except RuntimeError:  # no thread can be started
        return work()


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
