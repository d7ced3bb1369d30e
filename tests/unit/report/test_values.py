"""What may stand in a report: JSON, as a private copy, and nothing else."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from callsheet.report.errors import InvalidValue
from callsheet.report.json import MAX_DEPTH, freeze
from tests.support import strategies as some


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Point:
    x: int = 1


def cycle() -> Any:
    value: list[Any] = []
    value.append({"again": value})
    return value


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


NOT_JSON = {
    "bytes": b"x", "nan": float("nan"), "infinity": float("inf"), "set": {1}, "cycle": cycle(),
    "lone surrogate": "a\ud800b", "surrogate key": {"\ud800": 1}, "number key": {1: 2},
    "none key": {None: 1}, "date": datetime.date(2026, 1, 1), "path": Path("/x"),
    "decimal": decimal.Decimal(1), "object": object(), "dataclass": Point(), "huge int": 1 << 2000,
    "too deep": nested(MAX_DEPTH + 1), "generator": (x for x in "a"), "complex": 1j,
    "bytearray": bytearray(b"x"), "tuple key": {(1, 2): 3},
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_JSON)
@pytest.mark.parametrize("place", ["top", "in a dict", "in a list", "deep"])
def test_what_is_not_json_is_refused_with_its_place(name: str, place: str) -> None:
    value = NOT_JSON[name]
    wrapped = {
        "top": value,
        "in a dict": {"é": 1, "k": value},
        "in a list": [1, value],
        "deep": {"a": [{"b": [value]}]},
    }[place]
    where = {"top": "raw_input", "in a dict": "raw_input.k", "in a list": "raw_input[1]"}
    with pytest.raises(InvalidValue) as caught:
        freeze(wrapped, "raw_input")
    assert str(caught.value).startswith(where.get(place, "raw_input.a[0].b[0]"))


@given(some.json_values)
def test_json_is_taken_as_it_is(value: Any) -> None:
    assert freeze(value, "x") == value


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Colour.RED, "red"),
        (Level.LOW, 1),
        ((1, (2,)), [1, [2]]),
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(list, a=[1]), {"a": [1]}),
        ({"k": Colour.RED, Colour.RED: Level.LOW}, {"k": "red", "red": 1}),
        ([True, 1, 1.0], [True, 1, 1.0]),
        (2**70, 2**70),
    ],
)
def test_what_is_json_by_another_name_becomes_plain(value: Any, plain: Any) -> None:
    frozen = freeze(value, "x")
    assert frozen == plain
    assert type(frozen) is type(plain)


def test_the_copy_is_private() -> None:
    value: dict[str, Any] = {"a": [1, {"b": 2}], "flat": "x"}
    frozen = freeze(value, "x")
    value["a"][1]["b"] = 3
    value["flat"] = "y"
    assert frozen == {"a": [1, {"b": 2}], "flat": "x"}


def test_a_flat_dict_is_copied_too() -> None:
    value = {"path": "/a", "limit": 3}
    frozen = freeze(value, "x")
    value["path"] = "/b"
    assert frozen == {"path": "/a", "limit": 3}
