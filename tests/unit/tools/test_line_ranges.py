"""Lines of files of any size: any range is right, and no more is read than must be."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.tools.errors import Cancelled, InvalidArguments
from callsheet.tools.files import line_ranges
from callsheet.tools.files.line_ranges import (
    FileBytes,
    FileLines,
    LinePlace,
    PlaceCache,
    find_start,
    read_range,
    total_of,
)
from callsheet.tools.files.text_encoding import UTF8, codec_of_bom


@given(
    st.lists(st.text(st.sampled_from("ab\rè\u0a0a\u0a00\u000b→𝄞"), max_size=9), max_size=30),
    st.booleans(),
    st.integers(-40, 40),
    st.integers(1, 40),
    st.integers(1, 12),
    st.sampled_from(["utf-8", "utf-16-le", "utf-16-be", "utf-32-le"]),
)
def test_any_range_of_any_file_is_what_splitting_it_gives(
    wanted: list[str], ends: bool, offset: int, known: int, limit: int, encoding: str
) -> None:
    text = "\n".join(wanted) + ("\n" if ends and wanted else "")
    every = text.split("\n")[: -1 if text.endswith("\n") else None] if text else []
    bom = b"" if encoding == "utf-8" else "\ufeff".encode(encoding)
    data = bom + text.encode(encoding)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_ranges, "BLOCK", 16)
        source = FileBytes.of_bytes(data if text else b"")
        reader = FileLines(source, codec_of_bom(data) or UTF8)
        if every and reader.find(known) is not None:
            assert reader.known.line == known
        first = max(1, offset if offset >= 0 else len(every) + offset + 1)
        if text and first > len(every):
            with pytest.raises(InvalidArguments, match=f"has {len(every)} line"):
                find_start(reader, offset, "a")
            return
        if not text:
            return
        start = find_start(reader, offset, "a")
        assert start is not None
        assert start.line == first
        part = read_range(reader, start, limit, data[:64])
        expected = [line.removesuffix("\r") for line in every[first - 1 : first - 1 + limit]]
        assert [line.partition("→")[2] for line in part.text.split("\n")] == expected
        assert part.at_end is (first - 1 + limit >= len(every))
        assert total_of(reader, part) == (len(every), True)
        assert FileLines(source, reader.codec).total() == len(every)
        back = min(len(every), max(1, abs(offset)))
        place = reader.tail(back)
        tail = data[place:].decode(encoding).removeprefix("\ufeff")
        assert tail.removesuffix("\n").split("\n") == every[-back:]


def test_a_changed_file_is_counted_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_ranges, "_SETTLED", 0)
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\n" * 3_000_000)
    cache = PlaceCache()

    def find(line: int) -> LinePlace | None:
        with path.open("rb", buffering=0) as file:
            found = os.fstat(file.fileno())
            reader = FileLines(FileBytes(file, found.st_size, lambda: None), UTF8, cache.get(found))
            place = reader.find(line)
            cache.put(found, reader.known)
            return place

    assert find(2_000_001) == (2_000_001, 4_000_000)
    assert cache.get(path.stat()).line == 2_000_001
    path.write_bytes(b"abc\n" * 1_500_000)
    assert find(1_000_001) == (1_000_001, 4_000_000)
    assert find(2_000_001) is None


def test_counting_stops_when_nobody_waits() -> None:
    asked = 0

    def alive() -> None:
        nonlocal asked
        asked += 1
        if asked > 3:
            raise Cancelled("stopped")

    data = BytesIO(b"a\n" * 2_000_000)
    with pytest.raises(Cancelled):
        FileLines(FileBytes(data, 4_000_000, alive), UTF8).total()
    assert asked == 4
    assert FileLines(FileBytes(data, 4_000_000, lambda: None), UTF8).total() == 2_000_000


def test_lines_that_were_looked_for_from_the_end_count_from_there() -> None:
    data = b"ab\n" * 1000
    reader = FileLines(FileBytes.of_bytes(data), UTF8)
    part = read_range(reader, LinePlace(-10, len(data) - 30), 5, data[:30])
    assert (part.first, part.last) == (-10, -6)
    assert part.text.split("\n") == [f"{n}→ab" for n in range(-10, -5)]
