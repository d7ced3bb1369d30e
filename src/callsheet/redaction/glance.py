"""What a text ends with in which a secret has begun, so that one sees at a glance that none has.

A text that comes in pieces is nearly always harmless. `beginnings` gives patterns for the search that says
so: with those for whole secrets, they match wherever a stream (`stream.py`) would redact something, or hold
it back. Only of a rule's own first letters, such as `ghp_`, less than all may be shown, and of what begins
like a common word (`pat`) a little more: else every other word would be held back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from callsheet.redaction.blocks import LINE_BEGUN
from callsheet.redaction.encodings import BASE64_BEGUN, CODE_BEGUN
from callsheet.redaction.engines import Trigger, simpler
from callsheet.redaction.marks import OPENING
from callsheet.redaction.pairs import HEADED, HEADERS
from callsheet.redaction.rules import OPEN
from callsheet.redaction.shapes import Shape

WORDLIKE = 10
"""Letters from which on something that begins like a common word may be a secret."""

SHOWN = 3
"""Characters of a known value that may be shown before it is known again."""

ENOUGH = 16
"""Characters of a known value that tell it."""


def beginnings(rules: Iterable[Shape], known: Iterable[bytes]) -> list[Trigger]:
    """Return what a text may end with, or what may stand in it, if a secret has begun."""
    found = [Trigger(HEADED, HEADERS), Trigger(re.escape(OPENING), (OPENING,)), Trigger(LINE_BEGUN)]
    found += [Trigger(BASE64_BEGUN), Trigger(CODE_BEGUN, (b"\x1b",))]
    for rule in rules:
        found += _of_rule(rule)
    return found + [_of_known(form) for form in known]


def _of_rule(rule: Shape) -> Iterator[Trigger]:
    goes_on = OPEN[rule.rule.open].pattern
    if not rule.literals:
        yield Trigger(_at_least(goes_on, WORDLIKE))
    elif rule.rule.open != "block" and rule.has_group and not _begins_in_literal(rule):
        literals = tuple(literal.lower() for literal in rule.literals)
        yield Trigger(simpler(rule.before.pattern) + _at_least(goes_on, 1), literals)
    else:
        for literal in rule.literals:
            form = b"(?i:%s)" if rule.rule.ignore_case else b"%s"
            begun = form % re.escape(literal)
            if rule.rule.open != "block":
                begun += _rest(rule, literal) + _at_least(goes_on, 0)
            yield Trigger(begun, (literal.lower(),))


def _rest(rule: Shape, literal: bytes) -> bytes:
    """Return what must follow a literal, lest common words that begin so are held back."""
    if not _is_wordlike(literal):
        return b""
    least = WORDLIKE - len(literal)
    source = rule.rule.pattern.encode()
    follows = _FOLLOWS.match(source, len(literal)) if source.startswith(literal) else None
    if follows is not None and int(follows["least"]) >= least:
        return b"%b{%d}" % (follows["letters"], least)
    return OPEN[rule.rule.open].pattern.removesuffix(b"*") + b"{%d}" % max(0, least)


_FOLLOWS = re.compile(rb"(?P<letters>\[[A-Za-z0-9-]+\])\{(?P<least>\d+)")
"""In a pattern: so many of some letters."""


def _begins_in_literal(rule: Shape) -> bool:
    """Whether the first letters of the secret itself are a part of what it is known by."""
    found = [rule.before.match(literal) for literal in rule.literals]
    return any(match is not None and match.end() < len(match.string) for match in found)


def _at_least(goes_on: bytes, count: int) -> bytes:
    """Return a pattern for so many characters, or more, up to the end."""
    return goes_on.removesuffix(b"*") + b"{%d,}$" % max(0, count)


def _is_wordlike(literal: bytes) -> bool:
    """Whether common words have these letters in them."""
    return literal.isalpha() and (literal.islower() or len(literal) <= 2)


def _of_known(form: bytes) -> Trigger:
    """Look for the beginning of a known value: at the end of the text, or enough of it anywhere."""
    shown, rest = form[: SHOWN + 1], form[SHOWN + 1 : ENOUGH]
    begun = re.escape(form[:ENOUGH])
    for size in range(len(rest)):
        begun += b"|" + re.escape(shown + rest[:size]) + b"$"
    return Trigger(b"(?:" + begun + b")", (shown.lower(),))
