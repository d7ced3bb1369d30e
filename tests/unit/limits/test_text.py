"""Text is never cut inside a grapheme or an escape sequence; pages and heads fall where they may."""

from __future__ import annotations

import re

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from callsheet.limits.text import cut_after, cut_before
from callsheet.report.graphemes import joined

WHOLE = {
    "letter with accents": "e\u0301\u0323",
    "carriage return and line feed": "\r\n",
    "flag": "🇩🇪",
    "flag of Wales": "🏴\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f",
    "family": "👨‍👩‍👧‍👦",
    "skin tone": "👍🏽",
    "heart in red": "❤\ufe0f",
    "keycap": "1\ufe0f\u20e3",
    "hangul parts": "\u1112\u1161\u11ab",
    "hangul syllable and part": "\uac00\u11a8",
    "devanagari": "क्ष",
    "devanagari with joiner": "क्\u200dष",
    "tamil": "நி",
    "thai": "กำ",
    "arabic number sign": "\u0600\u0661",
    "colour": "\x1b[1;31m",
    "cursor": "\x1b[?25l",
    "title": "\x1b]0;a title\x07",
    "hyperlink": "\x1b]8;;http://example.org\x1b\\",
    "sixel over lines": "\x1bPq#0;2;0\n#1\x1b\\",
    "character set": "\x1b(B",
    "reset": "\x1bc",
    "colour in one byte": "\x9b31m",
    "title in one byte": "\x9d0;title\x9c",
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_belongs_together_is_not_cut(name: str) -> None:
    unit = WHOLE[name]
    text = f"abc{unit}xyz"
    for at in range(len(text) + 1):
        inside = 3 < at < 3 + len(unit)
        assert cut_before(text, at) == (3 if inside else at)
        assert cut_after(text, at) == (3 + len(unit) if inside else at)


def test_flags_are_cut_between_flags_only() -> None:
    text = "x" + "🇩🇪🇫🇷🇯🇵"
    assert [at for at in range(len(text)) if cut_before(text, at) == at] == [0, 1, 3, 5]


def test_places_outside_the_text_are_its_ends() -> None:
    assert cut_before("abc", 9) == cut_after("abc", 9) == 3
    assert cut_before("abc", -1) == cut_after("abc", -1) == 0
    assert cut_before("", 0) == cut_after("", 5) == 0


def test_a_grapheme_of_many_marks_is_one() -> None:
    text = "a" + "\u0301" * 100_000 + "b"
    assert cut_before(text, 50_000) == 0
    assert cut_after(text, 50_000) == 100_001


def test_an_escape_that_has_no_end_holds_no_more_than_its_line() -> None:
    text = "a\x1b]0;never ended\nb\nc"
    assert cut_before(text, 5) == 1
    assert cut_after(text, 5) == text.index("\n")
    assert cut_before(text, len(text) - 1) == len(text) - 1
    assert cut_after("ab\x1b", 2) == 2
    assert cut_before("ab\x1b[3", 4) == 2


assigned = st.characters(exclude_categories=["Cs", "Cn", "Co"])
graphic = st.sampled_from(
    "ab \r\n\u0301\u0323\u200d\ufe0f👍🏽👨👩🇩🇪❤\u1112\u1161\u11ab\uac00क\u094dष\u093c\u0600ก\u0e33"
)


@given(st.text(graphic | assigned, max_size=30))
def test_every_cut_is_one_that_unicode_allows(text: str) -> None:
    ends = {0} | {found.end() for found in regex.finditer(r"\X", text)}
    for at in range(len(text) + 1):
        assert cut_before(text, at) in ends
        assert cut_after(text, at) in ends
        assert cut_before(text, at) <= at <= cut_after(text, at)


escapes = st.sampled_from([unit for unit in WHOLE.values() if unit[0] in "\x1b\x9b\x9d"])


@given(
    st.lists(escapes | st.sampled_from(["a", "é", "\n", "e\u0301", "\x1b", "\x07"]), max_size=12)
)
def test_no_cut_falls_into_an_escape_sequence(parts: list[str]) -> None:
    text = "".join(parts)
    sequences = re.compile(
        r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]P][^\x07\x1b\x9c]*(?:\x07|\x1b\\)|\x1b\([A-Z]|\x1bc"
        r"|\x9b[0-?]*[@-~]|\x9d[^\x07\x1b\x9c\n]*\x9c"
    )
    inside = {at for m in sequences.finditer(text) for at in range(m.start() + 1, m.end())}
    for at in range(len(text) + 1):
        assert cut_before(text, at) not in inside
        assert cut_after(text, at) not in inside


@given(st.text(st.characters(max_codepoint=0x2FF), max_size=20), st.integers(0, 20))
def test_latin_text_is_joined_nowhere_but_at_line_ends(text: str, at: int) -> None:
    if at <= len(text):
        assert joined(text, at) == (text[max(at - 1, 0) : at + 1] == "\r\n" and at > 0)
