"""Estimates of what turns cost: from the prices that are installed, and only where nobody reports a cost."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from callsheet.report.usage import TokenUsage
from callsheet.telemetry import prices

THEN = 1_780_000_000.0
KNOWN = TokenUsage(input_tokens=1_000_000, output_tokens=100_000, model="gpt-5")


def test_a_turn_with_tokens_and_a_known_model_is_priced_and_marked() -> None:
    found = prices.estimated(KNOWN, THEN)
    # $1.25 for a million tokens in, $10 for a million out, as OpenAI has published it.
    assert found.cost == pytest.approx(1.25 + 1.0)
    assert (found.currency, found.cost_source) == ("USD", "estimated")


def test_an_agents_own_cost_wins() -> None:
    own = TokenUsage(
        input_tokens=5,
        output_tokens=5,
        model="gpt-5",
        cost=0.0,
        currency="USD",
        cost_source="agent",
    )
    assert prices.estimated(own, THEN) is own


@pytest.mark.parametrize(
    "usage",
    [
        TokenUsage(),
        TokenUsage(model="gpt-5"),
        TokenUsage(input_tokens=5, model="gpt-5"),
        TokenUsage(input_tokens=5, output_tokens=5),
        TokenUsage(input_tokens=5, output_tokens=5, model="default"),
        TokenUsage(input_tokens=5, output_tokens=5, model="fake/gpt-5"),
        TokenUsage(input_tokens=5, output_tokens=5, model="x" * 10_000),
    ],
)
def test_what_is_not_known_is_not_priced(usage: TokenUsage) -> None:
    assert prices.estimated(usage, THEN) is usage


def test_a_model_is_known_with_its_provider_before_it() -> None:
    usage = TokenUsage(input_tokens=1_000_000, output_tokens=100_000, model="openai/gpt-5")
    assert prices.estimated(usage, THEN).cost == prices.estimated(KNOWN, THEN).cost


def test_what_was_cached_counts_once_whether_it_is_part_of_the_input_or_not() -> None:
    def cost(into: int, total: int | None) -> float | None:
        usage = TokenUsage(
            input_tokens=into,
            output_tokens=100,
            cached_read_tokens=9000,
            total_tokens=total,
            model="claude-sonnet-4-5",
        )
        return prices.estimated(usage, THEN).cost

    # 1,000 tokens in at $3 for a million, 9,000 from the cache at $0.30, 100 out at $15.
    beside = pytest.approx(0.003 + 0.0027 + 0.0015)
    assert cost(1000, 10_100) == beside
    assert cost(1000, None) == beside
    assert cost(10_000, 10_100) == beside


def test_a_time_that_no_calendar_has_is_not_priced() -> None:
    assert prices.estimated(KNOWN, 1e300) is KNOWN


def test_the_prices_in_use_are_named_with_a_date() -> None:
    found = prices.prices_in_use()
    assert found is not None
    assert re.fullmatch(r"genai-prices [\d.]+, checked \d{4}-\d\d-\d\d", found)


WITHOUT = """
import sys
sys.modules["genai_prices"] = None
from callsheet.report.usage import TokenUsage
from callsheet.telemetry import prices
usage = TokenUsage(input_tokens=5, output_tokens=5, model="gpt-5")
assert prices.estimated(usage, 1.78e9) is usage
assert prices.load() is None
"""


def test_without_genai_prices_nothing_is_priced_and_nothing_fails() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_it_is_imported_only_when_a_turn_is_priced_and_never_fetches() -> None:
    code = """
import socket, sys
def refuse(*_): raise AssertionError("a connection")
socket.socket.connect = refuse
from callsheet.report.usage import TokenUsage
from callsheet.telemetry import prices
prices.estimated(TokenUsage(), 1.78e9)
assert "genai_prices" not in sys.modules
usage = TokenUsage(input_tokens=5, output_tokens=5, model="gpt-5")
assert prices.estimated(usage, 1.78e9).cost
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
