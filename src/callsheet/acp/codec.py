"""What ACP v1 and v2 write alike: the structs of a tool call, content blocks, locations, lines.

An update is a struct (`ToolCall`, `ToolCallUpdate`), because msgspec encodes structs faster than
anything one could build by hand: `UNSET` is omitted, None is null. An update that also carries
fields which we don't know is a plain dict, and so are the small updates of chunks and terminals;
`as_dict` makes dicts of all.

A content block travels in an outer object: `{"type": "content", "content": {"type": "text", …}}`.
`_FIELDS` maps the fields of our structs to keys. A key that is in no table is stored in `extra` and
encoded again, so that a decoded message survives the round trip.

The two versions differ in what null means (v1: nothing, v2: cleared), in statuses, in diffs and in
how calls are opened. That is in `v1` and `v2`.

`UpdateFrames` makes a session's `session/update` lines out of updates. The part of a line that is
always the same is encoded once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, to_builtins

from callsheet.acp.jsonrpc import FRAME_BUDGET, FrameTooLarge, InvalidParams, rest
from callsheet.report.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TerminalContent,
    TextContent,
    ToolCallContent,
    UnknownContent,
)
from callsheet.report.errors import CallsheetError, InvalidId, InvalidValue, ReportError
from callsheet.report.fields import NOTES, ToolCallLocation, ToolKind, foreign_kind
from callsheet.report.json import (
    EMPTY,
    JsonObject,
    JsonValue,
    check_text,
    freeze,
    is_list,
    is_object,
)
from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus

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
    content: list[JsonObject] | Raw | UnsetType | None = UNSET
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
    """Return the smallest form of an update: the call's id and its status."""
    if isinstance(update, Struct):  # not `as_dict`: something in it can't be encoded
        opens, call, status = isinstance(update, ToolCall), update.tool_call_id, update.status
    else:
        opens = update.get("sessionUpdate") == "tool_call"
        call, status = update.get("toolCallId"), update.get("status")
    least: JsonObject = {"sessionUpdate": "tool_call" if opens else "tool_call_update"}
    if opens:
        least["title"] = "…"
    known = {"toolCallId": call, "status": status}
    return least | {key: value for key, value in known.items() if isinstance(value, str)}


def with_meta(update: Update, meta: JsonObject) -> Update:
    """Return an update with more keys in its `_meta`."""
    out = as_dict(update)
    return {**out, "_meta": {**(out.get("_meta") or EMPTY), **meta}}


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
    outer: JsonObject = {"type": "content", "content": with_others(block, item)}
    return outer if item.outer is None else {**item.outer, **outer}


def with_others(out: JsonObject, item: Any) -> JsonObject:
    """Return an encoded item with its `_meta`, and with the keys that we don't know."""
    if item.meta is not None:
        out["_meta"] = item.meta
    return out if item.extra is None else {**item.extra, **out}


def decode_block(raw: JsonObject) -> ToolCallContent:
    """Return the block in an outer object. One of an unknown type is stored whole."""
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

    Any parser may have read the message, so values that JSON can't express are refused here, once.
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


def _pick(item: object, fields: dict[str, str]) -> JsonObject:
    return {
        key: value for name, key in fields.items() if (value := getattr(item, name)) is not None
    }


def _require(values: JsonObject, struct: type[Struct], what: str) -> None:
    for name in struct.__struct_fields__[: -len(struct.__struct_defaults__)]:
        if name not in values:
            raise InvalidParams(f"{what}: {name} is missing")


TOOL_NAME = "tool_name"
"""The key of `_meta` under which older clients look for the tool's name."""

KEYS = {
    "toolCallId", "name", "title", "kind", "status", "content", "locations", "rawInput", "rawOutput",
    "_meta", "sessionUpdate",
}  # fmt: skip
"""The keys that are fields of a report. All others are stored in `extra`."""

DecodeItems = Callable[[list[JsonValue]], tuple[ToolCallContent, ...]]

