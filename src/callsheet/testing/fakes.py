"""Fakes for tests: a clock that the test advances, and peers that misbehave behind real pipes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from threading import Event, Thread
from typing import Self

from callsheet.acp.peer import Peer
from callsheet.runtime.sinks import PipeSink


class FakeClock:
    """A clock for `Session(clock=…)`. Time stands still until `advance`, which fires the timers that are due.

    Args:
        start: The time of day at the beginning, in seconds since 1970.
    """

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now: float = 0.0
        self._start: int = int(start * 1_000_000_000)
        self._timers: list[tuple[float, int, _FakeTimer]] = []
        self._number: count[int] = count()

    def time_ns(self) -> int:
        """Return the time of day, in nanoseconds since 1970."""
        return self._start + round(self._now * 1_000_000_000)

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self._now

    def call_later(
        self, loop: asyncio.AbstractEventLoop, delay: float, callback: Callable[[], None]
    ) -> _FakeTimer:
        """Schedule a callback after `delay` seconds, and return its timer."""
        del loop  # time passes when `advance` is called, on whatever loop that is
        timer = _FakeTimer(callback)
        heappush(self._timers, (self._now + delay, next(self._number), timer))
        return timer

    async def advance(self, seconds: float) -> None:
        """Advance the clock. Stop at each timer on the way, so that its work sees the time that it is due."""
        end = self._now + seconds
        await self._settle()
        while self._timers and self._timers[0][0] <= end:
            due, _, timer = heappop(self._timers)
            self._now = max(self._now, due)
            timer.fire()
            await self._settle()
        self._now = end

    async def _settle(self) -> None:
        # Several rounds: a callback may wake a task that wakes another one.
        for _ in range(5):
            await asyncio.sleep(0)


class _FakeTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Cancel the timer."""
        self._callback = None

    def fire(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class SlowPeer:
    """A client that reads slowly: `with SlowPeer(rate=1024) as slow: Session(sinks=[slow.sink()])`.

    `received` holds the bytes that it has read so far.

    Args:
        rate: Bytes to read per second; with 0, it reads nothing.
        step: Bytes to read at once.
    """

    def __init__(self, rate: float = 1024, *, step: int = 256) -> None:
        self.received: bytearray = bytearray()
        self._rate: float = rate
        self._step: int = step
        self._stop: Event = Event()
        self._read_end: int = -1
        self._write_end: int = -1
        self._thread: Thread | None = None

    def sink(self, peer: Peer | None = None) -> PipeSink:
        """Return a sink that writes to this peer."""
        return PipeSink(self._write_end, peer)

    def __enter__(self) -> Self:
        """Open the pipe, and begin to read."""
        self._read_end, self._write_end = os.pipe()
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop reading, and close the pipe."""
        self._stop.set()
        os.close(self._write_end)
        if self._thread is not None:
            self._thread.join(timeout=5)
        self._close_read_end()

    def _read(self) -> None:
        while self._rate and not self._stop.wait(self._step / self._rate):
            data = os.read(self._read_end, self._step)
            if not data:
                return
            self.received += data

    def _close_read_end(self) -> None:
        if self._read_end >= 0:
            os.close(self._read_end)
            self._read_end = -1


class DyingPeer(SlowPeer):
    """A client that reads until it has `lines` lines, and then closes its end of the pipe."""

    def __init__(self, lines: int = 1) -> None:
        super().__init__()
        self._lines: int = lines
        self.has_died: Event = Event()

    def _read(self) -> None:
        while not self._stop.is_set() and self.received.count(b"\n") < self._lines:
            data = os.read(self._read_end, self._step)
            if not data:
                break
            self.received += data
        self._close_read_end()
        self.has_died.set()
