"""What happens to faults: they are counted, and only in strict mode raised."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from callsheet.report.errors import CallsheetError, LateUpdate
from callsheet.runtime.health import Health

_T = TypeVar("_T")

LONGEST = 500
"""Characters of a fault that are kept."""


class Faults:
    """Where a session's faults go. `of_consumers` is the latest that had no caller to be raised to."""

    def __init__(self, *, strict: bool) -> None:
        self.health: Health = Health()
        self.strict: bool = strict
        self.of_consumers: str | None = None
        self.clean: Callable[[str], str] = str
        self._lock: Lock = Lock()

    def count(self, message: str, **counts: int) -> None:
        """Count what went wrong."""
        try:
            message = self.clean(message)[:LONGEST]
        except Exception:  # noqa: BLE001 - what is counted matters more than how it is said
            message = "something that can't be said"
        with self._lock:
            health = self.health
            for name, count in counts.items():
                setattr(health, name, getattr(health, name) + count)
            if not health.faults or health.faults[-1] != message:
                health.faults.append(message)
            if "failed" in counts or "dead" in counts:
                self.of_consumers = message

    def tally(self, **counts: int) -> None:
        """Count what was done on purpose, which is no fault."""
        with self._lock:
            for name, count in counts.items():
                setattr(self.health, name, getattr(self.health, name) + count)

    def degraded(self, exc: Exception) -> None:
        """Count something that could not be reported as it was; in strict mode, raise it."""
        if self.strict:
            raise exc
        self.count(str(exc), degraded=1)

    def late(self, what: str) -> None:
        """Count something that came after its call's end; in strict mode, raise."""
        if self.strict:
            raise LateUpdate(
                f"{what}: the call has ended; a final state is final", old="", new=None
            )
        self.count(f"late: {what}", dropped=1)

    def attempt(self, make: Callable[[], _T]) -> _T | None:
        """Make something that may turn out not to be reportable."""
        try:
            return make()
        except CallsheetError as exc:
            self.degraded(exc)
            return None

    def after_fork(self) -> None:
        """Begin with a lock that nobody holds."""
        self._lock = Lock()
