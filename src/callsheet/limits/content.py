"""A call's content within a limit, item by item; and a raw output that does not repeat it.

Text keeps head and tail. A diff keeps its changed lines; the rest of the file goes first. Images,
sounds and blobs can't be cut: a link to the whole takes their place, or, where there is no file, a
line that names what is missing. If items are too many, those in the middle are left out. Sizes are
at least what either version of ACP needs for an item.

`without_repeats` takes out of a raw output what the content shows already, and refers to it
instead: editors show one of the two, and both travel in one message. A text counts as the same
where content has it as a whole, or, under the keys that tools use for what they print, where
content contains it (in a code fence, or stdout and stderr in one).
"""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from callsheet.limits.text import Phrases, bound_text, say, size_of, text_fits
from callsheet.limits.truncation import LINK_ROOM, Cut, Spill
from callsheet.limits.values import Member, share_out
from callsheet.report.content import (
    AudioContent,
    DiffContent,
    EmbeddedResource,
    FileChange,
    ImageContent,
    ResourceLink,
    TextContent,
    ToolCallContent,
)
from callsheet.report.json import JsonValue, text_of_bytes

FIELD = "content"

_BLOCK = 64
"""Bytes around the text of a plain text item."""

_WRAPPING = 192
"""Bytes around any other item: its type, and the names of its fields."""

_ITEM = 2048
"""The least that is worth keeping of one item among many, in a content that has room."""

_CONTEXT = 3
_COMMA = 1


def content_fits(items: tuple[ToolCallContent, ...], limit: int) -> bool:
    """Return whether content is within a limit."""
    if len(items) == 1:
        item = items[0]
        if type(item) is TextContent and _is_plain(item):
            return text_fits(item.text, limit - _BLOCK)
    return content_size(items) <= limit


def content_size(items: tuple[ToolCallContent, ...]) -> int:
    """Return the bytes that content takes on the wire at most."""
    return 2 + sum(item_size(item) + _COMMA for item in items)


def item_size(item: ToolCallContent) -> int:
    """Return the bytes that an item takes on the wire at most."""
    if type(item) is TextContent and _is_plain(item):
        return size_of(item.text) + _BLOCK
    if type(item) is DiffContent:
        return _diff_size(item)
    return size_of(item) + _WRAPPING


