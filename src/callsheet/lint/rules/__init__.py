"""The rules, each in its own file. To add one: a file with `check` and `RULE`, and a line here."""

from __future__ import annotations

from callsheet.lint.finding import Rule
from callsheet.lint.rules import (
    blocking,
    by_hand,
    no_call_id,
    no_message,
    no_output,
    no_time,
    numbers,
    swallowed,
)

RULES: tuple[Rule, ...] = (
    by_hand.RULE,
    no_output.RULE,
    no_message.RULE,
    numbers.RULE,
    no_call_id.RULE,
    no_time.RULE,
    swallowed.RULE,
    blocking.RULE,
)


def select(chosen: frozenset[str], ignored: frozenset[str]) -> tuple[Rule, ...]:
    """Return the rules that are chosen (none means all) and not ignored, by ids or categories."""
    return tuple(
        rule
        for rule in RULES
        if (not chosen or {rule.id, rule.category} & chosen)
        and not {rule.id, rule.category} & ignored
    )


def names() -> list[str]:
    """Return all ids, then all categories."""
    return [*(rule.id for rule in RULES), *dict.fromkeys(rule.category for rule in RULES)]
