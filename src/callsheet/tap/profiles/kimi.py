"""Kimi CLI: announces calls under the tool's name, and goes on with `Name: what matters of the input`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from callsheet.check.recording.values import text

from .announced import name_announced
from .profile import Profile

if TYPE_CHECKING:
    from callsheet.tap.repair.known import Known


def name_of(known: Known) -> str | None:
    """Give the name before the colon. A history is told with whole titles."""
    title = text(known.call.opening.get("title")) or ""
    name, colon, _ = title.partition(": ")
    return name if colon and name.isidentifier() else name_announced(known)


KIMI = Profile(agents=("kimi code cli", "kimi"), name_of=name_of)
