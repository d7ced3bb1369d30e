"""Redacts bytes as they come. What may be the beginning of a secret waits for the rest of it.

What is held is only the secret's own first bytes, never the name or the line before it, which stays
behind as context. So a prompt is passed on at once, and at the end of most lines nothing is held.
"""

from __future__ import annotations

from collections.abc import Sequence

from .marks import IDENTITY, Marks
from .scan import Scanner
from .shapes import Shape
from .spans import Span

HOLD = 16 * 1024
"""At most so many bytes are held."""

CONTEXT = 4096
"""So many bytes of the unfinished line are remembered after they were passed on."""

_BACK = 256


class StreamRedactor:
    """Redacts one stream. `feed` gives what can be passed on; `finish` gives the rest."""

    def __init__(self, scanner: Scanner, marks: Marks) -> None:
        self._scanner = scanner
        self._marks = marks
        self._data = b""
        self._done = 0  # so much of the data was passed on, and is only context
        self._block: Shape | None = None  # a block of lines that has begun and waits for its end
        self.count: int = 0
        """How many secrets were redacted so far."""

    @property
    def held(self) -> int:
        """How many bytes wait for what follows them."""
        return len(self._data) - self._done

    def feed(self, chunk: bytes) -> bytes:
        """Take the next bytes; give those that can be passed on."""
        data = self._data = self._data + chunk
        if self._block and self.held <= HOLD and self._block.goes_on(data, len(chunk)):
            return b""
        start = _context_start(data, len(data), CONTEXT + HOLD)
        hold, self._block = self._scanner.undecided(data, start)
        if hold <= self._done and self.held <= HOLD:
            return b""
        spans = self._scanner.spans(data)
        for span in reversed(spans):
            if span.start < hold < span.end:
                hold = span.start
        hold = max(hold, self._done)
        if len(data) - hold > HOLD:
            hold = self._shorten(spans, hold)
        return self._pass_on(spans, hold)

    def flush(self) -> bytes:
        """Give all that is held, for use when the output pauses.

        What is a secret so far is redacted. What may only become one is shown as it is: if it does
        become one, the part before the pause has been seen, and only the rest is redacted.
        """
        self._block = None
        if not self.held:
            return b""
        return self._pass_on(self._scanner.spans(self._data), len(self._data))

    def finish(self) -> bytes:
        """Give the rest, at the end of the stream."""
        rest = self.flush()
        self._data, self._done = b"", 0
        return rest

    def _shorten(self, spans: Sequence[Span], hold: int) -> int:
        """Too much is held. A secret's middle can go; what is none by now may be passed on."""
        data = self._data
        for span in spans:
            if span.start == hold and len(data) - span.end < _BACK:
                self._data = data[: hold + IDENTITY] + data[-IDENTITY:]
                return hold
        hold = len(data) - HOLD // 2
        return max((span.end for span in spans if span.start < hold), default=hold)

    def _pass_on(self, spans: Sequence[Span], hold: int) -> bytes:
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
        start = _context_start(data, hold, CONTEXT)
        self._data, self._done = data[start:], hold - start
        return b"".join(parts)


def _context_start(data: bytes, end: int, longest: int) -> int:
    """Find where to look back to: whole lines, if they are not too long."""
    line = data.rfind(b"\n", 0, max(0, end - _BACK)) + 1
    return max(line, end - longest)
