"""A long text in part: its beginning and its end, and between them how much was left out.

For text that grows and would have to be sent again as a whole. The end of a call sends it whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from msgspec import json
from msgspec.structs import replace

from callsheet.acp.words import Words
from callsheet.report.content import DiffContent, TextContent, ToolCallContent

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


def excerpt(text: TextContent, room: int, words: Words) -> TextContent:
    """Return the beginning and the end of a text, of about `room` bytes on the wire."""
    limit = room - room // 16 - 128  # mostly enough for what JSON adds, and the words between
    part = replace(text, text=_cut(text.text, limit, words))
    while limit > SHORTEST // 4 and (size := size_of([part])) > room:
        limit = limit * room // size - 32
        part = replace(text, text=_cut(text.text, limit, words))
    return part


def _cut(text: str, limit: int, words: Words) -> str:
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
    """Return all that items say, as one text."""
    return "".join([_said(item) for item in items])


def _said(item: ToolCallContent) -> str:
    if type(item) is TextContent:
        return item.text
    if type(item) is DiffContent:
        texts = [(c.path, c.old_text or "", c.new_text or "") for c in item.changes]
        return "".join([*chain.from_iterable(texts), item.patch or ""])
    return json.encode(item).decode()
