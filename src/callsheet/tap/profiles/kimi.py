"""Kimi Code CLI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from callsheet.report.status import Reason

from .profile import Profile
from .words import said_at_first

if TYPE_CHECKING:
    from callsheet.tap.repair.known import Known

_REFUSED = (("The tool call is rejected by the user.", Reason.DENIED),)


def failure_of(known: Known) -> Reason | None:
    """Know a refusal by its text."""
    return said_at_first(known, _REFUSED)


PROFILE = Profile(agents=("kimi",), failure_of=failure_of)
