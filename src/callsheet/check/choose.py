"""Which rules hold: those that are named by id or category, without those that are not wanted."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from callsheet.check.finding import CATEGORIES, SEVERITIES, Rule, Severity
from callsheet.check.rules import RULES

CLIENTS = ("zed", "toad", "acpx")


class UnknownRule(ValueError):
    """There is no such rule. The message names what is near."""


def names(rules: Iterable[Rule] = RULES) -> list[str]:
    """Return all categories and ids."""
    return [*CATEGORIES, *(rule.id for rule in rules)]


def named(words: Iterable[str], rules: Collection[Rule] = RULES) -> frozenset[str]:
    """Return the ids and categories in texts like `size,order/late`. Raises `UnknownRule`."""
    found = frozenset(part.strip().rstrip("/") for word in words for part in word.split(","))
    for word in sorted(found - {""}):
        if word not in names(rules):
            raise UnknownRule(_unknown(word, rules))
    return found - {""}


def choose(
    rules: Collection[Rule] = RULES,
    *,
    chosen: Collection[str] = (),
    ignored: Collection[str] = (),
    clients: Collection[str] = (),
    least: Severity = "advice",
) -> tuple[Rule, ...]:
    """Return the rules that apply; those about a client only if it is named, or if they are chosen."""
    severities = SEVERITIES[: SEVERITIES.index(least) + 1]

    def holds(rule: Rule) -> bool:
        its = {rule.id, rule.category}
        if (chosen and its.isdisjoint(chosen)) or not its.isdisjoint(ignored):
            return False
        if rule.clients and not (set(rule.clients) & set(clients) or (chosen and not clients)):
            return False
        return rule.severity in severities

    return tuple(rule for rule in rules if holds(rule))


def explained(word: str, rules: Collection[Rule] = RULES) -> tuple[Rule, ...]:
    """Return the rules that a word names: an id or its end, a category, or `all`. Raises `UnknownRule`."""
    if word == "all":
        return tuple(rules)
    alone = tuple(rule for rule in rules if rule.id.partition("/")[2] == word)
    if alone:
        return alone
    wanted = named([word], rules)
    return tuple(rule for rule in rules if not wanted.isdisjoint({rule.id, rule.category}))


def _unknown(word: str, rules: Collection[Rule]) -> str:
    near = difflib.get_close_matches(word, names(rules), n=3, cutoff=0.5)
    near += [rule.id for rule in rules if rule.id.partition("/")[2] == word and rule.id not in near]
    if near:
        return f"there is no rule {word!r}; did you mean {' or '.join(near)}?"
    return (
        f"there is no rule {word!r}; --rules lists all, and categories are {', '.join(CATEGORIES)}"
    )
