"""Finds the secrets in bytes: the gate says where to look, the rules say what is there.

Three kinds of finding, and when they meet, the first wins: a known value, a rule's pattern, the value beside a
telling name. `spans` judges a whole text. `undecided` says from where on a text that goes on can't be judged yet.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import NamedTuple

from . import pairs
from .engines import Trigger, make_gate, simpler
from .keys import is_mixed, is_placeholder
from .marks import MARK, has_marks, only_marks
from .rules import InvalidRule, Rule, check, group_start

# A word may begin after these, though they end in a letter or digit: `\n` and `\u003d` of JSON, `%3D` of URLs,
# and the colours of a terminal.
_LEFT = rb"(?:(?<![A-Za-z0-9_])|" + b"|".join(
    rb"(?<=%s)" % end
    for end in (
        rb"\\[nrtbf]", rb"\\u[0-9a-fA-F]{4}", rb"%[0-9a-fA-F]{2}", rb"\\x[0-9a-fA-F]{2}",
        rb"[;\[]m", rb"[;\[][0-9]m", rb"[;\[][0-9]{2}m", rb"[;\[][0-9]{3}m",
    )
) + b")"  # fmt: skip
_RIGHT = rb"(?![A-Za-z0-9])"

_OPEN: Mapping[str, re.Pattern[bytes]] = {
    "token": re.compile(rb"[A-Za-z0-9_./+=~%$@,:-]*"),
    "word": re.compile(rb"""[^\s"'<>]*"""),
    "block": re.compile(rb"""[A-Za-z0-9+/=\s\\%"',>|:;.()\[\x1b-]*"""),
}
_TOKEN_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./+=~%$@,:-"

_PREFIX = 64

OPENER = 16
"""So many bytes of a known value are looked for to notice its beginning in a stream."""


class Span(NamedTuple):
    """Where a secret stands, the rule that found it, and the secret that it stands for."""

    start: int
    end: int
    rule: str
    secret: bytes


class _Compiled:
    """A rule, ready to be tried at a place."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._pattern: re.Pattern[bytes] | None = None
        self._before: re.Pattern[bytes] | None = None
        self._group = group_start(rule.pattern)
        self.has_group: bool = self._group >= 0
        self.literals = tuple(literal.encode() for literal in rule.literals)

    @property
    def pattern(self) -> re.Pattern[bytes]:
        """The whole, with what must be around it. Made when first needed: `re` compiles slowly."""
        if self._pattern is None:
            left = _LEFT if self.rule.left else b""
            right = _RIGHT if self.rule.right else b""
            self._pattern = re.compile(left + b"(?:" + self.rule.pattern.encode() + b")" + right)
        return self._pattern

    def find(self, data: bytes, place: int) -> tuple[int, int] | None:
        """Give the secret's span if the rule holds at this place."""
        match = self.pattern.match(data, place)
        if match is None:
            return None
        start, end = match.span(1 if self.has_group else 0)
        secret = data[start:end]
        if (self.rule.mixed and not is_mixed(secret)) or (
            self.rule.placeholders and is_placeholder(secret)
        ):
            return None
        return (start, end)

    def begun(self, data: bytes, place: int) -> int | None:
        """Give where the secret begins if it may go on beyond the end of the data."""
        if self.has_group:
            match = self.before.match(data, place)
            if match is None:
                return None
            place = match.end()
        match = _OPEN[self.rule.open].match(data, place)
        if match is None or match.end() < len(data) or place == len(data):
            return None
        if self.rule.end:
            found = self.find(data, place)
            if found and data.endswith(self.rule.end.encode(), found[0], found[1]):
                return None
        return place

    @property
    def before(self) -> re.Pattern[bytes]:
        """What stands before the secret."""
        if self._before is None:
            self._before = re.compile(_balanced(self.rule.pattern[: self._group]).encode())
        return self._before


def _balanced(pattern: str) -> str:
    """Close the groups that a cut left open."""
    try:
        re.compile(pattern)
    except re.error:
        return _balanced(pattern + ")")
    return pattern


