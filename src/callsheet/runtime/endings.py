"""How a call ends by the way in which its scope is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from callsheet.report.content import ContentLike
from callsheet.report.events import ExitStatus
from callsheet.report.status import Reason, ToolCallStatus
from callsheet.runtime.errors import PermissionDenied

LONGEST_MESSAGE = 300
"""Characters of an exception's message that are reported."""

_FAILED = ToolCallStatus.FAILED


class Ending(NamedTuple):
    """Status and reason of a call's end, and what it shows besides."""

    status: ToolCallStatus
    reason: Reason | str | None
    output: ContentLike | Sequence[ContentLike] | None


def ending_of(
    exc: BaseException | None,
    phrase: Callable[..., str],
    clean: Callable[[str], str],
    timed_out: float | None,
) -> Ending:
    """Return the ending for what left the scope.

    `clean` takes secrets out of a text; `timed_out` are the seconds of the call's own timeout.
    """
    from asyncio import CancelledError  # it takes long, and a tap has no loop

    if exc is None:
        return Ending(_FAILED, Reason.ABANDONED, phrase("abandoned"))
    if timed_out is not None and isinstance(exc, TimeoutError):
        return Ending(_FAILED, Reason.TIMEOUT, phrase("timed_out", seconds=timed_out))
    if isinstance(exc, PermissionDenied):
        return Ending(_FAILED, Reason.DENIED, str(exc))
    if isinstance(exc, (CancelledError, KeyboardInterrupt, GeneratorExit)):
        return Ending(ToolCallStatus.CANCELLED, Reason.CANCELLED, phrase("cancelled"))
    if isinstance(exc, SystemExit):
        return Ending(_FAILED, Reason.ABANDONED, phrase("interrupted"))
    if isinstance(exc, TimeoutError):
        text = short_message(exc, clean) if str(exc) else phrase("timed_out_bare")
        return Ending(_FAILED, Reason.TIMEOUT, text)
    return Ending(_FAILED, Reason.EXCEPTION, short_message(exc, clean))


def exit_ending(ended: ExitStatus) -> Ending:
    """Return the ending of a call of which nothing but its command's exit was said."""
    if ended.exit_code == 0 and ended.signal is None:
        return Ending(ToolCallStatus.COMPLETED, None, None)
    return Ending(_FAILED, Reason.EXIT_CODE, None)


def exit_text(ended: ExitStatus, phrase: Callable[..., str]) -> str | None:
    """Return what is shown of a command's exit, if it was not a good one."""
    if ended.signal is not None:
        return phrase("signal", signal=ended.signal)
    return phrase("exit_code", code=ended.exit_code) if ended.exit_code else None


def short_message(exc: BaseException, clean: Callable[[str], str] = str) -> str:
    """Return an exception in a line, without its traceback. Half a secret is never left by the cut."""
    try:
        text = clean(str(exc))
    except Exception:  # noqa: BLE001 - it is somebody else's exception
        text = ""
    line = text.strip().split("\n", 1)[0].rstrip()
    message = f"{type(exc).__name__}: {line}" if line else type(exc).__name__
    return message if len(message) <= LONGEST_MESSAGE else message[: LONGEST_MESSAGE - 1] + "…"
