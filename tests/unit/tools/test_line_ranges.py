"""Lines of files of any size: any range is right, and no more is read than must be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
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
from tests.support.files import shown


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


MIDDLE, SIZE = 256 << 20, 640 << 20


@pytest.fixture
def huge(tmp_path: Path) -> Path:
    """A large file that is mostly holes: a thousand lines, a thousand in the middle, two at the end."""
    path = tmp_path / "huge.log"
    with path.open("wb") as file:
        file.writelines(b"head %d\n" % n for n in range(1000))
        file.seek(MIDDLE)
        file.write(b"\n")
        file.writelines(b"middle %d\n" % n for n in range(1000))
        file.seek(SIZE)
        file.write(b"\nlast but one\nlast\n")
    return path


_READ_HUGE = """
import asyncio, json, re, sys
from pathlib import Path
from callsheet import Session

def fact(file, name):
    return int(re.search(name + r":\\s+(\\d+)", Path("/proc/self", file).read_text())[1])

async def main():
    async with Session("s", cwd=sys.argv[1]) as session:
        await session.run("read", {"path": "small.txt"})
        facts = []
        for offset in map(int, sys.argv[2:]):
            memory, had = fact("status", "VmHWM"), fact("io", "rchar")
            result = await session.run("read", {"path": "huge.log", "offset": offset, "limit": 200})
            facts.append({
                "output": result.output,
                "metadata": dict(result.metadata),
                "read": fact("io", "rchar") - had,
                "grown": (fact("status", "VmHWM") - memory) * 1024,
            })
        print(json.dumps(facts))

asyncio.run(main())
"""


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="this system does not count reads")
def test_the_middle_of_a_huge_file_is_read_flat_and_the_second_time_at_once(huge: Path) -> None:
    (huge.parent / "small.txt").write_text("a\n")
    time.sleep(0.11)  # a file that has just changed is counted anew
    command = [sys.executable, "-c", _READ_HUGE, str(huge.parent), "1", "1502", "1602", "-2"]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=60, check=True)
    top, first, second, tail = json.loads(done.stdout)
    assert shown(first["output"]) == [f"middle {n}" for n in range(500, 700)]
    assert shown(second["output"]) == [f"middle {n}" for n in range(600, 800)]
    assert first["metadata"]["total_lines"] is None
    assert first["metadata"]["total_lines_estimate"] > 1000
    assert "(lines 1,502–1,701 of about " in first["output"]
    assert top["read"] < 4_000_000
    assert MIDDLE <= first["read"] < MIDDLE + 4_000_000, "nothing behind the wanted lines is read"
    assert second["read"] < 4_000_000, "the place is known from the first time"
    assert shown(tail["output"]) == ["last but one", "last"]
    assert tail["output"].startswith("-2→")
    assert (tail["metadata"]["start_line"], tail["metadata"]["end_line"]) == (-2, -1)
    assert tail["read"] < 4_000_000
    assert max(part["grown"] for part in (top, first, second, tail)) < 12_000_000


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
