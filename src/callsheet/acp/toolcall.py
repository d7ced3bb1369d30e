"""What the tool calls of ACP v1 and v2 have in common: their keys, and how fields are read.

The two differ in what null means (v1: nothing, v2: cleared), in statuses, in diffs and in how calls
are opened. That is in `v1` and `v2`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from msgspec import Struct

from callsheet.acp.blocks import as_list, as_object, rest
from callsheet.acp.jsonrpc import InvalidParams
from callsheet.report.content import TerminalContent, ToolCallContent
from callsheet.report.errors import InvalidId, ReportError
from callsheet.report.fields import ToolCallLocation, ToolKind, foreign_kind
from callsheet.report.json import EMPTY, JsonObject, JsonValue, is_object
from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus

TOOL_NAME = "tool_name"
"""The key of `_meta` under which older clients look for the tool's name."""

KEYS = {
    "toolCallId", "name", "title", "kind", "status", "content", "locations", "rawInput", "rawOutput",
    "_meta", "sessionUpdate",
}  # fmt: skip
"""The keys that are fields of a report. All others are kept in `extra`."""

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


def different_calls(report: ToolCallReport, seen: ToolCallReport) -> InvalidId:
    """Return the error for one call that is compared with another."""
    return InvalidId(
        f"call {report.tool_call_id} can't be told by its difference from call {seen.tool_call_id}; "
        "give two states of one call, the new one first"
    )


def encode_location(location: ToolCallLocation) -> JsonObject:
    """Return a location as both versions write it."""
    line = location.line
    out: JsonObject = (
        {"path": location.path} if line is None else {"path": location.path, "line": line}
    )
    if location.meta is not None:
        out["_meta"] = location.meta
    return out if location.extra is None else {**location.extra, **out}


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
    out: JsonObject = {"type": "terminal", "terminalId": item.terminal_id}
    if item.meta is not None:
        out["_meta"] = item.meta
    return out if item.extra is None else {**item.extra, **out}


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
    """Read `_meta`. The tool's name in it is a field of ours, and not kept twice."""
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
        if key not in old or (old[key] is not value and not same(old[key], value)):
            patch[key] = value
    for key in old:
        if key not in new:
            patch[key] = None
    return patch


def same(old: object, new: object) -> bool:
    """Compare by value. Nearly always the two are the same object, which is quick to see."""
    return old is new or (old == new and _same_types(old, new))


def _same_types(old: Any, new: Any) -> bool:
    """Tell True from 1 and 1 from 1.0, which are equal in Python and different in JSON."""
    if type(old) is not type(new):
        return False
    if isinstance(old, Struct):
        return all(_same_types(getattr(old, f), getattr(new, f)) for f in old.__struct_fields__)
    if is_object(old) and is_object(new):
        return all(_same_types(value, new[key]) for key, value in old.items())
    if isinstance(old, (list, tuple)):
        return all(map(_same_types, old, new))  # pyright: ignore[reportUnknownArgumentType]
    return True
