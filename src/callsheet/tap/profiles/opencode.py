"""opencode. What stopped a command stands below its output; a call that can't be made is one of `invalid`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from callsheet.observe.evidence import texts
from callsheet.observe.model import obj, text
from callsheet.report.status import Reason

from .announced import name_announced
from .profile import Profile
from .words import said_at_first

if TYPE_CHECKING:
    from callsheet.tap.repair.known import Known

_NOTES = re.compile(r"<(?:shell|bash)_metadata>\n(.*)\n</(?:shell|bash)_metadata>\s*\Z", re.DOTALL)
_EDGE = 400
_INVALID = (("The arguments provided to the tool are invalid: ", Reason.TOOL_ERROR),)
_REFUSED = (("The user rejected permission to use this specific tool call", Reason.DENIED),)


def failure_of(known: Known) -> Reason | None:
    """Know a command that was stopped by the note below its output, and a call of a tool that isn't there."""
    fields = known.call.fields
    raw = obj(fields.get("rawOutput"))
    metadata = obj(raw.get("metadata"))
    if metadata.get("interrupted") is True:
        return Reason.CANCELLED
    if known.call.status == "failed":
        return said_at_first(known, _REFUSED)
    if "error" in obj(fields.get("rawInput")) and fields.get("kind") == "other":
        return said_at_first(known, _INVALID)
    if type(metadata.get("exit")) is int:
        return None
    shown = next(texts(fields.get("content")), "") or text(raw.get("output")) or ""
    notes = _NOTES.search(shown[-_EDGE:])
    if notes is None:
        return None
    if "exceeding timeout" in notes[1]:
        return Reason.TIMEOUT
    return Reason.CANCELLED if "aborted the command" in notes[1] else None


PROFILE = Profile(agents=("opencode",), name_of=name_announced, failure_of=failure_of)
