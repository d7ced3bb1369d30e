"""Codex. What an MCP server says is wrapped, as Rust writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from callsheet.check.recording.values import obj
from callsheet.report.status import Reason

from .profile import Profile

if TYPE_CHECKING:
    from callsheet.tap.repair.known import Known


def failure_of(known: Known) -> Reason | None:
    """Know what was declined, and an MCP server's error."""
    raw = obj(known.call.fields.get("rawOutput"))
    if raw.get("status") == "declined":
        return Reason.DENIED
    return Reason.TOOL_ERROR if "Err" in obj(raw.get("result")) or "Err" in raw else None


PROFILE = Profile(agents=("codex", "@zed-industries/codex"), failure_of=failure_of)
