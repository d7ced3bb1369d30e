"""Any Python value as a JSON value that a report accepts. Never raises.

Most values are clean already, and come back as they are: the same object. Others are copied, and in
the copy everything is one of JSON's own types: objects become dicts or text, keys become text and
stay apart, what is no number for JSON becomes text, and lone surrogates become U+FFFD.

Depth and size are bounded, so that neither a cycle nor a list of lists of lists of the same thing
can do harm. These are the limits of what can be handled; those of what is shown are in `limits`.

What isn't of JSON's own types is made plainer step by step. Each function in `_STEPS` knows one
kind of object, and returns something closer to JSON, or `PASS`; what it returns may hold anything,
and is copied in turn. These functions run foreign code (`__str__`, `model_dump`, `__fspath__`, …),
which may raise; `step` catches that. Nothing is consumed: an iterator is named, and never iterated.
Fields that their author leaves out of a `repr` are left out here too.
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
from math import isfinite
from types import SimpleNamespace
from typing import Any

import msgspec
from msgspec import UNSET

from callsheet.limits.text import ELLIPSIS, SMALLEST, WIDEST, Phrases, say, size_of
from callsheet.limits.values import bound_value, free_key
from callsheet.report.json import MAX_DEPTH, MAX_INT_BITS, JsonObject, JsonValue

MAX_BYTES = 16 * 1024 * 1024
"""Bytes, as JSON, of a value at most, by default. It is also the most that a spill holds."""

_encode = msgspec.json.Encoder().encode
_INT_END = 1 << 64
_LONGEST_SCALAR = 24
"""Bytes that a number (of 64 bits), true, false or null takes at most, with its comma."""

_MOST_STEPS = 6
_KEY_DEPTH = 4
_OWN = frozenset({dict, list, str, int, float, bool, type(None)})


def jsonsafe(
    value: Any,
    *,
    max_depth: int = MAX_DEPTH,
    max_bytes: int = MAX_BYTES,
    phrases: Phrases = None,
) -> JsonValue:
    """Return a JSON value for any value, nested and sized within limits. Clean ones come back as they are."""
    if type(value) is dict and max_depth > 0 and _is_flat_and_small(value, max_bytes):
        return value
    return _jsonsafe(value, min(max_depth, MAX_DEPTH), max(max_bytes, SMALLEST), phrases)


def _is_flat_and_small(fields: dict[Any, Any], room: int) -> bool:
    """See quickly what is nearly always so: a few fields of plain text and numbers."""
    try:
        for key, item in fields.items():
            kind = type(item)
            if type(key) is not str or not key.isascii():
                return False
            if kind is str and item.isascii():
                room -= (len(key) + len(item) + 2) * WIDEST
            elif kind is bool or item is None or (kind is int and -_INT_END < item < _INT_END):
                room -= len(key) * WIDEST + _LONGEST_SCALAR + 4
            else:
                return False
    except RuntimeError:  # another thread changes it
        return False
    return room > SMALLEST


def fix_text(text: str) -> str:
    """Return text that can be written as UTF-8: pairs of surrogates become one, lone ones U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _jsonsafe(value: Any, max_depth: int, max_bytes: int, phrases: Phrases) -> JsonValue:
    try:
        if _is_clean(value, max_depth, max_bytes):
            return value
    except RuntimeError:  # no stack left for the encoder; or another thread changes the value
        pass
    for depth in (max_depth, max_depth // 4, 1):  # near the end of the stack, less must do
        try:
            safe = _Copy(depth, max_bytes, phrases).of(value, depth)
            return bound_value(safe, max_bytes, phrases=phrases).value
        except Exception:  # noqa: BLE001 - whatever it is, a report goes on
            continue
    return ELLIPSIS if max_bytes >= size_of(ELLIPSIS) else ""


def _is_clean(value: Any, max_depth: int, max_bytes: int) -> bool:
    """Return whether a value is plain JSON within the limits, level by level: a cycle is not."""
    level, least = [value], 0
    for left in range(max_depth, -1, -1):
        deeper: list[Any] = []
        length = _clean_length(level, deeper, left)
        least += len(level) + length
        if length < 0 or least + len(deeper) > max_bytes:
            return False
        if not deeper:
            return least * _LONGEST_SCALAR <= max_bytes or size_of(value) <= max_bytes
        level = deeper
    return False


def _clean_length(level: list[Any], deeper: list[Any], left: int) -> int:
    """Return the length of a level's texts, -1 if it isn't clean. What is below goes into `deeper`."""
    length = 0
    for item in level:
        kind = type(item)
        if kind is str:
            if not item.isascii() and not _is_unicode(item):
                return -1
            length += len(item)
        elif kind is dict and left:
            for key in item:
                if type(key) is not str or not (key.isascii() or _is_unicode(key)):
                    return -1
                length += len(key)
            deeper.extend(item.values())
        elif kind is list and left:
            deeper.extend(item)
        elif not _is_clean_scalar(item):
            return -1
    return length


def _is_clean_scalar(item: Any) -> bool:
    kind = type(item)
    if kind is int:
        return -_INT_END < item < _INT_END or item.bit_length() <= MAX_INT_BITS
    return kind is bool or item is None or (kind is float and isfinite(item))


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Copy:
    """One walk through a value. `room` and `items` are what is left; then it stops."""

    def __init__(self, depth: int, max_bytes: int, phrases: Phrases) -> None:
        self.max_depth: int = depth
        self.room: int = max_bytes
        self.items: int = MAX_ITEMS
        self.phrases: Phrases = phrases
        self.open: set[int] = set()

    def of(self, value: Any, depth: int) -> JsonValue:
        """Return the copy of a value that may hold `depth` levels of lists and objects."""
        if id(value) in self.open:
            return say(self.phrases, "cycle")
        opened: list[Any] = []  # holds references, so that no id() is reused while it is compared
        try:
            for _ in range(_MOST_STEPS):
                if type(value) in _OWN:
                    return self._own(value, depth)
                opened.append(value)
                self.open.add(id(value))
                value = step(value, max(self.room, 0))
                if id(value) in self.open:
                    return say(self.phrases, "cycle")
            return self._own(name_of(type(value)), depth)
        finally:
            self.open.difference_update(map(id, opened))

    def _own(self, value: Any, depth: int) -> JsonValue:
        """Copy a value of one of JSON's own types."""
        kind = type(value)
        self.room -= 1
        self.items -= 1
        if kind is str:
            self.room -= len(value)
            return fix_text(value)
        if kind is dict or kind is list:
            if depth <= 0:
                return say(self.phrases, "too_deep")
            self.open.add(id(value))
            try:
                return self._object(value, depth) if kind is dict else self._list(value, depth)
            finally:
                self.open.discard(id(value))
        if kind is int and not -_INT_END < value < _INT_END:
            return self._large(value)
        if kind is float and not isfinite(value):
            return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        return value

    def _large(self, value: int) -> JsonValue:
        """Return a whole number that is too long for many readers as text."""
        bits = value.bit_length()
        if bits <= MAX_INT_BITS:
            return value
        if bits > 4 * max(self.room, 0):
            return f"<int of {bits:,} bits>"
        try:
            text = str(value)
        except ValueError:  # Python refuses to write very long ones as decimals
            text = hex(value)
        self.room -= len(text)
        return text

    def _list(self, items: list[Any], depth: int) -> list[JsonValue]:
        out: list[JsonValue] = []
        for item in items:
            if self.room < 0 or self.items < 0:
                out.append(say(self.phrases, "items_cut", count=max(len(items) - len(out), 1)))
                break
            out.append(self.of(item, depth - 1))
        return out

    def _object(self, fields: dict[Any, Any], depth: int) -> JsonObject:
        out: JsonObject = {}
        taken: dict[str, int] = {}
        for key, item in list(fields.items()):
            if self.room < 0 or self.items < 0:
                left = say(self.phrases, "keys_cut", count=len(fields) - len(out))
                out[free_key(out)] = left
                break
            name = key if type(key) is str and key.isascii() else self._key(key)
            self.room -= len(name)
            if name in out:
                name = _apart(name, out, taken)
            out[name] = self.of(item, depth - 1)
        return out

    def _key(self, key: Any) -> str:
        plain = self.of(key, _KEY_DEPTH)
        if type(plain) is str:
            return plain
        return _encode(plain).decode()


def _apart(name: str, out: JsonObject, taken: dict[str, int]) -> str:
    """Return another name for a key that is there already, so that neither value is lost."""
    number = taken.get(name, 1) + 1
    while f"{name} ({number})" in out:
        number += 1
    taken[name] = number
    return f"{name} ({number})"


MAX_ITEMS = 500_000
"""Members of lists and objects, at any depth, that a copy has at most. It bounds the time."""

PASS: Any = object()
"""What a step returns for a value that it doesn't know."""

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
    """Return a type's name in angle brackets, for a value that has no better text."""
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
