"""Real tools of real agents: every row of tests/tools is described as it says there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callsheet.describe import Describer
from callsheet.report.fields import ToolCallLocation
from tests.support import TESTS

HOME = "/home/me"
CWD = "/home/me/app"
FOLDER = TESTS / "tools"
ROWS: list[Any] = [
    pytest.param(*json.loads(line), id=f"{file.stem}:{number}")
    for file in sorted(FOLDER.glob("*.jsonl"))
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
]

describe = Describer(CWD, home=HOME)


def shown(location: ToolCallLocation) -> str:
    """Write a location as the rows do, and check that what is outside is marked as such."""
    inside = location.path == CWD or location.path.startswith(f"{CWD}/")
    assert (location.meta is None) is inside
    path = location.path.removeprefix(CWD).lstrip("/") or "." if inside else location.path
    return path if location.line is None else f"{path}:{location.line}"


def test_there_are_at_least_300_rows_of_more_than_200_names() -> None:
    assert len(ROWS) >= 300
    assert len({row.values[0] for row in ROWS}) >= 200


@pytest.mark.parametrize(("name", "raw_input", "kind", "title", "locations"), ROWS)
def test_a_real_call_is_described(
    name: str, raw_input: Any, kind: str, title: str, locations: list[str]
) -> None:
    description = describe(name, raw_input)
    assert (description.kind, description.title) == (kind, title)
    assert [shown(location) for location in description.locations] == locations
