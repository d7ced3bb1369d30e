"""What one peer has seen: calls, terminals, and how much it may be sent again.

Content is replaced as a whole, so showing it grow means sending again what was sent before (in v2, but
for whole items that are appended). So that N bytes don't cost N² on the wire, that is paid for: each new
byte earns `EARN` bytes of credit, each content that is sent costs its size, and what can't be paid for
waits, or is shown in part (see `paying`). A call's end is never made to wait.

So N bytes of content, as JSON, cost at most `(EARN + 1) * N + START_CREDIT + OVERDRAFT`, in however small
steps they come.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from operator import is_

from msgspec import json

from callsheet.report.content import DiffContent, TextContent, ToolCallContent
from callsheet.report.report import ToolCallReport
from callsheet.report.terminals import TerminalState
from callsheet.report.values import EMPTY, JsonObject

from .news import changed, count_moved

KEEP_ENDED = 256
"""Calls that have ended and are still remembered."""

KEEP_TERMINALS = 512
"""Terminals that are remembered, besides those of calls that live. More than a ledger keeps."""

EARN = 3
"""Bytes that may be sent again for each new byte. The end of a call sends its content once more."""

START_CREDIT = 128 * 1024
"""Bytes that may be sent again in any case. They make a slow call's first minutes feel live."""

OVERDRAFT = 128 * 1024
"""Bytes that may be sent again besides, of what was held back when nothing new comes."""

RESERVE = 32 * 1024
"""Bytes of the first that are kept for long content, which is shown in part."""

SHARE = 16
"""A text in part may use this part of the credit, so that there is always some left for the next."""

ENVELOPE = 256
"""About what an update costs besides its content."""

ITEM = 64
"""About what an item of content costs besides its texts."""


class SeenCalls:
    """The calls that a peer has seen, as it has seen them."""

    def __init__(self) -> None:
        self._reports: dict[str, ToolCallReport] = {}
        self._ended: deque[str] = deque()
        self._credits: dict[str, Credit] = {}
        # What was given of the calls that live, before it was put into the peer's terms.
        self.given: dict[str, ToolCallReport] = {}
        # The calls of which something was held back.
        self.held: dict[str, None] = {}
        self.get: Callable[[str], ToolCallReport | None] = self._reports.get

    def credit(self, tool_call_id: str) -> Credit:
        """Give the credit of a call that lives."""
        found = self._credits.get(tool_call_id)
        if found is None:
            found = self._credits[tool_call_id] = Credit()
        return found

    def put(self, report: ToolCallReport) -> None:
        """Note that this is what the peer sees now."""
        self._reports[report.tool_call_id] = report
        if report.status.is_final:
            self._credits.pop(report.tool_call_id, None)
            self.given.pop(report.tool_call_id, None)
            self.held.pop(report.tool_call_id, None)
            self._ended.append(report.tool_call_id)
            if len(self._ended) > KEEP_ENDED:
                self._reports.pop(self._ended.popleft(), None)


class Credit:
    """How many bytes of one call's content may be sent again.

    `size` is that of all its content, `sent` that of what was last sent as a whole, and `told` the
    content of which a part was shown. `fresh` says that something new has come since it was asked for.
    """

    __slots__ = ("_items", "fresh", "left", "sent", "size", "told")

    def __init__(self) -> None:
        self.left: int = START_CREDIT
        self.size: int = 0
        self.sent: int = 0
        self.told: Sequence[ToolCallContent] = ()
        self.fresh: bool = False
        self._items: Sequence[ToolCallContent] = ()

    def earn(self, items: Sequence[ToolCallContent]) -> None:
        """Earn by what is new in a call's content."""
        before, kept = self._items, len(self._items)
        if items is before:
            return
        if len(items) >= kept and all(map(is_, items, before)):
            old, new = "", _text_of(items[kept:])
        else:
            kept = _common(items, before)
            old, new = changed(_text_of(before[kept:]), _text_of(items[kept:]))
        size, added = _size(new), len(items) - len(before)
        self.size += size - _size(old) + ITEM * added
        moved = size * count_moved(old, new) // len(new) if old and new else 0
        self.left += EARN * (size - moved + ITEM * max(0, added))
        self.fresh = self.fresh or bool(old or new or added)
        self._items = items


