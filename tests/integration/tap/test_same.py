"""What `tap` shows is what `repair` writes: the tap's own driver, by the clock of a recording, told the same."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callsheet.observe.lines import read_lines
from callsheet.tap.context import Context, TapSettings
from callsheet.tap.live import Driver
from callsheet.tap.offline import PRECISE, Repairs
from callsheet.tap.pipeline import Pipeline
from callsheet.tap.stats import Account
from tests.support.made_recordings import OURS, SHARED, name_of
from tests.support.sizes import FULL, sized
from tests.support.tap_harness import unnumbered

RECORDINGS = [*OURS, *SHARED][:: sized(1, 5)]
SETTINGS = TapSettings(locale="en")


class Played:
    """A live tap, but for its pipes and its clock. `heard` is what both sides heard, in order."""

    def __init__(self) -> None:
        self.clock: float = 0.0
        self.said: list[str] = []
        context = Context(SETTINGS, Account(), spill=False)
        self.driver: Driver = Driver(Pipeline(context, self.said.append))
        self.driver.now = lambda: self.clock
        self.heard: dict[str, list[bytes]] = {
            "client": self.driver.to_client,
            "agent": self.driver.to_agent,
        }

    def wait(self, until: float | None) -> None:
        """Let time go by; without an end, until nothing is due any more."""
        pipeline = self.driver.pipeline
        while (due := pipeline.due) is not None and (until is None or due < until - PRECISE):
            self.clock = max(self.clock, due)
            self.driver.tick()
        self.clock = max(self.clock, until or 0)

    def says(self, sender: str, data: bytes) -> None:
        (self.driver.from_agent if sender == "agent" else self.driver.from_client)(data)

    def end(self) -> None:
        self.wait(None)
        self.says("agent", b"")
        self.says("client", b"")


def pieces(path: Path, size: int | None) -> Iterator[tuple[float, str, bytes]]:
    """Return what each side said at a time, as pipes may cut it."""
    together: list[tuple[float, str, bytes]] = []
    with path.open("rb") as stream:
        for line in read_lines(stream):
            assert line.sender is not None
            assert line.time is not None
            data = json.dumps(line.message).encode() + b"\n"
            if size is None and together and together[-1][:2] == (line.time, line.sender):
                together[-1] = (*together[-1][:2], together[-1][2] + data)
            else:
                together.append((line.time, line.sender, data))
    for when, sender, data in together:
        step = size or len(data)
        for begin in range(0, len(data), step):
            yield when, sender, data[begin : begin + step]


def shown_live(path: Path, size: int | None) -> dict[str, list[Any]]:
    """Return what both sides hear of a live tap."""
    live = Played()
    for when, sender, data in pieces(path, size):
        live.wait(when)
        live.says(sender, data)
    live.end()
    assert live.said == []
    keep = live.driver.pipeline.for_recording
    return {
        side: [_message(keep(line)) for line in b"".join(heard).splitlines(keepends=True)]
        for side, heard in live.heard.items()
    }


def shown_by_repair(path: Path) -> dict[str, list[Any]]:
    """Return what both sides hear by the repaired recording."""
    repairs = Repairs(SETTINGS, spill=False)
    told: dict[str, list[Any]] = {"client": [], "agent": []}
    for line in repairs.repaired(io.BytesIO(path.read_bytes())):
        one = json.loads(unnumbered(line.decode()))
        told["client" if one["dir"] == "agent->client" else "agent"].append(one["msg"])
    return told


def _message(line: bytes) -> Any:
    return json.loads(unnumbered(line.decode()))


SIZES = {"lines": None, "pieces": 4096, "crumbs": 7}
CASES = [
    pytest.param(path, size, id=f"{name_of(path)}-{name}")
    for place, path in enumerate(RECORDINGS)
    for turn, (name, size) in enumerate(SIZES.items())
    if FULL or turn == place % len(SIZES)  # each recording in one way, and each way with many
]


@pytest.mark.parametrize(("path", "size"), CASES)
def test_what_a_live_tap_shows_is_what_repair_writes(path: Path, size: int | None) -> None:
    live, written = shown_live(path, size), shown_by_repair(path)
    for side in ("client", "agent"):
        for one, other in zip(live[side], written[side], strict=False):
            assert one == other
        assert len(live[side]) == len(written[side])
