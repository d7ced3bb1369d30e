"""Paths inside arguments: found by their hints, also in lists, dicts and structs, and put where they lead."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from itertools import repeat
from pathlib import Path
from typing import Annotated, Any, TypeAlias, cast, get_args, get_origin, get_type_hints

import msgspec

from callsheet.report.json import is_list, is_object

from .workspace import ENTRY

Place: TypeAlias = Callable[[str], Path]
"""Gives the real path of a text."""


def path_in(hint: Any, seen: frozenset[Any] = frozenset()) -> bool | None:
    """Return whether a hint has a `Path` somewhere: None if not, else whether the entry itself is meant."""
    entry = False
    while get_origin(hint) is Annotated:
        entry = entry or ENTRY in get_args(hint)
        hint = get_args(hint)[0]
    if hint is Path:
        return entry
    inner = list(get_args(hint))
    if isinstance(hint, type) and hint not in seen and _fields(hint):
        seen |= {hint}
        inner += _hints(hint)
    found = [one for one in (path_in(one, seen) for one in inner) if one is not None]
    return entry or any(found) if found else None


def placed(value: Any, given: Any, place: Place) -> Any:
    """Return a value with the real path for each path in it. `given` is what it was made from, as text."""
    if isinstance(value, Path):
        return place(given if isinstance(given, str) else str(value))
    if isinstance(value, (list, tuple)):
        items = cast("list[Any] | tuple[Any, ...]", value)
        texts = given if is_list(given) else repeat(None)
        found = [placed(item, text, place) for item, text in zip(items, texts, strict=False)]
        return found if isinstance(value, list) else tuple(found)
    if isinstance(value, (set, frozenset)):
        members = cast("set[Any]", value)
        return type(members)(placed(item, None, place) for item in members)
    texts = given if is_object(given) else {}
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return {key: placed(item, texts.get(key), place) for key, item in pairs}
    names = _fields(cast("type[Any]", type(value)))
    if not names:
        return value
    changed: dict[str, Any] = {}
    for name in names:
        old = getattr(value, name)
        new = placed(old, texts.get(name), place)
        if new is not old and new != old:
            changed[name] = new
    return _replaced(value, changed) if changed else value


def _fields(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of the fields of a struct, a dataclass, a pydantic model or a TypedDict."""
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind) if field.init)
    own = getattr(kind, "model_fields", None) or getattr(kind, "__required_keys__", None)
    return tuple(own or getattr(kind, "__optional_keys__", ()))


def _hints(kind: type[Any]) -> list[Any]:
    try:
        return list(get_type_hints(kind, include_extras=True).values())
    except (NameError, TypeError):
        return []


def _replaced(value: Any, changed: dict[str, Any]) -> Any:
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **changed)
    if dataclasses.is_dataclass(value):
        return dataclasses.replace(cast("Any", value), **changed)
    return value.model_copy(update=changed)
