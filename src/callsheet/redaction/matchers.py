"""A rule, ready to be tried at a place: `RuleMatcher`, and `KeyBlock` for keys that are many lines.

A matcher adds to a rule's pattern what must be around it, and decides whether a token has begun for
certain that is not whole yet.

Keys in blocks are found whatever stands before and after the data in each line. A listing puts
`12→` before each line, a diff `+`, a log the time, JSON quotes around it. None of these is looked
for. What counts is the data itself: runs of base64 that are not far apart, after a first line that
identifies them, before a last line that does, or both. Of a block without its first line, as in a
listing that begins in the middle, only long lines are taken, since the last line comes too late to
identify them.
"""

from __future__ import annotations

import re
from functools import cached_property
from math import prod

from callsheet.redaction.patterns import REACH
from callsheet.redaction.rules import Rule, before_group
from callsheet.redaction.secret_names import is_mixed, is_placeholder
from callsheet.redaction.spans import alike
from callsheet.report.patterns import lazy

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


_LAZY = lazy(r"\{\d*,(\d+)\}\?")

_ENOUGH = 4
_TELLING_LITERAL = 4
_MORE = lazy(rb"[A-Za-z0-9_./+=~%$@,:-]*")
_BODY = lazy(rb"[A-Za-z0-9_.+/=%-]*")


class RuleMatcher:
    """A rule, ready to be tried at a place."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.has_group: bool = before_group(rule.pattern) is not None
        self.is_token: bool = not self.has_group and rule.open == "word"
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
    def block(self) -> KeyBlock | None:
        """What finds the whole block, if the pattern is only its first line or its last."""
        rule = self.rule
        return (
            KeyBlock(self.pattern, self.literals, rule.end.encode())
            if rule.open == "block"
            else None
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
        secret, rule = alike(data[start:end]), self.rule
        if (rule.mixed and not is_mixed(secret)) or (rule.placeholders and is_placeholder(secret)):
            return None
        if end == limit:  # what is longer goes on as it is made
            rest = _MORE.match(data, limit)
            end = rest.end() if rest else limit
        return start, end

    def has_begun(self, data: bytes, place: int, literal: bytes) -> bool:
        """Return whether a token that goes on to the end has its beginning and enough of the rest."""
        body = data[place + len(literal) :]
        if len(body) < _ENOUGH or not _BODY.fullmatch(body):
            return False
        if self.rule.left and not re.compile(_LEFT).match(data, place):
            return False
        short = len(literal) < _TELLING_LITERAL or (
            len(literal) == _TELLING_LITERAL and literal.endswith(b"-")
        )
        if short and (literal.islower() or literal.isupper()):
            # Words begin so too: `pattern`, `sk-learn`, `key-value`, `api-server`.
            word = body.translate(None, b"-_.")
            return not word.isalpha() or not (word.islower() or word.isupper())
        return True

    @cached_property
    def before(self) -> bytes:
        """The pattern for what stands before the secret, if that is only a part of the match."""
        return (before_group(self.rule.pattern) or "").encode()

    def starts(self, data: bytes, place: int) -> bool:
        """Whether one of the rule's literals stands at this place."""
        if not self.literals:
            return True
        if self.rule.ignore_case:
            longest = max(map(len, self.literals))
            return data[place : place + longest].lower().startswith(self.literals)
        return data.startswith(self.literals, place)


GAP = 256
"""Bytes between the data of two lines at most: what ends one and stands before the other."""

BLOCK_REACH = 8192
"""So far before its last line a block may begin whose first line is not there."""

_EDGE = 96
"""Bytes that a first or last line may have."""

LONGEST = 1 << 20
"""So far after its first line a block is looked for."""

_RUN = rb"[A-Za-z0-9+/]{16,}={0,2}"
_TELLING = (
    rb"(?:[A-Za-z0-9+/]{40,}"
    rb"|(?=[a-z+/]{0,15}[A-Z0-9])(?=[A-Za-z+/]{0,15}[0-9])[A-Za-z0-9+/]{16,39})={0,2}"
)
_BETWEEN = rb"(?:[^\n]{0,24}?|(?:[^\n]{0,64}\n){1,2}?[^\n]{0,200}?)"
"""Between the data of two lines: the end of one, perhaps an empty one, what is before the next
one's data."""

