"""What is in a call for clients to show: the texts of its content, and of its raw output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from callsheet.check.recording.moments import Connection
from callsheet.check.recording.values import many, obj, text

OUTPUT_KEYS = ("stdout", "stderr", "output", "content", "text", "message", "result")
"""Where clients look for text in a raw output that is an object."""


def can_know(connection: Connection) -> bool:
    """Whether a client of v1 would understand the recording."""
    return not connection.is_v2


def texts_of(content: Any) -> Iterator[str]:
    """Give the texts that content has, without those of diffs."""
    for item in many(content):
        block = obj(obj(item).get("content"))
        found = text(block.get("text")) or text(obj(block.get("resource")).get("text"))
        if found:
            yield found


def output_of(raw: Any) -> str:
    """Give the text that a raw output is, or has under one of the keys that clients know."""
    if type(raw) is str:
        return raw
    told = obj(raw)
    return next((found for key in OUTPUT_KEYS if (found := text(told.get(key)))), "")
