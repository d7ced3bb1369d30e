"""Kimi Code CLI. It announces calls under the tool's name, and goes on with `Name: the argument`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from callsheet.observe.model import text
from callsheet.report.status import Reason

from .announced import name_announced
from .profile import Profile
from .words import said_at_first

if TYPE_CHECKING:
    from callsheet.tap.repair.known import Known

_REFUSED = (("The tool call is rejected by the user.", Reason.DENIED),)


def name_of(known: Known) -> str | None:
    """Return the name before the colon. A history is told with whole titles."""
    title = text(known.call.opening.get("title")) or ""
    name, colon, _ = title.partition(": ")
    return name if colon and name.isidentifier() else name_announced(known)


def failure_of(known: Known) -> Reason | None:
    """Know a refusal by its text."""
    return said_at_first(known, _REFUSED)


PROFILE = Profile(agents=("kimi",), name_of=name_of, failure_of=failure_of)
