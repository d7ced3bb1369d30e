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
from typing import TypeAlias, cast

import msgspec
from msgspec.structs import replace

from callsheet.limits.text import Phrases, bound_text, localized, size_of
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
    if content_size(items) <= limit:
        return items, []
    low = min(_ITEM, limit // 4)
    sizes = [item_size(item) for item in items]
    members = [Member(size, min(size, low), _COMMA) for size in sizes]
    notice = TextContent(localized(phrases, "items_cut", count=len(items)))
    linked = limit >= 4 * LINK_ROOM
    spare = item_size(notice) + _COMMA + (LINK_ROOM if linked else 0)
    shares = share_out(members, limit - 2, spare)
    gone = [item for item, share in zip(items, shares, strict=True) if share is None]
    out: list[ToolCallContent] = []
    cuts: list[Cut] = []
    for index, (item, share) in enumerate(zip(items, shares, strict=True)):
        if share is None:
            if gone:
                at = len(out) if linked else None
                cuts.append(
                    Cut(field=FIELD, kept_bytes=0, spill=_spill_of(gone), item=index, at=at)
                )
                out.append(TextContent(localized(phrases, "items_cut", count=len(gone))))
                gone = []
        elif sizes[index] <= share:
            out.append(item)
        else:
            shown, cut = _cut_item(item, share, phrases)
            where = index if len(items) > 1 else None
            cuts.append(replace(cut, item=where, at=None if cut.at is None else len(out)))
            out.append(shown)
    return (tuple(out), cuts) if content_size(tuple(out)) <= limit else ((), cuts)


def _spill_of(items: list[ToolCallContent]) -> Spill:
    """Return the file of items that were left out: text, if they all are."""
    texts = [item.text for item in items if type(item) is TextContent]
    if len(texts) == len(items):
        return Spill("".join(texts))
    return Spill(msgspec.to_builtins(items), "application/json")


_Shown: TypeAlias = tuple[ToolCallContent, Cut]
"""An item as it is shown, and what was cut; its `at` is None if there is no room for a link."""


def _cut_item(item: ToolCallContent, room: int, phrases: Phrases) -> _Shown:
    at = 0 if room >= 4 * LINK_ROOM else None
    limit = room - (0 if at is None else LINK_ROOM)
    spill = Spill(msgspec.to_builtins(item), "application/json")
    if isinstance(item, (TextContent, EmbeddedResource)) and item.text is not None:
        beside = item_size(item) - size_of(item.text)
        if beside <= room // 2:  # else its other fields leave too little room for its text
            bounded = bound_text(item.text, limit - beside, phrases=phrases)
            spill = Spill(item.text, getattr(item, "mime_type", None) or "text/plain")
            cut = Cut(field=FIELD, kept_bytes=bounded.kept_bytes, spill=spill, at=at)
            return replace(item, text=bounded.value), cut
    elif isinstance(item, (ImageContent, AudioContent, EmbeddedResource)):
        data = item.blob if isinstance(item, EmbeddedResource) else item.data
        spill = Spill(a2b_base64(data or ""), item.mime_type or "application/octet-stream")
        return _named(spill, room, phrases, getattr(item, "uri", None))
    elif isinstance(item, DiffContent) and (shown := _cut_diff(item, limit, phrases)) is not None:
        kept = min(size_of(msgspec.to_builtins(shown)), len(spill.data) - 1)
        return shown, Cut(field=FIELD, kept_bytes=kept, spill=spill, at=at)
    return _named(spill, room, phrases)


def _named(spill: Spill, room: int, phrases: Phrases, uri: str | None = None) -> _Shown:
    """Replace an item that can't be cut by a link to its address, if it has one, or a notice."""
    mime_type, total = spill.mime_type, len(spill.data)
    shown: ToolCallContent = TextContent(
        localized(phrases, "data_cut", mime=mime_type, bytes=total)
    )
    if item_size(shown) > room:
        shown = TextContent(cast("str", bound_text(shown.text, room - _BLOCK).value))
    if uri is not None:
        link = ResourceLink(uri, mime_type, None, None, mime_type, total)
        shown = link if item_size(link) <= room else shown
    at = 0 if room >= LINK_ROOM else None
    return shown, Cut(field=FIELD, kept_bytes=0, spill=spill, at=at, instead=True)


# Diffs


def _cut_diff(item: DiffContent, limit: int, phrases: Phrases) -> DiffContent | None:
    """Return a diff with its changed lines, or with parts of them; None if there is no room for that."""
    shown = replace(item, changes=tuple(map(_trimmed, item.changes)), patch=None)
    if _diff_size(shown) > limit:
        shown = _with_short_texts(shown, limit, phrases)
    return shown if _diff_size(shown) <= limit else None


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
    bare = [replace(change, old_text=None, new_text=None) for change in diff.changes]
    each = (room - _diff_size(replace(diff, changes=tuple(bare)))) * 2 // 3 // max(texts, 1)

    def short(text: str | None) -> str | None:
        return None if text is None else bound_text(text, each, phrases=phrases).value

    changes = [
        replace(change, old_text=short(change.old_text), new_text=short(change.new_text))
        for change in diff.changes
    ]
    return replace(diff, changes=tuple(changes))


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
    if raw is None:
        return None
    printed: list[str] = []
    for item in content:  # a comprehension takes a frame
        if type(item) is TextContent:
            printed.append(item.text)  # noqa: PERF401
    others = _others(content) if len(printed) < len(content) else ()
    if len(printed) > 1:
        printed.append("".join(printed))
    return without_texts(raw, printed, others)


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


def without_texts(
    raw: JsonValue,
    printed: Sequence[str],
    others: Sequence[str] = (),
    depth: int = _DEEPEST,
    known: bool = True,
) -> JsonValue:
    """Return a raw output without texts that are shown: the same object if it has none of them.

    Args:
        raw: The raw output, or a value in it.
        printed: The texts of the content.
        others: What content shows beside texts: it is referred to only where it is repeated as a whole.
        depth: How many levels are looked at.
        known: Whether the value stands where tools return what they print.
    """
    kind = type(raw)  # pyright: ignore[reportUnknownVariableType]
    if kind is not dict:
        if kind is str:
            return IN_CONTENT if _is_shown(raw, printed, others, known) else raw
        if kind is list and len(raw) >= SHORTEST and (text := text_of_bytes(raw)) is not None:
            return IN_CONTENT if _is_shown(text, printed, others, known) else raw
        if kind is not list or len(raw) > _LONGEST_LIST:
            return raw
    if depth == 0:
        return raw
    out = raw
    for key, value in raw.items() if kind is dict else enumerate(raw):
        if type(value) is str:
            if len(value) < SHORTEST:
                continue  # nearly all are too short to be worth a look
            if value in printed:
                fresh = IN_CONTENT
            else:
                printable = key in PRINTED if kind is dict else known
                fresh = IN_CONTENT if _is_shown(value, printed, others, printable) else value
        elif value and type(value) in (dict, list):
            printable = key in PRINTED if kind is dict else known
            fresh = without_texts(value, printed, others, depth - 1, printable)
        else:
            continue
        if fresh is not value:
            out = raw.copy() if out is raw else out
            out[key] = fresh
    return out


def _is_shown(text: str, printed: Sequence[str], others: Sequence[str], known: bool) -> bool:
    if len(text) < SHORTEST:
        return False
    if text in printed or text in others:
        return True
    if not known:
        return False
    bare = text.strip()
    return len(bare) >= SHORTEST and any(bare in shown for shown in printed)