def bound_content(
    items: tuple[ToolCallContent, ...], limit: int, phrases: Phrases = None
) -> tuple[tuple[ToolCallContent, ...], list[Cut]]:
    """Return content that takes at most `limit` bytes, links to its spills included, and what was cut."""
    if content_fits(items, limit):
        return items, []
    low = min(_ITEM, limit // 4)
    sizes = [item_size(item) for item in items]
    members = [Member(size, min(size, low), _COMMA) for size in sizes]
    notice = TextContent(say(phrases, "items_cut", count=len(items)))
    linked = limit >= 4 * LINK_ROOM
    spare = item_size(notice) + _COMMA + (LINK_ROOM if linked else 0)
    shares = share_out(members, limit - 2, spare)
    out: list[ToolCallContent] = []
    cuts: list[Cut] = []
    for index, (item, size, share) in enumerate(zip(items, sizes, shares.room, strict=True)):
        if index == shares.left_out.start and shares.left_out:
            cuts.append(_left_out(items, shares.left_out, at=len(out) if linked else None))
            out.append(TextContent(say(phrases, "items_cut", count=len(shares.left_out))))
        if share is None:
            continue
        if size <= share:
            out.append(item)
            continue
        shown, cut = _cut_item(item, share, phrases)
        where = index if len(items) > 1 else None
        cuts.append(replace(cut, item=where, at=None if cut.at is None else len(out)))
        out.append(shown)
    return (tuple(out), cuts) if content_size(tuple(out)) <= limit else ((), cuts)


_Shown: TypeAlias = tuple[ToolCallContent, Cut]
"""An item as it is shown, and what was cut; its `at` is None if there is no room for a link."""


def _cut_item(item: ToolCallContent, room: int, phrases: Phrases) -> _Shown:
    if isinstance(item, TextContent):
        return _cut_text(item, item.text, "text/plain", room, phrases)
    if isinstance(item, EmbeddedResource) and item.text is not None:
        return _cut_text(item, item.text, item.mime_type or "text/plain", room, phrases)
    if isinstance(item, (ImageContent, AudioContent)):
        uri = item.uri if isinstance(item, ImageContent) else None
        return _linked_data(item.data, item.mime_type, uri, room, phrases)
    if isinstance(item, EmbeddedResource):
        mime_type = item.mime_type or "application/octet-stream"
        return _linked_data(item.blob or "", mime_type, item.uri, room, phrases)
    if isinstance(item, DiffContent):
        return _cut_diff(item, room, phrases)
    return _named_only(item, room, phrases)


def _cut_text(item: Any, text: str, mime_type: str, room: int, phrases: Phrases) -> _Shown:
    beside = item_size(item) - size_of(text)
    if beside > room // 2:  # the item's other fields leave too little room for its text
        return _named_only(item, room, phrases)
    linked = room >= 4 * LINK_ROOM
    limit = room - beside - (LINK_ROOM if linked else 0)
    bounded = bound_text(text, limit, phrases=phrases)
    shown = replace(item, text=bounded.value)
    spill = Spill(text, mime_type)
    return shown, _cut(spill, bounded.kept_bytes, bounded.total_bytes, linked=linked)


def _linked_data(data: str, mime_type: str, uri: str | None, room: int, phrases: Phrases) -> _Shown:
    body = a2b_base64(data)
    shown: ToolCallContent = TextContent(say(phrases, "data_cut", mime=mime_type, bytes=len(body)))
    if uri is not None:
        link = ResourceLink(uri, mime_type, None, None, mime_type, len(body))
        shown = link if item_size(link) <= room else shown
    cut = _cut(Spill(body, mime_type), 0, len(body), linked=room >= LINK_ROOM, instead=True)
    return _fitting(shown, room), cut


def _named_only(item: ToolCallContent, room: int, phrases: Phrases) -> _Shown:
    """Replace an item that can't be cut by a notice."""
    body = msgspec.to_builtins(item)
    total = size_of(body)
    said = TextContent(say(phrases, "data_cut", mime="application/json", bytes=total))
    spill = Spill(body, "application/json")
    cut = _cut(spill, 0, total, linked=room >= LINK_ROOM, instead=True)
    return _fitting(said, room), cut


def _cut(spill: Spill, kept: int, total: int, *, linked: bool, instead: bool = False) -> Cut:
    at = 0 if linked else None
    return Cut(field=FIELD, kept_bytes=kept, total_bytes=total, spill=spill, at=at, instead=instead)


def _fitting(item: ToolCallContent, room: int) -> ToolCallContent:
    """Return a notice, shortened where even it is too long."""
    if isinstance(item, TextContent) and item_size(item) > room:
        return TextContent(cast("str", bound_text(item.text, room - _BLOCK).value))
    return item


def _left_out(items: tuple[ToolCallContent, ...], gone: range, at: int | None) -> Cut:
    """Return the cut of items in the middle. If they are all text, their file is text too."""
    missing = [items[index] for index in gone]
    texts = [item.text for item in missing if type(item) is TextContent]
    if len(texts) == len(missing):
        spill = Spill("".join(texts))
    else:
        spill = Spill(msgspec.to_builtins(missing), "application/json")
    total = len(spill.data)
    return Cut(field=FIELD, kept_bytes=0, total_bytes=total, spill=spill, item=gone.start, at=at)


# Diffs


def _cut_diff(item: DiffContent, room: int, phrases: Phrases) -> _Shown:
    linked = room >= 4 * LINK_ROOM
    limit = room - (LINK_ROOM if linked else 0)
    shown = replace(item, changes=tuple(map(_trimmed, item.changes)), patch=None)
    if _diff_size(shown) > limit:
        shown = _with_short_texts(shown, limit, phrases)
    if _diff_size(shown) > limit:
        return _named_only(item, room, phrases)
    body = msgspec.to_builtins(item)
    total = size_of(body)
    kept = min(size_of(msgspec.to_builtins(shown)), total - 1)
    return shown, _cut(Spill(body, "application/json"), kept, total, linked=linked)


def _trimmed(change: FileChange) -> FileChange:
    """Leave out the lines before and after the changed ones, save a few."""
    if change.old_text is None or change.new_text is None:
        return change
    old, new = change.old_text.splitlines(keepends=True), change.new_text.splitlines(keepends=True)
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    tail = next((i for i in range(shorter - head) if old[-1 - i] != new[-1 - i]), shorter - head)
    first, last = max(head - _CONTEXT, 0), max(tail - _CONTEXT, 0)
    return replace(
        change,
        old_text="".join(old[first : len(old) - last]),
        new_text="".join(new[first : len(new) - last]),
    )


def _with_short_texts(diff: DiffContent, room: int, phrases: Phrases) -> DiffContent:
    texts = sum((c.old_text is not None) + (c.new_text is not None) for c in diff.changes)
    bare = replace(diff, changes=tuple(_with_texts(c, None, None) for c in diff.changes))
    each = (room - _diff_size(bare)) * 2 // 3 // max(texts, 1)

    def short(text: str | None) -> str | None:
        return None if text is None else bound_text(text, each, phrases=phrases).value

    return replace(
        diff,
        changes=tuple(_with_texts(c, short(c.old_text), short(c.new_text)) for c in diff.changes),
    )


def _with_texts(change: FileChange, old: str | None, new: str | None) -> FileChange:
    return replace(change, old_text=old, new_text=new)


def _diff_size(diff: DiffContent) -> int:
    """Return the bytes of a diff: v1 has both texts of each file, v2 has them as lines of a patch."""
    texts = paths = 0
    for change in diff.changes:
        texts += size_of(change.old_text) + size_of(change.new_text)
        paths += size_of(change.path) + size_of(change.old_path)
    beside = size_of(diff) - texts - paths
    patch = 0 if diff.patch is None else size_of(diff.patch)
    return max(texts * 3 // 2, patch) + 30 * paths + beside + _WRAPPING * len(diff.changes)


def _is_plain(item: TextContent) -> bool:
    return item.annotations is item.meta is item.extra is item.outer is None


IN_CONTENT = "[see content]"
"""Stands for a text that the call's content has. For machines, so in no language."""

SHORTEST = 64
"""Characters from which on a text is worth referring to."""

PRINTED = frozenset(
    {"output", "stdout", "stderr", "content", "text", "message", "result", "error", "details"}
    | {"formatted_output", "aggregated_output", "structuredContent"}
)
"""Keys under which tools return what they print."""

_DEEPEST = 5
_LONGEST_LIST = 256


def without_repeats(raw: JsonValue, content: tuple[ToolCallContent, ...]) -> JsonValue:
    """Return a raw output without what stands in the content: the same object if nothing does."""
    kind = type(raw)  # pyright: ignore[reportUnknownVariableType]
    if kind is dict:
        for value in raw.values():  # mostly there is nothing worth referring to, or one text
            kind = type(value)  # pyright: ignore[reportUnknownVariableType]
            if kind is str:
                if len(value) >= SHORTEST:
                    break
            elif kind is dict or kind is list:
                break
        else:
            return raw
    elif kind is not list and (kind is not str or len(raw) < SHORTEST):
        return raw
    if len(content) == 1 and type(content[0]) is TextContent:
        return _without(raw, (content[0].text,), (), _DEEPEST)
    printed = [item.text for item in content if type(item) is TextContent]
    if len(printed) > 1:
        printed.append("".join(printed))
    return _without(raw, printed, _others(content), _DEEPEST)


def _others(content: tuple[ToolCallContent, ...]) -> list[str]:
    """Return what content shows beside plain text: data of images, texts of resources and diffs."""
    found: list[str | None] = []
    for item in content:
        if isinstance(item, (ImageContent, AudioContent)):
            found.append(item.data)
        elif isinstance(item, EmbeddedResource):
            found += [item.text, item.blob]
        elif isinstance(item, DiffContent):
            for change in item.changes:
                found += [change.old_text, change.new_text]
    return [text for text in found if text]


def _without(
    raw: Any, printed: Sequence[str], others: Sequence[str], depth: int, known: bool = True
) -> Any:
    kind = type(raw)  # pyright: ignore[reportUnknownVariableType]
    if kind is str:
        return IN_CONTENT if _is_shown(raw, printed, others, known) else raw
    if kind is list and len(raw) >= SHORTEST and (said := text_of_bytes(raw)) is not None:
        return IN_CONTENT if _is_shown(said, printed, others, known) else raw
    if depth == 0 or (kind is not dict and (kind is not list or len(raw) > _LONGEST_LIST)):
        return raw
    out = None
    for key, value in raw.items() if kind is dict else enumerate(raw):
        kind_of_value = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind_of_value is str:
            if len(value) < SHORTEST:
                continue
        elif kind_of_value is not dict and kind_of_value is not list:
            continue
        printable = key in PRINTED if kind is dict else known
        fresh = _without(value, printed, others, depth - 1, printable)
        if fresh is not value:
            out = out or raw.copy()
            out[key] = fresh
    return out or raw


def _is_shown(text: str, printed: Sequence[str], others: Sequence[str], known: bool) -> bool:
    if len(text) < SHORTEST:
        return False
    if text in printed or text in others:
        return True
    if not known:
        return False
    bare = text.strip()
    return len(bare) >= SHORTEST and any(bare in shown for shown in printed)
