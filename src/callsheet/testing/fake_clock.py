"""A clock that a test advances, for sessions whose timers are not to be waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any

from callsheet.runtime.clock import Clock


class FakeClock(Clock):
    """A clock for `Session(clock=…)`. Time stands still until `advance`, which fires the timers that are due.

    Args:
        start: The time of day at the beginning, in seconds since 1970.
    """

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now: float = 0.0
        self._start: int = int(start * 1_000_000_000)
        self._timers: list[tuple[float, int, _FakeTimer]] = []
        self._number: count[int] = count()

    def time_ns(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the time of day, in nanoseconds since 1970."""
        return self._start + round(self._now * 1_000_000_000)

    def monotonic(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the seconds that have passed."""
        return self._now

    def call_later(
        self, loop: asyncio.AbstractEventLoop, delay: float, callback: Callable[[], None]
    ) -> Any:
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
