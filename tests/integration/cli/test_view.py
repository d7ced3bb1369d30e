"""`callsheet view` on a terminal and into a pipe: recordings, stored sessions, and what is neither."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

from callsheet.testing import AgentClient
from tests.support import ROOT
from tests.support.shells import CALLSHEET, Terminal, without_escapes

KIMI = ROOT / "tests" / "recordings" / "kimi-cli-1.51.0.mixed-none.jsonl"


def view(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CALLSHEET, "view", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **env},
    )


def test_a_recording_is_shown_as_a_timeline_and_cards() -> None:
    done = view(str(KIMI))
    assert (done.returncode, done.stderr) == (0, "")
    first, *rest = done.stdout.splitlines()
    assert "Kimi Code CLI 1.51.0 · ACP 1 · 11 calls" in first
    assert sum("━" in line for line in rest) == 11
    assert "def greet" in done.stdout


def test_before_and_after_stand_side_by_side() -> None:
    done = view(str(KIMI), "--before")
    (line,) = (line for line in done.stdout.splitlines() if "WriteFile" in line)
    assert "WriteFile: NOTES.md  8 findings" in line
    assert "✓ Writing to NOTES.md" in line


def test_a_terminal_gets_colours_and_no_line_is_too_long() -> None:
    terminal = Terminal(["view", str(KIMI)], Path.cwd(), columns=80, PAGER="cat")
    assert terminal.end() == 0
    assert "\x1b[" in terminal.text
    assert max(len(without_escapes(row)) for row in terminal.text.splitlines()) <= 80


def test_a_stored_session_is_shown_with_its_times(tmp_path: Path) -> None:
    history = f"sqlite:///{tmp_path}/history.db"

    async def play() -> None:
        command = [*CALLSHEET, "agent", "--history", history, "--permission", "allow"]
        async with AgentClient(command, cwd=str(tmp_path)) as client:
            session = await client.new_session(str(tmp_path))
            await client.prompt(session, "!sleep 0.2; echo done")

    asyncio.run(play())
    done = view("last", "--history", history)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Running `sleep 0.2; echo done`" in done.stdout
    assert " ms" in done.stdout
    page = tmp_path / "page.html"
    assert view("last", "--history", history, "-o", str(page)).returncode == 0
    assert page.read_bytes().startswith(b"<!doctype html>")


def test_what_is_no_recording_is_named(tmp_path: Path) -> None:
    other = tmp_path / "notes.jsonl"
    other.write_text("hello\n")
    for source, reason in {
        str(other): "there is no ACP traffic in it",
        str(tmp_path / "gone.jsonl"): "No such file or directory",
        str(tmp_path): "Is a directory",
    }.items():
        done = view(source)
        assert done.returncode == 2
        assert reason in done.stderr
        assert "Traceback" not in done.stderr
    done = view("nosuchsession", "--history", f"sqlite:///{tmp_path}/none.db")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
