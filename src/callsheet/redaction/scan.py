"""Finds the secrets in bytes: the gate says where to look, the rules say what is there.

Three kinds of finding: a known value, a rule's pattern, the value beside a telling name. `spans` judges a
whole text. `undecided` says from where on a text that goes on can't be judged yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from importlib.util import find_spec
from typing import NamedTuple

from callsheet.redaction import pairs
from callsheet.redaction.blocks import Block
from callsheet.redaction.budget import UNSEARCHED, Budget
from callsheet.redaction.encodings import (
    BASE64,
    base64_begun,
    code_begun,
    from_base64,
    run_at,
    views,
)
from callsheet.redaction.engines import Gate, Trigger, make_gate, simpler
from callsheet.redaction.follow import Words, distant
from callsheet.redaction.glance import beginnings
from callsheet.redaction.marks import MARK_BEGUN, has_marks, mark_around
from callsheet.redaction.pairs_open import windows
from callsheet.redaction.rules import OPEN, InvalidRule, Rule, check
from callsheet.redaction.shapes import REACH, Shape
from callsheet.redaction.spans import (
    Span,
    beside_marks,
    groups,
    mapped,
    merged,
    stands_alone,
    with_marks,
)

_TOKEN_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./+=~%$@,:-"

_PREFIX = 64
_LONG = 128

_BLOCK = 8192
"""Bytes that are searched at once."""

_FINDING = 3
"""How many places a finding is worth: it is looked at again, and marked."""

_MUCH = 256
"""Bytes that are worth a place, if they are read closely."""

_HIDDEN = 65_536
"""So much is hidden at least where there is too much to look at; then a line must end."""

_DEPTH = 2
"""So deep, text in text is decoded."""

OPENER = 16
"""So many bytes of a known value are looked for to notice its beginning in a stream."""


_FILLER = re.compile(rb"[.*-]{3,}")
"""No secret begins so. A row of dots after a name shows that something is going on."""


class Begun(NamedTuple):
    """Where something has begun that is not decided, and what it must go on with to stay so."""

    place: int
    goes_on: re.Pattern[bytes] | None = None
    block: Block | None = None


class Scanner:
    """All rules and known values, compiled together."""

    def __init__(
        self,
        rules: Sequence[Rule],
        known: Mapping[bytes, tuple[str, bytes]],
        allow: Iterable[str],
        engine: str | None,
    ) -> None:
        self._rules = [Shape(rule) for rule in rules]
        self._known = known
        self._by_length = sorted(known, key=len, reverse=True)
        self._allowed, self._allow = _allow_list(allow)
        self._at: dict[bytes, tuple[list[Shape], list[bytes]]] = {}
        self.gate = make_gate(tuple(self._triggers()), engine)
        self._beginnings, self.longest = self._partial_literals()
        self._wordy = [rule for rule in self._rules if not rule.literals]
        self.work: int = 0
        """How many places were looked at so far. Tests hold it down."""
        self._blocks = [rule.block for rule in self._rules if rule.block is not None]

    def _triggers(self) -> list[Trigger]:
        known = [_known_trigger(form, _PREFIX) for form in self._known]
        return [*(_trigger(rule) for rule in self._rules), *_PAIRS, *known, Trigger(BASE64)]

    # --- one whole text

    def spans(
        self,
        data: bytes,
        budget: Budget | None = None,
        *,
        is_new: bool = True,
        depth: int = _DEPTH,
    ) -> Sequence[Span]:
        """Return all secrets in order, none touching another.

        With secrets gone, others may stand out: a key that was glued to a password, say. So the text around
        them is looked at again until nothing more is found, and redacting twice changes nothing.
        Data that is new adds to the budget. Encoded text is looked into, and so often what is encoded in it.
        """
        if len(data) <= _BLOCK and not self.finds(data):
            return ()
        budget = budget or Budget()
        found: list[Span] = []
        runs: list[tuple[int, int]] = []
        plain = self._find(data, budget, runs, is_new=is_new)
        encoded = self._find_encoded(data, budget, runs, depth) if depth else []
        for start, end, spans in groups(data, merged(data, plain + encoded) if encoded else plain):
            if all(stands_alone(data, span) for span in spans):
                found += spans
                continue
            inside = [span.moved(-start) for span in spans]
            found += [span.moved(start) for span in self._settled(data[start:end], inside, budget)]
        return found

    def finds(self, data: bytes, gate: Gate | None = None) -> bool:
        """Return whether there may be anything, at first sight."""
        finds = (gate or self.gate).finds
        return finds(data) or any(finds(view.text) for view in views(data, Budget()))

    def _find_encoded(
        self, data: bytes, budget: Budget, runs: list[tuple[int, int]], depth: int
    ) -> list[Span]:
        decoded = (from_base64(data, *run, budget) for run in runs)
        found: list[Span] = []
        for view in (*views(data, budget), *decoded):
            if view is not None:
                spans = self.spans(view.text, budget, is_new=False, depth=depth - 1)
                found += view.mapped(data, spans)
        return found

    def _settled(self, data: bytes, spans: list[Span], budget: Budget) -> list[Span]:
        while not budget.is_spent:
            text, marks = with_marks(data, spans)
            self._spend(budget, 1 + len(text) // _BLOCK)
            more = self._find(text, budget, [])
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
    ) -> list[Span]:
        """Look at all places. Where base64 stands is added to `runs`."""
        found: list[Span] = []
        done = 0
        for start in range(0, len(data), _BLOCK):
            if is_new:
                budget.earn(min(_BLOCK, len(data) - start))
            if start + _BLOCK > done:
                done = self._find_in(data, max(start, done), start + _BLOCK, budget, found, runs)
        found = merged(data, found)
        return beside_marks(data, found) if found and has_marks(data) else found

    def _find_in(
        self,
        data: bytes,
        start: int,
        end: int,
        budget: Budget,
        found: list[Span],
        runs: list[tuple[int, int]],
    ) -> int:
        """Look at the places between two. Returns the place from which on there is more to look at."""
        read_to = 0
        for hit in self.gate.each(data[start : end + REACH]):
            place, before = start + hit, len(found)
            if place >= end:
                break
            if budget.is_spent:
                return self._hide(data, place, found)
            run = run_at(data, place)
            if run is not None and (not runs or run[0] >= runs[-1][1]):
                runs.append(run)
            cost = 1 + self._look(data, place, found)
            if place >= read_to:
                read_to = self._read_pair(data, place, found)
                cost += 1 + max(0, read_to - place) // _MUCH
            if len(found) > before:
                cost += _FINDING
            self._spend(budget, cost)
            if len(found) > before and found[-1].end - place > REACH:
                after = found[-1].end - _LONG
            elif run is not None and run[1] - place > REACH:
                after = run[1] - _LONG
            else:
                continue
            if after >= end:
                return after
            return self._find_in(data, after, end, budget, found, runs)
        return end

    def _hide(self, data: bytes, place: int, found: list[Span]) -> int:
        """Hide what can't be looked at, up to the end of a line."""
        end = data.find(b"\n", place + _HIDDEN, place + 2 * _HIDDEN)
        end = min(len(data), place + 2 * _HIDDEN) if end < 0 else end
        for block in self._blocks:
            end = block.end_of(data, place, end)
        found.append(Span(place, end, UNSEARCHED, 1, data[place:end]))
        return end

    def _spend(self, budget: Budget, places: int) -> None:
        budget.spend(places)
        self.work += places

    def _look(self, data: bytes, place: int, found: list[Span]) -> int:
        """Add what the rules find at a place. Returns what that was worth, beyond a look."""
        rules, known = self._candidates(data[place : place + 2])
        for form in known:
            if data.startswith(form, place):
                name, secret = self._known[form]
                self._add(found, data, place, place + len(form), name, 0, secret)
                break
        cost = 0
        for rule in rules:
            if rule.starts(data, place):
                span = rule.find(data, place)
                cost += rule.cost if span is None else (span[1] - place) // _MUCH
                if span is not None:
                    self._add(found, data, *span, rule.rule.id, 1 + rule.has_group)
        return cost

    def _read_pair(self, data: bytes, place: int, found: list[Span]) -> int:
        """Add the value beside a telling name. Gives the place up to which there is nothing more to read."""
        pair = pairs.read(data, place)
        if pair is None:
            return 0
        if pair.secret:
            self._add(found, data, pair.start, pair.end, pair.family, 3)
        return pair.end if pair.end - pair.start > _LONG else 0

    def _candidates(self, begin: bytes) -> tuple[list[Shape], list[bytes]]:
        """Return the rules that may begin with these two bytes, in any case, and the known values that do."""
        found = self._at.get(begin)
        if found is None:
            first = begin.lower()
            rules = [
                rule
                for rule in self._rules
                if not rule.literals
                or any(first.startswith(lit[:2].lower()) for lit in rule.literals)
            ]
            known = [form for form in self._by_length if form.startswith(begin)]
            found = self._at[begin] = (rules, known)
        return found

    def _add(
        self,
        found: list[Span],
        data: bytes,
        start: int,
        end: int,
        rule: str,
        rank: int,
        secret: bytes = b"",
    ) -> None:
        shown = data[start:end]
        if not self.allows(shown):
            found.append(Span(start, end, rule, rank, secret or shown))

    def allows(self, secret: bytes) -> bool:
        """Whether the user said that this is no secret."""
        return secret in self._allowed or bool(self._allow and self._allow.fullmatch(secret))

    def knows(self, secret: bytes) -> bool:
        """Return whether this is a known value, in one of its forms, and nothing else."""
        return secret in self._known

    # --- a text that goes on

    @cached_property
    def _openers(self) -> Gate:
        return self._gate(self._opening_triggers(tokens=False))

    @cached_property
    def _names(self) -> Gate:
        return self._gate(_PAIRS)

    @cached_property
    def _token_openers(self) -> Gate:
        return self._gate(self._opening_triggers(tokens=True))

    @cached_property
    def words(self) -> Words:
        """What is needed to follow texts that go on."""
        far = distant(self._rules, self._known)
        return Words(
            near=partial(
                self.finds,
                gate=self._gate([*self._triggers(), *beginnings(self._rules, self._known)]),
            ),
            far=None if far is None else self._gate(far),
            known={},
        )

    @cached_property
    def _known_openers(self) -> Gate:
        return self._gate([_known_trigger(form, OPENER) for form in self._known])

    def _gate(self, triggers: Iterable[Trigger]) -> Gate:
        """Make a gate that has much to find, so one that says where at once."""
        fast = self.gate.name != "re" and find_spec("re2")
        return make_gate(tuple(triggers), "re2" if fast else "re")

    def undecided(self, data: bytes, start: int, budget: Budget) -> Begun:
        """Say from which place on nothing can be said yet, and what has begun there.

        `start` is where the last unfinished line begins. If the end is harmless, the place is the end.
        """
        if budget.is_spent:
            return Begun(0)
        found = self._undecided(data, start, budget)
        for view in views(data, budget):
            line = view.text.rfind(b"\n", 0, len(view.text) - _LONG) + 1
            begun = self._opened(view.text, line, self._token_begun(view.text, budget), budget)
            begun = self._block_begun(view.text, begun)
            if begun.place < len(view.text):
                place = view.origin(begun.place, view.edges())
                found = Begun(place) if place < found.place else found
        place = min(code_begun(data), base64_begun(data))
        return found if found.place <= place else Begun(mark_around(data, place))

    def _undecided(self, data: bytes, start: int, budget: Budget) -> Begun:
        found = self._opened(data, start, self._token_begun(data, budget), budget)
        place = found.place
        if self._wordy:
            place = min(place, *(_run_start(data, rule) for rule in self._wordy))
        place = min(place, self._known_begun(data), self._partial(data))
        if place < found.place:
            found = Begun(place)
        found = self._block_begun(data, found)
        return found._replace(place=mark_around(data, found.place))

    def _block_begun(self, data: bytes, found: Begun) -> Begun:
        for block in self._blocks:
            begun = block.begun(data)
            if begun is not None and begun < found.place:
                found = Begun(begun, None, block)
        return found

    def _token_begun(self, data: bytes, budget: Budget) -> Begun:
        """Hold what begins like a token and goes on to the end."""
        word = len(data.rstrip(_TOKEN_LETTERS))
        if word < len(data):
            for place in self._token_openers.each(data[word:]):
                self._spend(budget, 1)
                if budget.is_spent or self._token_at(data, word + place):
                    return Begun(word + place, OPEN["token"])
        return Begun(len(data))

    def _token_at(self, data: bytes, place: int) -> list[Shape]:
        rules = self._candidates(data[place : place + 2])[0]
        return [rule for rule in rules if rule.is_token and rule.starts(data, place)]

    def half_token(self, data: bytes, start: int) -> Span | None:
        """Return the token that has begun and is long enough to be told, though it is not whole."""
        word = max(start, len(data.rstrip(_TOKEN_LETTERS)))
        for hit in self._token_openers.each(data[word:]):
            for rule in self._token_at(data, word + hit):
                if rule.literals and rule.has_begun(data, word + hit):
                    secret = data[word + hit :]
                    return Span(word + hit, len(data), rule.rule.id, 1, secret)
        return None

    def _opened(self, data: bytes, start: int, found: Begun, budget: Budget) -> Begun:
        """Hold what stands after a name, or after a rule's first part: the first that is open."""
        for hit in self._openers.each(data[start:]):
            place = start + hit
            self._spend(budget, 1)
            if place >= found.place:
                break
            if budget.is_spent:
                return Begun(place)
            for rule in self._candidates(data[place : place + 2])[0]:
                if not rule.is_token and rule.block is None and rule.starts(data, place):
                    begun = rule.begun(data, place)
                    if begun is not None and begun < found.place:
                        found = Begun(begun, OPEN[rule.rule.open])
            found, _ = _open_pair(data, place, found)
        read_to = 0
        for low, high in windows(data, start):
            for hit in self._names.each(data[low:high]):
                self._spend(budget, 1)
                if low + hit >= found.place:
                    break
                if budget.is_spent:
                    return Begun(low + hit)
                if low + hit >= read_to:
                    found, read_to = _open_pair(data, low + hit, found)
        return found

    def _known_begun(self, data: bytes) -> int:
        """Known values may have any characters, line ends too, so they are looked for by themselves."""
        if not self._known:
            return len(data)
        place = data.rfind(b"[", max(0, len(data) - 84))
        if place >= 0 and MARK_BEGUN.fullmatch(data, place):  # in a mark, nothing is a secret
            return place
        start = max(0, len(data) - len(self._by_length[0]))
        for place in self._known_openers.hits(data[start:]):
            rest = data[start + place :]
            if any(form.startswith(rest) for form in self._candidates(rest[:2])[1]):
                return _glued(data, start + place)
        return len(data)

    def _partial(self, data: bytes) -> int:
        """Find the longest end of the data that begins a literal."""
        tail = data[-self.longest :].lower()
        for size in range(len(tail)):
            if tail[size:] in self._beginnings:
                place = len(data) - len(tail) + size
                return _glued(data, place) if tail[size:].strip(_TOKEN_LETTERS) else place
        return len(data)

    def _partial_literals(self) -> tuple[frozenset[bytes], int]:
        literals = {
            lit.lower() for rule in self._rules if not rule.has_group for lit in rule.literals
        }
        literals |= {form[:OPENER].lower() for form in self._known}
        found = {lit[:size] for lit in literals for size in range(1, len(lit))}
        return frozenset(found), max(map(len, found), default=1)

    def _opening_triggers(self, *, tokens: bool) -> list[Trigger]:
        """Look for literals; and for headers, whose values go on to the end of the line."""
        found = [] if tokens else [Trigger(pairs.HEADED, pairs.HEADERS)]
        for rule in self._rules:
            if rule.is_token == tokens:
                found += _openers(rule)
        return found


