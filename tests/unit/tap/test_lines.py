"""Lines at the ends of a tap's process: whole ones, half ones, ones that are too long, and who holds them open."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import pytest

from callsheet.tap.context import Context, TapSettings
from callsheet.tap.live import Driver
from callsheet.tap.pipeline import Pipeline
from callsheet.tap.stats import Account
from tests.support.made_recordings import announced, opening
from tests.support.processes import linux
from tests.support.puppet import puppet

PATIENCE = 30


def test_nothing_comes_into_a_line_that_is_passed_on_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("callsheet.acp.jsonrpc.LineBuffer.__init__.__defaults__", (4000,))
    driver = Driver(Pipeline(Context(TapSettings(), Account(), spill=False), print))
    for message in opening():
        line = json.dumps(message).encode() + b"\n"
        (driver.from_client if "method" in message else driver.from_agent)(line)
    bare = {"title": "bash", "name": "bash", "kind": "execute", "rawInput": {}, "locations": []}
    bare = announced(**bare, status="in_progress")
    driver.from_agent(json.dumps(bare).encode() + b"\n")
    driver.to_client.clear()
    half = b"x" * 5000
    driver.from_agent(half)
    time.sleep(0.2)
    assert driver.wait is None
    driver.tick()
    assert driver.to_client == [half]
    driver.from_agent(b"y\n")
    driver.tick()
    assert driver.to_client[1] == b"y\n"
    assert b"tool_call" in driver.to_client[2]


def _turn() -> bytes:
    said = [message for message in opening() if "method" in message]
    return b"".join(json.dumps(message).encode() + b"\n" for message in said)


GREETING: list[list[Any]] = [
    step
    for method, result in (("initialize", {"protocolVersion": 1}), ("session/new", {"sessionId": "s1"}))
    for step in (["await", method], ["say", {"jsonrpc": "2.0", "id": "$id", "result": result}])
]  # fmt: skip


@linux
def test_calls_end_though_somebody_else_holds_the_agents_stdout_open() -> None:
    child = ["sh", "-c", "exec setsid sleep 20 2>/dev/null"]
    agent = puppet(
        *GREETING, ["await", "session/prompt"], ["say", announced()], ["run", child], ["exit", 3]
    )
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "callsheet", "tap", "--", *agent],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    out, _ = process.communicate(_turn(), timeout=PATIENCE)
    assert process.returncode == 3
    assert time.monotonic() - begun < 15
    last = json.loads(out.splitlines()[-1])["params"]["update"]
    assert last["_meta"]["callsheet"]["reason"] == "abandoned"
