"""What the tap makes of agents that nobody has seen: recordings with faults put in have no errors when repaired."""

from __future__ import annotations

import io
import random
from collections import Counter

import pytest

from callsheet.check.engine import check_stream
from callsheet.tap.context import TapSettings
from callsheet.tap.offline import Repairs
from tests.support.made_recordings import OURS, SHARED
from tests.support.sizes import FULL, sized
from tests.support.tap_faults import Faulty

TRIES = sized(3000, 120)
"""In full they are others each time."""
BATCHES = 6
LEFT = {
    # The agent ends a call, or uses its id for another, while people are asked about it.
    "order/ended-while-asking",
    # A call of the turn before is told of when its session was loaded, or an update of another one: it is told
    # as part of the history.
    "lifecycle/id-reused",
    # A terminal is shown before it is made; it may still be.
    "safety/unknown-terminal",
    # A call is told as done before its command has ended, as its terminal says later.
    "complete/exit-code",
    # Nothing tells what is asked: what told it was left out.
    "complete/asked-blindly",
    # What is told of a file contradicts what was told of it before.
    "complete/overwrite-as-new",
    "complete/overwrite-asked-as-new",
}
"""Errors that may stay: what the agent says can't be known better."""


def errors(data: bytes) -> Counter[str]:
    return Counter(one.rule for one in check_stream(io.BytesIO(data)) if one.severity == "error")


@pytest.mark.parametrize("batch", range(BATCHES))
def test_faults_that_are_put_in_are_put_right(batch: int, request: pytest.FixtureRequest) -> None:
    seed = (int(request.config.option.hypothesis_seed) if FULL else 0) + batch
    chance = random.Random(seed)
    for number in range(TRIES // BATCHES):
        path = chance.choice([*OURS, *SHARED])
        faulty = Faulty(path, chance)
        faults = faulty.put(chance.choice([1, 1, 2, 3]))
        repairs = Repairs(TapSettings(locale="en"), spill=False)
        repaired = b"".join(repairs.repaired(io.BytesIO(faulty.data)))
        where = f"{path.parent.name}/{path.name} with {faults}, try {number} of seed {seed}"
        assert repairs.faults == [], where
        left = errors(repaired).keys() - LEFT
        assert not left, f"{where}: {left}"
