"""Redacts bytes as they come. What may be the beginning of a secret waits for the rest of it.

A stream is cut anywhere: `export TOKEN=gh`, `p_Fake7Dummy3`. A chunk must not be passed on while its
end may turn out to be the first half of a secret. One rule decides nearly all of it: **the last word
waits** until it ends, since what makes a secret of a word stands in it or before it. Only what may have
blanks in it waits longer: a quoted value or a header beside a secret name, a known value, the lines of
a key, base64 over several lines (`Unfinished.undecided`).

What was passed on stays as context, since a name decides about the value that follows it. So a prompt
`Password: ` is shown at once, and at the end of a line nothing is held. If a secret was marked and turns
out to be longer, as after a pause, the rest of it is dropped: it has its mark.

Nearly all text of an agent is harmless, and a stream costs 30 µs a piece. So there is a cheaper search,
`Unfinished.is_harmless`: it finds something wherever a stream would redact something or hold more than
a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from callsheet.redaction.encodings import BASE64_BEGUN, CODE_BEGUN, base64_begun, views
from callsheet.redaction.matchers import LINE_BEGUN, RuleMatcher
from callsheet.redaction.patterns import Gate, make_gate, simplified
from callsheet.redaction.rules import OPEN
from callsheet.redaction.scanner import Budget, Scanner
from callsheet.redaction.spans import IDENTITY, OPENING, UNSEARCHED, Marks, Span, mark_around
from callsheet.report.patterns import lazy

HOLD = 16 * 1024
"""At most so many bytes are held."""

CONTEXT = 4096
"""So many bytes of the unfinished line are remembered after they were passed on."""

_BACK = 256
_CROWD = 64

_WORD = bytes({0x1B, *range(0x21, 0x7F), *range(0x80, 0xE0), 0xE2, 0xF0} - set(b"\"'<>"))
"""The bytes of a word, with colours in it. Letters of scripts that have no blanks between words are none
of these: of a text in such a script, nothing would be shown before the end of its line."""

_FILLER = lazy(rb"[.*]{3,}")
"""No secret begins so. A row of dots after a name shows that something is going on."""

_REST = lazy(rb"(?:[A-Za-z0-9_+/=%!-]|[.](?=[A-Za-z0-9_-]|\Z))*")
"""Where a piece ends with a dot, it is unknown whether the secret goes on after it."""


class Unfinished:
    """Finds the place from which on an unfinished text can't be judged yet."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._rules = scanner.rules
        self._wide = [form for form in scanner.known if form.strip(_WORD)]
        self._by_line = any(rule.rule.open == "line" for rule in self._rules)

    # Gates for what has begun. They are made when the first stream is: most processes have none.

    @cached_property
    def _harmless(self) -> Gate:
        return make_gate(
            (*self._scanner.patterns(), *_beginnings(self._rules, self._scanner.known))
        )

    def is_harmless(self, data: bytes) -> bool:
        """Return whether a text surely has no secret in it, and none that has begun at its end."""
        return not self._scanner.finds(data, self._harmless)

    def undecided(self, data: bytes, *, is_clean: bool) -> int:
        """Return the place from which on nothing can be decided yet; the end if all can.

        Values that have not ended are the scanner's. `is_clean` is whether the gate finds nothing.
        """
        found = min(_last_word(data), self._known_begun(data), self._block_begun(data))
        found = min(found, base64_begun(data))
        if self._by_line:
            found = min(found, data.rfind(b"\n") + 1)
        for view in () if is_clean else views(data, Budget()):
            place = self._block_begun(view.text)
            if place < len(view.text):
                found = min(found, view.origin(place, view.edges()))
        return found

    def _known_begun(self, data: bytes) -> int:
        """Return where a known value may have begun that has blanks in it."""
        found = len(data)
        for form in self._wide:
            place = data.find(form[:1], max(0, len(data) - len(form)))
            while 0 <= place < found and not form.startswith(data[place:]):
                place = data.find(form[:1], place + 1)
            if 0 <= place < found:  # what is glued to it may stand out once it is gone
                found = _last_word(data[:place])
        return found

    def _block_begun(self, data: bytes) -> int:
        begun = [block.begun(data) for block in self._scanner.blocks]
        return min((place for place in begun if place is not None), default=len(data))

    def half_token(self, data: bytes, start: int) -> Span | None:
        """Return the token that has begun and is long enough to be known, though it is not whole."""
        word = max(start, _last_word(data))
        for rule in self._rules:
            for literal in rule.literals if rule.is_token else ():
                place = data.find(literal, word)
                if place >= 0 and rule.has_begun(data, place, literal):
                    return Span(place, len(data), rule.rule.id, 1, data[place:])
        return None


def _last_word(data: bytes) -> int:
    """Return where the last word begins, if it has not ended; the end if it has."""
    low = max(0, len(data) - 2 * HOLD)
    start = low + len(data[low:].rstrip(_WORD))
    while start < len(data) and data[start] & 0xC0 == 0x80:  # the rest of another script's letter
        start += 1
    return len(data) if _FILLER.fullmatch(data, start) else start


