"""fast-agent. It announces calls under the tool's name, and puts the server's before it later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from callsheet.report.status import Reason

from .announced import name_announced
from .profile import Profile
from .words import said_at_first

if TYPE_CHECKING:
    from callsheet.tap.repair.known import Known

_REFUSED = (("The user has declined permission to use this tool", Reason.DENIED),)


def failure_of(known: Known) -> Reason | None:
    """Know a refusal by its text."""
    return said_at_first(known, _REFUSED)


PROFILE = Profile(agents=("fast-agent",), name_of=name_announced, failure_of=failure_of)
