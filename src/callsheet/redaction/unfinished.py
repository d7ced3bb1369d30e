"""What may have begun at the end of a text that goes on: the theory of redaction across chunks.

A stream is cut anywhere: `export TOKEN=gh`, `p_Fake7Dummy3`. A chunk must not be passed on while
its end may turn out to be the first half of a secret; nor may it wait longer than that, since a
user is watching the output. So for each chunk two questions are asked:

1. *Is anything open?* `Unfinished.undecided` returns the first place from which on nothing can be
   decided yet. What is before it is judged like any whole text (`scanner.spans`), what is after it
   is held. Open may be

   * a **token** (`ghp_…`): a rule's fixed beginning, and only letters of tokens from there to the
     end;
   * a **value** after a secret name (`PASSWORD="hun`), whose string, word or line has not ended;
   * a **block** (`-----BEGIN … KEY-----`), whose lines of data have not ended;
   * a **known value**, or a rule's fixed beginning, of which only the first letters are there
     (`gh`);
   * an **encoding** that is not whole: base64, a colour, or any of the above in decoded text.

2. *How does it go on?* `Begun.goes_on` describes what the secret is made of. While chunks are made of
   nothing else, they are added to what is held without searching all of it again, so a long secret
   costs linear time.

Only the secret's own beginning is held, never the name before it: a prompt `Password: ` is shown at
once. A name that is passed on is stored as context (`stream.py`), since it decides about the value
that follows.

Nearly all text is harmless, and to look for all of this costs about 30 µs. So there is a cheaper
search, the gate `Unfinished.is_harmless`: it finds something wherever a stream would redact or hold
something, and sometimes where it would not. It is made of the patterns for whole secrets, and those
of `_beginnings`, which are anchored at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from callsheet.redaction import assignments
from callsheet.redaction.encodings import (
    BASE64_BEGUN,
    CODE_BEGUN,
    base64_begun,
    code_begun,
    views,
)
from callsheet.redaction.matchers import LINE_BEGUN, KeyBlock, RuleMatcher
from callsheet.redaction.rules import OPEN
from callsheet.redaction.scanner import (
    PAIRS,
    Budget,
    Gate,
    Scanner,
    make_gate,
    simplified,
)
from callsheet.redaction.spans import MARK_BEGUN, OPENING, Span, mark_around

_TOKEN_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./+=~%$@,:-"

_LONG = 128

_OPENER = 16
"""So many bytes of a known value are looked for to notice its beginning."""

_FILLER = re.compile(rb"[.*-]{3,}")
"""No secret begins so. A row of dots after a name shows that something is going on."""


class Begun(NamedTuple):
    """Where something has begun that is not decided, and what it must go on with to stay so."""

    place: int
    goes_on: re.Pattern[bytes] | None = None
    block: KeyBlock | None = None


class Unfinished:
    """Finds the place from which on an unfinished text can't be judged yet."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._rules = scanner.rules
        self._known = scanner.known
        self._has_wordy = any(not rule.literals for rule in self._rules)

    # Gates for what has begun. They are made when the first stream is: most processes have none.

    @cached_property
    def _openers(self) -> Gate:
        return make_gate((*PAIRS, *self._opening_patterns()))

    @cached_property
    def _known_openers(self) -> Gate:
        return make_gate(tuple(re.escape(form[:_OPENER]) for form in self._known))

    @cached_property
    def _harmless(self) -> Gate:
        return make_gate((*self._scanner.patterns(), *_beginnings(self._rules, self._known)))

    def is_harmless(self, data: bytes) -> bool:
        """Return whether a text surely has no secret in it, and none that has begun at its end."""
        return not self._scanner.finds(data, self._harmless)

    def undecided(self, data: bytes, start: int, budget: Budget) -> Begun:
        """Return the place from which on nothing can be decided yet, and what has begun there.

        `start` is where the last unfinished line begins. If the end is harmless, the place is the
        end.
        """
        if budget.is_spent:
            return Begun(0)
        found = self._undecided(data, start, budget)
        for view in views(data, budget):
            line = view.text.rfind(b"\n", 0, len(view.text) - _LONG) + 1
            begun = self._opened(view.text, line, budget)
            begun = self._block_begun(view.text, begun)
            if begun.place < len(view.text):
                place = view.origin(begun.place, view.edges())
                found = Begun(place) if place < found.place else found
        place = min(code_begun(data), base64_begun(data))
        return found if found.place <= place else Begun(mark_around(data, place))

    def _undecided(self, data: bytes, start: int, budget: Budget) -> Begun:
        found = self._opened(data, start, budget)
        place = found.place
        if self._has_wordy:
            place = min(place, _word_start(data))
        place = min(place, self._known_begun(data), self._partial(data))
        if place < found.place:
            found = Begun(place)
        found = self._block_begun(data, found)
        return found._replace(place=mark_around(data, found.place))

    def _block_begun(self, data: bytes, found: Begun) -> Begun:
        for block in self._scanner.blocks:
            begun = block.begun(data)
            if begun is not None and begun < found.place:
                found = Begun(begun, None, block)
        return found

    def half_token(self, data: bytes, start: int) -> Span | None:
        """Return the token that has begun and is long enough to be known, though it is not whole."""
        word = max(start, len(data.rstrip(_TOKEN_LETTERS)))
        for hit in self._openers.each(data[word:]):
            place = word + hit
            for rule in self._scanner.candidates(data[place : place + 2])[0]:
                if not rule.is_token or not rule.literals or not rule.starts(data, place):
                    continue
                if rule.has_begun(data, place):
                    return Span(place, len(data), rule.rule.id, 1, data[place:])
        return None

    def _opened(self, data: bytes, start: int, budget: Budget) -> Begun:
        """Hold a token, or what stands after a name or a rule's first part: the first that is open."""
        found, read_to = Begun(len(data)), 0
        for hit in self._openers.each(data[start:]):
            place = start + hit
            self._scanner.spend(budget, 1)
            if place >= found.place:
                break
            if budget.is_spent:
                return Begun(place)
            for rule in self._scanner.candidates(data[place : place + 2])[0]:
                if rule.block is None and rule.starts(data, place):
                    begun = rule.begun(data, place)
                    if begun is not None and begun < found.place:
                        found = Begun(begun, OPEN[rule.rule.open])
            if place >= read_to:
                found, read_to = _open_pair(data, place, found)
        return found

    def _known_begun(self, data: bytes) -> int:
        """Return where a known value may have begun. It may have any characters, line ends too."""
        if not self._known:
            return len(data)
        place = data.rfind(b"[", max(0, len(data) - 84))
        if place >= 0 and MARK_BEGUN.fullmatch(data, place):  # in a mark, nothing is a secret
            return place
        start = max(0, len(data) - max(map(len, self._known)))
        for place in self._known_openers.each(data[start:]):
            rest = data[start + place :]
            if any(form.startswith(rest) for form in self._scanner.candidates(rest[:2])[1]):
                return _glued(data, start + place)
        return len(data)

    def _partial(self, data: bytes) -> int:
        """Find the longest end of the data that begins a literal."""
        partial, longest = self._partial_literals
        tail = data[-longest:].lower()
        for size in range(len(tail)):
            if tail[size:] in partial:
                place = len(data) - len(tail) + size
                return _glued(data, place) if tail[size:].strip(_TOKEN_LETTERS) else place
        return len(data)

    @cached_property
    def _partial_literals(self) -> tuple[frozenset[bytes], int]:
        literals = {
            lit.lower() for rule in self._rules if not rule.has_group for lit in rule.literals
        }
        literals |= {form[:_OPENER].lower() for form in self._known}
        found = {lit[:size] for lit in literals for size in range(1, len(lit))}
        return frozenset(found), max(map(len, found), default=1)

    def _opening_patterns(self) -> Iterator[bytes]:
        """Yield patterns for the fixed beginnings of the rules."""
        for rule in self._rules:
            form = b"(?i:%s)" if rule.rule.ignore_case else b"%s"
            yield from (form % re.escape(literal) for literal in rule.literals)