_CHAIN = lazy(rb"(?:[\s\S]{0,%d}?%s)*" % (GAP, _RUN))
_LINES = lazy(
    rb"(?:(?:\x1b\[[0-9;]*m|[^A-Za-z0-9/\x1b]){1,24}(?=[A-Za-z0-9+/]{16})|[\s\S]{1,%d}?(?=[A-Za-z0-9+/]{32}))%s"
    rb"(?:%s%s)*(?:%s[A-Za-z0-9+/]{1,63}={1,2})?" % (GAP, _TELLING, _BETWEEN, _TELLING, _BETWEEN)
)
"""The lines of a block that does not end."""
_LONG = lazy(rb"[A-Za-z0-9+/]{56,}={0,2}")
_MIXED = lazy(rb"(?=[a-z0-9+/]*[A-Z])(?=[A-Z0-9+/]*[a-z])(?=[A-Za-z+/]*[0-9])")
LINE_BEGUN = rb"[A-Za-z0-9+/]{16,}$|[A-Za-z0-9+/]{56}"
"""A line that may belong to a key whose first line is not there: begun at the end, or whole."""


class KeyBlock:
    """The blocks of one rule: `pattern` is their first or last line, the last begins with `end`."""

    def __init__(self, pattern: re.Pattern[bytes], literals: tuple[bytes, ...], end: bytes) -> None:
        self._pattern = pattern
        self._literals = literals
        self._end = end

    def find(self, data: bytes, place: int) -> tuple[int, int] | None:
        """Return where the block begins and ends whose first or last line is at this place."""
        edge = self._pattern.match(data, place)
        if edge is None:
            return None
        if self._end and data.startswith(self._end, place):
            before = self._last_edge(data, max(0, place - BLOCK_REACH), place)
            start = self._lines_before(data, place, *before)
            return None if start is None else (start, edge.end())
        stop, last = self._chain(data, edge.end(), min(len(data), edge.end() + LONGEST))
        if self._end and last > edge.end() and data.startswith(self._end, stop):
            closing = self._pattern.match(data, stop)
            if closing is not None and stop - last <= GAP:
                return place, closing.end()
        lines = _LINES.match(data, edge.end(), stop)
        return None if lines is None else (place, lines.end())

    def begun(self, data: bytes) -> int | None:
        """Return where a block begins that may go on beyond the end of the data."""
        cut = len(data)
        edge, literal = self._last_edge(data, max(0, cut - LONGEST), cut)
        if edge < 0 or not self._is_cut(data, edge):
            return self._open_block(data, cut, edge, literal)
        cut, begins = edge, literal != self._end
        place = self._open_block(data, cut, *self._last_edge(data, max(0, cut - LONGEST), cut))
        return cut if place is None and begins else place

    def _is_cut(self, data: bytes, edge: int) -> bool:
        """Return whether the first or last line at this place is not whole yet."""
        if len(data) - edge > _EDGE or data.find(b"\n", edge) >= 0:
            return False
        return self._pattern.match(data, edge) is None

    def _open_block(self, data: bytes, cut: int, edge: int, literal: bytes) -> int | None:
        """Return where a block begins that goes on to this place, after the last edge before it."""
        first = self._pattern.match(data, edge) if edge >= 0 and literal != self._end else None
        if first is not None and cut - self._chain(data, first.end(), cut)[1] <= GAP:
            return edge
        return self._lines_before(data, cut, edge, literal) if self._end else None

    def _last_edge(self, data: bytes, low: int, high: int) -> tuple[int, bytes]:
        found, last = -1, b""
        for literal in self._literals:
            place = data.rfind(literal, low, high)
            if place > found:
                found, last = place, literal
        return found, last

    def end_of(self, data: bytes, low: int, high: int) -> int:
        """Return where a block ends that begins between two places, or the second if none does."""
        edge, _ = self._last_edge(data, low, high)
        found = self.find(data, edge) if edge >= 0 else None
        return high if found is None else max(high, found[1])

    def _chain(self, data: bytes, start: int, stop: int) -> tuple[int, int]:
        """Return where the next first or last line is, and where the last data before it ends."""
        for literal in self._literals:
            found = data.find(literal, start, stop)
            stop = found if found >= 0 else stop
        chain = _CHAIN.match(data, start, stop)
        return stop, chain.end() if chain else start

    def _lines_before(self, data: bytes, place: int, edge: int, literal: bytes) -> int | None:
        """Return where the long lines begin that go on to this place."""
        if edge >= 0 and literal != self._end and self._pattern.match(data, edge) is None:
            return None  # it is a block of something else, as a certificate is
        low = max(0, place - BLOCK_REACH, edge)
        start, after = None, place
        if _LONG.search(data, max(low, after - 2 * GAP), after) is None:
            return None
        for run in reversed(list(_LONG.finditer(data, low, after))):
            if after - run.end() > GAP or not _MIXED.match(run.group()):
                break
            start = after = run.start()
        return start
