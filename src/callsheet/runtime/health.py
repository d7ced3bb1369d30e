"""How well a session's reporting goes, and what the runtime raises on purpose.

Reporting never breaks a tool: what goes wrong is counted in `Health`, and raised only in strict
mode, which is for tests. `Faults` decides between the two, and `safely` puts a method of `Call`
under that rule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, Concatenate, ParamSpec, TypeVar

from msgspec import Struct, field

from callsheet.acp.permission import PermissionOption
from callsheet.report.errors import CallsheetError, LateUpdate


class SessionClosed(CallsheetError):
    """The session is closed, or was never opened."""


class PermissionDenied(CallsheetError):
    """The client refused, or could not be asked.

    `cancelled` is true if the turn was cancelled instead; `option` is what was chosen.
    """

    def __init__(
        self, message: str, *, cancelled: bool = False, option: PermissionOption | None = None
    ) -> None:
        super().__init__(message)
        self.cancelled: bool = cancelled
        self.option: PermissionOption | None = option


class Misuse(RuntimeError):
    """A call was used in a way that can't work: before it was entered, or entered twice."""


class ConsumerLost(CallsheetError):
    """A consumer was abandoned, or refused what it was sent (raised in strict mode only)."""


KEEP_FAULTS = 20

LONGEST_MESSAGE = 300
"""Characters of an exception's message that are reported."""


class Health(Struct):
    """Counts over the life of a session.

    - `dropped`: updates that came too late, were not legal, or had no consumer left.
    - `degraded`: values that could not be reported as they were.
    - `cut`: values and stretches of output that were shortened.
    - `redacted`: secrets that were redacted.
    - `late`: messages that a consumer took more than a second to take.
    - `failed`: sends that failed, whether or not they succeeded later.
    - `dead`: consumers that were abandoned.

    `faults` are the messages of the latest of them.
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
        """Whether everything was reported unaltered and in time. Redaction is not a fault."""
        return not (
            self.dropped or self.degraded or self.cut or self.late or self.failed or self.dead
        )

    def counts(self) -> dict[str, int]:
        """Return the counts by name."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "faults"}


_T = TypeVar("_T")

LONGEST = 500
"""Characters of a fault's message that are stored."""


class Faults:
    """Where a session's faults go. `of_consumers` is the latest that had no caller to be raised to."""

    def __init__(self, *, strict: bool) -> None:
        self.health: Health = Health()
        self.strict: bool = strict
        self.of_consumers: str | None = None
        self.clean: Callable[[str], str] = str
        self._lock: RLock = RLock()  # a signal's handler may count in the midst of counting

    def count(self, message: str, **counts: int) -> None:
        """Count what went wrong."""
        try:
            message = self.clean(message)[:LONGEST]
        except Exception:  # noqa: BLE001 - the count matters more than its message
            message = "something that can't be said"
        self.tally(**counts)
        with self._lock:
            if not self.health.faults or self.health.faults[-1] != message:
                self.health.faults.append(message)
            if "failed" in counts or "dead" in counts:
                self.of_consumers = message

    def tally(self, **counts: int) -> None:
        """Count what was done on purpose, which is no fault."""
        with self._lock:
            for name, count in counts.items():
                setattr(self.health, name, getattr(self.health, name) + count)

    def degraded(self, exc: Exception) -> None:
        """Count something that could not be reported as it was; in strict mode, raise it.

        A call that is misused in a way that can't work raises in any mode.
        """
        if self.strict or isinstance(exc, Misuse):
            raise exc
        if isinstance(exc, LateUpdate):
            self.count(f"late: {exc}", dropped=1)
        else:
            self.count(str(exc), degraded=1)

    def attempt(self, check: Callable[[Any], _T], value: Any) -> _T | None:
        """Return a checked value; None, and a fault, for one that can't be reported."""
        try:
            return check(value)
        except CallsheetError as exc:
            self.degraded(exc)
            return None

    def after_fork(self) -> None:
        """Replace the lock in a forked child: another thread of the parent may have held it."""
        self._lock = RLock()


_P = ParamSpec("_P")


def safely(method: Callable[Concatenate[Any, _P], None]) -> Callable[Concatenate[Any, _P], None]:
    """Make a method of a call count its errors, instead of raising them into the tool."""

    @wraps(method)
    def wrapper(self: Any, *args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the tool is not to blame
            self.session.faults.degraded(exc)

    return wrapper


def short_message(exc: BaseException, clean: Callable[[str], str] = str) -> str:
    """Return an exception in a line, without its traceback. Half a secret is never left by the cut."""
    try:
        text = clean(str(exc))
    except Exception:  # noqa: BLE001 - it is somebody else's exception
        text = ""
    line = text.strip().split("\n", 1)[0].rstrip()
    message = f"{type(exc).__name__}: {line}" if line else type(exc).__name__
    return message if len(message) <= LONGEST_MESSAGE else message[: LONGEST_MESSAGE - 1] + "…"
