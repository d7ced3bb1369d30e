"""Which values may stand in a report: JSON, and text that can be written as UTF-8.

`freeze` is the gate that every foreign value passes once, on its way into an event. What comes out
is a private copy, so nobody can change a report from outside. This file only judges: it
doesn't try to make a value fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, TypeAlias, TypeGuard, cast

from msgspec import Struct
from msgspec.structs import force_setattr

from callsheet.report.errors import InvalidLocation, InvalidValue, ReportError
from callsheet.report.patterns import lazy

JsonValue: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]

MAX_DEPTH = 100
"""Deepest nesting. A message adds a few levels, and widespread parsers (serde) give up at 128."""

MAX_INT_BITS = 1024
"""Largest whole number: beyond this, a reader that uses doubles sees infinity."""

_INT_END = 1 << 64
_WINDOWS = lazy(r"[A-Za-z]:[\\/]|\\\\[^\\/]")


class _Empty(dict[str, Any]):
    """An empty object that stays empty, since all reports share it."""

    def _refuse(self, *_: object, **__: object) -> Any:
        raise TypeError("values in a report are replaced, never changed in place")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse  # pyright: ignore

    def __reduce__(self) -> str:
        return "EMPTY"


EMPTY: JsonObject = _Empty()
"""The shared empty object."""


def freeze(value: JsonValue, field: str) -> JsonValue:
    """Return a private copy of `value`, or raise `InvalidValue` naming the place that is not JSON."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is dict:  # nearly always flat, and of plain text and numbers
        for key, item in value.items():
            kind = type(item)  # pyright: ignore[reportUnknownVariableType]
            if kind is not str and kind is not bool and (kind is not int or abs(item) >= _INT_END):
                break
            if type(key) is not str or not key.isascii() or (kind is str and not item.isascii()):
                break
        else:
            return value.copy()
    try:
        return _copy(value, MAX_DEPTH)
    except _NotJson as exc:
        raise InvalidValue(f"{_cut(field + ''.join(reversed(exc.place)))}{exc}") from None


def freeze_object(value: object, field: str) -> JsonObject:
    """Like `freeze`, for values that must be a JSON object (`_meta`, annotations)."""
    if not isinstance(value, Mapping):
        raise InvalidValue(f"{field}: expected a JSON object (a dict), got {type(value).__name__}")
    return freeze(value, field) if value else EMPTY


def patched(old: JsonObject, patch: JsonObject) -> JsonObject:
    """Merge by top-level key; None removes a key."""
    merged = {**old, **patch}
    if None in patch.values():
        merged = {key: value for key, value in merged.items() if value is not None}
    return merged or EMPTY


def own_objects(struct: Struct, *fields: str) -> None:
    """Replace the JSON objects in these fields of a frozen struct by private copies."""
    for field in fields:
        value = getattr(struct, field)
        if value is not None:
            where = f"{type(struct).__name__}.{field}"
            force_setattr(struct, field, freeze_object(value, where) or None)


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Whether a JSON value is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[JsonValue]]:
    """Whether a JSON value is a list."""
    return isinstance(value, list)


def check_text(value: object, field: str, error: type[ReportError] = InvalidValue) -> str:
    """Return `value` back as a plain `str` if it can be written as UTF-8, else raise `error`."""
    if type(value) is str and value.isascii():
        return value
    if not isinstance(value, str):
        raise error(f"{_cut(field)}: expected text (a str), got {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise error(
            f"{_cut(field)}: lone surrogate {value[exc.start]!r} at index {exc.start}; "
            "text must be valid Unicode"
        ) from None
    return str.__str__(value)


def check_path(path: object, what: str = "location path") -> str:
    """Return an absolute path as text, POSIX or Windows, else raise `InvalidLocation`."""
    if hasattr(path, "__fspath__"):
        path = path.__fspath__()  # pyright: ignore
    text = check_text(path, what, InvalidLocation)  # pyright: ignore[reportUnknownArgumentType]
    if not (text.startswith("/") or _WINDOWS.match(text)):
        raise InvalidLocation(
            f"{what} {text!r} is not absolute; give the whole path (/home/me/a.py)"
        )
    if "\0" in text:
        raise InvalidLocation(f"{what} {text!r} has a NUL character")
    return text


class _NotJson(Exception):
    """Something in a value is not JSON. `place` is the way to it, the last step first."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.place: list[str] = []


def _copy(value: JsonValue, depth: int) -> JsonValue:
    """Copy a value. This is the hot path: a place is put together only while an error passes."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is str:
        return value if value.isascii() else _copy_text(value)
    if value is None or kind is bool or (kind is int and -_INT_END < value < _INT_END):
        return value
    if kind is not dict and kind is not list:
        return _copy_other(value, depth)
    if depth == 0:
        raise _NotJson(f": nested deeper than {MAX_DEPTH} levels, or a cycle")
    if kind is list:
        items: list[JsonValue] = []
        for index, item in enumerate(value):
            try:
                items.append(_copy(item, depth - 1))
            except _NotJson as exc:
                exc.place.append(f"[{index}]")
                raise
        return items
    copy: JsonObject = {}
    for key, item in value.items():
        name = key if type(key) is str and key.isascii() else _copy_key(key)
        try:
            copy[name] = _copy(item, depth - 1)
        except _NotJson as exc:
            exc.place.append(f".{name}")
            raise
    return copy


def _copy_text(text: str) -> str:
    try:
        return check_text(text, "")
    except InvalidValue as exc:
        raise _NotJson(str(exc)) from None


def _copy_key(key: object) -> str:
    if not isinstance(key, str):
        raise _NotJson(f": the key {key!r} is not text")
    return _copy_text(key)


def _copy_other(value: object, depth: int) -> JsonValue:
    """Copy floats, tuples, and subclasses of JSON's own types (`StrEnum`, `IntEnum`, `defaultdict`, …)."""
    if isinstance(value, str):
        return _copy_text(value)
    if isinstance(value, float):
        if isfinite(value):
            return float(value)
        raise _NotJson(f": {value!r} is not a JSON number")
    if isinstance(value, int):
        if (bits := value.bit_length()) <= MAX_INT_BITS:
            return int(value)
        raise _NotJson(f": a whole number of {bits} bits; {MAX_INT_BITS} fit JSON readers")
    if isinstance(value, Mapping):
        return _copy(dict(cast("Mapping[Any, Any]", value)), depth)
    if isinstance(value, (list, tuple)):
        return _copy(list(cast("list[Any]", value)), depth)
    raise _NotJson(
        f": {type(value).__name__} is not JSON; "
        "use text, numbers, true/false, None, lists and dicts with str keys"
    )


def _cut(field: str) -> str:
    """Keep the place readable when it lies a hundred levels down."""
    return field if len(field) <= 120 else f"{field[:60]}…{field[-50:]}"


_FEWEST_BYTES = 8


def text_of_bytes(items: Sequence[JsonValue]) -> str | None:
    """Return the text that a list of byte values spells, as some agents send output; else None."""
    if len(items) < _FEWEST_BYTES or type(items[0]) is not int:
        return None
    try:
        return bytes(items).decode()  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        return None
