"""The fields of a report: their types, and how each is checked and copied.

A field arrives from a tool, from a decoder or from a stored history, and passes the same function
for each of them: the one that `SETTLE` has under its name. It returns a private copy or raises.
Reports and events settle exactly the fields that they receive, once; what has been settled is
never checked again.

Kinds (`ToolKind`, ACP's own, and `CustomKind`, those of ACP v2) and locations live here, too.
Statuses have a file of their own, since they have a table; content has one because it is large.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeAlias, TypeGuard, TypeVar, cast, final

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from callsheet.report.content import TextContent, ToolCallContent, to_content
from callsheet.report.errors import InvalidKind, InvalidLocation, InvalidReason, InvalidValue
from callsheet.report.json import (
    JsonObject,
    check_path,
    check_text,
    freeze,
    freeze_object,
    own_objects,
)
from callsheet.report.patterns import lazy
from callsheet.report.status import Reason, ToolCallStatus, to_reason, to_status


class ToolKind(StrEnum):
    """ACP's kinds. Editors choose an icon and a presentation by them."""

    READ = "read"
    EDIT = "edit"
    DELETE = "delete"
    MOVE = "move"
    SEARCH = "search"
    EXECUTE = "execute"
    THINK = "think"
    FETCH = "fetch"
    SWITCH_MODE = "switch_mode"
    OTHER = "other"


@final
class CustomKind(str):
    """A kind outside `ToolKind`. ACP v2 sends it as it is; ACP v1 shows it as `other`.

    Your own kinds start with an underscore. Kinds of a future ACP, met while decoding, don't.
    """

    __slots__ = ()


Kind: TypeAlias = ToolKind | CustomKind

UNASKED: frozenset[Kind] = frozenset(
    (ToolKind.READ, ToolKind.SEARCH, ToolKind.FETCH, ToolKind.THINK)
)
"""Kinds that clients let pass without asking, if their users want that."""

_KNOWN: dict[str, Kind] = {kind.value: kind for kind in ToolKind}
_CUSTOM = lazy(r"_[A-Za-z0-9][A-Za-z0-9_.:/-]{0,63}")


def to_kind(value: object) -> Kind:
    """Return the kind that `value` names, or raise `InvalidKind`."""
    if type(value) is ToolKind:
        return value
    if type(value) is CustomKind:
        check_text(value, "kind", InvalidKind)
        return value
    if isinstance(value, str):
        known = _KNOWN.get(value)
        if known is not None:
            return known
        if _CUSTOM.fullmatch(value):
            return CustomKind(value)
    raise InvalidKind(
        f"unknown kind {value!r}: use one of {', '.join(_KNOWN)}, "
        "or a custom kind that starts with an underscore (_deploy)"
    )


def foreign_kind(value: str) -> Kind:
    """Return the kind that another program sent. An unknown one is returned unchanged."""
    return _KNOWN.get(value) or CustomKind(value)


MAX_LINE = 2**32 - 1


class ToolCallLocation(Struct, frozen=True, gc=False):
    """A file, and a line in it if one is known. Editors follow along by it."""

    path: str
    line: int | None = None
    meta: JsonObject | None = None
    extra: JsonObject | None = None

    def __post_init__(self) -> None:
        path, line = self.path, self.line
        if type(path) is not str or path[:1] != "/" or not path.isascii() or "\0" in path:
            force_setattr(self, "path", check_path(path))
        if line is not None and (type(line) is not int or not 1 <= line <= MAX_LINE):
            raise InvalidLocation(f"line {line!r}: lines are whole numbers from 1 to {MAX_LINE}")
        if self.meta is not None or self.extra is not None:
            own_objects(self, "meta", "extra")


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
    """Return a location; a plain path becomes one, at `line` if there is one."""
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


def _sequence(items: Any, what: str) -> list[Any] | tuple[Any, ...]:
    if isinstance(items, (list, tuple)):
        return cast("list[Any]", items)
    raise InvalidValue(f"{what}: expected a list, got {type(items).__name__}")


SETTLE: dict[str, Callable[[Any], Any]] = {
    "name": lambda value: check_text(value, "name"),
    "title": lambda value: check_text(value, "title"),
    "kind": to_kind,
    "status": to_status,
    "content": to_items,
    "locations": to_locations,
    "raw_input": lambda value: freeze(value, "raw_input"),
    "raw_output": lambda value: freeze(value, "raw_output"),
}
