"""`Recording` and the pytest plugin: an agent's traffic in a test, held to be right."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callsheet import Session
from callsheet.check.runner import UnknownRule
from callsheet.testing import AgentClient, Frame, Recorder, Recording
from tests.support.made_recordings import ANSWER, announced, completed, opening, updated

AGENT = [sys.executable, "-m", "callsheet", "agent"]
GOOD = [*opening(), announced(), updated(status="in_progress"), completed(), ANSWER]
OPEN = [*opening(), announced(), updated(status="in_progress"), ANSWER]


def rules(recording: Recording, **options: Any) -> list[str]:
    return [finding.rule for finding in recording.check(**options)]


async def test_a_clients_traffic_is_recorded_as_it_goes(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\n")
    recording = Recording()
    async with AgentClient(AGENT, recording=recording) as client:
        await client.prompt(await client.new_session(str(tmp_path)), "/read notes.txt")
    assert recording.check() == []
    senders = {
        line.message["method"]: line.sender
        for line in recording.lines
        if line.message and "method" in line.message
    }
    assert senders["session/prompt"] == "client"
    assert senders["session/update"] == "agent"
    assert [line.message for line in client.recording.lines] == recording.messages
    assert len(recording.messages) == len(client.recording.frames)
    times = [line.time for line in recording.lines]
    assert times == sorted(times, key=lambda time: time or 0)


async def test_a_sessions_updates_are_recorded(tmp_path: Path) -> None:
    recording, recorder = Recording(), Recorder()
    async with Session(cwd=tmp_path, on_update=recording.agent, sinks=[recorder]) as session:
        await session.run("think", {"thought": "hm"})
    assert recording.check() == []
    assert Recording.of(recorder).messages == recording.messages
    assert [line.sender for line in Recording.of(recorder).lines][:2] == ["agent", "agent"]


def test_what_is_wrong_is_found_whatever_a_recording_is_made_of(tmp_path: Path) -> None:
    lines = [json.dumps(message).encode() for message in OPEN]
    path = tmp_path / "traffic.jsonl"
    path.write_bytes(b"\n".join(lines))
    frames = [
        Frame("in" if "result" in m or "update" in str(m) else "out", line, 1.0)
        for m, line in zip(OPEN, lines, strict=True)
    ]
    for source in (OPEN, lines, [line.decode() for line in lines], path, str(path), frames):
        found = Recording.of(source).check()
        assert "lifecycle/never-ended" in [finding.rule for finding in found], source
    assert Recording.of(GOOD).check() == []
    assert Recording.of(OPEN).messages == OPEN


def test_a_saved_recording_is_the_same_and_the_users_alone(tmp_path: Path) -> None:
    recording = Recording()
    recording.add("out", json.dumps(OPEN[0]).encode() + b"\n")
    recording.agent(b"Loading\n")
    for message in OPEN[1:]:
        recording.agent(json.dumps(message).encode())
    path = recording.save(tmp_path / "saved.jsonl")
    assert recording.save(path) == path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == recording.to_bytes()
    assert Recording.of(path).check() == recording.check() == recording.found != []
    assert [line.problem is None for line in recording.lines][:3] == [True, False, True]


def test_rules_and_clients_can_be_chosen() -> None:
    recording = Recording.of([*opening(), announced(title="read", kind="other"), ANSWER])
    assert {"lifecycle", "complete"} <= {rule.partition("/")[0] for rule in rules(recording)}
    assert {rule.partition("/")[0] for rule in rules(recording, select="lifecycle")} == {
        "lifecycle"
    }
    assert "complete" not in {
        rule.partition("/")[0] for rule in rules(recording, ignore=["complete"])
    }
    assert any(rule.startswith("client/zed") for rule in rules(recording, clients="zed"))
    assert not any(rule.startswith("client/") for rule in rules(recording))
    with pytest.raises(UnknownRule, match="lifecycle"):
        recording.check(select="lifecycel")


# The plugin

TESTS = """
import json

OPEN, GOOD = %r

def record(recording, messages):
    for message in messages:
        is_asked = message.get("method", "session/update") != "session/update"
        recording.add("out" if is_asked else "in", json.dumps(message).encode())

def test_bad(acp_recording):
    record(acp_recording, OPEN)
    assert acp_recording.check() == []

def test_good(acp_recording):
    record(acp_recording, GOOD)
    assert acp_recording.check() == []

def test_without():
    assert [1] == []
"""


@pytest.fixture
def pytest_in(tmp_path: Path) -> Callable[..., str]:
    (tmp_path / "test_it.py").write_text(TESTS % ((OPEN, GOOD),))
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")

    def run(*arguments: str) -> str:
        plugin = ["-p", "callsheet.testing.plugin", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *plugin, "--basetemp", tmp_path / "temp", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "CI": "", "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout + done.stderr

    return run


def test_the_report_of_a_failed_test_has_the_findings_and_the_recordings_path(
    pytest_in: Callable[..., str],
) -> None:
    output = pytest_in("-v", "-k", "bad or good or without")
    assert "2 failed, 1 passed" in output, output
    assert re.search(r"^line \d+, call c1.*: error lifecycle/never-ended", output, re.MULTILINE)
    assert output.count("- ACP recording -") == 1
    (path,) = re.findall(r"^/.*recording\.jsonl$", output, re.MULTILINE)
    assert Recording.of(path).messages == OPEN
    assert "assert [1] == []" in output


def test_all_recordings_can_be_saved_in_one_place(
    pytest_in: Callable[..., str], tmp_path: Path
) -> None:
    pytest_in("--acp-recordings", "kept", "-k", "bad or good")
    names = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert names == ["test_it.py_test_bad.jsonl", "test_it.py_test_good.jsonl"]


def test_the_plugin_imports_nothing_before_it_is_used() -> None:
    code = (
        "import callsheet.testing.plugin, sys; "
        "print(sorted(name for name in sys.modules if name.startswith(('callsheet', 'msgspec'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(
        ["callsheet", "callsheet.testing", "callsheet.testing.plugin"]
    )
