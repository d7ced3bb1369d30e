"""Goose: announces calls under the tool's name, for people: `developer__shell` is `Developer: Shell`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from callsheet.observe.model import text

from .profile import Profile

if TYPE_CHECKING:
    from callsheet.tap.repair.known import Known

_WRITTEN = re.compile(r"[A-Z][\w-]*(?: [\w-]+)*(?:: [A-Z][\w-]*(?: [\w-]+)*)?", re.ASCII).fullmatch


def name_of(known: Known) -> str | None:
    """Return the name as it was before it was written for people."""
    title = text(known.call.opening.get("title")) or ""
    if not _WRITTEN(title):
        return None
    return title.lower().replace(": ", "__").replace(" ", "_")


PROFILE = Profile(agents=("goose",), name_of=name_of)