_STATUSES: dict[str, ToolCallStatus] = {status.value: status for status in ToolCallStatus}
_CLEARED: JsonObject = {
    "name": "", "title": "", "kind": ToolKind.OTHER, "status": ToolCallStatus.PENDING,
    "content": (), "locations": (), "rawInput": None, "rawOutput": None,
}  # fmt: skip
FIELD_OF = {
    "name": "name", "title": "title", "kind": "kind", "status": "status", "content": "content",
    "locations": "locations", "rawInput": "raw_input", "rawOutput": "raw_output",
}  # fmt: skip

_P = ParamSpec("_P")
_R = TypeVar("_R")


def typed_errors(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Turn what the core refuses into `InvalidParams`: to a peer, all of it is a malformed message."""

    @wraps(function)
    def decode(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except ReportError as exc:
            raise InvalidParams(str(exc)) from exc

    return decode


def check_same_call(report: ToolCallReport, seen: ToolCallReport) -> None:
    """Raise `InvalidId` unless both are states of one call."""
    if report.tool_call_id != seen.tool_call_id:
        raise InvalidId(
            f"call {report.tool_call_id} can't be expressed by its difference from call "
            f"{seen.tool_call_id}; pass two states of one call, the new one first"
        )


def encode_locations(locations: Sequence[ToolCallLocation]) -> list[JsonObject]:
    """Return locations as both versions write them."""
    encoded: list[JsonObject] = []
    for place in locations:
        out: JsonObject = {"path": place.path}
        if place.line is not None:
            out["line"] = place.line
        encoded.append(with_others(out, place))
    return encoded


def decode_location(raw: JsonValue) -> ToolCallLocation:
    """Read a location. Line 0, which v1's schema allows, means that no line is known."""
    place = as_object(raw, "location")
    line = place.get("line")
    return ToolCallLocation(
        place.get("path"),  # pyright: ignore[reportArgumentType]
        None if line == 0 and type(line) is int else line,
        place.get("_meta"),
        rest(place, "path", "line", "_meta"),
    )


def encode_terminal(item: TerminalContent) -> JsonObject:
    """Return a reference to a terminal, which both versions write alike."""
    return with_others({"type": "terminal", "terminalId": item.terminal_id}, item)


def decode_terminal(raw: JsonObject) -> TerminalContent:
    """Read a reference to a terminal."""
    extra = rest(raw, "type", "terminalId", "_meta")
    return TerminalContent(raw.get("terminalId"), raw.get("_meta"), extra)  # pyright: ignore[reportArgumentType]


def decode_fields(
    raw: JsonObject, decode_items: DecodeItems, *, null_clears: bool
) -> tuple[JsonObject, JsonObject | None]:
    """Read the fields of a tool call that are there, all but `_meta`, by our names; and the unknown ones."""
    fields: JsonObject = {}
    for key, name in FIELD_OF.items():
        if key not in raw:
            continue
        value = raw[key]
        if value is not None:
            fields[name] = _decode_field(key, value, decode_items)
        elif null_clears:
            fields[name] = _CLEARED[key]
    extra = {key: value for key, value in raw.items() if key not in KEYS}
    if "status" in fields and type(fields["status"]) is not ToolCallStatus:
        # A custom or future status: "clients treat it as still in progress", and it is passed on as it came.
        extra["status"] = fields["status"]
        fields["status"] = ToolCallStatus.IN_PROGRESS
    return fields, extra or None


def _decode_field(key: str, value: JsonValue, decode_items: DecodeItems) -> JsonValue:
    if key == "content":
        return decode_items(as_list(value, key))
    if key == "locations":
        return tuple([decode_location(place) for place in as_list(value, key)])
    if key in ("rawInput", "rawOutput"):
        return value
    if not isinstance(value, str):
        raise InvalidParams(f"{key}: expected text, got {type(value).__name__}")
    if key == "kind":
        return foreign_kind(value)
    return _STATUSES.get(value, value) if key == "status" else value


def decode_meta(raw: JsonObject, fields: JsonObject) -> JsonObject:
    """Decode `_meta`. The tool's name in it is a field of the report, and not stored twice."""
    meta = dict(as_object(raw.get("_meta") or EMPTY, "_meta"))
    name = meta.get(TOOL_NAME)
    if isinstance(name, str) and fields.setdefault("name", name) == name:
        del meta[TOOL_NAME]
    return meta


def named_meta(report: ToolCallReport, meta: JsonObject) -> JsonObject:
    """Add the tool's name to `_meta`, for clients that look for it there."""
    if not meta and report.name:
        return {TOOL_NAME: report.name}
    return meta if not report.name or TOOL_NAME in meta else {TOOL_NAME: report.name, **meta}


def patch_of(old: JsonObject, new: JsonObject) -> JsonObject:
    """Return the patch by top-level key that leads from one object to the other; null removes."""
    if not old:
        return dict(new)
    patch: JsonObject = {}
    for key, value in new.items():
        if key not in old or old[key] != value or not same(old[key], value):
            patch[key] = value
    for key in old:
        if key not in new:
            patch[key] = None
    return patch


def same(old: object, new: object) -> bool:
    """Compare by value. Nearly always the two are the same object, which is quick to see."""
    return old is new or (old == new and _same_types(old, new))


def _same_types(old: Any, new: Any) -> bool:
    """Return whether equal values have equal types: True, 1 and 1.0 are equal in Python but not in JSON."""
    if type(old) is not type(new):
        return False
    if isinstance(old, Struct):
        return all(_same_types(getattr(old, f), getattr(new, f)) for f in old.__struct_fields__)
    if is_object(old) and is_object(new):
        return all(_same_types(value, new[key]) for key, value in old.items())
    if isinstance(old, (list, tuple)):
        return all(map(_same_types, old, new))  # pyright: ignore[reportUnknownArgumentType]
    return True


LEAVE_OUT = ("rawOutput", "content", "rawInput", "locations", "_meta")
"""What a line goes without that would be too large, in this order."""

_encode = msgspec.json.Encoder().encode
_join = b"".join
_BRACE = ord("{")


TAIL = b"}}\n"
"""How the line of an update ends."""


class UpdateFrames:
    """Turns updates of one session into lines: `head`, the update, `TAIL`."""

    def __init__(self, session_id: str, *, budget: int = FRAME_BUDGET) -> None:
        session = _encode(check_text(session_id, "session id"))
        self.budget: int = budget
        self.head: bytes = (
            b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":'
            + session
            + b',"update":'
        )

    def line(self, update: Update) -> bytes:
        """Return the line for one update, or raise `FrameTooLarge`."""
        encoded = _encode(update)
        if encoded[0] != _BRACE:
            raise InvalidValue(
                f"expected an update, got {type(update).__name__}; where an encoder gives None, nothing "
                "has changed and nothing is to be sent"
            )
        line = _join((self.head, encoded, TAIL))
        if len(line) > self.budget:
            raise FrameTooLarge(len(line), self.budget)
        return line

    def fitting(self, update: Update) -> tuple[bytes, str | None]:
        """Return the line of as much of an update as fits, and what was wrong with the whole of it."""
        try:
            return self.line(update), None
        except Exception as exc:  # noqa: BLE001 - whatever it is, the call's status must be sent
            wrong = str(exc)
            raw = dict(as_dict(update)) if isinstance(exc, CallsheetError) else stub(update)
        for key in LEAVE_OUT:
            raw.pop(key, None)
            with suppress(Exception):
                return self.line(raw), wrong
        return self.line(stub(update)), wrong


def with_notes(meta: JsonObject, notes: JsonObject) -> JsonObject:
    """Return a `_meta` with more notes in it."""
    return {**meta, NOTES: {**(meta.get(NOTES) or EMPTY), **notes}}


def code_span(text: str) -> str:
    """Return text as code in Markdown, whatever backticks it has."""
    ticks = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"
