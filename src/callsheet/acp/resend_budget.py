"""How much of a growing content a peer is sent: a token bucket for each call.

Content is replaced as a whole, so showing it grow means sending again what was sent before (in v2,
except for whole items that are appended). So that N bytes don't cost N² on the wire, each new byte
brings `RATE` tokens, and each content that is sent while the call runs takes as many as it has
bytes. What can't be paid for waits, or is shown in part. The end of a call sends its content once
more, and is never made to wait.

So N bytes of output, as JSON, cost at most `(RATE + 1) * N + FIRST + PAUSES`, in however small
steps they come, and 200 bytes for each second in which nothing new comes; without the last two if
they come without pauses. That is less than 4 bytes for each, from 1 kB on.

What counts as new: output is sent again in three ways, grown, changed at one place (a header that
counts seconds), or moved on (the beginning is dropped, the end goes on). Each is recognised by a few
comparisons and searches, so the cost is linear whatever the texts are. Everything else is new.

An excerpt is the beginning and the end of a long text, and between them how much was left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import is_

from msgspec import json
from msgspec.structs import replace

from callsheet.acp.peer import Phrases
from callsheet.report.content import DiffContent, TextContent, ToolCallContent

ANCHOR = 64
"""Length of the text that is searched for to find where something was moved to."""


def changed(old: str, new: str) -> tuple[str, str]:
    """Return both without what they share at the beginning, and then at the end."""
    begin = _same_begin(old, new)
    old, new = old[begin:], new[begin:]
    end = _same_end(old, new)
    return old[: len(old) - end], new[: len(new) - end]


def count_moved(old: str, new: str) -> int:
    """Count the characters of `new` that were moved there: a run that both have, found by a few places."""
    best = 0
    if min(len(old), len(new)) <= ANCHOR:
        return best
    for at in (len(old) - ANCHOR, len(old) // 2, len(old) // 4):
        anchor = old[at : at + ANCHOR]
        for place in {new.find(anchor), new.rfind(anchor)} - {-1}:
            run = _same_end(old[:at], new[:place]) + _same_begin(old[at:], new[place:])
            best = max(best, run)
    return best


def _same_begin(one: str, other: str) -> int:
    """Count the characters at the beginning that are the same, by halves."""
    same, most = 0, min(len(one), len(other))
    while same < most:
        middle = (same + most + 1) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            most = middle - 1
    return same


def _same_end(one: str, other: str) -> int:
    """Count the characters at the end that are the same."""
    return _same_begin(one[::-1], other[::-1])


LIVE_TEXT = 2 * 1024
"""Bytes of content that are shown while it grows; the end shows more.

Some 25 lines. The longer it is, the seldomer it can be shown.
"""

SHORTEST = 1024
"""Bytes of a text below which it is not shown in part."""

ITEM = 64
"""About what an item of content costs besides its texts."""

_FENCE = "```\n"


def long_text(content: Sequence[ToolCallContent]) -> TextContent | None:
    """Return the longest text of some content, if it is long enough to be shown in part."""
    texts = [item for item in content if type(item) is TextContent and len(item.text) > SHORTEST]
    return max(texts, key=lambda item: len(item.text), default=None)


def excerpt(text: TextContent, room: int, words: Phrases) -> TextContent:
    """Return the beginning and the end of a text, of about `room` bytes on the wire."""
    limit = room - room // 16 - 128  # mostly enough for what JSON adds, and the words between
    part = replace(text, text=_cut(text.text, limit, words))
    while limit > SHORTEST // 4 and (size := size_of([part])) > room:
        limit = limit * room // size - 32
        part = replace(text, text=_cut(text.text, limit, words))
    return part


def _cut(text: str, limit: int, words: Phrases) -> str:
    """Return the beginning and the end of a text, in whole lines if it has some, of `limit` characters."""
    head = text[: limit // 4]
    head = head[: head.rfind("\n") + 1] or head
    begin = max(len(head), len(text) - (limit - len(head)))
    begin = max(begin, text.find("\n", begin, begin + limit // 4) + 1)
    gone = text[len(head) : begin]
    if not gone:
        return text
    notice = f"[… {words.left_out(len(gone.encode()), gone.count(chr(10)))} …]\n"
    if _fences(gone) % 2:  # a block of code ends in what is left out, or begins there
        notice = _FENCE + notice if _fences(head) % 2 else notice + _FENCE
    return (head if head.endswith("\n") else head + "\n") + notice + text[begin:]


def _fences(text: str) -> int:
    return text.count("\n```") + text.startswith("```")


# Sizes


def size_of(items: Sequence[ToolCallContent]) -> int:
    """Return about how many bytes items have on the wire."""
    return json_size(text_of(items)) + ITEM * len(items)


def json_size(text: str) -> int:
    """Return the bytes of a text as JSON, without its quotes."""
    return len(json.encode(text)) - 2 if text else 0


def text_of(items: Sequence[ToolCallContent]) -> str:
    """Return all text of the items, as one string."""
    return "".join([_said(item) for item in items])


def _said(item: ToolCallContent) -> str:
    if type(item) is TextContent:
        return item.text
    if type(item) is DiffContent:
        texts = [(c.path, c.old_text or "", c.new_text or "") for c in item.changes]
        return "".join([*chain.from_iterable(texts), item.patch or ""])
    return json.encode(item).decode()


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
        """Return the tokens that may be spent in addition, after a while in which nothing new came."""
        most = max(PAUSES, ENVELOPE + self.size)
        self._pauses = max(self._pauses, min(most, self._pauses + REFILL))
        return self._pauses

    def spend(self, cost: int) -> None:
        """Take tokens; those that are missing come from the reserve for pauses."""
        short = max(0, cost - self.tokens)
        self.tokens = max(0, self.tokens - cost)
        self._pauses = max(0, self._pauses - short)

    def affordable(
        self, content: Content, given: Content, texts: int, extra: int, words: Phrases
    ) -> Content | None:
        """Return as much of new content as there are tokens for, and take these; None if it has to wait.

        Args:
            content: The new content, in the peer's terms.
            given: The content before it was translated into these terms. Only what is new here earns
                tokens: the texts of terminals are mostly the same output again.
            texts: The size of those texts.
            extra: Tokens that may be spent in addition, on what is short or can't be shown in part;
                `UNLIMITED`, on anything.
            words: The phrases for an excerpt.
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
