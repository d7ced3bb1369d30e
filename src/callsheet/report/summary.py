"""What a ledger keeps of calls whose reports have gone, and its counts."""

from __future__ import annotations

from msgspec import Struct

from .kinds import Kind
from .status import ToolCallStatus
from .values import JsonObject


class CallSummary(Struct, frozen=True):
    """What stays of an ended call for a while after its report has gone."""

    tool_call_id: str
    name: str
    title: str
    kind: Kind
    status: ToolCallStatus
    notes: JsonObject

    @property
    def is_final(self) -> bool:
        """Only ended calls have summaries."""
        return True


class LedgerCounts(Struct):
    """How many, over the whole life of the session."""

    opened: int = 0
    ended: int = 0
    collisions: int = 0
