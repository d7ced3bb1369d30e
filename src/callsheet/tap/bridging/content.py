"""Blocks of content: text, images, audio, links, resources. The versions write them nearly alike."""

from __future__ import annotations

from callsheet.acp.blocks import as_list, as_object
from callsheet.acp.jsonrpc import InvalidParams
from callsheet.acp.v1_diffs import code_span
from callsheet.report.json import JsonObject, JsonValue, is_list, is_object

from .making import as_text

KNOWN = ("text", "image", "audio", "resource_link", "resource")
"""The blocks that v1 has. v2 is open."""

_ROLES = ("user", "assistant")


def for_v2(value: JsonValue) -> JsonObject:
    """Return a block of v1 for v2; the same one if nothing is to be changed."""
    block = as_object(value, "content")
    notes = block.get("annotations")
    if not is_object(notes) or notes.get("priority") is None:
        return block
    priority = notes["priority"]
    if isinstance(priority, (int, float)) and 0 <= priority <= 1:
        return block
    kept = {name: note for name, note in notes.items() if name != "priority"}
    return {**block, "annotations": kept}


def for_v1(value: JsonValue) -> JsonObject | None:
    """Return a block of v2 for v1; the same one if nothing is to be changed; None if v1 has no such block."""
    block = as_object(value, "content")
    if as_text(block.get("type"), "content.type") not in KNOWN:
        return None
    notes = block.get("annotations")
    audience = notes.get("audience") if is_object(notes) else None
    if not is_list(audience) or all(role in _ROLES for role in audience):
        return block
    kept = [role for role in audience if role in _ROLES]
    return {**block, "annotations": {**as_object(notes, "annotations"), "audience": kept}}


def named(block: JsonObject) -> JsonObject:
    """Stand in for a block that v1 has no word for."""
    return {"type": "text", "text": f"(content of type {code_span(str(block['type']))})"}


def prompt_for_v2(value: JsonValue) -> list[JsonObject]:
    """Return what a user says, for an agent of v2."""
    blocks = [for_v2(one) for one in as_list(value, "prompt")]
    if not blocks:
        raise InvalidParams("prompt: it is empty, and ACP v2 knows no empty prompts")
    return blocks


def prompt_for_v1(value: JsonValue) -> list[JsonObject]:
    """Return what a user says, for an agent of v1. It must get all of it, or nothing."""
    blocks: list[JsonObject] = []
    for one in as_list(value, "prompt"):
        block = for_v1(one)
        if block is None:
            raise InvalidParams(f"prompt: an agent of ACP v1 takes no {one['type']!r}")
        blocks.append(block)
    return blocks


def text_of(blocks: list[JsonObject]) -> str:
    """Return the text in blocks."""
    return "".join(
        block["text"]
        for block in blocks
        if block.get("type") == "text" and isinstance(block.get("text"), str)
    )
