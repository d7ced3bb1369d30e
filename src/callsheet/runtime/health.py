"""How well a session's reporting goes. Reporting never breaks a tool; what went wrong is counted here."""

from __future__ import annotations

from collections import deque

from msgspec import Struct, field

KEEP_FAULTS = 20


class Health(Struct):
    """Counts over the life of a session.

    - `dropped`: updates that came too late, were not legal, or had nobody left to go to.
    - `degraded`: values that could not be reported as they were.
    - `cut`: values and stretches of output that were shortened.
    - `redacted`: secrets that were taken out.
    - `late`: messages that a consumer took more than a second to take.
    - `failed`: sends that failed, whether or not they succeeded later.
    - `dead`: consumers that were given up.

    `faults` are the latest of them, in words.
    """

    dropped: int = 0
    degraded: int = 0
    cut: int = 0
    redacted: int = 0
    late: int = 0
    failed: int = 0
    dead: int = 0
    faults: deque[str] = field(default_factory=lambda: deque(maxlen=KEEP_FAULTS))

    @property
    def is_good(self) -> bool:
        """Whether everything was reported as it was said, and in time. Redaction is no fault."""
        return not (
            self.dropped or self.degraded or self.cut or self.late or self.failed or self.dead
        )

    def counts(self) -> dict[str, int]:
        """Return the counts by name."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "faults"}
