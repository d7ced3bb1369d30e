"""Gemini CLI. How a command ended is told in words only, and only if it printed nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from callsheet.check.recording.results import texts
from callsheet.report.status import Reason

from .profile import Profile
from .words import said_at_first

if TYPE_CHECKING:
    from callsheet.tap.repair.known import Known

_STOPPED = (
    ("Command cancelled by user.", Reason.CANCELLED),
    ("Command was cancelled by user before it could complete.", Reason.CANCELLED),
    ("Command was automatically cancelled because it exceeded the timeout", Reason.TIMEOUT),
    ("Command automatically cancelled because it exceeded the timeout", Reason.TIMEOUT),
    ("Command timed out after ", Reason.TIMEOUT),
)
_FAILED = re.compile(
    r"Command terminated by signal: \w+|Command exited with code: [1-9]\d*"
).fullmatch
_POLICY = re.compile(r'Tool execution for "[^"\n]{1,80}" denied by policy\.').match


def failure_of(known: Known) -> Reason | None:
    """Know by its words what stopped a command. What a command has printed could begin so, too: hardly."""
    fields = known.call.fields
    shown = next(texts(fields.get("content")), "")[:400]
    if known.call.status == "failed" and _POLICY(shown):
        turn = (
            known.call.turn
        )  # what was still to come when people cancelled is refused in these words
        return Reason.DENIED if turn is None or turn.cancelled is None else Reason.CANCELLED
    if fields.get("kind") != "execute":
        return None
    return said_at_first(known, _STOPPED) or (Reason.EXIT_CODE if _FAILED(shown) else None)


PROFILE = Profile(agents=("gemini",), failure_of=failure_of)
