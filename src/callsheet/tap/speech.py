"""What an agent says, piece by piece, without secrets: also without those that are split over two pieces.

Pieces come by the thousand, and nearly all of them are harmless: those are seen to be so at a glance, and
pass as they are. Only where a secret may have begun, what may be part of it waits for the next piece.
"""

from __future__ import annotations

import re

from callsheet.guard.redact import Redactor, StreamRedactor

QUIET = 0.1
"""Seconds without a piece, after which nothing waits any longer."""

TAIL = 256
"""Characters that are remembered: what follows may be a secret because of them."""

_BEFORE = re.compile(
    r"(?i)pass|pwd|secret|token|key|auth|bearer|credential|cookie|session|BEGIN|://"
).search
"""What may stand before a secret."""

_BEGUN = re.compile(r"[A-Za-z0-9_+/=.%-]{12,}\Z|[A-Za-z0-9]*[_-][A-Za-z0-9_-]*\Z").search
"""What a secret may begin with, at the end of a short text: of a long one, it takes too long to find."""


class Speech:
    """One run of text: the messages of one kind in one session, until something else comes."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor: Redactor = redactor
        self._tail: str = ""
        self._stream: StreamRedactor | None = None
        self.hidden: int = 0
        """How many secrets were taken out."""

    @property
    def held(self) -> int:
        """How many bytes wait for what follows them."""
        return 0 if self._stream is None else self._stream.held

    def say(self, text: str) -> str:
        """Take in a piece, and give what surely is no part of a secret: itself, if nothing was done."""
        near = self._tail + text
        self._tail = near[-TAIL:]
        line = near[near.rfind("\n", 0, -1) + 1 :]
        is_harmless = not _may_begin(line) and self._redactor.passes(near)
        if self._stream is None:
            if is_harmless:
                return text
            self._stream = self._redactor.stream()
            self._stream.recall(near[: len(near) - len(text)].encode("utf-8", "replace"))
        data = text.encode("utf-8", "surrogatepass")
        out = self._passed(self._stream.feed(data))
        if out != data:
            return _text(out)
        if is_harmless and not self._stream.held:
            self._stream = None
        return text

    def pause(self) -> str:
        """Give what waits: nothing has come for a while."""
        return "" if self._stream is None else _text(self._passed(self._stream.flush()))

    def end(self) -> str:
        """Give what waits: something else comes now."""
        rest = b"" if self._stream is None else self._passed(self._stream.finish())
        self._stream, self._tail = None, ""
        return _text(rest)

    def _passed(self, data: bytes) -> bytes:
        if self._stream is not None and self._stream.count:
            self.hidden += self._stream.count
            self._stream.count = 0
        return data


def _may_begin(line: str) -> bool:
    """Whether a secret may have begun on a line, or what stands before one."""
    return _BEGUN(line[-TAIL:]) is not None or _BEFORE(line) is not None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