def _open_pair(data: bytes, place: int, found: Begun) -> tuple[Begun, int]:
    """Return the value after a name if it is open, else what was found; and where to read on."""
    pair = assignments.read(data, place, glued=True)
    if pair is None:
        return found, 0
    read_to = pair.end if pair.end - pair.start > _LONG else 0
    if not pair.open or pair.start >= found.place or _FILLER.fullmatch(data, pair.start):
        return found, read_to
    return Begun(pair.start, pair.goes_on), read_to


def _word_start(data: bytes) -> int:
    """Find where a rule without literals may have begun: anywhere in the last word."""
    return max(data.rfind(stop) for stop in (b" ", b"\n", b"\t", b"\r", b'"', b"'", b"<", b">")) + 1


def _glued(data: bytes, place: int) -> int:
    """Go back over what is glued to a known value: it may stand out once that is gone."""
    return len(data[:place].rstrip(_TOKEN_LETTERS))


# What a text ends with in which a secret has begun. Only of a rule's own first letters, such as
# `ghp_`, less than all may be shown, and of what begins like a common word (`pat`) a little more:
# else every other word would be held.

_WORDLIKE = 10
"""Letters from which on something that begins like a common word may be a secret."""

_SHOWN = 3
"""Characters of a known value that may be shown before it is known again."""

_ENOUGH = 16
"""Characters of a known value that are enough to recognise it."""


def _beginnings(rules: Iterable[RuleMatcher], known: Iterable[bytes]) -> list[bytes]:
    """Return what a text may end with, or what may stand in it, if a secret has begun."""
    found = [re.escape(OPENING), LINE_BEGUN, BASE64_BEGUN, CODE_BEGUN]
    for rule in rules:
        found += _of_rule(rule)
    return found + [_of_known(form) for form in known]


def _of_rule(rule: RuleMatcher) -> Iterator[bytes]:
    goes_on = OPEN[rule.rule.open].pattern
    if not rule.literals:
        yield _at_least(goes_on, _WORDLIKE)
    elif rule.has_group:
        yield simplified(rule.before.pattern) + _at_least(goes_on, 1)
    else:
        for literal in rule.literals:
            form = b"(?i:%s)" if rule.rule.ignore_case else b"%s"
            begun = form % re.escape(literal)
            if rule.rule.open != "block":
                # Common words begin as some literals do; they would be held back again and again.
                least = _WORDLIKE - len(literal) if _is_wordlike(literal) else 0
                begun += _at_least(goes_on, least)
            yield begun


def _at_least(goes_on: bytes, count: int) -> bytes:
    """Return a pattern for so many characters, or more, up to the end."""
    return goes_on.removesuffix(b"*") + b"{%d,}$" % max(0, count)


def _is_wordlike(literal: bytes) -> bool:
    """Return whether common words have these letters in them."""
    return literal.isalpha() and (literal.islower() or len(literal) <= 2)


def _of_known(form: bytes) -> bytes:
    """Look for the beginning of a known value: at the end of the text, or enough of it anywhere."""
    shown, rest = form[: _SHOWN + 1], form[_SHOWN + 1 : _ENOUGH]
    begun = re.escape(form[:_ENOUGH])
    for size in range(len(rest)):
        begun += b"|" + re.escape(shown + rest[:size]) + b"$"
    return b"(?:" + begun + b")"
