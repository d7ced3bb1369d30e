"""A budget: what each session of a tap or an agent may cost before its turns are stopped.

It counts from the start of the process, for each session apart, in one currency. An agent's own cost counts,
else an estimate (see `prices`). A turn of which neither is known can't be held to it, and users are told so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from callsheet.acp.jsonrpc import ProtocolError
from callsheet.report.errors import CallsheetError
from callsheet.report.humanize import money_text
from callsheet.report.patterns import lazy
from callsheet.report.usage import TokenUsage
from callsheet.telemetry.prices import CURRENCY, estimated

_AMOUNT = lazy(r"\$?(\d+(?:\.\d+)?)(?:\s*([A-Za-z]{3,16}))?", re.ASCII)
_MOST = 1e9

EXACT = 9
"""Decimal places that are compared: ten turns at 0.2 cost 2, and not 1.9999999999999998."""


class BadBudget(CallsheetError):
    """An amount of money can't be read, or is none to spend."""


class BudgetSpent(ProtocolError):
    """A session has spent its budget, so that its prompts are refused."""

    code = -32001
    label = "Budget spent"


class CostBudget(Struct):
    """What each session may cost, and what the turns of each have used so far."""

    amount: float
    currency: str = CURRENCY
    _used: dict[str, dict[Any, TokenUsage]] = field(
        default_factory=dict[str, dict[Any, TokenUsage]]
    )

    def count(self, session: str, turn: Any, usage: TokenUsage, at: float) -> bool:
        """Count what a turn has used so far, and return whether it is known what that costs.

        Args:
            session: The session's id.
            turn: What distinguishes the turn from the others of the session.
            usage: What it has used so far: more than at the last time, and not in addition to that.
            at: When that was, in seconds since 1970.
        """
        usage = estimated(usage, at)
        if usage.cost is None or (usage.currency or "").upper() != self.currency:
            return False
        self._used.setdefault(session, {})[turn] = usage
        return True

    def _cost(self, session: str) -> float:
        costs = (one.cost or 0.0 for one in self._used.get(session, {}).values())
        return round(sum(costs), EXACT)

    def is_spent(self, session: str) -> bool:
        """Whether a session has cost as much as it may."""
        return self._cost(session) >= self.amount

    def texts(self, session: str) -> dict[str, str]:
        """Return what phrases about it name: the budget, its currency, and the cost of a session."""
        cost, turns = money_text(self._cost(session), self.currency), self._used.get(session, {})
        is_estimate = any(one.cost_source == "estimated" for one in turns.values())
        return {
            "budget": money_text(self.amount, self.currency),
            "currency": self.currency,
            "cost": f"≈ {cost}" if is_estimate else cost,
        }

    def refuse(self, session: str, phrase: Callable[..., str]) -> BudgetSpent | None:
        """Return the error for a prompt in a session, if it has spent its budget."""
        if not self.is_spent(session):
            return None
        return BudgetSpent(phrase("budget_refused", **self.texts(session)))


def parse_budget(text: str) -> CostBudget:
    """Return the budget of an amount as users type it: `2.00`, `$2`, `5 EUR`; else it is in US dollars.

    Raises:
        BadBudget: It is no amount, or nothing that could be spent.
    """
    found = _AMOUNT.fullmatch(text.strip())
    amount = float(found[1]) if found else 0.0
    if found is None or not 0 < amount <= _MOST:
        raise BadBudget(f"{text!r}: expected an amount above 0, such as 2.00 (US dollars) or 5 EUR")
    return CostBudget(amount, (found[2] or CURRENCY).upper())
