"""Which values may stand in a report: JSON, and text that can be written as UTF-8.

`freeze` is the gate that every foreign value passes once, on its way into an event. What comes out
is a private copy, so nobody can change a report from outside. This file only judges: it
doesn't try to make a value fit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, TypeAlias, TypeGuard, cast

from msgspec import Struct
from msgspec.structs import force_setattr

from callsheet.report.errors import InvalidLocation, InvalidValue, ReportError

JsonValue: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]

MAX_DEPTH = 100
"""Deepest nesting. A message adds a few levels, and widespread parsers (serde) give up at 128."""

MAX_INT_BITS = 1024
"""Largest whole number: beyond this, a reader that uses doubles sees infinity."""

_INT_END = 1 << 64
_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\[^\\/]")


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
    except (_NotJson, UnicodeEncodeError):
        _explain(value, field, MAX_DEPTH)
        raise


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
    """Somewhere in a value is something that is not JSON; `_explain` will find it."""


def _copy(value: JsonValue, depth: int) -> JsonValue:
    """Copy a value. This is the hot path: it knows nothing of places and messages."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is dict:
        if depth == 0:
            raise _NotJson
        return {_copy_key(key): _copy(item, depth - 1) for key, item in value.items()}
    if kind is list or kind is tuple:
        if depth == 0:
            raise _NotJson
        return [_copy(item, depth - 1) for item in value]
    if kind is str:
        if not value.isascii():
            value.encode()
        return value
    if value is None or kind is bool or (kind is int and -_INT_END < value < _INT_END):
        return value
    return _copy_subclass(value, depth)


def _copy_key(key: object) -> str:
    if type(key) is str and key.isascii():
        return key
    if not isinstance(key, str):
        raise _NotJson
    key.encode()
    return str.__str__(key)


def _copy_subclass(value: object, depth: int) -> JsonValue:
    """Copy floats, and subclasses of JSON's own types (`StrEnum`, `IntEnum`, `defaultdict`, …)."""
    if isinstance(value, float) and isfinite(value):
        return float(value)
    if isinstance(value, str):
        return _copy(str.__str__(value), depth)
    if isinstance(value, int) and value.bit_length() <= MAX_INT_BITS:
        return int(value)
    if isinstance(value, Mapping):
        return _copy(dict(cast("Mapping[Any, Any]", value)), depth)
    if isinstance(value, (list, tuple)):
        return _copy(list(cast("list[Any]", value)), depth)
    raise _NotJson


def _explain(value: JsonValue, field: str, depth: int) -> None:
    """Find what `_copy` refused, and raise `InvalidValue` with its place. Slow, and rare."""
    if isinstance(value, str):
        check_text(value, field)
    elif isinstance(value, (Mapping, list, tuple)):
        if depth == 0:
            raise InvalidValue(f"{_cut(field)}: nested deeper than {MAX_DEPTH} levels, or a cycle")
        if isinstance(value, Mapping):
            for key, item in cast("Mapping[Any, Any]", value).items():
                if not isinstance(key, str):
                    raise InvalidValue(f"{_cut(field)}: the key {key!r} is not text")
                check_text(key, f"{_cut(field)}, a key")
                _explain(item, f"{field}.{key}", depth - 1)
        else:
            for index, item in enumerate(cast("list[Any]", value)):
                _explain(item, f"{field}[{index}]", depth - 1)
    else:
        _explain_scalar(value, field)


def _explain_scalar(value: object, field: str) -> None:
    if isinstance(value, float) and not isfinite(value):
        raise InvalidValue(f"{_cut(field)}: {value!r} is not a JSON number")
    if isinstance(value, int) and value.bit_length() > MAX_INT_BITS:
        bits = value.bit_length()
        raise InvalidValue(
            f"{_cut(field)}: a whole number of {bits} bits; {MAX_INT_BITS} fit JSON readers"
        )
    if value is not None and not isinstance(value, (int, float)):
        raise InvalidValue(
            f"{_cut(field)}: {type(value).__name__} is not JSON; "
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
