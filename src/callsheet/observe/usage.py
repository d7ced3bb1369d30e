"""Read what turns have used, tokens and money, out of everything in which agents report it.

There is no one place for it. ACP has `usage_update`, with the context in use and the session's cumulative
cost, and, still unstable, `usage` in what ends a turn: the response to the prompt in v1, the idle state in
v2. That usage is the turn's own in all agents that send it. Before there was that, agents have put their
counts into `_meta`, and still do: `quota` (claude-agent-acp, gemini-cli), `openhands.dev/metrics`
(fast-agent, also in messages, counted anew for each turn) and `_claude/model`.

A turn's cost is what the cumulative cost has grown by since the turn began. If it shrinks, the agent has
begun to count anew; if its currency changes, the cost is known from then on. What a replayed history reports
was spent before: counting begins there.

What is not a possible amount counts as not reported. So does everything that no agent has named: None is
never 0.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from callsheet.observe.model import Json, ObservedSession, many, obj, text
from callsheet.report.patterns import lazy
from callsheet.report.usage import TokenUsage

MOST_TOKENS, MOST_COST = 10**15, 1e12
"""Amounts beyond which nothing can have been used."""

LONGEST_MODEL, LONGEST_CURRENCY = 200, 16

EXACT = 12
"""Decimal places of a cost: what remains of binary fractions beyond them is no money."""

_NAMES = {
    "input_tokens": ("inputTokens", "input_tokens"),
    "output_tokens": ("outputTokens", "output_tokens"),
    "cached_read_tokens": ("cachedReadTokens", "cachedInputTokens"),
    "cached_write_tokens": ("cachedWriteTokens",),
    "thought_tokens": ("thoughtTokens", "reasoningOutputTokens"),
    "total_tokens": ("totalTokens",),
}
"""Counts, and what agents call them."""

_METRICS = "openhands.dev/metrics"
_STATUS_LINE = lazy(r"([0-9,]{1,20}) in, ([0-9,]{1,20}) out\b", re.ASCII)

CARRIERS = (b'"usage_update"', _METRICS.encode(), b'"configOptions"')
"""One of these is in each update of a session that may report usage, unless it ends a turn."""


class Meter(Struct):
    """What a session has used so far, as far as its agent has reported it.

    `usage` is that of the turn that runs, or of the last one. `model` is the one that the session is set to.
    """

    usage: TokenUsage = TokenUsage()
    model: str | None = None
    amount: float | None = 0.0
    """The last cumulative cost; None where it is not known what was spent before."""
    currency: str | None = None

    def begin(self) -> None:
        """Note that a turn begins."""
        self.usage = TokenUsage(
            context_used=self.usage.context_used, context_size=self.usage.context_size
        )

    def updated(self, params: Json, *, is_of_turn: bool) -> bool:
        """Apply the params of a `session/update`, and return whether something about usage is in them.

        Args:
            params: The params.
            is_of_turn: Whether it counts for a turn. If not, it is from a history, or before any turn.
        """
        update, before = obj(params.get("update")), self.usage
        if update.get("sessionUpdate") == "usage_update":
            self._context(update, is_of_turn=is_of_turn)
        elif "configOptions" in update:
            self.opened(update)
        elif is_of_turn and "_meta" in params:
            self._add(_in_status_line(params))
        return self.usage is not before

    def opened(self, fields: Json) -> None:
        """Note the model that a session has, from a response or an update that says so."""
        model = model_name(obj(fields.get("models")).get("currentModelId"))
        for option in many(fields.get("configOptions")):
            if obj(option).get("category") == "model":
                model = model_name(obj(option).get("currentValue")) or model
        self.model = model or self.model

    def end(self, fields: Json) -> TokenUsage:
        """Return what the turn has used, of which `fields` reports the end."""
        quota = obj(obj(fields.get("_meta")).get("quota"))
        self._add(_in_status_line(fields))
        self._add(_counts(obj(quota.get("token_count"))))
        self._add(_counts(obj(fields.get("usage"))))
        model = _main_model(many(quota.get("model_usage"))) or self.usage.model
        # The session's setting may be a name such as "default": what was really used says more.
        self._add({"model": model or self.model})
        return self.usage

    def _context(self, update: Json, *, is_of_turn: bool) -> None:
        self._add(
            {
                "context_used": _tokens(update.get("used")),
                "context_size": _tokens(update.get("size")),
                "model": model_name(obj(update.get("_meta")).get("_claude/model")),
            }
        )
        amount, currency = cost_of(update.get("cost"))
        if amount is None:
            return
        before = self.amount
        if before and currency != self.currency:
            before = None  # what it was in the new currency is not known
        self.amount, self.currency = amount, currency
        if before is None or not is_of_turn:
            return
        spent = amount - before if amount >= before else amount
        known = self.usage.cost if self.usage.currency == currency else None
        cost = round((known or 0.0) + spent, EXACT)
        self._add({"cost": cost, "currency": currency, "cost_source": "agent"})

    def _add(self, found: dict[str, Any]) -> None:
        known = {name: value for name, value in found.items() if value is not None}
        if known:
            self.usage = replace(self.usage, **known)


def meter_of(session: ObservedSession) -> Meter:
    """Return the meter of a session. It begins when something of it is needed first."""
    if session.meter is None:
        session.meter = Meter(amount=0.0 if session.is_whole else None)
    return session.meter


def model_name(value: Any) -> str | None:
    """Return a model's name if it may be one."""
    name = text(value)
    is_one = name and len(name) <= LONGEST_MODEL and name.isprintable() and not name.isspace()
    return name if is_one else None


def cost_of(value: Any) -> tuple[float | None, str | None]:
    """Return the amount and the currency of ACP's `Cost`; None and None if it has not both."""
    amount: Any = obj(value).get("amount")
    currency = text(obj(value).get("currency"))
    is_amount = type(amount) in (int, float) and 0 <= amount <= MOST_COST
    if not is_amount or not currency or len(currency) > LONGEST_CURRENCY:
        return None, None
    return (float(amount), currency) if currency.isprintable() else (None, None)


def _tokens(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def _counts(fields: Json) -> dict[str, Any]:
    """Return the counts in an object, by our names."""
    return {
        name: next((one for key in keys if (one := _tokens(fields.get(key))) is not None), None)
        for name, keys in _NAMES.items()
    }


def _in_status_line(fields: Json) -> dict[str, Any]:
    """Return the counts of a line such as `1,200 in, 40 out, 1 tools (0.3%)`."""
    meta = obj(obj(obj(fields.get("_meta")).get("field_meta")).get(_METRICS))
    found = _STATUS_LINE.match(text(meta.get("status_line")) or "")
    if found is None:
        return {}
    numbers = [one.replace(",", "") for one in found.groups()]
    tokens = [_tokens(int(one)) if one else None for one in numbers]
    return {"input_tokens": tokens[0], "output_tokens": tokens[1]}


def _main_model(used: list[Any]) -> str | None:
    """Return the model of which most tokens were used."""
    best, most = None, -1
    for one in used:
        name, counts = model_name(obj(one).get("model")), _counts(obj(obj(one).get("token_count")))
        tokens = counts["total_tokens"] or (counts["input_tokens"] or 0) + (
            counts["output_tokens"] or 0
        )
        if name is not None and tokens > most:
            best, most = name, tokens
    return best
