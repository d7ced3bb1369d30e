"""Any Python value as a JSON value that a report accepts. Never raises.

Most values are clean already, and come back as they are: the same object. Others are copied as far
as they change, and in the copy everything is one of JSON's own types: objects become dicts or text,
keys become text and stay apart, what is no number for JSON becomes text, and lone surrogates become
U+FFFD.

Depth and size are bounded, so that neither a cycle nor a list of lists of lists of the same thing
can do harm. These are the limits of what can be handled; those of what is shown are in `limits`.

What isn't of JSON's own types is made plainer step by step. Each row of `_STEPS` knows one kind of
object, and returns something closer to JSON, which may hold anything, and is copied in turn. The steps
run foreign code (`__str__`, `model_dump`, `__fspath__`, …), which may raise; then the next step that
knows the object is tried. Nothing is consumed: an iterator is named, and never iterated. Fields that
their author leaves out of a `repr` are left out here too.
"""

# Anything at all passes here, of types that nobody can know.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import dataclasses
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

from callsheet.limits.text import ELLIPSIS, SMALLEST, Phrases, localized, size_of
from callsheet.limits.values import bound_value, free_key
from callsheet.report.json import MAX_DEPTH, MAX_INT_BITS, JsonObject, JsonValue
from callsheet.report.patterns import lazy

MAX_BYTES = 16 * 1024 * 1024
"""Bytes, as JSON, of a value at most, by default. It is also the most that a spill holds."""

MAX_ITEMS = 1_000_000
"""Members of lists and objects, at any depth, that a value has at most. It bounds the time."""

_INT_END = 1 << 64
_WIDEST_UNIT = 32
"""Bytes, as JSON, that one unit of a copy's `room` takes at most: a character, or a number with a comma."""

_MOST_STEPS = 6
_KEY_DEPTH = 4


