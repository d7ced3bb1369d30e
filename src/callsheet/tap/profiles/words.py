"""What a call says, for profiles that know an agent's own words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from callsheet.observe.evidence import texts
from callsheet.observe.model import text
from callsheet.report.status import Reason

if TYPE_CHECKING:
    from callsheet.tap.repair.known import Known


_NOTES = re.compile(
    r" \[(?:current working directory|in) [^\]\n]{1,400}\](?: \(.*\))?$", re.DOTALL
).sub


def without_notes(title: str) -> str:
    """Return a command that is a title, without where it runs and what for, as Gemini notes it behind."""
    return _NOTES("", title)


def said_at_first(known: Known, words: Iterable[tuple[str, Reason]]) -> Reason | None:
    """Return the reason whose words a call's text begins with: what it shows, or its raw output."""
    fields = known.call.fields
    shown = next(texts(fields.get("content")), "") or text(fields.get("rawOutput")) or ""
    begin = shown[:200].lstrip("` \n")
    return next((reason for said, reason in words if begin.startswith(said)), None)
