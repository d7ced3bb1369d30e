"""Hermes. It tells neither names nor inputs: titles begin with a word for the tool."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from callsheet.observe.model import text

from .profile import Profile

if TYPE_CHECKING:
    from callsheet.tap.repair.known import Known

_TOOLS = {
    "terminal": "terminal",
    "read": "read_file",
    "write": "write_file",
    "patch": "patch",
    "search": "search_files",
    "web search": "web_search",
    "extract": "web_extract",
    "process": "process",
    "delegate": "delegate_task",
    "session search": "session_search",
    "memory": "memory",
    "python": "execute_code",
    "todo": "todo",
    "skill view": "skill_view",
    "skills list": "skills_list",
}
"""Tools by the words that their titles begin with."""

_WORDS = re.compile(
    r"((?:web |session |skill |skills )?[a-z]+)(?: \w+)?(?: \([^)\n]*\))?(?::|$)"
).match


def name_of(known: Known) -> str | None:
    """Return the tool that a title begins with a word for."""
    match = _WORDS((text(known.call.opening.get("title")) or "")[:200])
    return _TOOLS.get(match[1]) if match is not None else None


PROFILE = Profile(agents=("hermes",), name_of=name_of)
