"""What clients of v1 find in a call to show."""

from __future__ import annotations

from typing import Any

from callsheet.observe.evidence import OUTPUT_KEYS
from callsheet.observe.model import ObservedConnection, obj, text


def can_know(connection: ObservedConnection) -> bool:
    """Whether a client of v1 would understand the recording."""
    return not connection.is_v2


def output_of(raw: Any) -> str:
    """Return the text that a raw output is, or has under one of the keys that clients know."""
    if type(raw) is str:
        return raw
    told = obj(raw)
    return next((found for key in OUTPUT_KEYS if (found := text(told.get(key)))), "")
