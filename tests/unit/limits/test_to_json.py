"""Any Python value becomes JSON that a report accepts: bounded, never raising, the same each time."""

from __future__ import annotations

import argparse
import array
import collections
import datetime
import decimal
import fractions
import ipaddress
import json
import subprocess
import sys
import threading
import types
import uuid
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.limits.text import english
from callsheet.limits.to_json import MAX_ITEMS, jsonsafe, step
from callsheet.report.json import MAX_DEPTH, freeze
from tests.support import strategies as some
from tests.support.odd_values import (
    Attrs,
    Colour,
    DumpsAnother,
    DumpsItself,
    Endless,
    Lazy,
    Level,
    Liar,
    Model,
    Nameless,
    Pair,
    Point,
    Raises,
    RaisesInStr,
    Struct,
    Text,
    Unset,
    Word,
    cycle,
    depth,
    model_cycle,
    python_values,
)
from tests.support.sizes import sized

BECOMES = {
    "bytes of text": (b"caf\xc3\xa9", "café"),
    "other bytes": (b"\xff\x00", "data:application/octet-stream;base64,/wA="),
    "bytes with nul": (b"a\0", "data:application/octet-stream;base64,YQA="),
    "bytearray": (bytearray(b"x"), "x"),
    "memoryview": (memoryview(b"abcd")[::2], "ac"),
    "nan": (float("nan"), "NaN"),
    "infinities": ([float("inf"), float("-inf")], ["Infinity", "-Infinity"]),
    "date": (datetime.date(2026, 1, 2), "2026-01-02"),
    "datetime": (datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC), "2026-01-02T03:00:00Z"),
    "time": (datetime.time(1, 2), "01:02:00"),
    "timedelta": (datetime.timedelta(days=1, seconds=2), "P1DT2S"),
    "paths": ([PurePosixPath("/a b"), PureWindowsPath("C:\\x")], ["/a b", "C:\\x"]),
    "undecodable path": (PurePosixPath("/a\udcff"), "/a\ufffd"),
    "enum": (Colour.RED, "red"),
    "enum of an object": (Colour.ODD, "<object>"),
    "flags": (Level.LOW | Level.HIGH, 3),
    "str enum": (Word.YES, "yes"),
    "dataclass": (Point(), {"x": 1}),
    "half-made dataclass": (Unset(1), {"x": 1}),
    "named tuple": (Pair(1, {2}), {"left": 1, "right": [2]}),
    "struct": (Struct(Path("/x")), {"filePath": "/x"}),
    "attrs": (Attrs(1), {"x": 1}),
    "pydantic": (Model(path=Path("/x")), {"path": "/x", "password": "**********", "other": None}),
    "namespace": (types.SimpleNamespace(a=1), {"a": 1}),
    "set": ({"b", "a", "c"}, ["a", "b", "c"]),
    "frozenset of anything": (frozenset([1, "a", None]), [None, 1, "a"]),
    "tuple": ((1, (2,)), [1, [2]]),
    "deque": (collections.deque([1, 2]), [1, 2]),
    "range": (range(3), [0, 1, 2]),
    "dict views": ([{"a": 1}.keys(), {"a": 1}.values(), {"a": 1}.items()], [["a"], [1], [["a", 1]]]),
    "mapping proxy": (types.MappingProxyType({"a": (1,)}), {"a": [1]}),
    "user dict": (collections.UserDict(a=1), {"a": 1}),
    "array": (array.array("i", [1, 2]), [1, 2]),
    "generator": ((x for x in "a"), "<generator <genexpr>>"),
    "iterator": (iter([1]), "<list_iterator>"),
    "decimal": (decimal.Decimal("1.10"), "1.10"),
    "fraction": (fractions.Fraction(1, 3), "1/3"),
    "complex": (1j, "1j"),
    "uuid": (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "address": (ipaddress.ip_address("::1"), "::1"),
    "class": (Point, f"{Point.__module__}.Point"),
    "function": (cycle, "<function cycle>"),
    "error": (ValueError("no such file"), "ValueError: no such file"),
    "bare error": (KeyError(), "KeyError"),
    "object": (object(), "<object>"),
    "arguments": (argparse.Namespace(a=1), "Namespace(a=1)"),
    "lone surrogate": ("a\ud800b", "a\ufffdb"),
    "surrogate pair": ("\ud83d\ude00", "😀"),
    "surrogate key": ({"\ud800": 1}, {"\ufffd": 1}),
    "largest int": (2**1024 - 1, 2**1024 - 1),
    "huge int": (-(10**400), str(-(10**400))),
    "str subclass": (Text("mine"), "mine"),
    "raises": (Raises(), "<Raises>"),
    "raises in str": (RaisesInStr(), "from repr"),
    "no class": (Liar(), "<Liar>"),
    "no name": (Nameless(), "<object>"),
    "mapping that raises": (Lazy(), "<Lazy>"),
    "dumps itself": (DumpsItself(), english("cycle")),
    "odd keys": (
        {None: 1, True: 2, 1.5: 3, b"k": 4, (1, "a"): 5, Word.YES: 6, Colour.RED: 7, Raises(): 8},
        {"null": 1, "true": 2, "1.5": 3, "k": 4, '[1,"a"]': 5, "yes": 6, "red": 7, "<Raises>": 8},
    ),
    "keys that collide": (
        {"1": "a", 1: "b", b"1": "c", "1 (2)": "d"},
        {"1": "a", "1 (2)": "b", "1 (3)": "c", "1 (2) (2)": "d"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BECOMES)
@pytest.mark.parametrize("place", ["top", "in a dict", "in a list"])
def test_any_value_becomes_json(name: str, place: str) -> None:
    value, expected = BECOMES[name]
    wrap = {"top": lambda x: x, "in a dict": lambda x: {"k": x}, "in a list": lambda x: [1, x]}
    safe = jsonsafe(wrap[place](value))
    assert safe == wrap[place](expected)
    assert freeze(safe, "x") == safe
    assert jsonsafe(safe) is safe


def test_what_is_clean_comes_back_as_it_is() -> None:
    for value in (
        {"path": "/a", "limit": 3, "all": True, "none": None},
        {"é": ["漢", {"x": [1.5, 2**70, -1]}], "": {}},
        [], {}, "", "text", 0, None, False, "\x00\x1b",
    ):  # fmt: skip
        assert jsonsafe(value) is value


@given(some.json_values)
def test_json_comes_back_as_it_is(value: Any) -> None:
    assert jsonsafe(value) is value


def test_a_generator_is_not_consumed() -> None:
    numbers = (n for n in [1, 2, 3])
    lines = iter(["a"])
    jsonsafe({"numbers": numbers, "lines": lines, "both": [numbers]})
    assert list(numbers) == [1, 2, 3]
    assert list(lines) == ["a"]


def test_a_cycle_is_named_and_what_is_shared_is_not() -> None:
    shared = (1,)
    assert jsonsafe(cycle()) == {"x": 1, "again": [english("cycle")]}
    assert jsonsafe([shared, shared]) == [[1], [1]]
    point = Point()
    point.x = [point]
    assert jsonsafe(point) == {"x": [english("cycle")]}
    assert jsonsafe(model_cycle())["other"] == english("cycle")
    assert jsonsafe(DumpsAnother()) == "<DumpsAnother>"


@pytest.mark.parametrize("leaf", [1, (1,)], ids=["clean", "to copy"])
def test_depth_is_bounded(leaf: Any) -> None:
    deep: Any = leaf
    for _ in range(5000):
        deep = [deep]
    safe = jsonsafe(deep)
    assert depth(safe) == MAX_DEPTH
    freeze(safe, "x")
    assert jsonsafe(safe) is safe
    assert depth(jsonsafe({"a": {"b": {"c": leaf}}}, max_depth=2)) == 2
    assert jsonsafe({"a": leaf}, max_depth=0) == english("too_deep")
    assert jsonsafe([[]], max_depth=1) == [english("too_deep")]


def test_size_is_bounded_also_of_lists_that_hold_the_same_thing_again_and_again() -> None:
    laughs: Any = ["ha"] * 10
    for _ in range(40):
        laughs = [laughs] * 10
    for limit in (2, 100, 10_000, 300_000):
        safe = jsonsafe(laughs, max_bytes=limit)
        assert len(msgspec.json.encode(safe)) <= limit
        assert jsonsafe(safe, max_bytes=limit) is safe


def test_the_number_of_members_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callsheet.limits.to_json.MAX_ITEMS", 1000)
    rows = jsonsafe([(n, n) for n in range(5000)])
    assert 300 < len(rows) < 400
    assert rows[-1] == english("items_cut", count=5001 - len(rows))
    fields = jsonsafe({n: (n,) for n in range(5000)})
    assert fields["…"] == english("keys_cut", count=5001 - len(fields))


def test_what_never_ends_is_bounded() -> None:
    safe = jsonsafe({"endless": Endless()}, max_bytes=5_000)
    assert len(msgspec.json.encode(safe)) <= 5_000
    assert safe["endless"][:3] == [7, 7, 7]
    assert len(jsonsafe(Endless())) <= MAX_ITEMS + 3
    assert jsonsafe(1 << 10**8) == "<int of 100,000,001 bits>"
    assert jsonsafe(1 << 20_000) == hex(1 << 20_000)
    assert jsonsafe(b"\xff" * 100, max_bytes=50) == "<100 bytes>"


def test_many_keys_that_collide_take_linear_time() -> None:
    safe = jsonsafe({Raises(): n for n in range(20_000)})
    assert len(safe) == 20_000
    assert list(safe.values()) == list(range(20_000))


def test_it_works_near_the_end_of_the_stack() -> None:
    results: list[Any] = []
    shortened: list[Any] = []
    nested: Any = 1
    to_copy: Any = (1,)
    for _ in range(80):
        nested, to_copy = [nested], [to_copy]

    def descend(left: int) -> None:
        if left:
            descend(left - 1)
        else:
            results.append(jsonsafe({"a": [(1, {"b": (2,)})], "deep": cycle()}))
            results.append(jsonsafe(nested, max_bytes=1000))
            shortened.append(jsonsafe(to_copy))

    for free in range(400, 20, -20):
        try:
            descend(sys.getrecursionlimit() - free)
        except RecursionError:  # our own descent
            continue
    assert results
    for result in [*results, *shortened]:
        freeze(result, "x")
    depths = {depth(result) for result in shortened}
    assert 81 in depths
    assert depths & set(range(2, 40)), "near the end, a part of it is still shown"


@pytest.mark.parametrize(
    "shared", [{n: (n,) for n in range(1000)}, {str(n): 1 for n in range(1000)}]
)
@pytest.mark.parametrize("nested", [False, True])
def test_a_dict_that_another_thread_changes_does_no_harm(shared: Any, nested: bool) -> None:
    as_key = type(next(iter(shared)))
    stop = threading.Event()

    def churn() -> None:
        number = 1000
        while not stop.is_set():
            shared[as_key(number)] = 1
            del shared[as_key(number)]
            number += 1

    thread = threading.Thread(target=churn)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for _ in range(sized(100, 30)):
            assert jsonsafe({"a": [shared]} if nested else shared)
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)


def test_sets_come_in_the_same_order_in_every_process() -> None:
    code = (
        "from callsheet.limits.to_json import jsonsafe;"
        "print(jsonsafe({'a', 'b', 'c', 'd', 'e', ('x', 1), None}))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3", "4")
    }
    assert len(outputs) == 1


def test_addresses_are_left_out_so_that_the_same_value_gives_the_same_text() -> None:
    assert jsonsafe(print) == "<built-in function print>"
    assert " at 0x" not in jsonsafe(lambda: 1)
    assert " at 0x" not in jsonsafe(threading.Lock())


def test_keyboard_interrupts_are_not_swallowed() -> None:
    class Interrupts:
        def __str__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jsonsafe(Interrupts())


@given(python_values, st.integers(0, 12), st.integers(0, 400))
def test_any_value_is_safe_within_any_limits(value: Any, levels: int, size: int) -> None:
    safe = jsonsafe(value, max_depth=levels, max_bytes=size)
    encoded = msgspec.json.encode(safe)
    assert len(encoded) <= max(size, 2)
    assert depth(safe) <= levels
    assert json.loads(encoded.decode()) == freeze(safe, "x") == safe
    assert jsonsafe(safe, max_depth=levels, max_bytes=size) is safe


@given(python_values)
def test_a_step_never_raises(value: Any) -> None:
    step(value, 10)
