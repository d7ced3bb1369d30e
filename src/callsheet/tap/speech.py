"""What an agent says, piece by piece, without secrets: also without those that are split over two pieces.

Pieces come by the thousand, and nearly all of them are harmless: those are seen to be so at a glance, and
pass as they are. Only where a secret may have begun, what may be part of it waits for the next piece.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from callsheet.redaction.redact import QuickCheck, Redactor, StreamRedactor

Follows: TypeAlias = Callable[[bytes], bool]
"""Takes in a piece if it is harmless, and says whether it is so."""

QUIET = 0.1
"""Seconds without a piece, after which nothing waits any longer."""


class Speech:
    """One run of text: the messages of one kind in one session, until something else comes."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor: Redactor = redactor
        self._check: QuickCheck = redactor.quick_check()
        self._stream: StreamRedactor | None = None
        self.hidden: int = 0
        """How many secrets were taken out."""

    @property
    def held(self) -> int:
        """How many bytes wait for what follows them."""
        return 0 if self._stream is None else self._stream.held

    @property
    def follows(self) -> Follows | None:
        """What takes in further pieces that are harmless, as `say` would. None while something waits."""
        return self._check.passes if self._stream is None else None

    def say(self, text: str) -> str:
        """Take in a piece, and give what surely is no part of a secret: itself, if nothing was done."""
        data, before = text.encode("utf-8", "surrogatepass"), self._check.tail
        is_harmless = self._check.passes(data)
        if not is_harmless:
            self._check.take(data)
        if self._stream is None:
            if is_harmless:
                return text
            self._stream = self._redactor.stream()
            self._stream.recall(before)
        out = self._passed(self._stream.feed(data))
        if out != data:
            return _text(out)
        if is_harmless and not self._stream.held:
            self._stream = None
        return text

    def pause(self) -> str:
        """Return what waits: nothing has come for a while."""
        return "" if self._stream is None else _text(self._passed(self._stream.flush()))

    def end(self) -> str:
        """Return what waits: something else comes now."""
        rest = b"" if self._stream is None else self._passed(self._stream.finish())
        self._stream, self._check = None, self._redactor.quick_check()
        return _text(rest)

    def _passed(self, data: bytes) -> bytes:
        if self._stream is not None and self._stream.count:
            self.hidden += self._stream.count
            self._stream.count = 0
        return data


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
