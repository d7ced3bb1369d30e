"""Every shape of secret is found, wherever it stands, however it is cut; and little else is."""

from __future__ import annotations

import copy
import re
import sysconfig
from pathlib import Path

import pytest

from callsheet.redaction.redactor import Marks, Redactor, StreamRedactor, default_rules
from callsheet.redaction.rules import fill
from tests.support.redaction import CLEAN, PLACES, SHAPES, Shape, pieces
from tests.support.sizes import sized

ALL = Redactor()
MARK = re.compile(r"\[redacted:[^\]]+\]")
SKIPPED = sized(1, 3)
"""Of so many places, a shape is streamed byte by byte in one."""

PARTS = 4
SOME = sized(1, 5)
"""Of so many texts, one is searched by `re` too."""

STEP = sized(1, 29)
"""How far apart the second cuts are. The first is everywhere, and so is a cut into two."""


def test_the_corpus_is_large_enough() -> None:
    assert len({shape.id for shape in SHAPES}) == len(SHAPES) >= 80
    assert len(default_rules()) >= 80


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.id)
def test_a_secret_is_found_whole_and_nothing_else_changes(shape: Shape) -> None:
    clean, count = ALL.text(shape.text)
    start = shape.text.index(shape.secret)
    end = start + len(shape.secret)
    assert count == 1
    assert clean.startswith(shape.text[:start])
    assert clean.endswith(shape.text[end:])
    assert MARK.fullmatch(clean[start : len(clean) - len(shape.text[end:])])


@pytest.mark.parametrize("place", [place for place in PLACES if place != "alone"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.id)
def test_a_secret_is_found_inside_other_text(shape: Shape, place: str) -> None:
    text = PLACES[place](shape)
    clean, count = ALL.text(text)
    assert count == 1
    left = MARK.sub("", clean)
    assert not [piece for piece in pieces(shape.secret) if piece in left]
    assert clean[:5] == text[:5]
    assert clean[-5:] == text[-5:]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.id)
def test_a_secret_is_found_beside_other_texts(shape: Shape) -> None:
    value = {"path": "/code/copy.env", "content": shape.text, "after": "done"}
    clean, count = ALL.value(value)
    assert (clean["content"], count) == ALL.text(shape.text)
    assert ALL.found(value) == ALL.found(shape.text)


@pytest.mark.parametrize("length", range(2, 37))
def test_what_is_secret_alone_is_secret_beside_other_texts(length: int) -> None:
    """Arguments that an agent streams are cut anywhere."""
    text = "github_token=" + "ghp_Zk3v9QwLr7TnXb2YcH5dMf8sJg4pAe6uRi1o"[:length]
    clean, count = ALL.value({"path": "/code/copy.env", "content": text})
    assert (clean["content"], count) == ALL.text(text)


def whole(text: str) -> bytes:
    return ALL.text(text)[0].encode()


def finished(stream: StreamRedactor, rest: bytes) -> bytes:
    return stream.feed(rest) + stream.finish()


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.id)
def test_a_secret_cut_anywhere_into_two_or_three_is_found(shape: Shape) -> None:
    text = f"> {shape.text} <\n"
    data, expected = text.encode(), whole(text)
    for first in range(len(data) + 1):
        begun = ALL.stream()
        out = begun.feed(data[:first])
        for second in (first, *range(first + 1 + first % STEP, len(data), STEP)):
            stream = copy.copy(begun)
            parts = (out, stream.feed(data[first:second]), finished(stream, data[second:]))
            assert b"".join(parts) == expected, (first, second)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.id)
def test_a_secret_that_comes_byte_by_byte_is_found_in_every_place(shape: Shape) -> None:
    places = list(PLACES.values())
    first = SHAPES.index(shape) % SKIPPED
    for place in places[first::SKIPPED]:  # pairwise: the next shape is tried in the next places
        text = place(shape)
        stream = ALL.stream()
        out = b"".join(stream.feed(bytes([byte])) for byte in text.encode()) + stream.finish()
        assert out == whole(text)
        assert stream.count == 1


@pytest.mark.parametrize("text", CLEAN)
def test_what_is_no_secret_stays(text: str) -> None:
    assert ALL.text(text) == (text, 0)
    assert ALL.text(f"x\n{text}\ny")[1] == 0


def examples() -> list[tuple[str, str, str]]:
    return [(rule.id, "example", text) for rule in default_rules() for text in rule.examples] + [
        (rule.id, "counter", text) for rule in default_rules() for text in rule.counters
    ]


@pytest.mark.parametrize(("rule", "kind", "template"), examples())
def test_every_example_is_found_by_its_rule_and_no_counter_is(
    rule: str, kind: str, template: str
) -> None:
    only = Redactor([r for r in default_rules() if r.id == rule], marks=Marks())
    clean, count = only.text(f"see {fill(template)} there")
    found = f"[redacted:{rule}]" in clean and count == 1
    assert found == (kind == "example"), clean


def test_every_rule_has_an_example_a_counter_and_literals() -> None:
    for rule in default_rules():
        assert rule.examples, rule.id
        assert rule.counters, rule.id
        assert rule.literals, rule.id


def corpus_text() -> list[str]:
    return [place(shape) for shape in SHAPES for place in PLACES.values()] + CLEAN


class PlainGate:
    """The gate as Python's `re` would have it: one pattern after the other."""

    def __init__(self, patterns: list[bytes]) -> None:
        self._search = [re.compile(pattern).search for pattern in patterns]

    def finds(self, data: bytes) -> bool:
        return any(search(data) for search in self._search)

    def next(self, data: bytes, place: int) -> int:
        found = [match.start() for search in self._search if (match := search(data, place))]
        return min(found, default=-1)


@pytest.mark.parametrize("part", range(PARTS))
def test_re2_finds_the_places_that_re_finds(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Known values too, since they go through the gate as well.
    known = {"KNOWN": "Sample9Never1", "OTHER": "bef\nre é"}
    ours, plain = (Redactor(known=known, marks=marks) for marks in [Marks()] * 2)
    monkeypatch.setattr(plain._scanner, "gate", PlainGate(plain._scanner.patterns()))
    for text in corpus_text()[part :: PARTS * SOME]:
        expected = plain.text(text)
        assert ours.text(text) == expected
        stream = ours.stream()
        data = text.encode()
        out = stream.feed(data[: len(data) // 2]) + finished(stream, data[len(data) // 2 :])
        assert out == expected[0].encode()


def stdlib(*, tests: bool) -> list[Path]:
    root = Path(sysconfig.get_path("stdlib"))
    files = [path for path in root.rglob("*.py") if "-packages" not in str(path.relative_to(root))]
    if not tests:
        files = [path for path in files if not {"test", "tests"} & set(path.parts)]
    return sorted(files)[:: sized(1, 4)]


@pytest.mark.parametrize("tests", [False, True], ids=["library", "with its tests"])
def test_false_alarms_in_the_standard_library_are_fewer_than_one_per_megabyte(tests: bool) -> None:
    size = alarms = 0
    for path in stdlib(tests=tests):
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        size += len(text)
        alarms += ALL.text(text)[1]
    assert size > 2_000_000
    assert alarms / (size / 1_000_000) < 1
