"""A tap may run for weeks: what it holds does not grow with what has passed."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from itertools import islice

import psutil
import pytest

from callsheet.tap.context import Context, TapSettings
from callsheet.tap.pipeline import Pipeline
from callsheet.tap.stats import Account
from tests.support import SUPPORT
from tests.support.processes import linux
from tests.support.sizes import FULL, sized
from tests.support.tap_torrent import MARK, traffic

MESSAGES = sized(10_000_000, 12_000)
BY_PROCESS = sized(20_000_000, 8_000)
SESSION = (900, 12) if FULL else (20, 2)
"""Pieces of talk in a session, and calls. Small ones come to as many sessions by fewer messages."""

MORE = 16
"""Mebibytes that may be held at the end more than before: the ids of a hundred thousand calls, the engine that
looks for secrets once there is much to look through, and holes. All of them have bounds."""

FEW = 1000
"""Objects that may be there more than before, of some 60,000: no call and no session leaves one behind."""


def held(process: psutil.Process) -> tuple[float, int]:
    gc.collect()
    return process.memory_info().rss / 2**20, len(gc.get_objects())


@linux
def test_a_tap_holds_no_more_after_ten_million_messages_than_after_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In small, it is half of them, and fewer sessions are kept, so that the first are let go."""
    if not FULL:
        monkeypatch.setattr("callsheet.observe.turns.MOST_SESSIONS", 80)
        monkeypatch.setattr("callsheet.observe.calls.KEEP_ENDED", 100)
    pipeline = Pipeline(Context(TapSettings(), Account(), epoch=0.0, spill=False), pytest.fail)
    me, early = psutil.Process(), (0.0, 0)
    for number, (way, line) in enumerate(islice(traffic(*SESSION), MESSAGES)):
        now = number / 1000
        if number == MESSAGES // (10 if FULL else 2):
            early = held(me)
        if way == "client":
            pipeline.from_client(line, now)
        elif not pipeline.passes(line):
            pipeline.from_agent(line, now)
        if (due := pipeline.due) is not None and due <= now:
            pipeline.tick(now)
        pipeline.to_agent.clear()
        pipeline.to_client.clear()
    late = held(me)
    assert pipeline.account.calls > MESSAGES // 400
    assert pipeline.account.faults == 0
    assert late[0] - early[0] < MORE, f"{early[0]:.1f} MiB became {late[0]:.1f}"
    assert late[1] - early[1] < FEW, f"{early[1]} objects became {late[1]}"


@linux
def test_a_taps_process_does_not_grow() -> None:
    agent = [sys.executable, str(SUPPORT / "tap_torrent.py"), str(BY_PROCESS)]
    tap = subprocess.Popen(
        [sys.executable, "-m", "callsheet", "tap", "--", *agent],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "CALLSHEET_HISTORY": "off"},
    )
    assert tap.stdin is not None
    assert tap.stdout is not None
    process, tenths = psutil.Process(tap.pid), list[float]()
    for line in tap.stdout:
        if MARK.encode() in line:
            tenths.append(process.memory_info().rss / 2**20)
            if len(tenths) == 10:
                break
    tap.stdin.close()
    tap.stdout.close()
    assert tap.wait(30) == 0
    # In full, all that is ever made is there after some eight million messages: from ten on, nothing is added.
    assert tenths[-1] - tenths[4] < (2 if FULL else MORE), tenths
