"""A budget: what each session of a tap or an agent may cost before its turns are stopped.

It counts from the start of the process, for each session apart, in one currency. An agent's own cost counts,
else an estimate (see `prices`). A turn of which neither is known can't be held to it, and users are told so.
"""

from __future__ import annotations

import math
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


class BadBudget(CallsheetError):
    """An amount of money can't be read, or is none to spend."""


class BudgetSpent(ProtocolError):
    """A session has spent its budget, so that its prompts are refused."""

    code = -32001
    label = "Budget spent"


class _Spent(Struct):
    """What a session has cost: its turns before, and the last one, by any name that it has."""

    before: float = 0.0
    turn: Any = None
    cost: float = 0.0
    is_estimated: bool = False


class CostBudget(Struct):
    """What each session may cost, and what each has cost so far."""

    amount: float
    currency: str = CURRENCY
    _sessions: dict[str, _Spent] = field(default_factory=dict[str, _Spent])

    def count(self, session: str, turn: Any, usage: TokenUsage, at: float) -> bool:
        """Count what a turn has used so far, and return whether it is known what that costs.

        Args:
            session: The session's id.
            turn: What distinguishes the turn from the others of the session.
            usage: What it has used so far: more than at the last time, and not in addition to that.
            at: When that was, in seconds since 1970.
        """
        spent = self._sessions.setdefault(session, _Spent())
        if turn != spent.turn:
            spent.before, spent.turn, spent.cost = spent.before + spent.cost, turn, 0.0
        usage = estimated(usage, at)
        if usage.cost is None or (usage.currency or "").upper() != self.currency:
            return False
        spent.cost = usage.cost
        spent.is_estimated = spent.is_estimated or usage.cost_source == "estimated"
        return True

    def is_spent(self, session: str) -> bool:
        """Whether a session has cost as much as it may."""
        spent = self._sessions.get(session)
        return spent is not None and spent.before + spent.cost >= self.amount

    def texts(self, session: str) -> dict[str, str]:
        """Return what phrases about it name: the budget, its currency, and the cost of a session."""
        spent = self._sessions.get(session, _Spent())
        cost = money_text(spent.before + spent.cost, self.currency)
        return {
            "budget": money_text(self.amount, self.currency),
            "currency": self.currency,
            "cost": f"≈ {cost}" if spent.is_estimated else cost,
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
    amount = float(found[1]) if found else math.nan
    if found is None or not 0 < amount <= _MOST:
        raise BadBudget(
            f"{text!r}: expected an amount above 0, such as 2.00 (US dollars) or 5.50 EUR"
        )
    return CostBudget(amount, (found[2] or CURRENCY).upper())
