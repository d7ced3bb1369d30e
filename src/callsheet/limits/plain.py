"""Python objects, one step plainer: what `jsonsafe` makes of a value that isn't JSON's own.

Each function in `_STEPS` knows one kind of object, and gives something closer to JSON, or `PASS`.
What it gives may hold anything: `jsonsafe` goes on from there. The functions run code of others
(`__str__`, `model_dump`, `__fspath__`, …), which may raise; `step` holds that.

Nothing is used up: an iterator is named, never asked for its items. Fields that their author keeps
out of a `repr` are left out here too.
"""

# Anything at all passes here, of types that nobody can know.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import dataclasses
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set, ValuesView
from datetime import date, datetime, time, timedelta
from enum import Enum
from itertools import islice
from types import SimpleNamespace
from typing import Any

import msgspec
from msgspec import UNSET

MAX_ITEMS = 500_000
"""Members of lists and objects, at any depth, that a copy has at most. It bounds the time."""

PASS: Any = object()
"""What a step gives for a value that it doesn't know."""

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_ORDERED = ({str}, {int}, {float}, {int, float})


def step(value: Any, limit: int) -> Any:
    """Return something plainer than `value`, with not many more than `limit` bytes or items. Never raises."""
    for known in _STEPS:
        try:
            found = known(value, limit)
        except Exception:  # noqa: BLE001 - code of others; the next step may do
            continue
        if found is not PASS:
            return found
    return name_of(type(value))


def name_of(kind: type) -> str:
    """Return a type's name in angle brackets, for a value that can say nothing of itself."""
    try:
        return f"<{kind.__name__}>"
    except Exception:  # noqa: BLE001 - a metaclass may do anything
        return "<object>"


def _most(limit: int) -> int:
    return min(limit, MAX_ITEMS) + 1


def _builtin(value: Any, limit: int) -> Any:
    """Subclasses of JSON's own types lose what they add; a named tuple keeps its names."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, dict):
        return dict(islice(dict[Any, Any].items(value), _most(limit)))
    if isinstance(value, list):
        return list(islice(list[Any].__iter__(value), _most(limit)))
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        items = islice(tuple[Any].__iter__(value), _most(limit))
        return list(items) if names is None else dict(zip(names, items, strict=True))
    return PASS


def _enum(value: Any, _: int) -> Any:
    return value.value if isinstance(value, Enum) else PASS


def _bytes(value: Any, limit: int) -> Any:
    """Bytes that are text become it; others become a `data:` URL, which loses nothing."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        return PASS
    data = value.tobytes() if isinstance(value, memoryview) else bytes(value)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" not in text:
        return text
    if len(data) > limit:
        return f"<{len(data):,} bytes>"
    return f"data:application/octet-stream;base64,{b64encode(data).decode()}"


def _moment(value: Any, _: int) -> Any:
    if isinstance(value, (datetime, date, time, timedelta)):
        return msgspec.to_builtins(value)
    return PASS


def _path(value: Any, _: int) -> Any:
    return value.__fspath__() if hasattr(type(value), "__fspath__") else PASS


def _struct(value: Any, _: int) -> Any:
    """Structs of msgspec, under the names that they are written with."""
    if not isinstance(value, msgspec.Struct):
        return PASS
    names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
    found = {key: getattr(value, name, UNSET) for key, name in names}
    return {key: item for key, item in found.items() if item is not UNSET}


def _model(value: Any, _: int) -> Any:
    """Models of pydantic, which know themselves what of them may be shown."""
    if not callable(getattr(type(value), "model_dump", None)):
        return PASS
    try:
        return value.model_dump(mode="json", warnings=False)
    except Exception:  # noqa: BLE001 - a cycle, or a field that is not JSON
        return dict(vars(value))


def _record(value: Any, _: int) -> Any:
    """Classes of dataclasses and attrs, field by field."""
    kind = type(value)
    if hasattr(kind, "__dataclass_fields__"):
        fields: Iterable[Any] = dataclasses.fields(value)
    elif hasattr(kind, "__attrs_attrs__"):
        fields = kind.__attrs_attrs__
    else:
        return PASS
    found = {field.name: getattr(value, field.name, PASS) for field in fields if field.repr}
    return {name: item for name, item in found.items() if item is not PASS}


def _namespace(value: Any, _: int) -> Any:
    return dict(vars(value)) if isinstance(value, SimpleNamespace) else PASS


def _array(value: Any, limit: int) -> Any:
    """Arrays and numbers of numpy and the like, unless they are huge."""
    if not callable(getattr(type(value), "tolist", None)) or getattr(value, "nbytes", 0) > limit:
        return PASS
    return value.tolist()


def _iterator(value: Any, _: int) -> Any:
    if not isinstance(value, Iterator):
        return PASS
    name = getattr(value, "__name__", None)
    kind = name_of(type(value))
    return f"{kind[:-1]} {name}>" if isinstance(name, str) else kind


def _collection(value: Any, limit: int) -> Any:
    if isinstance(value, Mapping):
        return {key: value[key] for key in islice(value, _most(limit))}
    if isinstance(value, (set, frozenset)):
        return _in_order(list(islice(value, _most(limit))))
    if isinstance(value, (Sequence, Set, ValuesView)):
        return list(islice(value, _most(limit)))
    return PASS


def _in_order(items: list[Any]) -> list[Any]:
    """Sets come in another order in every process; reports don't."""
    if {type(item) for item in items} in _ORDERED:
        return sorted(items)
    return sorted(items, key=lambda item: (type(item).__name__, repr(item)))


def _class(value: Any, _: int) -> Any:
    return f"{value.__module__}.{value.__qualname__}" if isinstance(value, type) else PASS


def _error(value: Any, _: int) -> Any:
    if not isinstance(value, BaseException):
        return PASS
    said = str(value)
    return f"{type(value).__name__}: {said}" if said else type(value).__name__


def _str(value: Any, _: int) -> Any:
    own = type(value).__str__ is not object.__str__
    return _ADDRESS.sub("", str(value)) if own else PASS


def _repr(value: Any, _: int) -> Any:
    own = type(value).__repr__ is not object.__repr__
    return _ADDRESS.sub("", repr(value)) if own else PASS


_STEPS: tuple[Callable[[Any, int], Any], ...] = (
    _builtin,
    _enum,
    _bytes,
    _moment,
    _path,
    _struct,
    _model,
    _record,
    _namespace,
    _array,
    _iterator,
    _collection,
    _class,
    _error,
    _str,
    _repr,
)