class StreamRedactor:
    """Redacts one stream. `feed` returns what can be passed on; `finish` returns the rest."""

    def __init__(self, scanner: Scanner, unfinished: Unfinished, marks: Marks) -> None:
        self._scanner = scanner
        self._unfinished = unfinished
        self._marks = marks
        self._data = b""
        self._done = 0  # so much of the data was passed on, and is only context
        self._marked = 0  # where the last secret ends of those that were marked
        self._is_half = False  # whether that was a token of which the rest is still to come
        self._is_hidden = False  # whether that was what could not be looked at any more
        self._budget = Budget()
        self.count: int = 0
        """How many secrets were redacted so far."""

    @property
    def held(self) -> int:
        """How many bytes wait for what follows them."""
        return len(self._data) - self._done

    def recall(self, before: bytes) -> None:
        """Remember what was passed on before this stream began. It is context only."""
        self._data, self._done = before[-CONTEXT:], min(len(before), CONTEXT)

    def feed(self, chunk: bytes) -> bytes:
        """Receive the next bytes, and return those that can be passed on."""
        if self._is_half and (rest := _REST.match(chunk)):
            chunk = chunk[rest.end() :]
            self._is_half = not chunk
        word_goes_on = self.held and not chunk.strip(_WORD) and not chunk.endswith((b".", b"*"))
        data = self._data = self._data + chunk
        self._budget.earn(len(chunk))
        if word_goes_on and self.held <= HOLD:
            return b""
        if self._budget.is_spent and self.held <= HOLD:
            return b""
        before, is_clean = self._scanner.work, not self._scanner.finds(data)
        hold = self._unfinished.undecided(data, is_clean=is_clean)
        if hold <= self._done and self.held <= HOLD:
            return b""
        spans: Sequence[Span] = ()
        if not is_clean:
            spans, open_value = self._scanner.search(data, self._budget, is_new=False)
            hold = mark_around(data, min(hold, open_value))
        for span in reversed(spans):
            if span.start < hold < span.end:
                hold = span.start
        hold = max(hold, self._done)
        if len(data) - hold > HOLD:
            hold = self._shorten(spans, hold)
        return self._pass_on(spans, hold, crowded=self._scanner.work - before > _CROWD)

    def flush(self) -> bytes:
        """Return all that is held, for use when the output pauses.

        What is a secret so far is redacted, also a token that is not whole but has begun for
        certain. The rest of it is dropped when it comes. What may only become a secret is shown
        as it is.
        """
        if not self.held:
            return b""
        data, spans = self._data, list(self._spans())
        if not spans or spans[-1].end < len(data):
            half = self._unfinished.half_token(data, spans[-1].end if spans else 0)
            spans += [half] if half else []
            self._is_half = half is not None
        return self._pass_on(spans, len(data), crowded=False)

    def finish(self) -> bytes:
        """Return the rest, at the end of the stream."""
        rest = self._pass_on(self._spans(), len(self._data), crowded=False) if self.held else b""
        self._data, self._done, self._marked, self._is_half = b"", 0, 0, False
        return rest

    def _spans(self) -> Sequence[Span]:
        return self._scanner.search(self._data, self._budget, is_new=False)[0]

    def _shorten(self, spans: Sequence[Span], hold: int) -> int:
        """Too much is held. A secret's middle can go; what is none by now may be passed on."""
        data = self._data
        for span in spans:
            if span.start == hold and len(data) - span.end < _BACK:
                self._data = data[: hold + IDENTITY] + data[-IDENTITY:]
                return hold
        hold = len(data) - HOLD // 2
        return max((span.end for span in spans if span.start < hold), default=hold)

    def _pass_on(self, spans: Sequence[Span], hold: int, *, crowded: bool) -> bytes:
        data, place = self._data, self._done
        parts: list[bytes] = []
        start = _context_start(data, hold, CONTEXT)
        for span in spans:
            if span.start >= hold:
                break
            if span.end > place:
                parts.append(data[place : span.start])
                is_hidden = span.rule == UNSEARCHED
                if (
                    span.start >= self._marked or is_hidden > self._is_hidden
                ):  # else it only goes on
                    parts.append(self._marks.mark(span.rule, span.secret))
                    self.count += 1
                self._is_hidden = is_hidden
                place = self._marked = min(span.end, hold)
            if span.end >= hold:  # it may go on, and then what stands before it decides again
                start = min(start, _context_start(data, span.start, CONTEXT))
        parts.append(data[place:hold])
        # Where there is so much to look at, looking at it again each time would take too long.
        start = max(0, hold - _BACK) if crowded else max(start, hold - HOLD)
        self._data, self._done = data[start:], hold - start
        self._marked = max(0, self._marked - start)
        return b"".join(parts)


def _context_start(data: bytes, end: int, longest: int) -> int:
    """Find where to look back to: whole lines, if they are not too long."""
    line = data.rfind(b"\n", 0, max(0, end - _BACK)) + 1
    return max(line, end - longest)


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
        yield simplified(rule.before) + _at_least(goes_on, 1)
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
