"""What a script is made of, and what all dialects share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

PIECE = 12
"""Characters of a text, or of the arguments of a call, that go in one event."""

_ids = count(1)


@dataclass(frozen=True)
class Use:
    """A tool that the model calls: with arguments, or with a text where the tool takes just that."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    id: str = field(default_factory=lambda: f"call_{next(_ids)}")

    @property
    def as_json(self) -> str:
        """The arguments as models write them."""
        return json.dumps(self.arguments)


@dataclass(frozen=True)
class Step:
    """One answer of the model: something said, or tools called, or both."""

    uses: tuple[Use, ...] = ()
    text: str = ""


def pieces(text: str) -> Iterator[str]:
    """Cut a text as models stream it."""
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))


def event(data: Any, name: str = "") -> bytes:
    """Write a server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()
