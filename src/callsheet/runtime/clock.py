"""Time, as the runtime sees it. Tests put a fake in its place."""

from __future__ import annotations

from collections.abc import Callable
from time import gmtime, monotonic, strftime, time_ns
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio  # it takes long, and a tap, which an editor waits for, has no loop


class Timer(Protocol):
    """Something that will happen, unless it is cancelled."""

    def cancel(self) -> None:
        """Let it not happen."""
        ...


class Clock(Protocol):
    """What the runtime asks of time."""

    def time_ns(self) -> int:
        """Return the time of day, in nanoseconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never run backwards."""
        ...

    def call_later(
        self, loop: asyncio.AbstractEventLoop, delay: float, callback: Callable[[], None]
    ) -> Timer:
        """Call back on the loop after `delay` seconds. Called on the loop's thread."""
        ...


class SystemClock:
    """The time of this machine."""

    time_ns = staticmethod(time_ns)
    monotonic = staticmethod(monotonic)

    def call_later(
        self, loop: asyncio.AbstractEventLoop, delay: float, callback: Callable[[], None]
    ) -> Timer:
        """Call back on the loop after `delay` seconds."""
        return loop.call_later(delay, callback)


_last: tuple[int, str] = (-1, "")


def to_rfc3339(ns: int) -> str:
    """Return a time of day as RFC 3339 in UTC, to the millisecond."""
    global _last  # noqa: PLW0603 - the text of one second serves all its calls
    second, rest = divmod(ns, 1_000_000_000)
    known, text = _last
    if known != second:
        text = strftime("%Y-%m-%dT%H:%M:%S.", gmtime(second))
        _last = (second, text)
    return f"{text}{rest // 1_000_000:03d}Z"
