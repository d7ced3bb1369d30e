"""What the tap makes of recordings of real agents: nothing that is wrong is left, but what nobody can know."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import pytest

from callsheet.check.engine import check_stream
from callsheet.tap.context import TapSettings
from callsheet.tap.offline import Repairs
from tests.support.made_recordings import HERE, OURS, SHARED, name_of
from tests.support.sizes import sized

RECORDINGS = [*OURS, *SHARED]

LEFT = {
    "gemini": {
        # It tells neither what was read nor what a command has put out.
        "complete/nothing-shown",
        # Of calls that fail before they begin, it tells no input.
        "complete/input",
    },
    # Of calls of its own shell it tells no more than that they begin.
    "fast-agent": {"complete/input"},
    # It tells how many tokens are used before there is a session: not ours to put elsewhere.
    "mistral-vibe": {"order/news-before-session"},
}
"""Warnings that stay, by agent: what was never told can't be shown. docs/explanation/tap.md lists them, too."""


def repaired(data: bytes) -> tuple[bytes, Repairs]:
    repairs = Repairs(TapSettings(locale="en"), spill=False)
    return b"".join(repairs.repaired(io.BytesIO(data))), repairs


def found(data: bytes) -> Counter[tuple[str, str]]:
    return Counter((one.severity, one.rule) for one in check_stream(io.BytesIO(data)))


def agent_of(path: Path) -> str:
    name = path.name if HERE in path.parents else path.parent.name
    return next((agent for agent in LEFT if name.startswith(agent)), "")


@pytest.mark.parametrize("path", RECORDINGS[sized(0, 1) :: sized(1, 3)], ids=name_of)
def test_a_repaired_recording_has_no_errors_and_no_warnings_but_those_listed(path: Path) -> None:
    data, repairs = repaired(path.read_bytes())
    assert repairs.faults == []
    assert repairs.account.faults == 0
    left = LEFT.get(agent_of(path), set())
    wrong = {rule for severity, rule in found(data) if severity != "advice"} - left
    assert not wrong


@pytest.mark.parametrize("path", RECORDINGS[::7], ids=lambda path: path.name)
def test_the_same_recording_gives_the_same_result(path: Path) -> None:
    data = path.read_bytes()
    assert repaired(data)[0] == repaired(data)[0]


@pytest.mark.parametrize("path", RECORDINGS[::7], ids=lambda path: path.name)
def test_what_is_repaired_once_is_not_repaired_again(path: Path) -> None:
    once = repaired(path.read_bytes())[0]
    again, repairs = repaired(once)
    assert found(again) == found(once)
    assert repairs.account.dropped == {}
    assert not {"end", "announcement", "repeated", "id"} & repairs.account.repaired.keys()


@pytest.mark.parametrize("name", ["gemini-cli-0.61.0.mixed-none.jsonl"])
def test_two_taps_do_as_one_does(name: str) -> None:
    once = repaired((HERE / name).read_bytes())[0]
    twice, repairs = repaired(once)
    assert repairs.account.repaired == {}
    assert twice.count(b'"rawInput"') == once.count(b'"rawInput"')
