"""Time that passes when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count


class FakeClock:
    """A clock for `Session(clock=…)`. `advance` lets time pass, and what is due then happens."""

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
        """Call back when `delay` seconds have passed."""
        del loop  # time passes when `advance` is called, on whatever loop that is
        timer = _FakeTimer(callback)
        heappush(self._timers, (self._now + delay, next(self._number), timer))
        return timer

    async def advance(self, seconds: float) -> None:
        """Let time pass, stopping at each timer on the way so that its work is done in its time."""
        end = self._now + seconds
        await self._settle()
        while self._timers and self._timers[0][0] <= end:
            due, _, timer = heappop(self._timers)
            self._now = max(self._now, due)
            timer.fire()
            await self._settle()
        self._now = end

    async def _settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


class _FakeTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Let it not happen."""
        self._callback = None

    def fire(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()
