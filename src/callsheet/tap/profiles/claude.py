"""Claude Agent. What never ran says so beside the tool's name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from callsheet.observe.model import obj, text
from callsheet.report.status import Reason

from .profile import Profile

if TYPE_CHECKING:
    from callsheet.tap.repair.known import Known


def failure_of(known: Known) -> Reason | None:
    """Know what people or a rule have refused."""
    told = obj(obj(known.call.fields.get("_meta")).get("claudeCode"))
    kind = text(told.get("nonExecutionKind"))
    return Reason.DENIED if kind in ("user-rejected", "permission-rule") else None


PROFILE = Profile(
    agents=("@agentclientprotocol/claude", "@zed-industries/claude", "claude"),
    failure_of=failure_of,
)
