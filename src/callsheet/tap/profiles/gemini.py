"""Gemini CLI. It never tells an input: the tool's name is in the id, and titles are made of the input.

How a command ended is told in words only, and only if it printed nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from callsheet.observe.evidence import texts
from callsheet.observe.model import text
from callsheet.report.status import Reason

from .profile import Profile
from .words import said_at_first, without_notes

if TYPE_CHECKING:
    from callsheet.tap.repair.known import Known

_ID = re.compile(r"(?P<name>[A-Za-z][\w.:-]*?)(?:__(?!.*__)|-\d{10}).*").fullmatch
_SEARCHED = re.compile(
    r"'(?P<pattern>.+?)'(?: in (?P<include>.+?))?(?: within (?P<path>.+))?", re.DOTALL
).fullmatch
_ASKED_OF_WEB = re.compile(r'Searching the web for: "(?P<query>.*)"', re.DOTALL).fullmatch
_SHORTENED = "..."
_LONGEST = 400

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


def name_of(known: Known) -> str | None:
    """Return the name that an id begins with: `read_file__call_1`, in older ones `read_file-1748…`."""
    match = _ID(known.call.id[:_LONGEST])
    return match["name"] if match else None


def input_of(known: Known) -> Any:
    """Return what a title tells of the input, by the way that each tool makes its title."""
    title = text(known.call.fields.get("title")) or text(known.asked.get("title"))
    if not title:
        return None
    match name_of(known):
        case "run_shell_command":
            return {"command": without_notes(title)}
        case "grep_search" | "search_file_content" | "glob":
            return _searched(title)
        case "list_directory":
            return None if _SHORTENED in title else {"path": title}
        case "google_web_search":
            return _members(_ASKED_OF_WEB(title))
        case None if known.call.fields.get("kind") == "search":
            return _searched(title)
        case _:
            return None


def _searched(title: str) -> dict[str, str] | None:
    found = _members(_SEARCHED(title)) if len(title) <= _LONGEST else None
    if found is not None and _SHORTENED in found.get("path", ""):
        del found["path"]
    return found


def _members(match: re.Match[str] | None) -> dict[str, str] | None:
    return None if match is None else {key: said for key, said in match.groupdict().items() if said}


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


PROFILE = Profile(agents=("gemini",), name_of=name_of, input_of=input_of, failure_of=failure_of)
