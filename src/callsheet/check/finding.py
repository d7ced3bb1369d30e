"""What a rule is, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

from msgspec import Struct

Severity: TypeAlias = Literal["error", "warning", "advice"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "advice")
CATEGORIES = ("lifecycle", "complete", "order", "size", "safety", "client", "schema", "recording")


class Said(Struct, frozen=True):
    """What a rule has to say about a moment. `line` is that of the moment, unless it is another.

    `field` is where in the message it is: `update.title`, `params.toolCall.rawInput`.
    """

    message: str
    field: str | None = None
    line: int | None = None
    once: str | None = None
    """What is said only once of a call, or of the recording where no call is meant, has one word here."""


Answer: TypeAlias = Said | Iterable[Said] | None


class Rule(Struct, frozen=True, kw_only=True):
    """One rule. `check` takes a moment of a kind of `moment`, and says what is wrong, if anything is."""

    id: str
    severity: Severity
    moment: type | tuple[type, ...]
    title: str
    protocol: str
    """What the protocol says about it."""
    harm: str
    """Why people suffer from it."""
    fix: str
    """How to mend it."""
    check: Callable[[Any], Answer]
    clients: tuple[str, ...] = ()
    """The clients that it is about. Such a rule holds only if one of them is asked for."""
    example: str = ""
    """Lines that break it, as `examples.py` reads them."""

    @property
    def category(self) -> str:
        """The word before the slash."""
        return self.id.partition("/")[0]


class Finding(Struct, frozen=True, kw_only=True):
    """One breach of a rule in a recording. `line` counts from 1."""

    rule: str
    severity: Severity
    session: str | None
    call: str | None
    line: int
    field: str | None
    message: str
