"""A short run of what `make fuzz` does with a tap at length."""

from __future__ import annotations

from pathlib import Path

import pytest

from callsheet.tap.context import TapSettings
from tests.support.processes import linux
from tests.support.sizes import FULL, sized
from tests.support.tap_fuzz import Outcome, fuzz, fuzz_process

MESSAGES = sized(20_000, 600)
BY_PROCESS = sized(2000, 120)
VERSIONS = [1, 2] if FULL else [1]
"""Of the process: in `make test`, what is the same in both is seen once."""


def look_at(done: Outcome, messages: int) -> None:
    assert done.account.faults == 0, done.faults
    assert done.counts["calls"] > messages // 20
    assert done.counts["made"] > messages // 4
    assert done.counts["as it came"] > messages // 4
    # Some lines have ten million bytes. That nothing is kept of them is seen in `test_tap_memory`.
    assert done.mb_in_the_end - done.mb_at_first < 250


@linux
@pytest.mark.parametrize("version", [1, 2])
def test_whatever_comes_a_tap_passes_on_what_is_valid_or_just_what_came(
    version: int, request: pytest.FixtureRequest
) -> None:
    seed = int(request.config.option.hypothesis_seed)
    look_at(fuzz(MESSAGES, version, seed), MESSAGES)


@linux
@pytest.mark.parametrize("version", VERSIONS)
def test_whatever_comes_a_taps_process_lives(
    version: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    seed = int(request.config.option.hypothesis_seed)
    look_at(fuzz_process(BY_PROCESS, version, seed, tmp_path), BY_PROCESS)


@linux
@pytest.mark.parametrize(
    "settings",
    [TapSettings(repair=False), TapSettings(redact=False), TapSettings(bound=False)],
    ids=["no repair", "no redaction", "no bounds"],
)
def test_whatever_comes_a_tap_that_does_less_does_not_fail(
    settings: TapSettings, request: pytest.FixtureRequest
) -> None:
    seed = int(request.config.option.hypothesis_seed)
    assert fuzz(MESSAGES // 4, 1, seed, settings).account.faults == 0
