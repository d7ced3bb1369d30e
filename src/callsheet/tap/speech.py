"""What an agent says, piece by piece, without secrets: also without those that are split over two pieces.

Pieces come by the thousand, and nearly all of them are harmless: those are seen to be so at a glance, and
pass as they are. Only where a secret may have begun, what may be part of it waits for the next piece.
"""

from __future__ import annotations

from callsheet.guard.redact import Glance, Redactor, StreamRedactor

QUIET = 0.1
"""Seconds without a piece, after which nothing waits any longer."""

TAIL = 256
"""Bytes that are remembered: what follows may be a secret because of them."""


class Speech:
    """One run of text: the messages of one kind in one session, until something else comes."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor: Redactor = redactor
        self._is_odd: Glance = redactor.glance()
        self._tail: bytes = b""
        self._stream: StreamRedactor | None = None
        self.hidden: int = 0
        """How many secrets were taken out."""

    @property
    def held(self) -> int:
        """How many bytes wait for what follows them."""
        return 0 if self._stream is None else self._stream.held

    def passes(self, text: str) -> bool:
        """Whether a piece is harmless, and nothing waits. If not, it is as if it had not been said."""
        if self._stream is not None:
            return False
        near = self._tail + text.encode("utf-8", "surrogatepass")
        if self._is_odd(near):
            return False
        self._tail = near[-TAIL:]
        return True

    def say(self, text: str) -> str:
        """Take in a piece, and give what surely is no part of a secret: itself, if nothing was done."""
        if self.passes(text):
            return text
        before, data = self._tail, text.encode("utf-8", "surrogatepass")
        self._tail = (before + data)[-TAIL:]
        if self._stream is None:
            self._stream = self._redactor.stream()
            self._stream.recall(before)
            is_odd = True
        else:
            is_odd = self._is_odd(before + data)
        out = self._passed(self._stream.feed(data))
        if out != data:
            return _text(out)
        if not is_odd and not self._stream.held:
            self._stream = None
        return text

    def pause(self) -> str:
        """Give what waits: nothing has come for a while."""
        return "" if self._stream is None else _text(self._passed(self._stream.flush()))

    def end(self) -> str:
        """Give what waits: something else comes now."""
        rest = b"" if self._stream is None else self._passed(self._stream.finish())
        self._stream, self._tail = None, b""
        return _text(rest)

    def _passed(self, data: bytes) -> bytes:
        if self._stream is not None and self._stream.count:
            self.hidden += self._stream.count
            self._stream.count = 0
        return data


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
