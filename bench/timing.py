"""How things are timed: in rounds that every peer takes part in, so that noise hits all alike."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import NamedTuple, TypeAlias

Batch: TypeAlias = Callable[[int], float]
"""Does the work so many times, and gives the seconds that it took."""


class Sample(NamedTuple):
    """What many measurements of one thing say."""

    median: float
    low: float
    high: float
    spread_percent: float
    """The middle half of the measurements is as wide as this share of the median."""

    def rounded(self) -> dict[str, float]:
        """Return it for results.json."""
        return {name: round(value, 2) for name, value in self._asdict().items()}

    def cells(self) -> tuple[str, str, str]:
        """Return it for a table."""
        span = f"{self.low:.1f}–{self.high:.1f}"
        return f"{self.median:.1f}", span, f"{self.spread_percent:.0f} %"


def summarise(values: Sequence[float]) -> Sample:
    """Return the middle of many measurements, and how far they lie apart."""
    first, middle, third = quantiles(values, n=4, method="inclusive")
    return Sample(middle, min(values), max(values), 100 * (third - first) / middle)


def ratio(over: Sequence[float], under: Sequence[float]) -> float:
    """Return the median of the rounds' own ratios; what slows a whole round cancels out."""
    return median(a / b for a, b in zip(over, under, strict=True))


def queued() -> float:
    """Return the seconds that this thread has waited for a CPU that others had; 0 if that isn't told.

    Where a machine is busy with other things, time on the wall less this is what the work took: it
    counts what the thread did, and what it waited for of its own.
    """
    try:
        return int(_SCHEDULE.read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


_SCHEDULE = Path("/proc/thread-self/schedstat")


def repeat(work: Callable[[], object]) -> Batch:
    """Make a batch of a plain function."""

    def batch(times: int) -> float:
        start = perf_counter()
        for _ in range(times):
            work()
        return perf_counter() - start

    return batch


def interleave(
    peers: Mapping[str, Batch], *, rounds: int, seconds: float
) -> dict[str, list[float]]:
    """Time every peer once in each round. Gives microseconds for one piece of work, by round.

    Each round begins with another peer. The collector stays on, as it does in an agent; but the
    modules that one peer imported are frozen, lest another pays for walking them.
    """
    sizes = {name: _batch_size(batch, seconds) for name, batch in peers.items()}
    names = list(peers)
    took: dict[str, list[float]] = {name: [] for name in names}
    gc.collect()
    gc.freeze()
    try:
        for turn in range(rounds):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                took[name].append(peers[name](sizes[name]) / sizes[name] * 1e6)
    finally:
        gc.unfreeze()
    return took


def _batch_size(batch: Batch, seconds: float) -> int:
    """Find how often the work fits into so many seconds. This also warms it up.

    The first time is not counted: it builds what is built once, and would make a batch of one.
    """
    batch(1)
    times = 1
    while (took := batch(times)) < seconds / 2:
        times *= 2
    return max(1, round(times * seconds / took))
