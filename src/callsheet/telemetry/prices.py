"""Estimate what a turn has cost from its tokens and its model's prices, where its agent reports no cost.

The prices are those that ship with `genai-prices`, the extra `prices`: nothing is ever fetched. It takes most
of a second to import, so that is done by the first estimate; call `load` to have it done before. Without it,
with a model that it does not know, or without tokens, a turn is not priced.

An estimate knows neither discounts nor subscriptions, so it is marked as one everywhere.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from typing import Any

from msgspec.structs import replace

from callsheet.report.usage import TokenUsage

CURRENCY = "USD"
"""What the prices are in."""

INSTALL = "pip install 'callsheet[prices]'"


@cache
def load() -> Any:
    """Return the module `genai_prices`; None if it is not installed, or can't be imported."""
    try:
        import genai_prices
    except Exception:  # noqa: BLE001 - whatever is wrong with it, nothing is priced then
        return None
    return genai_prices


def estimated(usage: TokenUsage, at: float) -> TokenUsage:
    """Return usage with an estimated cost, if it has none and can be priced; else as it is.

    Args:
        usage: The usage of a turn.
        at: When that was, in seconds since 1970: prices change.
    """
    if usage.cost is not None or not usage.model:
        return usage
    if usage.input_tokens is None or usage.output_tokens is None:
        return usage
    prices = load()
    if prices is None:
        return usage
    provider, _, model = usage.model.partition("/")
    for name, of in ((usage.model, None), (model, provider)):
        try:
            found = prices.calc_price(
                prices.Usage(**billed(usage)),
                name,
                provider_id=of,
                genai_request_timestamp=datetime.fromtimestamp(at, UTC),
            )
            cost = float(found.total_price)
        except Exception:  # noqa: BLE001 - a model that it does not know, or counts that can't be
            continue
        return replace(usage, cost=cost, currency=CURRENCY, cost_source="estimated")
    return usage


def billed(usage: TokenUsage) -> dict[str, int]:
    """Return the tokens as they are billed: all that went in, what of it was cached, all that came out.

    ACP counts each kind for itself, so that the total is the sum of all; some agents count what was cached
    among the input, and thoughts among the output. The total shows which.
    """
    into, out = usage.input_tokens or 0, usage.output_tokens or 0
    read, written = usage.cached_read_tokens or 0, usage.cached_write_tokens or 0
    cached, thought = read + written, usage.thought_tokens or 0
    total = usage.total_tokens
    beside = cached + thought if total is None else total - into - out
    if beside >= cached:
        into, beside = into + cached, beside - cached
    if beside >= thought:
        out += thought
    return {
        "input_tokens": into,
        "output_tokens": out,
        "cache_read_tokens": read,
        "cache_write_tokens": written,
    }


def prices_in_use() -> str | None:
    """Return which prices are installed, and when they were checked last; None if there are none.

    The data have no date of their own. The latest check that they note is the best there is.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # only statistics need them
    from pathlib import Path

    try:
        found = distribution("genai-prices")
    except PackageNotFoundError:
        return None
    name = f"genai-prices {found.version}"
    with suppress(OSError, ValueError):
        data = Path(str(found.locate_file("genai_prices/data.py"))).read_text("utf-8")
        dates = re.findall(r"checked[^\"'.]{0,80}? (\d{4}-\d\d-\d\d)", data)
        return f"{name}, checked {max(dates)}"
    return name