def jsonsafe(
    value: Any,
    *,
    max_depth: int = MAX_DEPTH,
    max_bytes: int = MAX_BYTES,
    phrases: Phrases = None,
) -> JsonValue:
    """Return a JSON value for any value, nested and sized within limits. Clean ones come back as they are."""
    deepest, limit = min(max_depth, MAX_DEPTH), max(max_bytes, SMALLEST)
    for depth in (deepest, deepest // 4, 1):  # near the end of the stack, less must do
        try:
            copy = _Copy(limit, phrases)
            safe = copy.of(value, depth)
            if (limit - copy.room) * _WIDEST_UNIT < limit:  # nearly all need not be measured
                return safe
            return bound_value(safe, limit, phrases=phrases).value
        except Exception:  # noqa: BLE001 - whatever it is, a report goes on
            continue
    return ELLIPSIS if limit >= size_of(ELLIPSIS) else ""


def fix_text(text: str) -> str:
    """Return text that can be written as UTF-8: pairs of surrogates become one, lone ones U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class _Copy:
    """One walk through a value. `room` and `items` are what is left; then it stops."""

    def __init__(self, max_bytes: int, phrases: Phrases) -> None:
        self.room: int = max_bytes
        self.items: int = MAX_ITEMS
        self.phrases: Phrases = phrases
        self.open: set[int] = set()  # the ids of what is being copied: to meet one again is a cycle

    def of(self, value: Any, depth: int, steps: int = _MOST_STEPS) -> JsonValue:
        """Return the copy of a value that may hold `depth` levels; the value itself if it is clean."""
        kind = type(value)
        self.room -= 1
        self.items -= 1
        if kind is str:
            self.room -= len(value)
            return fix_text(value)
        if kind is bool or value is None:
            return value
        if kind is int:
            return value if -_INT_END < value < _INT_END else self._large(value)
        if kind is float:
            return value if isfinite(value) else _NOT_FINITE[str(value)]
        if id(value) in self.open:
            return localized(self.phrases, "cycle")
        self.open.add(id(value))
        try:
            if kind is dict or kind is list:
                if depth <= 0:
                    return localized(self.phrases, "too_deep")
                return self._object(value, depth) if kind is dict else self._list(value, depth)
            plainer = step(value, max(self.room, 0)) if steps else name_of(kind)
            self.room += 1
            self.items += 1  # it is the same member still
            return self.of(plainer, depth, steps - 1)
        finally:
            self.open.discard(id(value))

    def _large(self, value: int) -> JsonValue:
        """Return a whole number that is too long for many readers as text."""
        bits = value.bit_length()
        if bits <= MAX_INT_BITS:
            self.room -= bits // 64
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
        same = True
        for item in items:
            if self.room < 0 or self.items < 0:
                out.append(
                    localized(self.phrases, "items_cut", count=max(len(items) - len(out), 1))
                )
                return out
            copy = self.of(item, depth - 1)
            out.append(copy)
            same = same and copy is item
        return items if same else out

    def _object(self, fields: dict[Any, Any], depth: int) -> JsonObject:
        out: JsonObject = {}
        taken: dict[str, int] = {}
        same = True
        for key, item in list(fields.items()):  # a list: another thread may change the dict
            if self.room < 0 or self.items < 0:
                out[free_key(out)] = localized(
                    self.phrases, "keys_cut", count=len(fields) - len(out)
                )
                return out
            name = key if type(key) is str and key.isascii() else self._key(key)
            self.room -= len(name)
            if name in out:
                name = _apart(name, out, taken)
            copy = out[name] = self.of(item, depth - 1)
            same = same and copy is item and name is key
        return fields if same else out

    def _key(self, key: Any) -> str:
        plain = self.of(key, _KEY_DEPTH)
        return plain if type(plain) is str else msgspec.json.encode(plain).decode()


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _apart(name: str, out: JsonObject, taken: dict[str, int]) -> str:
    """Return another name for a key that is there already, so that neither value is lost."""
    number = taken.get(name, 1) + 1
    while f"{name} ({number})" in out:
        number += 1
    taken[name] = number
    return f"{name} ({number})"


def step(value: Any, limit: int) -> Any:
    """Return something plainer than `value`, with not many more than `limit` bytes or items. Never raises."""
    for knows, plainer in _STEPS:
        try:
            if knows(value):
                return plainer(value, min(limit, MAX_ITEMS) + 1)
        except Exception:  # noqa: BLE001 - code of others; the next step may do
            continue
    return name_of(type(value))


def name_of(kind: type) -> str:
    """Return a type's name in angle brackets, for a value that has no better text."""
    try:
        return f"<{kind.__name__}>"
    except Exception:  # noqa: BLE001 - a metaclass may do anything
        return "<object>"


def _is(*kinds: Any) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _has(name: str) -> Callable[[Any], bool]:
    """Return what finds out whether a value's class has an attribute. Instances may have any."""
    return lambda value: getattr(type(value), name, None) is not None


def _own(name: str) -> Callable[[Any], bool]:
    """Return what finds out whether a class has its own `__str__` or `__repr__`."""
    return lambda value: getattr(type(value), name) is not getattr(object, name)


def _bytes(value: Any, limit: int) -> str:
    """Bytes that are text become it; others become a `data:` URL, which loses nothing."""
    data = bytes(value)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" not in text:
        return text
    if len(data) > limit:
        return f"<{len(data):,} bytes>"
    return f"data:application/octet-stream;base64,{b64encode(data).decode()}"


def _struct(value: Any, _: int) -> Any:
    """Structs of msgspec, under the names that they are written with."""
    names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
    found = {key: getattr(value, name, UNSET) for key, name in names}
    return {key: item for key, item in found.items() if item is not UNSET}


def _shown(value: Any, fields: Iterable[Any]) -> Any:
    """Records of dataclasses and attrs, field by field, without those that were never set."""
    names = [field.name for field in fields if field.repr]
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _iterator(value: Any, _: int) -> str:
    name = getattr(value, "__name__", None)
    kind = name_of(type(value))
    return f"{kind[:-1]} {name}>" if isinstance(name, str) else kind


def _in_order(value: Any, limit: int) -> list[Any]:
    """Sets come in another order in every process; reports don't."""
    items = list(islice(value, limit))
    if {type(item) for item in items} in ({str}, {int}, {float}, {int, float}):
        return sorted(items)
    return sorted(items, key=lambda item: (type(item).__name__, repr(item)))


def _error(value: Any, _: int) -> str:
    text = str(value)
    return f"{type(value).__name__}: {text}" if text else type(value).__name__


_ADDRESS = lazy(r" at 0x[0-9a-fA-F]+")

_STEPS: tuple[tuple[Callable[[Any], bool], Callable[[Any, int], Any]], ...] = (
    # Subclasses of JSON's own types lose what they add; a named tuple keeps its names.
    (_is(str), lambda value, _: str.__str__(value)),
    (_is(int), lambda value, _: int.__int__(value)),
    (_is(float), lambda value, _: float.__float__(value)),
    (_is(dict), lambda value, most: dict(islice(dict[Any, Any].items(value), most))),
    (_is(list), lambda value, most: list(islice(list[Any].__iter__(value), most))),
    (
        lambda value: isinstance(value, tuple) and hasattr(value, "_fields"),
        lambda value, _: dict(zip(value._fields, tuple[Any].__iter__(value), strict=True)),
    ),
    (_is(tuple), lambda value, most: list(islice(tuple[Any].__iter__(value), most))),
    (_is(Enum), lambda value, _: value.value),
    (_is(bytes, bytearray, memoryview), _bytes),
    (_is(datetime, date, time, timedelta), lambda value, _: msgspec.to_builtins(value)),
    (_has("__fspath__"), lambda value, _: value.__fspath__()),
    (_is(msgspec.Struct), _struct),
    # Models of pydantic know themselves what of them may be shown. With a cycle they can't dump it.
    (_has("model_dump"), lambda value, _: value.model_dump(mode="json", warnings=False)),
    (_has("model_dump"), lambda value, _: dict(vars(value))),
    (_has("__dataclass_fields__"), lambda value, _: _shown(value, dataclasses.fields(value))),
    (_has("__attrs_attrs__"), lambda value, _: _shown(value, type(value).__attrs_attrs__)),
    (_is(SimpleNamespace), lambda value, _: dict(vars(value))),
    # Arrays and numbers of numpy and the like; those that are huge are named by their `str`.
    (
        lambda value: _has("tolist")(value) and getattr(value, "nbytes", 0) <= MAX_BYTES,
        lambda value, _: value.tolist(),
    ),
    (_is(Iterator), _iterator),
    (_is(Mapping), lambda value, most: {key: value[key] for key in islice(value, most)}),
    (_is(set, frozenset), _in_order),
    (_is(Sequence, Set, ValuesView), lambda value, most: list(islice(value, most))),
    (_is(type), lambda value, _: f"{value.__module__}.{value.__qualname__}"),
    (_is(BaseException), _error),
    (_own("__str__"), lambda value, _: _ADDRESS.sub("", str(value))),
    (_own("__repr__"), lambda value, _: _ADDRESS.sub("", repr(value))),
)
