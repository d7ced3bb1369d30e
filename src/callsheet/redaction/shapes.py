"""A rule, ready to be tried: what must stand around it, and when an unfinished one may still go on."""

from __future__ import annotations

import re
from functools import cached_property
from math import prod

from callsheet.redaction.blocks import Block
from callsheet.redaction.keys import is_mixed, is_placeholder
from callsheet.redaction.marks import alike
from callsheet.redaction.rules import OPEN, Rule, group_start

# A word may begin after these, though they end in a letter or digit: `\n` and `\u003d` of JSON,
# `%3D` of URLs, and the colours of a terminal.
_LEFT = rb"(?:(?<![A-Za-z0-9_])|" + b"|".join(
    rb"(?<=%s)" % end
    for end in (
        rb"\\[nrtbf]", rb"\\u[0-9a-fA-F]{4}", rb"%[0-9a-fA-F]{2}", rb"\\x[0-9a-fA-F]{2}",
        rb"[;\[]m", rb"[;\[][0-9]m", rb"[;\[][0-9]{2}m", rb"[;\[][0-9]{3}m",
    )
) + b")"  # fmt: skip
_RIGHT = rb"(?![A-Za-z0-9])"


REACH = 1024
"""What tells a secret stands within so many bytes."""

_LAZY = re.compile(r"\{\d*,(\d+)\}\?")

_ENOUGH = 4
_TELLING = 4
_BODY = re.compile(rb"[A-Za-z0-9_.+/=%-]*")


class Shape:
    """A rule, ready to be tried at a place."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._group = group_start(rule.pattern)
        self.has_group: bool = self._group >= 0
        self.is_token: bool = not self.has_group and rule.open == "token"
        self.literals = tuple(literal.encode() for literal in rule.literals)
        self.cost: int = 1 + prod(map(int, _LAZY.findall(rule.pattern))) // 64
        """How many places it is worth to try it in vain: wide gaps take long."""

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """The whole, with what must be around it. Made when first needed: `re` compiles slowly."""
        left = _LEFT if self.rule.left else b""
        right = _RIGHT if self.rule.right else b""
        return re.compile(left + b"(?:" + self.rule.pattern.encode() + b")" + right)

    @cached_property
    def block(self) -> Block | None:
        """What finds the whole block, if the pattern is only its first line or its last."""
        rule = self.rule
        return (
            Block(self.pattern, self.literals, rule.end.encode()) if rule.open == "block" else None
        )

    def find(self, data: bytes, place: int) -> tuple[int, int] | None:
        """Return the secret's span if the rule holds at this place."""
        if self.block is not None:
            return self.block.find(data, place)
        limit = place + REACH
        match = self.pattern.match(data, place, limit)
        if match is None:
            return None
        start, end = match.span(1 if self.has_group else 0)
        if not self._holds(alike(data[start:end])):
            return None
        if end == limit:  # what is longer goes on as it is made
            rest = OPEN[self.rule.open].match(data, limit)
            end = rest.end() if rest else limit
        return start, end

    def _holds(self, secret: bytes) -> bool:
        rule = self.rule
        if rule.mixed and not is_mixed(secret):
            return False
        return not (rule.placeholders and is_placeholder(secret))

    def begun(self, data: bytes, place: int) -> int | None:
        """Return where the secret begins if it may go on beyond the end of the data."""
        if self.has_group:
            match = self.before.match(data, place)
            if match is None:
                return None
            place = match.end()
        match = OPEN[self.rule.open].match(data, place)
        if match is None or match.end() < len(data) or place == len(data):
            return None
        return place

    def has_begun(self, data: bytes, place: int) -> bool:
        """Whether a token that goes on to the end has its fixed beginning and enough of the rest."""
        literal = max((lit for lit in self.literals if data.startswith(lit, place)), key=len)
        body = data[place + len(literal) :]
        if len(body) < _ENOUGH or not _BODY.fullmatch(body):
            return False
        if self.rule.left and not re.compile(_LEFT).match(data, place):
            return False
        short = len(literal) < _TELLING or (len(literal) == _TELLING and literal.endswith(b"-"))
        if short and (literal.islower() or literal.isupper()):
            # Words begin so too: `pattern`, `sk-learn`, `key-value`, `api-server`.
            word = body.translate(None, b"-_.")
            return not word.isalpha() or not (word.islower() or word.isupper())
        return True

    @cached_property
    def before(self) -> re.Pattern[bytes]:
        """What stands before the secret."""
        return re.compile(_balanced(self.rule.pattern[: self._group]).encode())

    def starts(self, data: bytes, place: int) -> bool:
        """Whether one of the rule's literals stands at this place."""
        if not self.literals:
            return True
        if self.rule.ignore_case:
            longest = max(map(len, self.literals))
            return data[place : place + longest].lower().startswith(self.literals)
        return data.startswith(self.literals, place)


def _balanced(pattern: str) -> str:
    """Close the groups that a cut left open."""
    try:
        re.compile(pattern)
    except re.error:
        return _balanced(pattern + ")")
    return pattern
