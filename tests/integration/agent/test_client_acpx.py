"""acpx, a client for the command line, with the agent."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from callsheet.testing import assert_every_call_ended, fold
from tests.clients import scenes
from tests.support import schemas
from tests.support.processes import linux, new_token, wait_until_gone

pytestmark = scenes.needs_node("acpx", ".bin/node")

AGENT = [sys.executable, "-m", "callsheet", "agent"]


class Acpx:
    """acpx in a workspace, with a home of its own."""

    def __init__(self, tmp_path: Path) -> None:
        self.place: Path = scenes.furnish(tmp_path / "place")
        self._home: Path = tmp_path / "home"
        self._home.mkdir()

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        agent = shlex.join(scenes.recorded(AGENT, self.place))
        program = [scenes.MODULES / ".bin" / "node", scenes.MODULES / "acpx" / "dist" / "cli.js"]
        return subprocess.Popen(
            [*program, "--ttl", "1", "--agent", agent, *arguments],
            cwd=self.place,
            env={**os.environ, "HOME": str(self._home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def tidy(self) -> None:
        """Remove the directory for sockets that it makes for a home, and leaves."""
        key = hashlib.sha256(str(self._home).encode()).hexdigest()[:10]
        shutil.rmtree(f"/tmp/acpx-{key}", ignore_errors=True)

    def run(self, *arguments: str) -> tuple[int, str]:
        process = self.start(*arguments)
        try:
            output, _ = process.communicate(timeout=scenes.PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return process.returncode, output


@pytest.fixture
def acpx(tmp_path: Path) -> Iterator[Acpx]:
    client = Acpx(tmp_path)
    yield client
    client.tidy()
    scenes.hold_recordings(client.place)


@pytest.mark.parametrize("abilities", [[], ["--no-terminal", "--no-fs"]], ids=["all", "none"])
def test_titles_commands_diffs_and_output_are_shown(acpx: Acpx, abilities: list[str]) -> None:
    lines = (
        "/read notes.txt",
        "/edit greeting.py old_text=hello new_text=goodbye",
        "!echo so far; exit 3",
    )
    code, output = acpx.run("--approve-all", *abilities, "exec", "\n".join(lines))
    assert code == 0, output
    read, edit, run = _cards(output)
    greeting = acpx.place / "greeting.py"
    assert read.startswith("Reading notes.txt (completed)\n  kind: read\n  input: notes.txt\n")
    assert f"files: {acpx.place / 'notes.txt'}" in read
    assert edit.startswith("Editing greeting.py (completed)\n  kind: edit\n  input: greeting.py\n")
    assert f"diff {greeting} (line count unchanged)" in edit
    assert run.startswith("Running `echo so far; exit 3` (failed)\n  kind: execute\n")
    assert "input: echo so far; exit 3\n" in run
    assert "so far" in run
    assert "Exit code 3" in run
    assert "metadata" not in run  # it prints all of rawOutput if it finds no text in it
    assert output.rstrip().endswith("[done] end_turn")
    assert "goodbye" in greeting.read_text()


def _cards(output: str) -> list[str]:
    """Return the last state of each call that is shown."""
    shown = [part.strip() for part in output.split("[tool] ")[1:]]
    return [part for part in shown if "(pending)" not in part.split("\n")[0]]


def test_a_permission_that_is_denied_ends_the_call(acpx: Acpx) -> None:
    code, output = acpx.run("--deny-all", "exec", "!touch forbidden")
    assert code == 5, output  # acpx's word for a permission that was denied
    (card,) = _cards(output)
    assert card.startswith("Running `touch forbidden` (failed)")
    assert "Denied" in card
    assert not (acpx.place / "forbidden").exists()


def test_what_it_records_is_valid_and_every_call_ends(acpx: Acpx) -> None:
    prompt = "/read notes.txt\n!cat token.txt\n!false"
    code, output = acpx.run("--approve-all", "--format", "json", "exec", prompt)
    assert code == 0, output
    methods = ("session/update", "session/request_permission")
    both = [json.loads(line) for line in output.splitlines()]  # what the client has output, too
    messages = [message for message in both if message.get("method") in methods]
    for message in messages:
        schemas.check(1, schemas.name_of(1, message["method"]), message["params"])
    assert_every_call_ended(messages, at_least=3)
    ended = {report.title: report.status.value for report in fold(messages)}
    assert ended == {
        "Reading notes.txt": "completed",
        "Running `cat token.txt`": "completed",
        "Running `false`": "failed",
    }
    assert scenes.SECRET not in json.dumps(messages)


@linux
def test_a_cancel_ends_the_turn_and_the_command(acpx: Acpx) -> None:
    token = new_token()
    assert acpx.run("sessions", "new")[0] == 0
    prompting = acpx.start("--approve-all", "prompt", f"!touch begun; sleep {token}")
    _wait_for(acpx.place / "begun")
    code, output = acpx.run("cancel")
    assert (code, output.strip()) == (0, "cancel requested")
    output, _ = prompting.communicate(timeout=scenes.PATIENCE)
    (card,) = _cards(output)
    assert card.startswith(f"Running `touch begun; sleep {token}` (failed)")
    assert "Cancelled" in card
    assert output.rstrip().endswith("[done] cancelled")
    assert acpx.run("sessions", "close")[0] == 0
    assert wait_until_gone(token) == []


def _wait_for(path: Path) -> None:
    until = time.monotonic() + scenes.PATIENCE
    while not path.exists():
        assert time.monotonic() < until, f"{path.name} was not made"
        time.sleep(0.02)
