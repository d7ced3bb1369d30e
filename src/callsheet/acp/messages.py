"""Tool calls as they go over the wire. `UNSET` is omitted, None is null.

Structs, because msgspec writes them faster than anything one could build by hand. An update that
also carries fields which we don't know is a plain dict, and so are the small updates of chunks and
terminals; `as_dict` makes dicts of all.
"""

from __future__ import annotations

from typing import TypeAlias, cast

from msgspec import UNSET, Struct, UnsetType, to_builtins

from callsheet.report.json import EMPTY, JsonObject, JsonValue

_KEYS = {
    "tool_call_id": "toolCallId",
    "raw_input": "rawInput",
    "raw_output": "rawOutput",
    "meta": "_meta",
}


class ToolCall(
    Struct, tag_field="sessionUpdate", tag="tool_call", rename=_KEYS, omit_defaults=True
):
    """v1: a call is announced."""

    tool_call_id: str
    title: str
    kind: str
    status: str
    name: str | UnsetType = UNSET
    content: list[JsonObject] | UnsetType = UNSET
    locations: list[JsonObject] | UnsetType = UNSET
    raw_input: JsonValue | UnsetType = UNSET
    raw_output: JsonValue | UnsetType = UNSET
    meta: JsonObject | UnsetType = UNSET


class ToolCallUpdate(
    Struct, tag_field="sessionUpdate", tag="tool_call_update", rename=_KEYS, omit_defaults=True
):
    """v1: a call has changed. v2: it has changed, or is announced."""

    tool_call_id: str
    status: str | UnsetType | None = UNSET
    kind: str | UnsetType | None = UNSET
    title: str | UnsetType | None = UNSET
    name: str | UnsetType | None = UNSET
    content: list[JsonObject] | UnsetType | None = UNSET
    locations: list[JsonObject] | UnsetType | None = UNSET
    raw_input: JsonValue | UnsetType | None = UNSET
    raw_output: JsonValue | UnsetType | None = UNSET
    meta: JsonObject | UnsetType | None = UNSET
    capabilities: JsonObject | UnsetType | None = UNSET


Update: TypeAlias = ToolCall | ToolCallUpdate | JsonObject


def as_dict(update: Update) -> JsonObject:
    """Return an update as the JSON object that it is."""
    return cast("JsonObject", to_builtins(update)) if isinstance(update, Struct) else update


def stub(update: Update) -> JsonObject:
    """Return the least that an update can say: which call it is about, and where that is in its life."""
    raw = (
        {
            key: getattr(update, name, None)
            for name, key in (("tool_call_id", "toolCallId"), ("status", "status"))
        }
        if isinstance(update, Struct)
        else {key: update.get(key) for key in ("toolCallId", "status")}
    )
    opens = isinstance(update, ToolCall) or (
        isinstance(update, dict) and update.get("sessionUpdate") == "tool_call"
    )
    least: JsonObject = {"sessionUpdate": "tool_call" if opens else "tool_call_update"}
    if opens:
        least["title"] = "…"
    return least | {key: value for key, value in raw.items() if isinstance(value, str)}


def with_meta(update: Update, meta: JsonObject) -> Update:
    """Return an update with more keys in its `_meta`."""
    out = as_dict(update)
    return {**out, "_meta": {**(out.get("_meta") or EMPTY), **meta}}
