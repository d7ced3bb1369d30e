"""Search for secrets in bytes: a gate finds where to look, the rules decide what is there.

A **gate** is made of patterns that match at least wherever the rules do, and RE2 searches for all
of them at once, in linear time: its automaton reads each byte once, so whole rules cost no more
than their first letters, and have far fewer false hits. The **scanner** looks at the places that
the gate names with Python's `re`, and decides there. So the gate can change how fast secrets are
found, but not what is found. There are three kinds of finding: a known value, a rule's pattern, the
value beside a secret name.

A **budget** bounds the work. Most places that are looked at cost a few microseconds, and real texts
have some dozens of them in a megabyte. A text that has one every few bytes would take minutes. So
each text, each nested value and each stream has a budget; it grows with what is read, and when it
is used up, what may be secret is hidden unread (`UNSEARCHED`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from callsheet.redaction import assignments
from callsheet.redaction.encodings import (
    BASE64,
    from_base64,
    run_at,
    views,
)
from callsheet.redaction.matchers import RuleMatcher
from callsheet.redaction.patterns import REACH, Gate, make_gate, simplified
from callsheet.redaction.rules import InvalidRule, Rule, check
from callsheet.redaction.spans import (
    OPENING,
    UNSEARCHED,
    Span,
    beside_marks,
    groups,
    mapped,
    merged,
    stands_alone,
    with_marks,
)

FREE = 2048
"""Places that are looked at in any text, however short; and the most that can be saved up."""

EVERY = 512
"""Bytes that pay for one more place."""

LEAST = 64
"""What must be left to go on."""


class Budget:
    """Counts what is left to spend."""

    __slots__ = ("_bytes", "left")

    def __init__(self) -> None:
        self.left: int = FREE
        self._bytes = 0

    @property
    def is_spent(self) -> bool:
        """Whether no more may be looked at for now."""
        return self.left < LEAST

    def earn(self, size: int) -> None:
        """Add what so many new bytes pay for."""
        places, self._bytes = divmod(self._bytes + size, EVERY)
        self.left = min(FREE, self.left + places)

    def spend(self, places: int) -> None:
        """Take off what was looked at."""
        self.left -= places


_PREFIX = 64
_LONG = 128

_SMALL = 8192
"""Bytes up to which a text is searched for anything at all first."""

_FINDING = 3
"""How many places a finding is worth: it is looked at again, and marked."""

_MUCH = 256
"""Bytes that are worth a place, if they are read closely."""

_HIDDEN = 65_536
"""So much is hidden at least where there is too much to look at; then a line must end."""

_DEPTH = 2
"""So deep, text in text is decoded."""


class Scanner:
    """All rules and known values, compiled together."""

    def __init__(
        self,
        rules: Sequence[Rule],
        known: Mapping[bytes, tuple[str, bytes]],
        allow: Iterable[str],
    ) -> None:
        self.rules = [RuleMatcher(rule) for rule in rules]
        self.known = known
        self._by_length = sorted(known, key=len, reverse=True)
        self.allow = _allow_pattern(allow)
        """Matches what the user declared not to be a secret."""
        self._at: dict[bytes, tuple[list[RuleMatcher], list[bytes]]] = {}
        self.work: int = 0
        """How many places were looked at so far. Tests hold it down."""
        self.blocks = [rule.block for rule in self.rules if rule.block is not None]

    @cached_property
    def gate(self) -> Gate:
        """The gate for whole texts. Made when first needed: clean JSON needs another one only."""
        return make_gate(tuple(self.patterns()))

    def patterns(self) -> list[bytes]:
        """Return what the gate searches for: rules, secret names, known values, text in base64."""
        rules = [simplified(rule.rule.pattern.encode()) for rule in self.rules]
        known = [re.escape(form[:_PREFIX]) for form in self.known]
        return [*rules, *assignments.pairs(), *known, BASE64]

    # --- one whole text

    def search(
        self,
        data: bytes,
        budget: Budget | None = None,
        *,
        is_new: bool = True,
        depth: int = _DEPTH,
    ) -> tuple[Sequence[Span], int]:
        """Return all secrets in order, and where a value begins that has not ended, or the end.

        With secrets gone, others may appear: for example, a key that was glued to a password. So the
        text around them is searched again until nothing more is found, and redacting twice changes
        nothing. Data that is new adds to the budget. Encoded text is looked into, and so often what
        is encoded in it.
        """
        if len(data) <= _SMALL and not self.finds(data):
            return (), len(data)
        budget = budget or Budget()
        found: list[Span] = []
        runs: list[tuple[int, int]] = []
        plain, open_value = self._find(data, budget, runs, is_new=is_new)
        encoded, inside = (
            self._find_encoded(data, budget, runs, depth) if depth else ([], len(data))
        )
        for start, end, spans in groups(data, merged(data, plain + encoded) if encoded else plain):
            if all(stands_alone(data, span) for span in spans):
                found += spans
                continue
            moved = [span.moved(-start) for span in spans]
            found += [span.moved(start) for span in self._settled(data[start:end], moved, budget)]
        return found, min(open_value, inside)

    def finds(self, data: bytes, gate: Gate | None = None) -> bool:
        """Return whether there may be anything, at first sight."""
        finds = (gate or self.gate).finds
        if finds(data):
            return True
        # Asked here, too: this is done for each piece of an agent's text, and most have neither.
        is_encoded = b"\x1b" in data or b"%" in data
        return is_encoded and any(finds(view.text) for view in views(data, Budget()))

    def _find_encoded(
        self, data: bytes, budget: Budget, runs: list[tuple[int, int]], depth: int
    ) -> tuple[list[Span], int]:
        decoded = (from_base64(data, *run, budget) for run in runs)
        found: list[Span] = []
        first = len(data)
        for view in (*views(data, budget), *decoded):
            if view is not None:
                spans, place = self.search(view.text, budget, is_new=False, depth=depth - 1)
                found += view.mapped(data, spans)
                if place < len(view.text):
                    first = min(first, view.origin(place, view.edges()))
        return found, first

    def _settled(self, data: bytes, spans: list[Span], budget: Budget) -> list[Span]:
        while not budget.is_spent:
            text, marks = with_marks(data, spans)
            self.spend(budget, 1 + len(text) // _SMALL)
            more, _ = self._find(text, budget, [])
            grown = merged(data, [*spans, *(mapped(data, span, marks) for span in more)])
            if grown == spans:
                return spans
            spans = grown
        return [Span(0, len(data), UNSEARCHED, 1, data)]

    def _find(
        self,
        data: bytes,
        budget: Budget,
        runs: list[tuple[int, int]],
        *,
        is_new: bool = False,
    ) -> tuple[list[Span], int]:
        """Look at all places. Where base64 stands is added to `runs`."""
        found: list[Span] = []
        read_to = earned = after = 0
        open_value = len(data)
        while (place := self.gate.next(data, after)) >= 0:
            if is_new:
                budget.earn(place - earned)
                earned = max(place, earned)
            if budget.is_spent:
                after = self._hide(data, place, found)
                continue
            before, after = len(found), place + 1
            cost = 1 + self._look(data, place, found)
            if place >= read_to:
                cost += 1
                if pair := assignments.read(data, place):
                    family, start, end, is_open, is_secret = pair
                    if is_open:
                        open_value = min(open_value, start)
                    if is_secret:
                        self._add(found, data, Span(start, end, family, 3, data[start:end]))
                    read_to = end if end - start > _LONG else 0
                    cost += max(0, read_to - place) // _MUCH
            if len(found) > before:
                cost += _FINDING
                after = max(after, found[-1].end - REACH)
            run = run_at(data, place)
            if run is not None and (not runs or run[0] >= runs[-1][1]):
                runs.append(run)
                after = max(after, run[1] - REACH)
            self.spend(budget, cost)
        if is_new:
            budget.earn(len(data) - earned)
        found = merged(data, found)
        return (beside_marks(data, found) if found and OPENING in data else found), open_value

    def _hide(self, data: bytes, place: int, found: list[Span]) -> int:
        """Hide what can't be looked at, up to the end of a line."""
        end = data.find(b"\n", place + _HIDDEN, place + 2 * _HIDDEN)
        end = min(len(data), place + 2 * _HIDDEN) if end < 0 else end
        for block in self.blocks:
            end = block.end_of(data, place, end)
        found.append(Span(place, end, UNSEARCHED, 1, data[place:end]))
        return end

    def spend(self, budget: Budget, places: int) -> None:
        """Take places off a budget, and count them."""
        budget.spend(places)
        self.work += places

    def _look(self, data: bytes, place: int, found: list[Span]) -> int:
        """Add what the rules find at a place. Return what that was worth, beyond a look."""
        rules, known = self.candidates(data[place : place + 2])
        for form in known:
            if data.startswith(form, place):
                name, secret = self.known[form]
                self._add(found, data, Span(place, place + len(form), name, 0, secret))
                break
        cost = 0
        for rule in rules:
            if rule.starts(data, place):
                span = rule.find(data, place)
                cost += rule.cost if span is None else (span[1] - place) // _MUCH
                if span is not None:
                    secret = data[span[0] : span[1]]
                    self._add(found, data, Span(*span, rule.rule.id, 1 + rule.has_group, secret))
        return cost

    def candidates(self, begin: bytes) -> tuple[list[RuleMatcher], list[bytes]]:
        """Return the rules, in any case, and the known values that may begin with these two bytes."""
        found = self._at.get(begin)
        if found is None:
            first = begin.lower()
            rules = [
                rule
                for rule in self.rules
                if not rule.literals
                or any(first.startswith(lit[:2].lower()) for lit in rule.literals)
            ]
            known = [form for form in self._by_length if form.startswith(begin)]
            found = self._at[begin] = (rules, known)
        return found

    def _add(self, found: list[Span], data: bytes, span: Span) -> None:
        if not self.allows(data[span.start : span.end]):
            found.append(span)

    def allows(self, secret: bytes) -> bool:
        """Return whether the user declared that this is not a secret."""
        return self.allow is not None and self.allow.fullmatch(secret) is not None

    def knows(self, secret: bytes) -> bool:
        """Return whether this is a known value, in one of its forms, and nothing else."""
        return secret in self.known


def _allow_pattern(allow: Iterable[str]) -> re.Pattern[bytes] | None:
    """Take values as they are; after `re:`, a pattern that a value must match as a whole."""
    patterns: list[bytes] = []
    for entry in allow:
        if entry.startswith("re:"):
            check(Rule("allow", entry[3:]))
            patterns.append(b"(?:" + entry[3:].encode() + b")")
        elif entry:
            patterns.append(re.escape(entry.encode("utf-8", "surrogatepass")))
        else:
            raise InvalidRule("allow: an empty entry allows nothing; leave it out")
    return re.compile(b"|".join(patterns)) if patterns else None
