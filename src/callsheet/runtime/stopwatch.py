"""When a call ran, how long, and what it used."""

from __future__ import annotations

from typing import Any

from callsheet.runtime import usage
from callsheet.runtime.clock import Clock, to_rfc3339


class Stopwatch:
    """Measures one call. `made` is when it was made, for calls that nobody starts."""

    __slots__ = ("_clock", "_said", "_started", "_usage", "made")

    def __init__(self, clock: Clock) -> None:
        self.made: float = clock.monotonic()
        self._clock: Clock = clock
        self._started: float | None = None
        self._usage: usage.Sample | None = None
        self._said: dict[str, int] | None = None

    def start(self, since: float | None = None) -> dict[str, Any] | None:
        """Note that the call runs, or has run since a monotonic time. Gives the note, the first time."""
        if self._started is not None:
            return None
        now = self._clock.monotonic()
        self._started = now if since is None else since
        self._usage = usage.sample(now)
        return {"startedAt": to_rfc3339(self._clock.time_ns() - int((now - self._started) * 1e9))}

    def say(self, cpu_ms: float | None, max_rss_kb: int | None) -> None:
        """Note what was used, from somebody who knows."""
        said = dict(self._said or {})
        if cpu_ms is not None:
            said["cpuMs"] = round(float(cpu_ms))
        if max_rss_kb is not None:
            said["maxRssKb"] = int(max_rss_kb)
        self._said = said

    def end(self) -> dict[str, Any]:
        """Return the notes of a call's end."""
        clock = self._clock
        notes: dict[str, Any] = {"endedAt": to_rfc3339(clock.time_ns())}
        if self._started is not None and self._usage is not None:
            now = clock.monotonic()
            notes["durationMs"] = round((now - self._started) * 1000, 3)
            notes["usage"] = usage.between(self._usage, usage.sample(now))
            if self._said:
                notes["usage"] = {**notes["usage"], **self._said}
        return notes
