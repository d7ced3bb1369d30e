"""Follows a text that comes in pieces, and sees at a glance that a piece is harmless.

The search for that (`glance.py`) is asked about the last bytes of the text, the new piece among them. Mostly
it need not be: a word that was harmless once is so again. That holds as long as nothing stands shortly before
it that a secret may follow at a distance, such as `login`, and it has no sign that makes a name of what was
before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from re import compile as pattern
from re import escape
from typing import NamedTuple

from callsheet.redaction.engines import Gate, Trigger
from callsheet.redaction.pairs import FLAG_BEGUN
from callsheet.redaction.rules import signs
from callsheet.redaction.shapes import Shape

TAIL = 256
"""Bytes that are remembered: what follows may be a secret because of them."""

LONGEST = 32
"""Bytes of a word, with the piece that goes on with it, that is known again."""

MOST = 4096
"""Words that are known again."""

_MUCH = 16 * TAIL

_TELLING = 3
"""Characters of a known value's first word."""

_SIGNS = b"=:%\x1b"
"""Only with one of these does a name become one that a value follows, wherever it was begun."""

_WIDE = pattern(r"\\[sWDnrtvfx]|\[\^| ")
"""What may match a space, in a pattern."""

_HARMLESS, _ODD, _FAR = 0, 1, 2


class Words(NamedTuple):
    """What the followers of one set of rules share. `far` is None if no word can be known again."""

    near: Callable[[bytes], bool]
    far: Gate | None
    known: dict[bytes, int]


class Follower:
    """Follows one text."""

    def __init__(self, words: Words) -> None:
        self._finds = words.near
        self._far: Gate | None = words.far
        self._known: dict[bytes, int] = words.known
        self._tail: bytearray = bytearray()
        self._word: bytes = b""
        # So many bytes are still to come before what stands far off no longer matters.
        self._wary: int = 0 if words.far is not None else -1

    @property
    def tail(self) -> bytes:
        """The last bytes."""
        return bytes(self._tail[-TAIL:])

    def passes(self, data: bytes) -> bool:
        """Take in a piece if nothing in the text is a secret, or may become one. Gives whether it is so."""
        word = self._word + data
        known = self._known.get(word)
        if known == _HARMLESS and not self._wary:
            self._word = word[word.rfind(b" ") + 1 :]
            self._tail += data
            if len(self._tail) > _MUCH:
                del self._tail[:-TAIL]
            return True
        if self._finds(self.tail + data):
            return False
        self._go_on(word, data, self._learn(word) if known is None else known)
        return True

    def take(self, data: bytes) -> None:
        """Take in a piece that does not pass."""
        self._go_on(self._word + data, data, _FAR)

    def _go_on(self, word: bytes, data: bytes, known: int) -> None:
        if known == _FAR:
            self._wary = TAIL if self._far is not None else -1
        elif self._wary > 0:
            self._wary = max(0, self._wary - len(data))
        self._word = word[max(word.rfind(b" ") + 1, len(word) - TAIL) :]
        self._tail += data
        if len(self._tail) > _MUCH:
            del self._tail[:-TAIL]

    def _learn(self, word: bytes) -> int:
        """Judge a word that is new, and in which nothing was found."""
        if self._far is None or self._far.finds(word):
            return _FAR
        if len(word) > LONGEST:
            return _ODD
        found = _ODD if len(word.translate(None, _SIGNS)) < len(word) else _HARMLESS
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[word] = found
        return found


def distant(rules: Iterable[Shape], known: Iterable[bytes]) -> list[Trigger] | None:
    """Return words that a secret may follow at a distance. None if there is no telling."""
    found = [Trigger(FLAG_BEGUN, (b"-",))]
    for rule in rules:
        if _stays_in_a_word(rule):
            continue
        if not rule.literals:
            return None
        found += _literals(rule)
    for form in known:
        first = (form.split() or [b""])[0]
        if first == form:
            continue
        if len(first) < _TELLING or not form.startswith(first):
            return None
        found.append(Trigger(escape(first[:_TELLING]), (first[:_TELLING].lower(),)))
    return found


def _literals(rule: Shape) -> Iterator[Trigger]:
    form = b"(?i:%s)" if rule.rule.ignore_case else b"%s"
    for literal in rule.literals:
        yield Trigger(form % escape(literal), (literal.lower(),))


def _stays_in_a_word(rule: Shape) -> bool:
    """Whether nothing that a rule matches has a space in it."""
    if rule.rule.open not in ("token", "word"):
        return False
    return not any(
        _WIDE.search(source.replace(r"[^\s", "[")) or any(sign == "." for _, sign in signs(source))
        for source in (rule.rule.pattern,)
    )
