"""Codex. Its own events are told as input and output, as Rust writes them; the tool is known by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from callsheet.observe.model import obj, text
from callsheet.report.status import Reason

from .profile import Profile

if TYPE_CHECKING:
    from callsheet.tap.repair.known import Known


_BY_SOURCE = {
    "unified_exec_startup": "exec_command",
    "unified_exec_interaction": "write_stdin",
    "user_shell": "user_shell",
}


def name_of(known: Known) -> str | None:
    """Return the tool by what its event has: a command, a patch, a search, the name of a tool of MCP."""
    told = obj(known.call.fields.get("rawInput")) or obj(known.asked.get("rawInput"))
    if "changes" in told:
        return "apply_patch"
    if "command" in told:
        return _BY_SOURCE.get(
            text(told.get("source")) or "", "shell" if "source" in told else "exec_command"
        )
    if "action" in told and "query" in told:
        return "web_search"
    title = text(known.call.opening.get("title")) or ""
    if title.startswith("View Image "):
        return "view_image"
    return "web_search" if title == "Searching the Web" else None


def failure_of(known: Known) -> Reason | None:
    """Know what was declined, and an MCP server's error."""
    raw = obj(known.call.fields.get("rawOutput"))
    if raw.get("status") == "declined":
        return Reason.DENIED
    return Reason.TOOL_ERROR if "Err" in obj(raw.get("result")) or "Err" in raw else None


PROFILE = Profile(agents=("codex", "@zed-industries/codex"), name_of=name_of, failure_of=failure_of)
