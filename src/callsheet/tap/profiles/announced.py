"""For agents that announce every call under the name of its tool, be that well known or not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from callsheet.observe.model import text

if TYPE_CHECKING:
    from callsheet.tap.repair.known import Known

_NAME = re.compile(r"[A-Za-z][\w-]*").fullmatch


def name_announced(known: Known) -> str | None:
    """Return the title of the announcement. A history is told otherwise."""
    title = text(known.call.opening.get("title"))
    if title is None or known.call.is_replayed or not _NAME(title):
        return None
    return title
