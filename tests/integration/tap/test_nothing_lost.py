"""What agents gave is still there when a recording was repaired, byte by byte, or it is said where it is."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from callsheet.runtime.spill_store import SpillStore
from callsheet.tap.context import TapSettings
from callsheet.tap.offline import Repairs
from tests.support.made_recordings import (
    OURS,
    SHARED,
    announced,
    completed,
    content,
    opening,
    updated,
)
from tests.support.sizes import sized
from tests.support.tap_losses import Comparison

RECORDINGS = [*OURS, *SHARED[:: sized(1, 5)]]
SECRET = "ghp_" + "a1B2" * 9


def compared(data: bytes, folder: Path) -> Comparison:
    repairs = Repairs(TapSettings(locale="en"), spill=SpillStore(folder, by_content=True))
    made = b"".join(repairs.repaired(io.BytesIO(data)))
    assert repairs.account.faults == 0
    return Comparison(data, made)


def recording(*messages: Any) -> bytes:
    told = [*opening(), *messages]
    ways = ["client->agent" if "method" in one else "agent->client" for one in opening()]
    ways += ["agent->client"] * len(messages)
    lines = [
        {"t": at / 10, "dir": way, "msg": one}
        for at, (way, one) in enumerate(zip(ways, told, strict=True))
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_a_real_agent_gave_is_still_there(path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    found = compared(data, tmp_path)
    assert not found.losses
    assert found.classes["calls"] or b"tool_call" not in data


def test_a_result_that_is_cut_is_kept_whole_in_a_file(tmp_path: Path) -> None:
    lines = "".join(f"line {number}\n" for number in range(20_000))
    rows = [{"id": number, "text": "x" * 50} for number in range(2000)]
    data = recording(announced(), completed(content=[content(lines)], rawOutput={"rows": rows}))
    found = compared(data, tmp_path)
    assert not found.losses
    assert found.classes["leaf of raw kept elsewhere"] > 1500


def test_secrets_are_all_that_is_missing_from_a_result(tmp_path: Path) -> None:
    said = f"before {SECRET}\nbetween\n{SECRET} after"
    found = compared(recording(announced(), completed(content=[content(said)])), tmp_path)
    assert not found.losses
    assert found.classes == Counter(
        {
            "calls": 1,
            "text without secrets": 1,
            "title": 1,
            "rawInput": 1,
            "location": 1,
            "other message": 2,
        }
    )


@pytest.mark.parametrize(
    "change",
    [
        {"content": [content("one\n")]},
        {"content": []},
        {"locations": [{"path": "/code/other.txt", "line": 3}]},
        {"rawOutput": {"exit_code": 1}},
        {"title": "Read"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_loss_is_seen(change: dict[str, Any]) -> None:
    given = {
        "content": [content("one\ntwo\n")],
        "rawOutput": {"exit_code": 0},
        "title": "Read: notes of May",
    }
    before = recording(announced(), updated(**given, status="completed"))
    after = recording(announced(), updated(**{**given, **change}, status="completed"))
    assert Comparison(before, before).losses == []
    assert len(Comparison(before, after).losses) == 1
