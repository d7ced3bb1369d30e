"""One call of another agent, and what became of it here."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from callsheet.check.recording.ids import UsedIds
from callsheet.check.recording.moments import Call, Json
from callsheet.report.content import ToolCallContent
from callsheet.report.report import ToolCallReport
from callsheet.report.values import JsonValue


class Tapped(Struct, eq=False):
    """A call: what the agent tells of it, and what we report."""

    id: str
    """Ours: the agent's own, unless another call had that before."""
    call: Call
    began: float
    report: ToolCallReport | None = None
    asked: Json = field(default_factory=dict[str, Any])
    """What questions about it have told."""
    diffs: list[Any] = field(default_factory=list[Any])
    """Those that were told last, which may be missing in the end."""
    repaired: set[str] = field(default_factory=set[str])
    has_own_title: bool = False
    given: dict[str, Any] = field(default_factory=dict[str, Any])
    """What each field was last made of, to see that it is still the same."""
    items: tuple[ToolCallContent, ...] = ()
    """Its content as it was told, and …"""
    safe: tuple[ToolCallContent, ...] = ()
    """… the same without secrets, whole."""
    secrets: dict[str, int] = field(default_factory=dict[str, int])
    """How many were taken out of each field."""
    whole_input: JsonValue = None
    """The input without secrets, for those who are asked."""
    is_cut: bool = False
    """Whether its content is shown with less than there is."""
    grows: bool = False
    """Whether a text in its content is told again and again, each time with more at its end."""

    @property
    def is_over(self) -> bool:
        """Whether it has ended, as far as the client was told."""
        return self.report is not None and self.report.is_final


class Ids:
    """The ids of one session's calls, as the client knows them: none stands for two calls."""

    def __init__(self) -> None:
        self._used: UsedIds = UsedIds()
        self._renamed: dict[str, str] = {}

    def new(self, key: str) -> str:
        """Give an id for a call that the agent knows by `key`."""
        chosen, number = key, 1
        while self._used.has("", chosen):
            number += 1
            chosen = f"{key}~{number}"
        self._used.add("", chosen)
        if chosen != key:
            self._renamed[chosen] = key
            if len(self._renamed) > _MOST_RENAMED:
                del self._renamed[next(iter(self._renamed))]
        return chosen

    def theirs(self, chosen: str) -> str:
        """Give the agent's id of a call that the client knows by another."""
        return self._renamed.get(chosen, chosen)


_MOST_RENAMED = 4096
