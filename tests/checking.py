"""Recordings that tests make, and what the checker says of them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from callsheet.check.recording.engine import check_stream
from callsheet.check.recording.examples import recording_of
from callsheet.check.recording.finding import Finding
from callsheet.check.recording.rules import RULES

RECORDINGS = Path(__file__).parent / "recordings"
CLIENTS = ("zed", "toad", "acpx")


def told(*lines: dict[str, Any]) -> bytes:
    """Give a recording of a turn with these updates and messages, written as examples are."""
    return recording_of("\n".join(map(json.dumps, lines)))


def found(data: bytes, rule: str) -> list[Finding]:
    """Give what one rule finds, be it about a client or not."""
    rules = [one for one in RULES if one.id == rule]
    assert rules, rule
    return list(check_stream(io.BytesIO(data), rules=rules, clients=CLIENTS))


def content(text: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": text}}
