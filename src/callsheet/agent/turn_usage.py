"""What a session's turns have used, as its handler reports it: for the client, the history and a budget."""

from __future__ import annotations

import time
from typing import Any, TypedDict, Unpack

from msgspec.structs import asdict, replace

from callsheet.report.errors import InvalidValue
from callsheet.report.json import JsonObject
from callsheet.report.usage import TokenUsage
from callsheet.telemetry.budget import CostBudget

COUNTS = (
    "input_tokens",
    "output_tokens",
    "cached_read_tokens",
    "cached_write_tokens",
    "thought_tokens",
)
"""The kinds of tokens that are counted apart, as ACP has it: what was cached is no part of the input."""

MOST_TOKENS, MOST_COST = 10**15, 1e12


class Reported(TypedDict, total=False):
    """What a handler may report of one request to a model. None and what is left out are not reported.

    `used` and `size` are the tokens in the model's context now, and of the whole context. The tokens, by
    kind, and the cost are those of this request. `currency` is that of the cost; by default, US dollars.
    """

    used: int | None
    size: int | None
    input_tokens: int | None
    output_tokens: int | None
    cached_read_tokens: int | None
    cached_write_tokens: int | None
    thought_tokens: int | None
    model: str | None
    cost: float | None
    currency: str


class SessionUsage:
    """Adds up what the turns of a session have used.

    Args:
        session_id: The session's id.
        budget: What it may cost.
    """

    def __init__(self, session_id: str, budget: CostBudget | None = None) -> None:
        self.turn: TokenUsage = TokenUsage()
        """What the turn that runs has used, or the last one."""
        self._session_id: str = session_id
        self._budget: CostBudget | None = budget
        self._number: int = 0
        self._cost: float | None = None
        self._currency: str | None = None

    def begin(self) -> None:
        """Begin a turn."""
        self._number += 1
        context = self.turn
        self.turn = TokenUsage(context_used=context.context_used, context_size=context.context_size)

    def add(self, **reported: Unpack[Reported]) -> None:
        """Add what a request to a model has used.

        Raises:
            InvalidValue: A field is unknown, or its value can't be.
        """
        currency = reported.pop("currency", "USD")
        for name, value in reported.items():
            _check(name, value)
        cost = reported.get("cost")
        if type(currency) is not str or not currency.isprintable() or not 0 < len(currency) <= 16:
            raise InvalidValue(f"currency: expected a name such as USD, got {currency!r}")
        if cost is not None and currency != (self._currency or currency):
            raise InvalidValue(
                f"currency: this session's costs are in {self._currency}, got {currency}"
            )
        known, changes = asdict(self.turn), dict[str, Any]()
        for name in COUNTS:
            if (count := reported.get(name)) is not None:
                changes[name] = (known[name] or 0) + count
        for name, theirs in (
            ("context_used", "used"),
            ("context_size", "size"),
            ("model", "model"),
        ):
            if (value := reported.get(theirs)) is not None:
                changes[name] = value
        if cost is not None:
            self._cost, self._currency = (self._cost or 0.0) + cost, currency
            spent = (known["cost"] or 0.0) + cost
            changes |= {"cost": spent, "currency": currency, "cost_source": "agent"}
        if not changes.keys().isdisjoint(COUNTS):
            counts = [changes.get(name, known[name]) or 0 for name in COUNTS]
            changes["total_tokens"] = sum(counts)
        self.turn = replace(self.turn, **changes)

    # For the client

    def update(self) -> JsonObject | None:
        """Return the update that shows the context and the session's cost; ACP has none without a context."""
        used, size = self.turn.context_used, self.turn.context_size
        if used is None or size is None:
            return None
        cost = {"amount": self._cost, "currency": self._currency}
        shown: JsonObject = {"sessionUpdate": "usage_update", "used": used, "size": size}
        return shown if self._cost is None else {**shown, "cost": cost}

    def at_end(self) -> JsonObject:
        """Return what the end of a turn has beside its stop reason: the tokens, if enough are known."""
        turn = self.turn
        if turn.input_tokens is None or turn.output_tokens is None:
            return {}
        counts = {
            "totalTokens": turn.total_tokens,
            "inputTokens": turn.input_tokens,
            "outputTokens": turn.output_tokens,
            "thoughtTokens": turn.thought_tokens,
            "cachedReadTokens": turn.cached_read_tokens,
            "cachedWriteTokens": turn.cached_write_tokens,
        }
        return {"usage": {name: one for name, one in counts.items() if one is not None}}

    # The budget

    @property
    def has_budget(self) -> bool:
        """Whether it may cost just so much."""
        return self._budget is not None

    def count(self) -> tuple[str, dict[str, str]] | None:
        """Count the turn so far. Return the phrase that is due, and what it names, if there is one."""
        budget = self._budget
        if budget is None:
            return None
        is_known = budget.count(self._session_id, self._number, self.turn, time.time())
        texts = budget.texts(self._session_id)
        if budget.is_spent(self._session_id):
            return "budget_stopped", texts
        return None if is_known else ("budget_unknown", texts)

    def refuse(self, phrase: Any) -> None:
        """Raise `BudgetSpent` if there is no money for another turn."""
        error = None if self._budget is None else self._budget.refuse(self._session_id, phrase)
        if error is not None:
            raise error


def _check(name: str, value: Any) -> None:
    if value is None:
        return
    if name == "cost":
        if type(value) not in (int, float) or not 0 <= value <= MOST_COST:
            raise InvalidValue(f"cost: expected an amount, from 0 on, got {value!r}")
    elif name == "model":
        if type(value) is not str or not value.strip() or not value.isprintable():
            raise InvalidValue(f"model: expected a name, got {value!r}")
    elif name not in ("used", "size", *COUNTS):
        raise InvalidValue(
            f"report_usage has no {name}: expected {', '.join(Reported.__annotations__)}"
        )
    elif type(value) is not int or not 0 <= value <= MOST_TOKENS:
        raise InvalidValue(f"{name}: expected tokens, from 0 on, got {value!r}")