class Scanner:
    """All rules and known values, compiled together."""

    def __init__(
        self,
        rules: Sequence[Rule],
        known: Mapping[bytes, tuple[str, bytes]],
        allow: Iterable[str],
        engine: str | None,
    ) -> None:
        self._rules = [_Compiled(rule) for rule in rules]
        self._known = known
        self._by_length = sorted(known, key=len, reverse=True)
        self._allowed, self._allow = _allow_list(allow)
        self._at: dict[int, tuple[list[_Compiled], list[bytes]]] = {}
        self.gate = make_gate(tuple(self._triggers()), engine)
        other = "re2" if find_spec("re2") and self.gate.name != "re" else "re"
        self._openers = make_gate(tuple(self._opening_triggers()), other)
        self._known_openers = make_gate(tuple(_known_trigger(f, OPENER) for f in known), other)
        self._beginnings, self.longest = self._partial_literals()
        self._blocks = [rule for rule in self._rules if rule.rule.open == "block"]

    def _triggers(self) -> list[Trigger]:
        known = [_known_trigger(form, _PREFIX) for form in self._known]
        keys = [Trigger(pairs.ASSIGNED, pairs.LITERALS), Trigger(pairs.FLAGGED, pairs.LITERALS)]
        return [*(_trigger(rule) for rule in self._rules), *keys, *known]

    # --- one whole text

    def spans(self, data: bytes) -> Sequence[Span]:
        """Give all secrets in order, none touching another.

        With secrets gone, others may stand out: a key that was glued to a password, say. So it is looked again until
        nothing more is found, and redacting twice changes nothing.
        """
        spans = self._find(data)
        if not spans:
            return ()
        while True:
            text, marks = _with_marks(data, spans)
            more = self._find(text)
            if not more:
                return spans
            spans = _merged(data, [*spans, *(_mapped(data, span, marks) for span in more)])

    def _find(self, data: bytes) -> list[Span]:
        hits = self.gate.hits(data)
        if not hits:
            return []
        found: list[Span] = []
        for place in hits:
            self._look(data, place, found)
        found = _merged(data, found)
        return _beside_marks(data, found) if found and has_marks(data) else found

    def _look(self, data: bytes, place: int, found: list[Span]) -> None:
        rules, known = self._candidates(data[place])
        for form in known:
            if data.startswith(form, place):
                name, secret = self._known[form]
                self._add(found, data, place, place + len(form), name, secret)
                break
        for rule in rules:
            span = rule.find(data, place)
            if span is not None:
                self._add(found, data, *span, rule.rule.id)
        pair = pairs.read(data, place)
        if pair is not None and pair.secret:
            self._add(found, data, pair.start, pair.end, pair.family)

    def _candidates(self, byte: int) -> tuple[list[_Compiled], list[bytes]]:
        """Give the rules and known values that may begin with this byte, for any case."""
        found = self._at.get(byte)
        if found is None:
            first = bytes([byte]).lower()
            rules = [
                rule
                for rule in self._rules
                if not rule.literals or any(lit[:1].lower() == first for lit in rule.literals)
            ]
            known = [form for form in self._by_length if form[0] == byte]
            found = self._at[byte] = (rules, known)
        return found

    def _add(
        self, found: list[Span], data: bytes, start: int, end: int, rule: str, secret: bytes = b""
    ) -> None:
        shown = data[start:end]
        if self.allows(shown):
            return
        found.append(Span(start, end, rule, secret or shown))

    def allows(self, secret: bytes) -> bool:
        """Whether the user said that this is no secret."""
        return secret in self._allowed or bool(self._allow and self._allow.fullmatch(secret))

    # --- a text that goes on

    def undecided(self, data: bytes, start: int) -> int:
        """Give the place from which on nothing can be said yet: all of `data`, if its end is harmless.

        `start` is where the last unfinished line begins.
        """
        hold = len(data)
        for place in self._openers.hits(data[start:]):
            hold = min(hold, self._begun(data, start + place))
        for rule in self._blocks:
            for literal in rule.literals:
                place = data.rfind(literal)
                if place >= 0:
                    begun = rule.begun(data, place)
                    hold = hold if begun is None else min(hold, begun)
        return min(hold, self._known_begun(data), self._partial(data))

    def _begun(self, data: bytes, place: int) -> int:
        hold = len(data)
        for rule in self._candidates(data[place])[0]:
            if not rule.literals or _starts(rule, data, place):
                begun = rule.begun(data, place)
                hold = hold if begun is None else min(hold, begun)
        pair = pairs.read(data, place)
        if pair is not None and pair.open and pair.start < hold:
            hold = pair.start
        return hold

    def _known_begun(self, data: bytes) -> int:
        """Known values may have any characters, line ends too, so they are looked for by themselves."""
        if not self._known:
            return len(data)
        start = max(0, len(data) - len(self._by_length[0]))
        for place in self._known_openers.hits(data[start:]):
            rest = data[start + place :]
            if any(form.startswith(rest) for form in self._candidates(rest[0])[1]):
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
        literals = {lit.lower() for rule in self._rules if not rule.has_group for lit in rule.literals}
        literals |= {form[:OPENER].lower() for form in self._known}
        found = {lit[:size] for lit in literals for size in range(1, len(lit))}
        return frozenset(found), max(map(len, found), default=1)

    def _opening_triggers(self) -> list[Trigger]:
        """Look for beginnings: literals, and telling names with what joins them to a value."""
        found = [Trigger(pairs.ASSIGNED, pairs.LITERALS), Trigger(pairs.FLAGGED, pairs.LITERALS)]
        for rule in self._rules:
            if not rule.literals:
                found.append(_trigger(rule))
            for literal in rule.literals:
                letters = re.escape(literal)
                if rule.rule.ignore_case:
                    letters = b"(?i:" + letters + b")"
                found.append(Trigger(letters, (literal.lower(),)))
        return found


