"""The consumer: delivery of a session's state to one sink.

It is state sync, not a message queue. Each consumer remembers, through its view, what its peer has
been sent, and encodes the difference to the current state (see `send_queue`).

Rules
-----
1. **Every status change is sent**, at once and in order. Other changes and live output are sent at
   least every `PACE` seconds, and are merged meanwhile.
2. **Delivered means delivered.** A line leaves only when the sink has taken it. If a send fails it
   is retried, and everything after it waits.
3. **Bounded.** A consumer that takes nothing for `dead_after` seconds, or falls too far behind, is
   abandoned. The tool never waits.
4. **Records are handed over at once.** A sink that stores calls is sent a call's beginning and its end
   within the change, by the thread that makes it: so a crash loses nothing, and what else the sink is
   told keeps its order. Such a sink is fast, takes everything, and never waits.

Threads: `put` and `output` are called under the session's lock, by any thread. All else happens on the
thread of the event loop, or, when that has ended, at the end of the process. The sink is passed a
deque of its own (`_sending`), so that it can be emptied without the lock while new lines are queued.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from threading import Thread, get_ident
from time import monotonic
from typing import TYPE_CHECKING, Any

from callsheet.acp.views import View
from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus
from callsheet.runtime.clock import Clock
from callsheet.runtime.live_output import Output
from callsheet.runtime.send_queue import SendQueue
from callsheet.runtime.sinks import Sink

if TYPE_CHECKING:
    from callsheet.runtime.session import RuntimeSession

PACE = 0.08
"""Seconds between two sends of changes that are no status changes, and of live output."""

RECORDS_PACE = 1.0
"""The same for records: a crash loses so much of what a live call has put out."""

QUIET = 0.16
"""Seconds after which a view is asked again for what it held back."""

LATE = 1.0
"""Seconds after which a delivery counts as late."""

RETRY = 0.05
"""Seconds until a failed send is tried again; doubled each time, up to `RETRY_MOST`."""

RETRY_MOST = 2.0

TRIES = 6
"""Consecutive failures after which a consumer is abandoned, unless they are of a temporary kind."""

_PASSING = (BlockingIOError, InterruptedError, TimeoutError, asyncio.CancelledError)
_BETWEEN = (ToolCallStatus.IN_PROGRESS, ToolCallStatus.PAUSED)
_GONE = (errno.EPIPE, errno.EBADF, errno.ECONNRESET, errno.ENOTCONN, errno.ESHUTDOWN)


_log = logging.getLogger("callsheet")


class TookNothing(Exception):
    """A sink returned without having taken anything."""


class Consumer:
    """What one consumer is still to be sent, and the sending."""

    def __init__(
        self, session: RuntimeSession, sink: Sink, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.sink: Sink = sink
        self.is_dead: bool = False
        self.queue: SendQueue = SendQueue(session, sink)
        self.view: View = self.queue.view
        # Whether it is sent plain calls without its view (`runtime.delivery`).
        self.is_direct: bool = False
        self._sending: deque[Any] = deque()
        self._session: RuntimeSession = session
        self._loop: asyncio.AbstractEventLoop = loop
        self._thread: int = session.thread
        self._clock: Clock = session.clock
        # Whether the loop will run it: as soon as it can, or at its pace.
        self.is_called: bool = False
        self._paced: bool = False
        self._pace: float = RECORDS_PACE if self.queue.takes_records else PACE
        self._next: float = 0.0
        self._forced: bool = False
        # Whether a send is under way, or will be tried again.
        self._busy: bool = False
        self._task: asyncio.Future[None] | None = None
        self._timers: dict[str, Any] = {}
        self._failing_since: float | None = None
        self._retry: float = RETRY
        self._tries: int = 0
        # How many lines were taken to be sent, ever: all are delivered once `_sending` is empty.
        self._taken: int = 0
        self._flushes: list[tuple[int, asyncio.Future[None]]] = []

    # Filling it, under the session's lock, from any thread

    def wake(self) -> None:
        """Let the loop send lines that were added to the queue."""
        if not self.is_called:
            self.is_called = True
            self._soon(self._run)
        if self.queue.is_long:
            self._is_far_behind()

    def put(self, report: ToolCallReport, moved: bool) -> None:
        """Queue a call's new state. `moved`: its status has changed, so that it is sent at once."""
        if self.is_dead:
            return
        queue = self.queue
        if not moved or (queue.takes_records and report.status in _BETWEEN):
            if queue.put(report) and not (self.is_called or self._paced):
                self._paced = True
                self._soon(self._run_paced)
            return
        if queue.waiting:
            queue.waiting.pop(report.tool_call_id, None)
            queue.encode_waiting()
        queue.encode(report)
        if queue.takes_records:
            if not self._busy or self._failing_since is not None:
                self._drain()
            if queue.is_long:
                self._is_far_behind()
        else:
            self.wake()

    def _is_far_behind(self) -> None:
        if not self._busy:
            self._session.is_behind = True  # not the consumer: the loop doesn't turn
        elif self.queue.weight > self.queue.MAX_WEIGHT:
            self.is_dead = True
            self._session.without(self)
            self._soon(lambda: self.die("it is too far behind"))

    def put_again(self, report: ToolCallReport, since: ToolCallReport | None) -> None:
        """Queue a call's new state, when an exception has interrupted `put` at an unknown point."""
        self.queue.view.forget(report.tool_call_id, since)
        self.queue.waiting[report.tool_call_id] = report
        self._soon(self._run)

    def output(self, output: Output, much: bool) -> None:
        """Queue a call's new output. `much`: there is enough of it to send now."""
        if self.is_dead:
            return
        if self.queue.output(output) and not (self.is_called or self._paced):
            self._paced = True
            self._soon(self._run_paced)
        if much and self.queue.wants_all:
            self._forced = True
            self.wake()

    @property
    def wants_more(self) -> bool:
        """Whether it would take live output now, if it had a turn."""
        waits = self._task is not None or self._failing_since is not None
        return self.queue.wants_all and not waits and not self.is_dead

    def _soon(self, callback: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: what waits is sent when the process ends
            if get_ident() == self._thread:
                self._loop.call_soon(callback)
            else:
                self._loop.call_soon_threadsafe(callback)

    def _later(self, what: str, seconds: float, callback: Callable[[], None]) -> None:
        """Call back after some time, unless that is to happen already."""
        if get_ident() != self._thread:
            self._soon(lambda: self._later(what, seconds, callback))
        elif what not in self._timers and not self._loop.is_closed():

            def fire() -> None:
                self._timers.pop(what, None)
                if not self.is_dead:
                    callback()

            self._timers[what] = self._clock.call_later(self._loop, seconds, fire)

    def _not_any_more(self, *names: str) -> None:
        for name in names or tuple(self._timers):
            timer = self._timers.pop(name, None)
            if timer is not None:
                timer.cancel()

    # Emptying it, on the loop's thread

    def _run(self) -> None:
        self.is_called = self._paced = False
        if self._timers:
            self._not_any_more("pace")
        if not self.is_dead and not self._busy:
            self._drain()

    def _run_paced(self) -> None:
        wait = self._next - self._clock.monotonic()
        if wait > 0:
            self._later("pace", wait, self._run)
        else:
            self._run()

    def drain_hard(self, *, everything: bool = False) -> None:
        """Send what waits without regard to pace; for what comes faster than the loop turns."""
        wanted = everything or self.queue.wants_all
        if wanted and not self._busy and not self.is_dead and self._loop.is_running():
            self._forced = True
            self._drain()

    def _drain(self) -> None:
        """Send until nothing is left that is due, or the sink has to be waited for."""
        self._busy = True
        queue, send = self.queue, self.sink.send
        try:
            while self._sending or self._take():
                lines = self._sending
                before = len(lines)
                waiting = send(lines)
                if waiting is not None and hasattr(waiting, "__await__"):
                    self._wait(waiting)
                    return
                if len(lines) == before:
                    raise TookNothing("its send() took nothing and gave nothing to await")  # noqa: TRY301
        except BaseException as exc:  # whatever a consumer raises, the tool goes on
            self._failed(exc)
            if isinstance(exc, (KeyboardInterrupt, SystemExit)):
                raise
            return
        if queue.outputs and not (self.is_called or self._paced):
            self._paced = True
            self._later("pace", self._pace, self._run)
        if queue.view.held and queue.view.waits:
            self._not_any_more("held")  # it is asked when nothing new has come since
            self._later("held", QUIET, self._insist)

    def _take(self) -> bool:
        """Take all lines to be sent next, with those of soft changes and of output that is due.

        All that was taken before is delivered. Return whether there is more. If not, nothing more is to
        be sent now.
        """
        queue = self.queue
        if self._tries:
            self._failing_since, self._tries = None, 0
        if self._flushes:
            self._resolve()
        if queue.waiting or queue.outputs:
            now = self._clock.monotonic()
            due = self._is_time(now)
            with self._session.delivery.encoding():
                queue.encode_waiting()
                if due:
                    queue.encode_outputs(now)
        elif not queue.lines and not queue.takes_records:
            self._busy = False  # a line that another thread adds just now has scheduled a run
            return False
        with self._session.lock:
            if not queue.lines:
                self._busy = False
                return False
            self._sending, queue.lines = queue.lines, self._sending
            self._taken, queue.weight = self._taken + len(self._sending), 0
            return True

    def _is_time(self, now: float) -> bool:
        """Whether it is time for live output. If not, it will be."""
        if now < self._next and not self._forced:
            if self.queue.outputs:
                self._paced = True
                self._later("pace", self._next - now, self._run)
            return False
        self._forced = False
        self._next = now + self._pace
        return True

    def _insist(self) -> None:
        """Ask the view again for what it held back: nothing new has come for a while."""
        if not self._busy:
            with self._session.delivery.encoding():
                self.queue.insist()
            self._drain()

    def _resolve(self) -> None:
        """Release those who wait for the delivery of what was taken."""
        if get_ident() != self._thread:  # a record that another thread has put
            self._soon(self._resolve)
            return
        waiting = self._flushes
        self._flushes = [(mark, future) for mark, future in waiting if mark > self._taken]
        for mark, future in waiting:
            if mark <= self._taken and not future.done():
                future.set_result(None)

    # Waiting, failing, giving up

    def _wait(self, waiting: Awaitable[None]) -> None:
        self._task = task = asyncio.ensure_future(waiting, loop=self._loop)
        task.add_done_callback(self._waited)
        self._later("late", LATE, self._is_late)
        self._watch_over()

    def _waited(self, task: asyncio.Future[None]) -> None:
        self._task = None
        self._not_any_more("late", "watch")
        cancelled = task.cancelled()
        exc = asyncio.CancelledError() if cancelled else task.exception()
        if self.is_dead:
            return
        if exc is not None:
            self._failed(exc)
            return
        self._drain()

    def _is_late(self) -> None:
        self._session.faults.count("a consumer is slow to take what it is sent", late=1)

    def _watch_over(self) -> None:
        """Abandon the consumer unless it takes something in time."""
        before, patience = self._progress(), self._session.dead_after

        def look() -> None:
            if self._task is not None and self._progress() == before:
                self.die(f"it took nothing for {patience:g} seconds")
            elif self._task is not None:
                self._watch_over()

        self._later("watch", patience, look)

    def _progress(self) -> tuple[int, int]:
        taken: int = getattr(self.sink, "taken", 0)
        return len(self._sending), taken

    def _failed(self, exc: BaseException) -> None:
        """Handle a failed send: retry later, or abandon the consumer. What was not taken is still queued."""
        now = self._clock.monotonic()
        what = f"a consumer failed: {type(exc).__name__}: {exc}"
        self._session.faults.count(what, failed=1)
        if self._failing_since is None:
            self._failing_since, self._retry = now, RETRY
        self._tries += 1
        gone = isinstance(exc, OSError) and (isinstance(exc, ConnectionError) or exc.errno in _GONE)
        hopeless = self._tries >= TRIES and not isinstance(exc, _PASSING)
        if gone or hopeless or now - self._failing_since >= self._session.dead_after:
            self.die(what)
            return
        self._later("retry", self._retry, self._drain)
        self._retry = min(2 * self._retry, RETRY_MOST)

    def die(self, why: str) -> None:
        """Abandon the consumer: drop what waits for it, and release whoever waits for its delivery."""
        said = self._session.faults.clean(why)
        _log.warning("session %s: a consumer is given up: %s", self._session.session_id, said)
        waited = self.forget()
        if waited:
            self._session.faults.tally(dropped=waited)
        self._session.lost(self, why)

    def forget(self) -> int:
        """Send nothing more. Return how many changes and lines were waiting."""
        self.is_dead = True
        self._busy = False
        with self._session.lock:
            waited = self.queue.clear() + len(self._sending)
            # A new one, since a shared pipe may be in the midst of the old one's lines.
            self._sending = deque()
        self._not_any_more()
        if self._task is not None:
            self._task.cancel()
        for _, future in self._flushes:
            if not future.done() and not self._loop.is_closed():
                future.set_result(None)
        self._flushes.clear()
        return waited

    def close(self) -> None:
        """Close the sink. What still waits is not sent."""
        self.forget()
        with suppress(Exception):
            self.sink.close()

    # Barriers

    def flush(self) -> asyncio.Future[None] | None:
        """Send all that was reported so far. Return a future where that takes time."""
        if self.is_dead or (self._task is not None and _is_current(self._task)):
            return None  # one who is being served can't wait for being served
        queue = self.queue
        if queue.waiting or queue.outputs or self.view.held:
            with self._session.delivery.encoding():
                queue.encode_waiting()
                queue.encode_outputs(self._clock.monotonic())
                queue.insist(whatever_it_costs=True)
        if not self._busy:
            self._drain()
            if not self._busy:
                return None
        future = self._loop.create_future()
        with self._session.lock:
            self._flushes.append((self._taken + len(queue.lines), future))
            if not self._busy:  # another thread has just put a record, and sent all that there was
                self._drain()
        return future

    def send_now(self, until: float) -> None:
        """Send what waits without an event loop, until a monotonic time; for the end of a process."""
        queue, sink = self.queue, self.sink
        send: Any = getattr(sink, "send_now", None)
        try:
            while not self.is_dead:
                if not self._sending:
                    with self._session.delivery.encoding():
                        queue.encode_waiting()
                        queue.encode_outputs(float("inf"))
                    self._sending, queue.lines = queue.lines, self._sending
                lines = self._sending
                before = len(lines)
                # One that stores calls is asked also if nothing is left to send.
                if send is not None:
                    send(lines, until)
                elif lines:
                    _await_now(sink.send(lines), until)
                if len(lines) == before or monotonic() > until:
                    break
        except BaseException as exc:  # noqa: BLE001 - nothing may disturb the end of a process
            self._session.faults.count(f"a consumer failed: {type(exc).__name__}: {exc}", failed=1)
        self.is_dead = True


def _is_current(task: asyncio.Future[None]) -> bool:
    try:
        return asyncio.current_task() is task
    except RuntimeError:
        return False


def _await_now(waiting: Any, until: float) -> None:
    """Wait for an async consumer on a loop of its own: its old one has ended."""
    if waiting is not None and hasattr(waiting, "__await__"):

        async def wait() -> None:
            await asyncio.wait_for(waiting, max(0.01, until - monotonic()))

        # In a thread of its own, since another loop may be running in this one.
        errors: list[BaseException] = []

        def run() -> None:
            try:
                asyncio.run(wait())
            except BaseException as exc:  # noqa: BLE001 - raised in the thread that waits
                errors.append(exc)

        thread = Thread(target=run, daemon=True)
        thread.start()
        thread.join(max(0.01, until - monotonic()) + 0.5)
        if errors:
            raise errors[0]
