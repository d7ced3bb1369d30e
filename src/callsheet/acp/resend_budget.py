"""How much of a growing content a peer is sent: a token bucket for each call.

Content is replaced as a whole, so showing it grow means sending again what was sent before (in v2, but for
whole items that are appended). So that N bytes don't cost N² on the wire, each new byte brings `RATE` tokens,
and each content that is sent while the call runs takes as many as it has bytes. What can't be paid for waits,
or is shown in part. The end of a call sends its content once more, and is never made to wait.

So N bytes of output, as JSON, cost at most `(RATE + 1) * N + FIRST + PAUSES`, in however small steps they
come, and 200 bytes for each second in which nothing new comes; without the last two if they come without
pauses. That is less than 4 bytes for each, from 1 kB on.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

from callsheet.acp.excerpt import ITEM, LIVE_TEXT, excerpt, json_size, long_text, size_of, text_of
from callsheet.acp.news import changed, count_moved
from callsheet.acp.words import Words
from callsheet.report.content import ToolCallContent

RATE = 2
"""Tokens for each new byte. With the end that makes 3; the 4th is left for what updates cost besides."""

FIRST = 512
"""Tokens that a call begins with: the first output is shown at once, however short. Twice an `ENVELOPE`."""

PAUSES = 4 * 1024
"""Tokens for what is shown when nothing new has come for a while: at first, for some ten short texts."""

REFILL = 32
"""Tokens that are added to these each time that a view is asked while something waits: about 200 in a second.

By new bytes alone, who prints a short line each second would be shown half a minute later, and the last words
of a program that hangs would not be seen. So the former is shown after 2 s, the latter after 11 s at most.
"""

UNLIMITED = 1 << 60

ENVELOPE = 256
"""About what an update costs besides its content."""

Content = Sequence[ToolCallContent]


class ResendBudget:
    """The tokens of one call. `size` is that of all its content, `partly` that of which a part was sent."""

    __slots__ = ("_items", "_pauses", "partly", "size", "tokens")

    def __init__(self) -> None:
        self.tokens: int = FIRST
        self._pauses: int = PAUSES
        self.size: int = 0
        self._items: Content = ()
        self.partly: Content = ()

    def note(self, items: Content) -> None:
        """Take in a call's content: what is new in it brings tokens."""
        before, kept = self._items, len(self._items)
        if items is before:
            return
        if len(items) >= kept and all(map(is_, items, before)):
            old, new = "", text_of(items[kept:])
        else:
            kept = _common(items, before)
            old, new = changed(text_of(before[kept:]), text_of(items[kept:]))
        size, added = json_size(new), len(items) - len(before)
        self.size += size - json_size(old) + ITEM * added
        moved = size * count_moved(old, new) // len(new) if old and new else 0
        self.tokens += RATE * (size - moved + ITEM * max(0, added))
        self._items = items

    def paused(self) -> int:
        """Return what may be spent besides, for nothing new has come for a while."""
        most = max(PAUSES, ENVELOPE + self.size)
        self._pauses = max(self._pauses, min(most, self._pauses + REFILL))
        return self._pauses

    def spend(self, cost: int) -> None:
        """Take tokens; those that are missing, of what is kept for pauses."""
        short = max(0, cost - self.tokens)
        self.tokens = max(0, self.tokens - cost)
        self._pauses = max(0, self._pauses - short)

    def affordable(
        self, content: Content, given: Content, texts: int, extra: int, words: Words
    ) -> Content | None:
        """Return as much of new content as there are tokens for, and take these; None if it has to wait.

        `given` is the content before it was put into the peer's terms: what is new there is new, while the
        texts of terminals, of size `texts`, are mostly the same output again. `extra` may be spent besides,
        on what is short or can't be shown in part; `UNLIMITED`, on anything.
        """
        self.note(given)
        cost = ENVELOPE + self.size + texts
        text = long_text(given) if cost > ENVELOPE + LIVE_TEXT else None
        besides = size_of([item for item in content if item is not text]) if text else 0
        if besides > LIVE_TEXT // 2:
            text = None  # what stands beside it is too long, too
        if cost <= self.tokens + (extra if text is None or extra == UNLIMITED else 0):
            self.spend(cost)
            return content
        if text is None or content == self.partly:
            return None
        part = excerpt(text, LIVE_TEXT - besides, words)
        cost = ENVELOPE + besides + size_of([part])
        if cost > self.tokens + extra:
            return None
        self.partly = content
        self.spend(cost)
        return tuple([part if item is text else item for item in content])


def _common(new: Content, old: Content) -> int:
    """Count the items at the beginning that are still the same."""
    for index, (one, other) in enumerate(zip(new, old, strict=False)):
        if one is not other and one != other:
            return index
    return min(len(new), len(old))