def _glued(data: bytes, place: int) -> int:
    """Go back over what is glued to a known value: it may stand out once that is gone."""
    return len(data[:place].rstrip(_TOKEN_LETTERS))


def _starts(rule: _Compiled, data: bytes, place: int) -> bool:
    if rule.rule.ignore_case:
        longest = max(map(len, rule.literals))
        return data[place : place + longest].lower().startswith(rule.literals)
    return data.startswith(rule.literals, place)


def _known_trigger(form: bytes, size: int) -> Trigger:
    return Trigger(re.escape(form[:size]), (form[:size].lower(),))


def _trigger(rule: _Compiled) -> Trigger:
    pattern = simpler((rule.rule.gate or rule.rule.pattern).encode())
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


def _merged(data: bytes, found: list[Span]) -> list[Span]:
    """Join what overlaps, the wider span's rule first."""
    found.sort(key=lambda span: (span.start, -span.end))
    joined: list[Span] = []
    for span in found:
        if joined and span.start < joined[-1].end:
            last = joined[-1]
            if span.end > last.end:
                joined[-1] = Span(last.start, span.end, last.rule, data[last.start : span.end])
        else:
            joined.append(span)
    return joined


_A_MARK = b"[redacted:x]"


def _with_marks(data: bytes, spans: Sequence[Span]) -> tuple[bytes, list[tuple[int, int]]]:
    """Put marks in place of secrets. Beside the text: where each mark ends there, and its secret here."""
    parts: list[bytes] = []
    ends: list[tuple[int, int]] = [(0, 0)]
    place = size = 0
    for span in spans:
        parts += (data[place : span.start], _A_MARK)
        size += span.start - place + len(_A_MARK)
        place = span.end
        ends.append((size, place))
    return b"".join([*parts, data[place:]]), ends


def _mapped(data: bytes, span: Span, ends: list[tuple[int, int]]) -> Span:
    """Find a span of the text with marks in the data without."""
    start, end = (
        here + place - there
        for place in (span.start, span.end)
        for there, here in [ends[bisect_right(ends, place, key=lambda pair: pair[0]) - 1]]
    )
    # One that begins with a mark begins where the mark's secret does.
    for (there, here), (next_there, _) in pairwise(ends):
        if next_there - len(_A_MARK) == span.start:
            start = here + span.start - there
    whole = data[start:end]
    return Span(start, end, span.rule, span.secret if len(span.secret) == len(whole) else whole)


def _beside_marks(data: bytes, spans: list[Span]) -> list[Span]:
    """Drop what lies in marks; widen what touches one, so that none is cut in two."""
    marks = [match.span() for match in MARK.finditer(data)]
    kept: list[Span] = []
    for span in spans:
        touched = [mark for mark in marks if mark[0] < span.end and span.start < mark[1]]
        start = min([span.start, *(mark[0] for mark in touched)])
        end = max([span.end, *(mark[1] for mark in touched)])
        if not only_marks(data[start:end]):
            kept.append(span._replace(start=start, end=end) if touched else span)
    return kept
