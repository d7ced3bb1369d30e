"""Lines of files of any size: any range is right, and counting stops when nobody waits."""

from __future__ import annotations

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.tools.errors import Cancelled, InvalidArguments
from callsheet.tools.files import line_ranges
from callsheet.tools.files.line_ranges import LineReader


@given(
    st.lists(st.text(st.sampled_from("ab\rè\u000b→𝄞"), max_size=9), max_size=30),
    st.booleans(),
    st.integers(-40, 40),
    st.integers(1, 12),
)
def test_any_range_of_any_file_is_what_splitting_it_gives(
    wanted: list[str], ends: bool, offset: int, limit: int
) -> None:
    text = "\n".join(wanted) + ("\n" if ends and wanted else "")
    every = text.split("\n")[: -1 if text.endswith("\n") else None] if text else []
    data = text.encode()
    first = max(1, offset if offset >= 0 else len(every) + offset + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_ranges, "BLOCK", 16)
        reader = LineReader(BytesIO(data), len(data), None, lambda: None)
        if first > max(1, len(every)):
            with pytest.raises(InvalidArguments, match="beyond the end") as caught:
                reader.read(offset, limit, "a")
            assert caught.value.metadata["total_lines"] == len(every)
            return
        part = reader.read(offset, limit, "a")
    if part is None:
        assert not text
        return
    expected = [line.removesuffix("\r") for line in every[first - 1 : first - 1 + limit]]
    assert [line.partition("→")[2] for line in part.text.split("\n")] == expected
    assert (part.first, part.lines, part.total) == (first, len(expected), len(every))
    assert part.at_end is (first - 1 + limit >= len(every))
    assert part.ends_open is (part.at_end and not text.endswith("\n"))


def test_counting_stops_when_nobody_waits() -> None:
    asked = 0

    def check() -> None:
        nonlocal asked
        asked += 1
        if asked > 3:
            raise Cancelled("stopped")

    data = BytesIO(b"a\n" * 2_000_000)
    with pytest.raises(Cancelled):
        LineReader(data, 4_000_000, None, check).read(-1, 1, "a")
    assert asked == 4
