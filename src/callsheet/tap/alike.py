"""Lines that differ from the one before in a piece of text only: agents speak in thousands of them.

What stands around the text is known from a line that was looked into. One that has the same around it, and
between its quotes a text and nothing else, is the same message with another text. Of such lines, many at once
are read like one: their texts are joined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from .speech import Follows

_text_of = msgspec.json.Decoder(str).decode

Say: TypeAlias = Callable[[str], None]
"""Gets a text that is passed on."""


class Alike:
    """Lines with the same around their text."""

    def __init__(self, head: bytes, foot: bytes, follows: Follows | None, say: Say | None) -> None:
        self._head: bytes = head
        self._foot: bytes = foot
        self._between: bytes = foot + head
        self._start: int = len(head) - 1
        self._end: int = 1 - len(foot)
        self._follows: Follows | None = follows
        self._say: Say | None = say

    @classmethod
    def to(
        cls, line: bytes, text: str, follows: Follows | None, say: Say | None = None
    ) -> Alike | None:
        """Learn from a line with this text in it. None if there is no telling where it stands.

        `follows` takes in the texts of others, if there is a look at them; `say` gets those that pass.
        """
        if b"\\" in line or not text:
            return None
        quoted = b'"%b"' % text.encode("utf-8", "surrogatepass")
        place = line.find(quoted)
        if place < 0 or line.find(quoted, place + 1) >= 0:
            return None
        return cls(line[: place + 1], line[place + len(quoted) - 1 :], follows, say)

    def passes(self, lines: bytes) -> bool:
        """Whether lines pass as they are. If not, it is as if they had not come."""
        if not (lines.startswith(self._head) and lines.endswith(self._foot)):
            return False
        try:
            text = _text_of(lines[self._start : self._end])
        except ValueError:
            text = self._joined(lines)
        if not text:
            return False
        if self._follows is not None and not self._follows(text.encode("utf-8", "surrogatepass")):
            return False
        if self._say is not None:
            self._say(text)
        return True

    def _joined(self, lines: bytes) -> str:
        """Return the texts of many lines, joined; nothing if there is anything else in them."""
        start, end = self._start + 1, self._end
        texts = [line[start:end] for line in lines.split(b"\n")]
        texts.pop()
        if self._between.join(texts) != lines[start : end - 1]:
            return ""
        try:
            return _text_of(b'"%b"' % b"".join(texts))
        except ValueError:
            return ""
