"""What a call used: CPU time and peak memory, of this process and of its children.

An operating system counts these by process, not by call. So CPU time is what the process used while
the call ran, and what the children used that ended meanwhile; calls that run at the same time share
it. Memory is the highest peak so far of the process, or of a child if one set a new peak meanwhile.
Whoever knows better, such as a tool that waits for a child of its own, says so (`Call.usage`).

Asking the system costs microseconds, so an answer serves for a millisecond.
"""

from __future__ import annotations

import sys
from time import process_time
from typing import NamedTuple

try:
    import resource
except ImportError:  # Windows
    resource = None

_FRESH = 0.001
_KB = 1024 if sys.platform == "darwin" else 1  # macOS counts bytes


class Sample(NamedTuple):
    """What was used so far, by this process and by its children that have ended."""

    cpu: float
    peak_kb: int | None
    child_peak_kb: int


_last: tuple[float, Sample] = (float("-inf"), Sample(0.0, None, 0))


def sample(now: float) -> Sample:
    """Return what was used until `now`, a monotonic time, to the millisecond."""
    global _last  # noqa: PLW0603 - one answer of the system serves all calls
    taken, found = _last
    if not 0 <= now - taken < _FRESH:
        found = _ask()
        _last = (now, found)
    return found


def between(start: Sample, end: Sample) -> dict[str, int]:
    """Return the usage of a call that ran between two samples, as `_meta.callsheet.usage` says it."""
    if start is end:
        cpu_ms, children = 0, False
    else:
        cpu_ms, children = (
            round((end.cpu - start.cpu) * 1000),
            end.child_peak_kb > start.child_peak_kb,
        )
    if end.peak_kb is None:
        return {"cpuMs": cpu_ms}
    peak = max(end.peak_kb, end.child_peak_kb) if children else end.peak_kb
    return {"cpuMs": cpu_ms, "maxRssKb": peak}


def _ask() -> Sample:
    if resource is None:
        return Sample(process_time(), None, 0)
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    return Sample(cpu, own.ru_maxrss // _KB, children.ru_maxrss // _KB)
