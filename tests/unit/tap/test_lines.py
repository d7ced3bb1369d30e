"""Lines at the ends of a tap's process: whole ones, half ones, ones that are too long, and who holds them open."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any, cast

from callsheet.tap.context import Context, TapSettings
from callsheet.tap.live import Driver
from callsheet.tap.pipeline import Pipeline
from callsheet.tap.stats import Account
from callsheet.tap.stdio import Between
from tests.support.made_recordings import announced, opening
from tests.support.processes import linux
from tests.support.puppet import puppet

PATIENCE = 30


def test_nothing_comes_into_a_line_that_is_passed_on_in_parts() -> None:
    pipeline = Pipeline(Context(TapSettings(), Account(), spill=False), print)
    driver = Driver(pipeline, None, cast("Between", None))
    sent: list[bytes] = []
    driver.speak_by(sent.append)
    try:
        for message in opening():
            line = json.dumps(message).encode() + b"\n"
            if "method" in message:
                driver.from_client([line], lambda _: None)
            else:
                driver.from_agent(line, sent.append)
        bare = announced(title="bash", name="bash", kind="execute", rawInput={}, locations=[])
        driver.from_agent(json.dumps(bare).encode() + b"\n", sent.append)
        sent.clear()
        driver.pass_on(b"half of ", sent.append)
        time.sleep(0.3)
        assert sent == [b"half of "]
        driver.pass_on(b"a line\n", sent.append)
        until = time.monotonic() + 5
        while len(sent) < 3 and time.monotonic() < until:
            time.sleep(0.01)
        assert b"tool_call" in sent[2]
    finally:
        driver.close()


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