def size_of(items: Sequence[ToolCallContent]) -> int:
    """Give about how many bytes items have on the wire."""
    return _size(_text_of(items)) + ITEM * len(items)


def _size(text: str) -> int:
    """Give the bytes of a text as JSON, without its quotes."""
    return len(json.encode(text)) - 2 if text else 0


def _text_of(items: Sequence[ToolCallContent]) -> str:
    """Give all that items say, as one text."""
    return "".join([_said(item) for item in items])


def _said(item: ToolCallContent) -> str:
    if type(item) is TextContent:
        return item.text
    if type(item) is DiffContent:
        texts = [(c.path, c.old_text or "", c.new_text or "") for c in item.changes]
        return "".join([*chain.from_iterable(texts), item.patch or ""])
    return json.encode(item).decode()


def _common(new: Sequence[ToolCallContent], old: Sequence[ToolCallContent]) -> int:
    """Count the items at the beginning that are still the same."""
    for index, (one, other) in enumerate(zip(new, old, strict=False)):
        if one is not other and one != other:
            return index
    return min(len(new), len(old))


class SeenTerminal:
    """A terminal as a peer has seen it: first, nothing of it."""

    def __init__(self, epoch: int) -> None:
        self.mark: tuple[int, int] = (epoch, 0)
        self.facts: JsonObject = {}
        self.meta: JsonObject = EMPTY
        self.decoder: codecs.IncrementalDecoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.holder: str | None = None
        self.lives: bool = False
        self.is_live: bool = False
        self.text: TextContent | None = None
        self.earned: tuple[int, int] = (epoch, 0)

    def hold(self, report: ToolCallReport) -> None:
        """Note the call that shows it: the latest that lives."""
        if self.holder in (None, report.tool_call_id) or not report.status.is_final:
            self.holder = report.tool_call_id
            self.lives = not report.status.is_final

    def earn(self, state: TerminalState) -> int:
        """Give the credit that new output earns, once."""
        epoch, total = self.earned
        new = state.total - total if epoch == state.epoch else state.total
        self.earned = state.mark
        return EARN * new

    def is_stale(self, state: TerminalState) -> bool:
        """Whether there is anything new to show as text."""
        return self.mark != state.mark or (state.exit_status is None) == (
            "exitStatus" in self.facts
        )

    def take(self, state: TerminalState, facts: JsonObject) -> None:
        """Note that the peer has been told all of this."""
        self.mark, self.facts, self.meta = state.mark, facts, state.meta


class SeenTerminals:
    """The terminals that a peer has seen. Those of calls that live stay; of the others, the latest."""

    def __init__(self) -> None:
        self._seen: dict[str, SeenTerminal] = {}
        self.get: Callable[[str], SeenTerminal | None] = self._seen.get

    def __contains__(self, terminal_id: str) -> bool:
        return terminal_id in self._seen

    def __len__(self) -> int:
        return len(self._seen)

    def recall(self, state: TerminalState) -> SeenTerminal:
        """Give what was seen of a terminal."""
        found = self._seen.get(state.terminal_id)
        if found is None:
            found = self._seen[state.terminal_id] = SeenTerminal(state.epoch)
            if len(self._seen) > KEEP_TERMINALS:
                self._forget_one()
        return found

    def _forget_one(self) -> None:
        """Forget the oldest that no living call shows, looking at a few: living ones go to the back."""
        for _ in range(8):
            oldest = next(iter(self._seen))
            seen = self._seen.pop(oldest)
            if not seen.lives:
                return
            self._seen[oldest] = seen
