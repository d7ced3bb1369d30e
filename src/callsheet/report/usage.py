"""What a turn has used: tokens, money and room in the model's context, as far as that was reported."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class TokenUsage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a turn has used. None means that nobody has reported it, which is not the same as nothing.

    `cost` is in `currency`. It is the agent's own, or estimated from the tokens and the model's prices. The
    context is as it was at the end.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None
    thought_tokens: int | None = None
    total_tokens: int | None = None
    model: str | None = None
    cost: float | None = None
    currency: str | None = None
    cost_source: Literal["agent", "estimated"] | None = None
    context_used: int | None = None
    context_size: int | None = None
