"""`callsheet tap --budget` in front of a scripted agent: as a client, the agent and the history see it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.puppet import puppet

Message = dict[str, Any]
PATIENCE = 40


def say(update: Message) -> list[Any]:
    params = {"sessionId": "s1", "update": update}
    return ["say", {"jsonrpc": "2.0", "method": "session/update", "params": params}]


def answer(result: Message) -> list[Any]:
    return ["say", {"jsonrpc": "2.0", "id": "$id", "result": result}]


def cost(amount: float) -> list[Any]:
    spent = {"amount": amount, "currency": "USD"}
    return say({"sessionUpdate": "usage_update", "used": 10, "size": 100, "cost": spent})


CALL = {
    "sessionUpdate": "tool_call",
    "toolCallId": "c1",
    "title": "make",
    "kind": "execute",
    "status": "in_progress",
    "rawInput": {"command": "make"},
}


def greeting(version: int) -> list[list[Any]]:
    return [
        ["await", "initialize"],
        answer({"protocolVersion": version, "agentInfo": {"name": "puppet", "version": "1"}}),
        ["await", "session/new"],
        answer({"sessionId": "s1"}),
        ["await", "session/prompt"],
        *([answer({"messageId": "m"})] if version == 2 else []),
        *([say({"sessionUpdate": "state_update", "state": "running"})] if version == 2 else []),
        say({**CALL, **({"sessionUpdate": "tool_call_update"} if version == 2 else {})}),
    ]


class Editor:
    """A client of the tap that reads until it has what it waits for."""

    def __init__(self, folder: Path, steps: list[list[Any]], *options: str) -> None:
        place = f"sqlite:///{folder / 'h.sqlite'}"
        tap = [sys.executable, "-m", "callsheet", "tap", "--history", place, *options]
        self.process = subprocess.Popen(
            [*tap, "--no-notice", "--", *puppet(*steps)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.received: list[Message] = []
        self.file = folder / "h.sqlite"

    def send(self, key: int, method: str, params: Message) -> None:
        assert self.process.stdin is not None
        line = {"jsonrpc": "2.0", "id": key, "method": method, "params": params}
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()

    def begin(self, version: int) -> None:
        self.send(0, "initialize", {"protocolVersion": version})
        self.until(lambda one: one.get("id") == 0)
        self.send(1, "session/new", {"cwd": "/code", "mcpServers": []})
        self.until(lambda one: one.get("id") == 1)
        self.prompt(2)

    def prompt(self, key: int) -> None:
        text = [{"type": "text", "text": "go"}]
        self.send(key, "session/prompt", {"sessionId": "s1", "prompt": text})

    def until(self, holds: Callable[[Message], bool]) -> Message:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.received.append(json.loads(line))
            if holds(self.received[-1]):
                return self.received[-1]
        raise AssertionError(f"it never came; stderr: {self.process.communicate()[1]!r}")

    def end(self) -> str:
        _, errors = self.process.communicate(timeout=PATIENCE)
        return errors.decode()

    def texts(self) -> list[str]:
        updates = [one["params"]["update"] for one in self.received if "params" in one]
        chunks = [one for one in updates if one["sessionUpdate"] == "agent_message_chunk"]
        return [one["content"]["text"] for one in chunks]

    def turns(self) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.file)) as db:
            columns = "stop_reason, cost, currency, cost_source, ended_at IS NOT NULL"
            return db.execute(f"SELECT {columns} FROM turns ORDER BY at").fetchall()


def is_over(version: int) -> Callable[[Message], bool]:
    """Whether a message ends the turn."""
    if version == 1:
        return lambda one: one.get("id") == 2
    return lambda one: one.get("params", {}).get("update", {}).get("state") == "idle"


@pytest.mark.parametrize("version", [1, 2])
def test_an_agent_that_spends_the_budget_is_stopped_and_the_user_knows_why(
    version: int, tmp_path: Path
) -> None:
    idle = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled"}
    end = answer({"stopReason": "cancelled"}) if version == 1 else say(idle)
    steps = [*greeting(version), cost(1.0), cost(2.5), ["await", "session/cancel"], end]
    if version == 1:  # `$id` is that of what was awaited last, and a notification has none
        end[1]["id"] = 2
    editor = Editor(tmp_path, [*steps, ["await", "session/never"]], "--budget", "2.00")
    editor.begin(version)
    over = editor.until(is_over(version))
    assert "cancelled" in json.dumps(over)
    assert editor.texts() == [
        "_Stopped: this session has cost $2.50, and its budget is $2.00._\n\n"
    ]
    editor.prompt(3)
    refused = editor.until(lambda one: one.get("id") == 3)
    assert (
        "its budget is $2.00. Begin a new session, or raise --budget."
        in refused["error"]["message"]
    )
    if version == 2:  # there, calls may go on for a while when their turn has ended
        editor.until(lambda one: '"status": "cancelled"' in json.dumps(one))
    errors = editor.end()
    assert "callsheet tap: Stopped: this session has cost $2.50" in errors
    assert editor.turns() == [("cancelled", 2.5, "USD", "agent", 1)]
    with closing(sqlite3.connect(editor.file)) as db:
        assert db.execute("SELECT status FROM calls").fetchall() == [("cancelled",)]


@pytest.mark.parametrize("version", [1, 2])
def test_an_agent_that_does_not_listen_is_ended_for_the_client(
    version: int, tmp_path: Path
) -> None:
    steps = [*greeting(version), cost(2.5), ["await", "session/never"]]
    editor = Editor(tmp_path, steps, "--budget", "2")
    editor.begin(version)
    editor.until(is_over(version))
    statuses = [
        one["params"]["update"].get("status")
        for one in editor.received
        if one.get("params", {}).get("update", {}).get("toolCallId") == "c1"
    ]
    assert statuses[-1] == ("failed" if version == 1 else "cancelled")
    editor.end()
    assert editor.turns() == [("cancelled", 2.5, "USD", "agent", 1)]


def test_without_costs_it_says_that_the_budget_does_not_hold(tmp_path: Path) -> None:
    steps = [*greeting(1), answer({"stopReason": "end_turn"}), ["await", "session/never"]]
    editor = Editor(tmp_path, steps, "--budget", "2.00")
    editor.begin(1)
    editor.until(is_over(1))
    assert "the budget of $2.00 can't be enforced" in editor.texts()[0]
    assert "the budget of $2.00 can't be enforced" in editor.end()
    assert editor.turns() == [("end_turn", None, None, None, 1)]


def test_a_turn_whose_agent_dies_ends(tmp_path: Path) -> None:
    editor = Editor(tmp_path, [*greeting(1), cost(0.5), ["exit", 3]])
    editor.begin(1)
    editor.end()
    assert editor.turns() == [(None, 0.5, "USD", "agent", 1)]


@pytest.mark.parametrize("command", ["tap", "agent"])
@pytest.mark.parametrize("amount", ["2,00", "-1", "abc"])
def test_wrong_amounts_are_refused(command: str, amount: str) -> None:
    more = ["--", "cat"] if command == "tap" else []
    done = subprocess.run(
        [sys.executable, "-m", "callsheet", command, f"--budget={amount}", *more],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 2
    assert f"'{amount}': expected an amount above 0, such as 2.00 (US dollars)" in " ".join(
        done.stderr.split()
    )
