"""Items of content as ACP writes them, made of what agents write instead.

Only what is clear is changed. What is no item at all is shown as the JSON that it is: nothing is lost.
"""

from __future__ import annotations

from typing import Any

import msgspec

from callsheet.acp.terminal_text import fenced
from callsheet.observe.model import Json, many, obj, text

_NEEDS = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
    "resource": (),
}
"""Blocks of ACP, which are MCP's, and the texts that they can't do without."""

_OTHER_WORDS = {"old_text": "oldText", "new_text": "newText", "terminal_id": "terminalId"}
_PATCHES = ("diff", "patch", "unified_diff", "unifiedDiff")

_MANY = 64

_encode = msgspec.json.Encoder().encode


def text_item(said: str) -> Json:
    """Return a text as an item."""
    return {"type": "content", "content": {"type": "text", "text": said}}


def block_item(block: Any) -> Json | None:
    """Return a block as an item, None if it is none."""
    told = _with_text(obj(block))
    needed = _NEEDS.get(text(told.get("type")) or "")
    if needed is None or any(type(told.get(key)) is not str for key in needed):
        return None
    if told["type"] == "resource" and type(obj(told.get("resource")).get("uri")) is not str:
        return None
    return {"type": "content", "content": told}


def _with_text(block: Json) -> Json:
    """Return a block of text with its text: encoders of Go leave out one that is empty."""
    return {**block, "text": ""} if block.get("type") == "text" and "text" not in block else block


def json_item(value: Any) -> Json | None:
    """Return any value as an item that shows its JSON; None if there is nothing to see in it."""
    if value is None or value in ("", [], {}):
        return None
    try:
        said = _encode(value).decode()
    except (msgspec.EncodeError, RecursionError, UnicodeError, TypeError, ValueError):
        return None
    return text_item(fenced(said))


def in_form(content: list[Any], *, is_v2: bool, is_growing: bool = False) -> list[Any]:
    """Return a call's content with each item in ACP's form: the same list, if each is.

    Of a long one that is growing, only the end is looked at: it is asked about after each item.
    """
    looked_at = content[-_MANY:] if is_growing and len(content) > _MANY else content
    if all(_is_good(item, is_v2) for item in looked_at):
        return content
    made: list[Any] = []
    for item in content:
        made.extend((item,) if _is_good(item, is_v2) else _items_of(item, is_v2))
    return made


def is_diff(item: Any) -> bool:
    """Whether an item is a diff."""
    return obj(item).get("type") == "diff"


def terminal_in(item: Any) -> str | None:
    """Return the id of the terminal that an item shows."""
    told = obj(item)
    return text(told.get("terminalId")) if told.get("type") == "terminal" else None


def _is_good(item: Any, is_v2: bool) -> bool:
    if item.__class__ is not dict:
        return False
    kind = item.get("type")
    if kind == "content":
        block = item.get("content")
        if block.__class__ is not dict:
            return False
        sort = block.get("type")
        if sort == "text":
            return type(block.get("text")) is str
        return type(sort) is str and (sort not in _NEEDS or block_item(block) is not None)
    if kind == "diff":
        return is_v2 or (_has_path(item) and type(item.get("newText")) is str and "oldText" in item)
    if kind == "terminal":
        return "terminalId" in item
    return type(kind) is str and kind not in _NEEDS


def _items_of(item: Any, is_v2: bool) -> list[Json]:
    if type(item) is str:
        return [text_item(item)]
    told = obj(item)
    block = block_item(told)
    if block is not None:
        return [block]
    if told.get("type") == "diff" and not is_v2:
        return _diff_of(told)
    if told.get("type") == "terminal":
        told = _renamed(told)
        return [told] if "terminalId" in told else _shown(item)
    if "content" in told and told.get("type", "content") == "content":
        within: Any = told["content"]
        if type(within) is str or within.__class__ is dict:
            return _within([within], item)
        return _within(many(within), item)
    said = text(told.get("text"))
    return [text_item(said)] if said is not None else _shown(item)


def _within(blocks: list[Any], item: Any) -> list[Json]:
    """Return the items of blocks that were put into one, if they are blocks or texts."""
    made = [text_item(one) if type(one) is str else block_item(one) for one in blocks]
    found = [one for one in made if one is not None]
    return found if len(found) == len(made) else _shown(item)


def _diff_of(told: Json) -> list[Json]:
    """Return a diff of v1. Where an old text is not told, the file is new; where no new one is, it is gone."""
    diff = _renamed(told)
    old, new = text(diff.get("oldText")), text(diff.get("newText"))
    if _has_path(diff) and (old is not None or new is not None):
        return [{**diff, "oldText": old, "newText": new or ""}]
    patch = next((found for key in _PATCHES if (found := text(told.get(key)))), None)
    return [text_item(fenced(patch))] if patch is not None else _shown(told)


def _has_path(diff: Json) -> bool:
    path = diff.get("path")
    return type(path) is str and bool(path)


def _renamed(told: Json) -> Json:
    return {_OTHER_WORDS.get(key, key): value for key, value in told.items()}


def _shown(item: Any) -> list[Json]:
    made = json_item(item)
    return [] if made is None else [made]
