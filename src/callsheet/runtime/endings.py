"""How a call ends: its last status, the reason for it, and what it shows besides.

`ending_of` maps the way in which a call's scope is left (return, exception, cancellation, timeout)
to the status and reason with which the call ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from callsheet.report.content import ContentLike
from callsheet.report.events import ExitStatus
from callsheet.report.status import Reason, ToolCallStatus
from callsheet.runtime.health import PermissionDenied, short_message

_FAILED = ToolCallStatus.FAILED


class Ending(Struct, frozen=True):
    """Status and reason of a call's end, and what it shows besides."""

    status: ToolCallStatus
    reason: Reason | str | None = None
    output: ContentLike | Sequence[ContentLike] | None = None


def ending_of(
    exc: BaseException | None,
    phrase: Callable[..., str],
    clean: Callable[[str], str],
    timed_out: float | None,
) -> Ending:
    """Return the ending for what left the scope.

    Args:
        exc: What was raised in the scope, if anything was.
        phrase: Returns the fixed phrases, in the user's language.
        clean: Returns a text without secrets.
        timed_out: The seconds of the call's own timeout, if that has expired.
    """
    from asyncio import CancelledError  # importing it takes long, and a tap has no loop

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
    """Return the ending of a call that reported nothing but its command's exit."""
    if ended.exit_code == 0 and ended.signal is None:
        return Ending(ToolCallStatus.COMPLETED)
    return Ending(_FAILED, Reason.EXIT_CODE)


def exit_text(ended: ExitStatus, phrase: Callable[..., str]) -> str | None:
    """Return what is shown of a command's exit, if it was not a good one."""
    if ended.signal is not None:
        return phrase("signal", signal=ended.signal)
    return phrase("exit_code", code=ended.exit_code) if ended.exit_code else None
