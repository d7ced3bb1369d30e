"""Each block of the README, pasted alone into an empty directory, works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from callsheet.testing import AgentClient
from tests.support import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = BLOCK.findall(README)
(AGENT,) = (body for language, body in BLOCKS if language == "python")
COMMANDS = [body for language, body in BLOCKS if language == "sh"]
SERVES = "callsheet agent "
"""What waits for an editor, unless it is given a prompt, and is tried with a client."""


def serves(line: str) -> bool:
    return line.startswith(SERVES) and "--prompt" not in line


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory in a home of its own, where `callsheet` is installed."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "CALLSHEET_HISTORY"):
        monkeypatch.delenv(name, raising=False)
    directory = tmp_path / "empty"
    directory.mkdir()
    return directory


@pytest.mark.parametrize("body", COMMANDS, ids=lambda body: body.split("#")[0].strip()[:40])
def test_commands_work_when_pasted(body: str, place: Path) -> None:
    if "agent.py" in body:
        (place / "agent.py").write_text(AGENT)
    lines = [line for line in body.splitlines() if not serves(line)]
    done = subprocess.run(
        ["sh", "-e"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=place,
    )
    assert done.returncode == 0, done.stdout + done.stderr


async def test_the_agent_works_when_pasted(place: Path) -> None:
    (place / "agent.py").write_text(AGENT)
    (line,) = (line for body in COMMANDS for line in body.splitlines() if serves(line))
    async with AgentClient(line.partition("#")[0].split(), cwd=str(place)) as client:
        session = await client.new_session(str(place))
        assert await client.prompt(session, "one two three") == "end_turn"
    (call,) = client.fold()
    assert (call.title, call.status.value) == ("Counting the words of a text", "completed")
    assert b"That was 3" in b"".join(client.lines)
    assert client.recording.check() == []


def test_no_block_is_left_out() -> None:
    assert {language for language, _ in BLOCKS} == {"python", "sh"}
    assert README.count("```") == 2 * len(BLOCKS)


def test_no_block_is_longer_than_15_lines() -> None:
    assert all(len(body.splitlines()) <= 15 for _, body in BLOCKS)
