"""How the fields of a report are judged and copied, wherever they come from.

One function for each field, in `SETTLE`. Reports and events settle exactly the fields that they are
given, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar, cast

from msgspec.structs import replace

from .content import TextContent, ToolCallContent, to_content
from .errors import InvalidLocation, InvalidReason, InvalidValue
from .kinds import to_kind
from .locations import ToolCallLocation
from .status import Reason, ToolCallStatus, to_reason, to_status
from .values import JsonObject, JsonValue, check_text, freeze, freeze_object

_T = TypeVar("_T")

NOTES = "callsheet"
"""The key of `_meta` that is ours. What stands under it are the call's notes."""

WIRE_NOTES = ("kind", "status", "cleared")
"""Notes that ACP v1's encoder adds and its decoder takes out; nobody else may use their names."""


def settle(fields: dict[str, Any]) -> dict[str, Any]:
    """Judge fields, and replace their values in this dict by private copies."""
    for name, value in fields.items():
        judge = SETTLE.get(name)
        if judge is None:
            names = ", ".join(SETTLE)
            raise InvalidValue(f"a report has no field {name!r} to set; it has {names}")
        fields[name] = judge(value)
    return fields


def to_location(place: object, line: int | None = None) -> ToolCallLocation:
    """Return a location; a plain path becomes one, at `line` if that is given."""
    if isinstance(place, ToolCallLocation):
        return place if line is None else replace(place, line=line)
    if isinstance(place, str) or hasattr(place, "__fspath__"):
        return ToolCallLocation(place, line)  # pyright: ignore[reportArgumentType]
    raise InvalidLocation(
        f"location: expected ToolCallLocation or an absolute path, got {type(place).__name__}"
    )


def settle_meta(meta: object) -> JsonObject:
    """Return a private copy of `_meta`, or raise. Our own key in it holds an object; an empty one is none."""
    settled = freeze_object(meta, "_meta")
    notes = settled.get(NOTES)
    if notes is not None and not isinstance(notes, dict):
        raise InvalidValue(f"_meta.{NOTES}: expected a JSON object, got {type(notes).__name__}")
    return {**settled, NOTES: None} if notes == {} else settled


def settle_notes(notes: object) -> JsonObject:
    """Return a private copy of the notes, or raise. The reason in them must be one of `Reason`."""
    settled = freeze_object(notes, f"_meta.{NOTES}")
    for key in WIRE_NOTES:
        if key in settled:
            raise InvalidValue(f"_meta.{NOTES}.{key}: is said by the report's own fields")
    if settled.get("reason") is not None:
        to_reason(settled["reason"])
    return settled


def settle_extra(extra: object) -> JsonObject:
    """Return a private copy of the fields that this version doesn't know, or raise."""
    return freeze_object(extra, "extra")


def check_reason(reason: object, status: ToolCallStatus) -> None:
    """Raise `InvalidReason` unless a reason fits the status.

    Calls that failed or were cancelled have a reason, and exactly the cancelled ones have this one.
    """
    if status is ToolCallStatus.FAILED and reason != Reason.CANCELLED.value:
        return
    if status is ToolCallStatus.CANCELLED and reason == Reason.CANCELLED.value:
        return
    raise InvalidReason(
        f"status {status.value} with reason {reason}: only a call that failed or was cancelled has a "
        "reason, and cancelled is the reason of all cancelled calls and no others"
    )


def all_of(values: Any, kind: type[_T]) -> TypeGuard[tuple[_T, ...]]:
    """Whether all values are of just this type, which is quick to see."""
    for value in values:  # noqa: SIM110 - a generator takes three times as long
        if type(value) is not kind:
            return False
    return True


def to_items(items: Any) -> tuple[ToolCallContent, ...]:
    """Return a tuple of content items, or raise. Plain text becomes an item."""
    if type(items) is tuple and all_of(items, TextContent):
        return items
    if isinstance(items, (str, ToolCallContent)):
        return (to_content(items),)
    return tuple([to_content(item) for item in _sequence(items, "content")])


def to_locations(places: Any) -> tuple[ToolCallLocation, ...]:
    """Return a tuple of locations, or raise. Plain paths become locations."""
    if type(places) is tuple and all_of(places, ToolCallLocation):
        return places
    return tuple([to_location(place) for place in _sequence(places, "locations")])


def _name(value: object) -> str:
    return check_text(value, "name")


def _title(value: object) -> str:
    return check_text(value, "title")


def _raw_input(value: JsonValue) -> JsonValue:
    return freeze(value, "raw_input")


def _raw_output(value: JsonValue) -> JsonValue:
    return freeze(value, "raw_output")


def _sequence(items: Any, what: str) -> list[Any] | tuple[Any, ...]:
    if isinstance(items, (list, tuple)):
        return cast("list[Any]", items)
    raise InvalidValue(f"{what}: expected a list, got {type(items).__name__}")


SETTLE: dict[str, Callable[[Any], Any]] = {
    "name": _name,
    "title": _title,
    "kind": to_kind,
    "status": to_status,
    "content": to_items,
    "locations": to_locations,
    "raw_input": _raw_input,
    "raw_output": _raw_output,
}
