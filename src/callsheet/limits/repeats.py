"""Takes out of a raw output what the call's content shows already, and refers to it instead.

Editors show one of the two, and both travel in one message. A text is taken for the same where
content has it as a whole, or, under the keys that tools use for what they print, where content
contains it (in a code fence, or stdout and stderr in one). All else stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from callsheet.report.content import (
    AudioContent,
    DiffContent,
    EmbeddedResource,
    ImageContent,
    TextContent,
    ToolCallContent,
)
from callsheet.report.json import JsonValue, text_of_bytes

IN_CONTENT = "[see content]"
"""Stands for a text that the call's content has. For machines, so in no language."""

SHORTEST = 64
"""Characters from which on a text is worth referring to."""

PRINTED = frozenset(
    {"output", "stdout", "stderr", "content", "text", "message", "result", "error", "details"}
    | {"formatted_output", "aggregated_output", "structuredContent"}
)
"""Keys under which tools give what they print."""

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
