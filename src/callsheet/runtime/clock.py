"""Clocks, the time that a call took, what it used, and the ids that are made from time.

Tests put a fake `Clock` in place of the system's.

An operating system counts CPU time and memory by process, not by call. So CPU time is what the
process used while the call ran, and what the children used that ended meanwhile; calls that run at
the same time share it. Memory is the highest peak so far of the process, or of a child if one set a
new peak meanwhile. Whoever knows better, such as a tool that waits for a child of its own, reports
that (`Call.usage`). Asking the system costs microseconds, so an answer serves for a millisecond.

`new_call_id` is the one factory of this process: ids increase across all sessions and threads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from secrets import randbits
from time import gmtime, monotonic, process_time, strftime, time_ns
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from callsheet.report.ids import IdFactory

if TYPE_CHECKING:
    import asyncio


class Timer(Protocol):
    """Something that will happen, unless it is cancelled."""

    def cancel(self) -> None:
        """Cancel the timer."""
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


_last_second: tuple[int, str] = (-1, "")


def to_rfc3339(ns: int) -> str:
    """Return a time of day as RFC 3339 in UTC, to the millisecond."""
    global _last_second  # noqa: PLW0603 - the text of one second serves all its calls
    second, rest = divmod(ns, 1_000_000_000)
    known, text = _last_second
    if known != second:
        text = strftime("%Y-%m-%dT%H:%M:%S.", gmtime(second))
        _last_second = (second, text)
    return f"{text}{rest // 1_000_000:03d}Z"


try:
    import resource
except ImportError:  # Windows
    resource = None

_FRESH = 0.001
_KB = 1024 if sys.platform == "darwin" else 1  # macOS counts bytes


class Sample(Struct, frozen=True):
    """What was used so far, by this process and by its children that have ended."""

    cpu: float
    peak_kb: int | None
    child_peak_kb: int


_last_sample: tuple[float, Sample] = (float("-inf"), Sample(0.0, None, 0))


def sample(now: float) -> Sample:
    """Return what was used until `now`, a monotonic time, to the millisecond."""
    global _last_sample  # noqa: PLW0603 - one answer of the system serves all calls
    taken, found = _last_sample
    if 0 <= now - taken < _FRESH:
        return found
    if resource is None:
        found = Sample(process_time(), None, 0)
    else:
        own = resource.getrusage(resource.RUSAGE_SELF)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
        found = Sample(cpu, own.ru_maxrss // _KB, children.ru_maxrss // _KB)
    _last_sample = (now, found)
    return found


class Stopwatch(Struct):
    """Measures one call. `made` is when it was made, for calls that are never started."""

    clock: Clock
    made: float
    started: float | None = None
    usage: Sample | None = None
    reported: dict[str, int] | None = None

    def start(self, since: float | None = None) -> dict[str, Any] | None:
        """Store that the call runs, or has run since a monotonic time. Return the note, the first time."""
        if self.started is not None:
            return None
        now = self.clock.monotonic()
        self.started = now if since is None else since
        self.usage = sample(now)
        return {"startedAt": to_rfc3339(self.clock.time_ns() - int((now - self.started) * 1e9))}

    def report(self, cpu_ms: float | None, max_rss_kb: int | None) -> None:
        """Store the usage that a tool reports. It overrides what is measured."""
        reported = dict(self.reported or {})
        if cpu_ms is not None:
            reported["cpuMs"] = round(float(cpu_ms))
        if max_rss_kb is not None:
            reported["maxRssKb"] = int(max_rss_kb)
        self.reported = reported

    def end(self) -> dict[str, Any]:
        """Return the notes of a call's end."""
        clock = self.clock
        notes: dict[str, Any] = {"endedAt": to_rfc3339(clock.time_ns())}
        if self.started is not None and self.usage is not None:
            now = clock.monotonic()
            notes["durationMs"] = round((now - self.started) * 1000, 3)
            begin, end = self.usage, sample(now)
            usage = notes["usage"] = {"cpuMs": round((end.cpu - begin.cpu) * 1000)}
            if end.peak_kb is not None:
                children = end.child_peak_kb > begin.child_peak_kb
                usage["maxRssKb"] = max(end.peak_kb, end.child_peak_kb) if children else end.peak_kb
            if self.reported:
                usage |= self.reported
        return notes


new_call_id = IdFactory(time_ns, randbits)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=new_call_id.reseed)
