"""Content blocks (text, image, audio, link, resource), which ACP v1 and v2 write alike.

A block travels in an outer object: `{"type": "content", "content": {"type": "text", …}}`. The table
below says which field of our struct stands under which key; a key that is not in it is kept in
`extra` and written back.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from callsheet.acp.jsonrpc import InvalidParams
from callsheet.report.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    ToolCallContent,
    UnknownContent,
)
from callsheet.report.json import JsonObject, JsonValue, freeze, is_list, is_object

_COMMON = {"annotations": "annotations", "meta": "_meta"}

_FIELDS: dict[type[Any], tuple[str, dict[str, str]]] = {
    TextContent: ("text", {"text": "text"}),
    ImageContent: ("image", {"data": "data", "mime_type": "mimeType", "uri": "uri"}),
    AudioContent: ("audio", {"data": "data", "mime_type": "mimeType"}),
    ResourceLink: (
        "resource_link",
        {"uri": "uri", "name": "name", "title": "title", "description": "description"}
        | {"mime_type": "mimeType", "size": "size"},
    ),
}
_RESOURCE = {"uri": "uri", "text": "text", "blob": "blob", "mime_type": "mimeType"} | {
    "resource_meta": "_meta"
}
_BY_TAG = {tag: (struct, fields) for struct, (tag, fields) in _FIELDS.items()}


def encode_block(item: Any) -> JsonObject:
    """Return the outer object of a block."""
    if type(item) is EmbeddedResource:
        resource = {**(item.resource_extra or {}), **_pick(item, _RESOURCE)}
        block: JsonObject = {"type": "resource", "resource": resource}
    else:
        tag, fields = _FIELDS[type(item)]
        block = {"type": tag, **_pick(item, fields)}
    if item.annotations is not None:
        block["annotations"] = item.annotations
    if item.meta is not None:
        block["_meta"] = item.meta
    if item.extra is not None:
        block = {**item.extra, **block}
    outer: JsonObject = {"type": "content", "content": block}
    return outer if item.outer is None else {**item.outer, **outer}


def encode_text(item: Any) -> JsonObject:
    """Return the outer object of a text block, which most blocks are."""
    if item.annotations is None and item.meta is None and item.extra is None and item.outer is None:
        return {"type": "content", "content": {"type": "text", "text": item.text}}
    return encode_block(item)


def decode_block(raw: JsonObject) -> ToolCallContent:
    """Return the block in an outer object. One of an unknown type is kept whole."""
    block = as_object(raw.get("content"), "content")
    tag = block.get("type")
    outer = rest(raw, "type", "content")
    if tag == "resource":
        return _decode_resource(block, outer)
    if not isinstance(tag, str) or tag not in _BY_TAG:
        return UnknownContent(raw)
    struct, fields = _BY_TAG[tag]
    known = fields | _COMMON
    values = {name: block[key] for name, key in known.items() if block.get(key) is not None}
    _require(values, struct, tag)
    return struct(**values, extra=rest(block, "type", *known.values()), outer=outer)


def _decode_resource(block: JsonObject, outer: JsonObject | None) -> EmbeddedResource:
    resource = as_object(block.get("resource"), "resource")
    values = {
        name: resource[key] for name, key in _RESOURCE.items() if resource.get(key) is not None
    }
    values |= {name: block[key] for name, key in _COMMON.items() if block.get(key) is not None}
    _require(values, EmbeddedResource, "resource")
    return EmbeddedResource(
        **values,
        resource_extra=rest(resource, *_RESOURCE.values()),
        extra=rest(block, "type", "resource", *_COMMON.values()),
        outer=outer,
    )


def read_object(value: JsonValue, what: str) -> JsonObject:
    """Return a private copy of what a peer sent, if it is an object of valid JSON, else raise.

    Peers' messages may have been parsed by anything: what no JSON text can say is refused here, once.
    """
    return as_object(freeze(value, what), what)


def as_object(value: JsonValue, what: str) -> JsonObject:
    """Return a JSON object back, or raise `InvalidParams`."""
    if not is_object(value):
        raise InvalidParams(f"{what}: expected an object, got {type(value).__name__}")
    return value


def as_list(value: JsonValue, what: str) -> list[JsonValue]:
    """Return a JSON list back, or raise `InvalidParams`."""
    if not is_list(value):
        raise InvalidParams(f"{what}: expected a list, got {type(value).__name__}")
    return value


def rest(raw: JsonObject, *known: str) -> JsonObject | None:
    """Return the keys that we don't know, or None if there are none."""
    return {key: value for key, value in raw.items() if key not in known} or None


def _pick(item: object, fields: dict[str, str]) -> JsonObject:
    return {
        key: value for name, key in fields.items() if (value := getattr(item, name)) is not None
    }


def _require(values: JsonObject, struct: type[Struct], what: str) -> None:
    for name in struct.__struct_fields__[: -len(struct.__struct_defaults__)]:
        if name not in values:
            raise InvalidParams(f"{what}: {name} is missing")
