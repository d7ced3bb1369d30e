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
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from callsheet.report.ids import IdFactory

if TYPE_CHECKING:
    import asyncio


class Clock:
    """What the runtime asks of time. This one is the time of this machine."""

    time_ns: Callable[[], int] = staticmethod(time_ns)
    """Return the time of day, in nanoseconds since 1970."""
    monotonic: Callable[[], float] = staticmethod(monotonic)
    """Return seconds that never run backwards."""

    def call_later(
        self, loop: asyncio.AbstractEventLoop, delay: float, callback: Callable[[], None]
    ) -> Any:
        """Call back on the loop after `delay` seconds, unless what is returned is cancelled before."""
        return loop.call_later(delay, callback)


_MILLISECONDS = [f".{number:03d}Z" for number in range(1000)]
_last_second: tuple[int, str] = (-1_000_000_000, "")


def to_rfc3339(ns: int) -> str:
    """Return a time of day as RFC 3339 in UTC, to the millisecond."""
    global _last_second  # noqa: PLW0603 - the text of one second serves all its calls
    begin, text = _last_second
    rest = ns - begin
    if not 0 <= rest < 1_000_000_000:
        second, rest = divmod(ns, 1_000_000_000)
        text = strftime("%Y-%m-%dT%H:%M:%S", gmtime(second))
        _last_second = (ns - rest, text)
    return text + _MILLISECONDS[rest // 1_000_000]


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
        clock = self.clock
        now = clock.monotonic()
        self.usage, ns = sample(now), clock.time_ns()
        if since is None:
            self.started = now
        else:
            self.started, ns = since, ns - int((now - since) * 1e9)
        return {"startedAt": to_rfc3339(ns)}

    def report(self, cpu_ms: float | None, max_rss_kb: int | None) -> None:
        """Store the usage that a tool reports. It overrides what is measured."""
        reported = dict(self.reported or {})
        if cpu_ms is not None:
            reported["cpuMs"] = round(float(cpu_ms))
        if max_rss_kb is not None:
            reported["maxRssKb"] = int(max_rss_kb)
        self.reported = reported

    def end(self, notes: dict[str, Any]) -> None:
        """Add to the notes of a call when it ended, how long it took, and what it used."""
        clock, begin = self.clock, self.usage
        notes["endedAt"] = to_rfc3339(clock.time_ns())
        if begin is not None and self.started is not None:
            now = clock.monotonic()
            # Rounding to whole microseconds costs a tenth of rounding to three digits.
            notes["durationMs"] = round((now - self.started) * 1e6) / 1000
            end = sample(now)
            usage = notes["usage"] = {"cpuMs": round((end.cpu - begin.cpu) * 1000)}
            if end.peak_kb is not None:
                has_new_peak = end.child_peak_kb > begin.child_peak_kb and (
                    end.child_peak_kb > end.peak_kb
                )
                usage["maxRssKb"] = end.child_peak_kb if has_new_peak else end.peak_kb
            if self.reported:
                usage |= self.reported


new_call_id = IdFactory(time_ns, randbits)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=new_call_id.reseed)