_PAIRS = tuple(
    Trigger(pattern, pairs.LITERALS)
    for pattern in (pairs.ASSIGNED, pairs.FLAGGED, pairs.STRUCTURED, pairs.SET)
)


def _open_pair(data: bytes, place: int, found: Begun) -> tuple[Begun, int]:
    """Return the value after the name at this place, if it is open and the first; and where to read on."""
    pair = pairs.read(data, place, glued=True)
    if pair is None:
        return found, 0
    read_to = pair.end if pair.end - pair.start > _LONG else 0
    if not pair.open or pair.start >= found.place or _FILLER.fullmatch(data, pair.start):
        return found, read_to
    return Begun(pair.start, pair.goes_on), read_to


def _openers(rule: Shape) -> list[Trigger]:
    form = b"(?i:%s)" if rule.rule.ignore_case else b"%s"
    return [Trigger(form % re.escape(lit), (lit.lower(),)) for lit in rule.literals]


def _run_start(data: bytes, rule: Shape) -> int:
    """Find where a rule without literals may have begun: anywhere in the last word."""
    if rule.rule.open == "token":
        return len(data.rstrip(_TOKEN_LETTERS))
    return max(data.rfind(stop) for stop in (b" ", b"\n", b"\t", b"\r", b'"', b"'", b"<", b">")) + 1


def _glued(data: bytes, place: int) -> int:
    """Go back over what is glued to a known value: it may stand out once that is gone."""
    return len(data[:place].rstrip(_TOKEN_LETTERS))


def _known_trigger(form: bytes, size: int) -> Trigger:
    return Trigger(re.escape(form[:size]), (form[:size].lower(),))


def _trigger(rule: Shape) -> Trigger:
    pattern = simpler(rule.rule.pattern.encode())
    return Trigger(pattern, tuple(literal.lower() for literal in rule.literals))


def _allow_list(allow: Iterable[str]) -> tuple[frozenset[bytes], re.Pattern[bytes] | None]:
    """Take values as they are; after `re:`, a pattern that a value must match as a whole."""
    values: set[bytes] = set()
    patterns: list[bytes] = []
    for entry in allow:
        if entry.startswith("re:"):
            check(Rule("allow", entry[3:]))
            patterns.append(b"(?:" + entry[3:].encode() + b")")
        elif entry:
            values.add(entry.encode("utf-8", "surrogatepass"))
        else:
            raise InvalidRule("allow: an empty entry allows nothing; leave it out")
    return frozenset(values), re.compile(b"|".join(patterns)) if patterns else None
