"""Limits on encoded bytes: texts, values and pages say what was left out, and stay whole in form."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from callsheet.limits.limits import bound_text, bound_value
from callsheet.limits.text import bound_line, english, localized, size_of
from callsheet.limits.to_json import jsonsafe
from callsheet.limits.truncation import SMALLEST_PAGE, TextPage, page, pages
from callsheet.report.json import freeze
from tests.support import strategies as some
from tests.support.odd_values import any_text, depth, python_values

LINES = "".join(f"line {n}: some text\n" for n in range(5000))
NOTICE = re.compile(r"… ([\d,]+) bytes?(?: \(([\d,]+) lines?\))? left out …")


def number(text: str | None) -> int:
    return int(text.replace(",", "")) if text else 0


# Texts


@pytest.mark.parametrize("limit", [*range(150, 400, 7), 1000, 33_333])
def test_text_keeps_head_and_tail_and_says_exactly_what_was_left_out(limit: int) -> None:
    bounded = bound_text(LINES, limit)
    head, said, tail = re.split(r"(… .* …)\n", bounded.value)
    assert LINES.startswith(head)
    assert LINES.endswith(tail)
    assert head.endswith("\n")
    assert tail.startswith("line")
    gone = LINES[len(head) : len(LINES) - len(tail)]
    found = NOTICE.fullmatch(said)
    assert found
    assert number(found[1]) == len(gone) == bounded.total_bytes - bounded.kept_bytes
    assert number(found[2]) == gone.count("\n")
    assert bounded.total_bytes == len(LINES)
    assert limit * 0.5 <= size_of(bounded.value) <= limit


def test_a_line_that_just_fits_is_kept_with_its_end() -> None:
    notice = size_of(english("lines_cut", bytes=len(LINES), lines=5000)) + 2 * size_of("\n") - 4
    lines = "".join(LINES.splitlines(keepends=True)[:4])
    limit = notice + 2 * (size_of(lines.rstrip()) - 2)
    bounded = bound_text(LINES, limit)
    assert bounded.value.startswith(f"{lines}…")
    shown = NOTICE.sub("", bounded.value, count=1).replace("\n\n", "\n")
    assert bounded.kept_bytes == len(shown)
    assert not bound_text(LINES, limit - 2).value.startswith(lines)


def test_text_that_fits_is_the_same() -> None:
    for text in ("", "short", "é" * 10, LINES):
        bounded = bound_text(text, size_of(text))
        assert bounded.value is text
        assert bounded.kept_bytes == bounded.total_bytes == len(text.encode())


def test_the_limit_counts_what_goes_over_the_wire() -> None:
    for text in ('"\\' * 500, "\x00\x1b" * 500, "漢🙂" * 500, "\n" * 1000):
        limit = 300
        value = bound_text(text, limit).value
        assert limit - 40 <= len(msgspec.json.encode(value)) <= limit


def test_one_long_line_is_cut_without_a_count_of_lines() -> None:
    bounded = bound_text("x" * 1000, 200)
    assert bounded.value.count("\n") == 2
    assert "lines" not in bounded.value
    left_out = bounded.total_bytes - bounded.kept_bytes
    assert f"… {left_out:,} bytes left out …" in bounded.value


def test_where_there_is_no_room_for_a_notice_there_is_an_ellipsis_or_nothing() -> None:
    assert bound_text("x" * 100, 20).value == "…"
    assert bound_text("x" * 100, 5).value == "…"
    assert bound_text("x" * 100, 4).value == ""
    assert bound_text("x" * 100, -1).value == ""


pieces = st.lists(
    st.sampled_from(
        [
            "a",
            "line\n",
            "\r\n",
            "e\u0301",
            "👨‍👩‍👧‍👦",
            "🇩🇪",
            "\x1b[31m",
            "\x1b]0;t\x07",
            '"',
            "\\",
            "\x00",
            "漢",
        ]
    ),
    max_size=200,
).map("".join)


@given(pieces | st.text(max_size=300), st.integers(0, 400))
def test_any_text_is_cut_within_the_limit_and_between_graphemes(text: str, limit: int) -> None:
    bounded = bound_text(text, limit)
    value = bounded.value
    assert size_of(value) <= max(limit, 2)
    assert bounded.total_bytes == len(text.encode())
    assert bound_text(value, limit).value is value
    if bounded.kept_bytes == bounded.total_bytes:
        assert value == text
    elif value not in ("…", ""):
        found = NOTICE.search(value)
        assert found
        head, tail = value[: found.start()], value[found.end() + 1 :]
        head = head if text.startswith(head) else head.removesuffix("\n")
        assert text.startswith(head)
        assert text.endswith(tail)
        gone = text[len(head) : len(text) - len(tail)]
        assert number(found[1]) == bounded.total_bytes - bounded.kept_bytes == len(gone.encode())
        assert number(found[2]) == gone.count("\n")
        ends = {0} | {found.end() for found in regex.finditer(r"\X", text)}
        assert {len(head), len(text) - len(tail)} <= ends


def test_a_line_keeps_its_ends() -> None:
    title = "Reading /a/very/long/path/" + "x" * 500 + "/config.json"
    short = bound_line(title, 100)
    assert size_of(short) <= 100
    assert short.startswith("Reading /a/very")
    assert short.endswith("/config.json")
    assert short.count("…") == 1
    assert bound_line(short, 100) is short
    assert [bound_line("x" * 50, limit) for limit in (1, 4, 5, 6)] == ["", "", "…", "…x"]


# What is said


def test_notices_are_said_in_the_words_that_are_given() -> None:
    german = {"lines_cut": "… {bytes} Bytes ({lines} Zeilen) ausgelassen …"}.__getitem__

    def translated(key: str, **values: int | str) -> str:
        return german(key).format(**values)

    assert "Zeilen) ausgelassen" in bound_text(LINES, 500, phrases=translated).value

    def shout(key: str, **values: int | str) -> str:
        return f"<{key} {sorted(values)}>"

    assert "<lines_cut ['bytes', 'lines']>" in bound_text(LINES, 500, phrases=shout).value
    assert "<items_cut ['count']>" in bound_value(list(range(1000)), 100, phrases=shout).value


def test_a_phrase_that_is_longer_for_less_never_breaks_the_limit() -> None:
    def longer_for_less(_: str, **values: Any) -> str:
        return "#" * (40 if values.get("bytes", 0) > len(LINES) - 400 else 150)

    value = bound_text(LINES, 500, phrases=longer_for_less).value
    assert size_of(value) <= 500
    assert "#" in value


def test_every_phrase_has_a_singular() -> None:
    assert english("text_cut", bytes=1) == "… 1 byte left out …"
    assert english("lines_cut", bytes=9, lines=1) == "… 9 bytes (1 line) left out …"
    assert english("items_cut", count=1) == "… 1 item left out …"
    assert localized(None, "keys_cut", count=1234) == "… 1,234 keys left out …"


# Values


def test_an_object_keeps_its_keys_and_the_kinds_of_their_values() -> None:
    value = {
        "stdout": LINES,
        "exit_code": 0,
        "files": [f"/home/me/{n}.py" for n in range(5000)],
        "nested": {"log": LINES, "ok": True},
        "rate": 1.5,
        "none": None,
    }
    cut = bound_value(value, 4000).value
    assert list(cut) == list(value)
    assert [type(item) for item in cut.values()] == [type(item) for item in value.values()]
    assert list(cut["nested"]) == ["log", "ok"]
    assert (cut["exit_code"], cut["rate"], cut["none"], cut["nested"]["ok"]) == (0, 1.5, None, True)
    assert NOTICE.search(cut["stdout"])
    assert cut["files"][0] == "/home/me/0.py"
    assert cut["files"][-1] == "/home/me/4999.py"
    left_out = [item for item in cut["files"] if "left out" in item]
    assert left_out == [english("items_cut", count=5001 - len(cut["files"]))]
    assert 3000 <= size_of(cut) <= 4000


def test_small_members_stay_whole_beside_large_ones() -> None:
    value = {"command": "pytest -q", "output": LINES, "cwd": "/home/me/project"}
    cut = bound_value(value, 1000).value
    assert cut == {**value, "output": cut["output"]}
    assert size_of(cut) > 900


def test_a_few_long_items_are_cut_and_many_short_ones_left_out() -> None:
    few = bound_value([LINES, LINES, LINES], 6000).value
    assert len(few) == 3
    assert all(NOTICE.search(item) for item in few)
    many = bound_value([{"n": n, "name": "x" * 20} for n in range(1000)], 2000).value
    whole = [item for item in many if isinstance(item, dict)]
    assert all(len(item["name"]) == 20 for item in whole)
    assert len(whole) > 30
    assert whole[0]["n"] == 0
    assert whole[-1]["n"] == 999


def test_what_lies_deep_goes_first() -> None:
    deep: Any = {"leaf": "x" * 200}
    for level in range(60):
        deep = {"level": level, "inner": deep}
    cut = bound_value(deep, 900).value
    assert cut["level"] == 59
    assert 5 < depth(cut) < 60
    assert size_of(cut) <= 900
    wide_and_deep: Any = [LINES]
    for _ in range(90):
        wide_and_deep = [wide_and_deep]
    shallow = bound_value(wide_and_deep, 5000).value
    assert depth(shallow) <= 34
    assert "items left out" in json.dumps(shallow, ensure_ascii=False) or "1 item" in str(shallow)


def test_more_keys_than_fit_are_counted() -> None:
    value = {f"key_{n}": n for n in range(1000)}
    cut = bound_value(value, 500).value
    assert cut["key_0"] == 0
    assert cut["…"] == english("keys_cut", count=1001 - len(cut))
    taken = bound_value({"…": "mine", **value}, 500).value
    assert taken["…"] == "mine"
    assert "left out" in taken["… (2)"]


def test_numbers_are_never_cut() -> None:
    value = {"big": 2**1000, "text": "x" * 1000}
    cut = bound_value(value, 400).value
    assert cut["big"] == 2**1000
    assert bound_value(2**1000, 100).value == "…"
    assert bound_value(None, 3).value == ""


def test_a_value_that_fits_is_the_same_object() -> None:
    value = {"a": [1, {"b": "é"}]}
    bounded = bound_value(value, size_of(value))
    assert bounded.value is value
    assert bounded.kept_bytes == bounded.total_bytes == size_of(value)


def shape(value: Any) -> type:
    return type(value)


big_json = st.recursive(
    some.scalars | st.integers(0, 400).map(lambda n: "line of text\n" * n),
    lambda inner: (
        st.lists(inner, max_size=8)
        | st.dictionaries(some.unicode_text, inner, max_size=8)
        | st.builds(lambda item, n: [item] * n, inner, st.integers(0, 60))
    ),
    max_leaves=20,
)


@given(big_json, st.integers(0, 3000))
def test_any_json_is_cut_to_the_same_shape_within_the_limit(value: Any, limit: int) -> None:
    bounded = bound_value(value, limit)
    cut = bounded.value
    encoded = msgspec.json.encode(cut)
    assert len(encoded) <= max(limit, 2)
    assert json.loads(encoded.decode()) == cut
    assert bound_value(cut, limit).value is cut
    if isinstance(value, (str, list, dict)):
        assert type(cut) is type(value)
    if isinstance(value, dict):
        least = 2 + sum(size_of(key) + 3 + least_of(item) for key, item in value.items())
        if limit >= least:
            assert list(cut) == list(value)


def least_of(value: Any) -> int:
    return 5 if isinstance(value, (str, list, dict)) else size_of(value)


@given(python_values | big_json, st.integers(-5, 1000))
def test_any_value_is_guarded_within_any_limit_and_guarding_twice_changes_nothing(
    value: Any, limit: int
) -> None:
    guarded = bound_value(jsonsafe(value), limit).value
    encoded = msgspec.json.encode(guarded)
    assert len(encoded) <= max(limit, 2)
    assert json.loads(encoded.decode("utf-8")) == guarded
    assert freeze(guarded, "value") == guarded
    again = bound_value(jsonsafe(guarded), limit).value
    assert again is guarded


@given(any_text, st.integers(-5, 100))
def test_any_text_with_lone_surrogates_is_guarded(text: str, limit: int) -> None:
    guarded = bound_value(jsonsafe(text), limit).value
    assert len(msgspec.json.encode(guarded)) <= max(limit, 2)
    guarded.encode("utf-8")


def test_a_huge_list_is_cut_in_one_pass() -> None:
    cut = bound_value(list(range(200_000)), 1000).value
    assert cut[0] == 0
    assert cut[-1] == 199_999
    assert size_of(cut) <= 1000


# Pages


@given(pieces | st.text(max_size=300), st.integers(0, 200))
def test_joined_pages_are_the_whole_and_each_is_within_the_limit(text: str, limit: int) -> None:
    all_pages = pages(text, limit)
    assert "".join(all_pages) == text
    assert all(size_of(part) <= max(limit, SMALLEST_PAGE) for part in all_pages)
    assert all(all_pages) or text == ""
    for index, part in enumerate(all_pages):
        assert page(text, index, limit) == TextPage(part, index, len(all_pages))
    assert page(text, len(all_pages), limit) is None
    assert page(text, -1, limit) is None


@given(pieces, st.integers(60, 200))
def test_pages_end_between_graphemes(text: str, limit: int) -> None:
    ends = {0} | {found.end() for found in regex.finditer(r"\X", text)}
    at = 0
    for part in pages(text, limit):
        at += len(part)
        assert at in ends


def test_pages_end_at_line_ends_where_they_can() -> None:
    all_pages = pages(LINES, 1000)
    assert all(part.endswith("\n") for part in all_pages)
    assert all(size_of(part) > 900 for part in all_pages[:-1])
    assert pages("x" * 100, 52) == ["x" * 50, "x" * 50]
    assert pages("", 100) == [""]


def test_a_page_says_which_it_is() -> None:
    found = page(LINES, 2, 10_000)
    assert found
    assert found.note("content") == {"field": "content", "index": 2, "count": found.count}


def test_a_grapheme_longer_than_a_page_is_the_one_thing_that_is_cut() -> None:
    text = "a" + "\u0301" * 100
    assert "".join(pages(text, 20)) == text
    assert all(size_of(part) <= 20 for part in pages(text, 20))
