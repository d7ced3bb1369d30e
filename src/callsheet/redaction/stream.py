"""Redacts bytes as they come. What may be the beginning of a secret waits for the rest of it.

What is held is only the secret's own first bytes, never the name or the line before it, which stays
behind as context. So a prompt is passed on at once, and at the end of most lines nothing is held.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from callsheet.redaction.rules import OPEN
from callsheet.redaction.scanner import Budget, Scanner
from callsheet.redaction.spans import IDENTITY, Marks, Span
from callsheet.redaction.unfinished import Begun, Unfinished

HOLD = 16 * 1024
"""At most so many bytes are held."""

CONTEXT = 4096
"""So many bytes of the unfinished line are remembered after they were passed on."""

_BACK = 256
_CROWD = 64
_FEW = 3

_REST = re.compile(rb"(?:[A-Za-z0-9_+/=%-]|[.](?=[A-Za-z0-9_-]|\Z))*")
"""Where a piece ends with a dot, it is unknown whether the secret goes on after it."""
_BLOCK_REST = re.compile(rb"(?:[^\n-]{0,200}?[A-Za-z0-9+/]{16,}[=\r\n]*|[A-Za-z0-9+/=\r\n])*")


class StreamRedactor:
    """Redacts one stream. `feed` returns what can be passed on; `finish` returns the rest."""

    def __init__(self, scanner: Scanner, unfinished: Unfinished, marks: Marks) -> None:
        self._scanner = scanner
        self._unfinished = unfinished
        self._marks = marks
        self._data = b""
        self._done = 0  # so much of the data was passed on, and is only context
        self._begun = Begun(0)  # what has begun and waits for its end
        self._budget = Budget()
        self._swallow: re.Pattern[bytes] | None = None  # the rest of what was marked at a pause
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
        if self._swallow is not None:
            chunk = self._swallowed(chunk, self._swallow)
        data = self._data = self._data + chunk
        self._budget.earn(len(chunk))
        if self.held <= HOLD and self._goes_on(chunk):
            return b""
        start = _context_start(data, len(data), CONTEXT + HOLD)
        before = self._scanner.work
        self._begun = self._unfinished.undecided(data, start, self._budget)
        hold = self._begun.place
        if hold <= self._done and self.held <= HOLD:
            return b""
        spans = self._spans()
        for span in reversed(spans):
            if span.start < hold < span.end:
                hold = span.start
        hold = max(hold, self._done)
        if len(data) - hold > HOLD:
            hold = self._shorten(spans, hold)
        return self._pass_on(spans, hold, crowded=self._scanner.work - before > _CROWD)

    def _goes_on(self, chunk: bytes) -> bool:
        """Return whether what is held just goes on, so that nothing needs to be looked at again."""
        begun = self._begun
        if self.held - len(chunk) < _FEW:
            return False
        if begun.block is not None:
            return begun.block.goes_on(self._data, begun.place, len(chunk))
        return begun.goes_on is not None and begun.goes_on.fullmatch(chunk) is not None

    def flush(self) -> bytes:
        """Return all that is held, for use when the output pauses.

        What is a secret so far is redacted, also a token that is not whole but has begun for
        certain. The rest of it is swallowed when it comes. What may only become a secret is shown
        as it is.
        """
        begun, self._begun = self._begun, Begun(0)
        if not self.held:
            return b""
        data = self._data
        spans = list(self._spans())
        if not spans or spans[-1].end < len(data):
            half = self._unfinished.half_token(data, spans[-1].end if spans else 0)
            spans += [half] if half else []
        out = self._pass_on(spans, len(data), crowded=False)
        if spans and spans[-1].end == len(data):
            self._swallow = _rest_of(begun)
            kept = self._data[: max(0, len(self._data) - (len(data) - spans[-1].start))]
            self._data = kept + self._marks.mark(spans[-1].rule, spans[-1].secret)
            self._done = len(self._data)
        return out

    def _swallowed(self, chunk: bytes, rest: re.Pattern[bytes]) -> bytes:
        match = rest.match(chunk)
        end = match.end() if match else 0
        if end < len(chunk):
            self._swallow = None
        return chunk[end:]

    def finish(self) -> bytes:
        """Return the rest, at the end of the stream."""
        rest = b""
        if self.held:
            rest = self._pass_on(self._spans(), len(self._data), crowded=False)
        self._data, self._done, self._begun, self._swallow = b"", 0, Begun(0), None
        return rest

    def _spans(self) -> Sequence[Span]:
        return self._scanner.spans(self._data, self._budget, is_new=False)

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
        for span in spans:
            if span.start >= hold:
                break
            if span.end > place:
                parts.append(data[place : max(place, span.start)])
                parts.append(self._marks.mark(span.rule, span.secret))
                place = span.end
                self.count += 1
        parts.append(data[place:hold])
        # Where there is so much to look at, looking at it again each time would take too long.
        start = max(0, hold - _BACK) if crowded else _context_start(data, hold, CONTEXT)
        self._data, self._done = data[start:], hold - start
        self._begun = self._begun._replace(place=max(0, self._begun.place - start))
        return b"".join(parts)


def _rest_of(begun: Begun) -> re.Pattern[bytes]:
    """Return a pattern for the rest of a secret that was marked at a pause."""
    if begun.block is not None:
        return _BLOCK_REST
    if begun.goes_on is None or begun.goes_on is OPEN["token"]:
        return _REST
    return begun.goes_on


def _context_start(data: bytes, end: int, longest: int) -> int:
    """Find where to look back to: whole lines, if they are not too long."""
    line = data.rfind(b"\n", 0, max(0, end - _BACK)) + 1
    return max(line, end - longest)


_TAIL = 256
"""Bytes that are remembered: what follows may be a secret because of them."""


class QuickCheck:
    """A quick check that the next piece of a text is harmless, as nearly all of an agent's text is.

    It takes a tenth of the time that a stream takes. What does not pass must go through a stream.
    """

    def __init__(self, unfinished: Unfinished) -> None:
        self._unfinished = unfinished
        self.tail: bytes = b""
        """The last bytes of the text."""

    def passes(self, data: bytes) -> bool:
        """Take in a piece if nothing in the text is a secret, or may become one.

        Returns whether it is so.
        """
        text = self.tail + data
        if not self._unfinished.is_harmless(text):
            return False
        self.tail = text[-_TAIL:]
        return True

    def take(self, data: bytes) -> None:
        """Take in a piece that does not pass."""
        self.tail = (self.tail + data)[-_TAIL:]
