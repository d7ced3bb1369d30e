"""How `callsheet tap` starts: the agent first, for an editor waits for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from callsheet.cli import quick
from callsheet.tap.context import TapSettings
from tests.support.processes import linux, new_token, wait_until_gone

CALLSHEET = [sys.executable, "-m", "callsheet"]


class Started:
    """Stands for an agent that was started."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}

    def start(self, command: list[str]) -> Started:
        self.told["command"] = command
        return self

    def tap(self, command: list[str], settings: TapSettings, **more: Any) -> tuple[int, None]:
        assert more.pop("between") is self
        self.told |= {"settings": settings, "again": command, **more}
        return 7, None


@pytest.mark.parametrize(
    ("options", "settings", "record"),
    [
        ([], {}, None),
        (["--no-repair", "--no-bound"], {"repair": False, "bound": False}, None),
        (["--no-redact", "--record", "a.jsonl"], {"redact": False}, "a.jsonl"),
        (["--record=a b.jsonl", "--report", "told.txt", "--history", "off"], {}, "a b.jsonl"),
    ],
    ids=["nothing", "flags", "a flag and a file", "values"],
)
def test_plain_options_are_read_without_click(
    options: list[str],
    settings: dict[str, Any],
    record: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = Started()
    monkeypatch.setattr("callsheet.tap.live.start", started.start)
    monkeypatch.setattr("callsheet.tap.live.tap", started.tap)
    monkeypatch.setenv("CALLSHEET_HISTORY", "off")
    assert quick.tap(["tap", *options, "--", "agent", "--acp"]) == 7
    assert started.told == {
        "command": ["agent", "--acp"],
        "again": ["agent", "--acp"],
        "settings": TapSettings(**settings),
        "history": None,
        "record": record,
    }


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["--"],
        ["agent"],
        ["--no-repair"],
        ["--no-repair=1", "--", "agent"],
        ["--locale", "de", "--", "agent"],
        ["--record", "-", "--", "agent"],
        ["--record", "--", "agent"],
        ["--report=", "--", "agent"],
        ["--unknown", "--", "agent"],
    ],
    ids=" ".join,
)
def test_everything_else_is_left_to_click(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callsheet.tap.live.start", pytest.fail)
    assert quick.tap(["tap", *arguments]) is None


def test_little_is_read_before_the_agent_is_started() -> None:
    heavy = ["asyncio", "callsheet.tap.pipeline", "click", "msgspec", "rich"]
    read = "import sys; from callsheet.cli import quick; import callsheet.tap.live"
    code = f"{read}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_tap_without_a_history_needs_no_event_loop() -> None:
    code = "import sys; import callsheet.tap.history_sink, callsheet.tap.pipeline; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@linux
def test_with_a_history_that_can_not_be_the_agent_does_not_stay() -> None:
    token = new_token()
    done = subprocess.run(
        [*CALLSHEET, "tap", "--history", "nowhere://x", "--", "sleep", token],
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"nowhere" in done.stderr
    wait_until_gone(token)


def test_an_agent_that_is_not_there_is_told_as_a_shell_would() -> None:
    done = subprocess.run(
        [*CALLSHEET, "tap", "--", "no-such-agent"], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (127, b"")
    assert done.stderr == b"callsheet tap: no-such-agent: there is no such command\n"


def test_a_recording_and_a_report_are_two_files(tmp_path: Path) -> None:
    options = ["--record", str(tmp_path / "x"), "--report", f"{tmp_path}/./x"]
    command = [sys.executable, "-m", "callsheet", "tap", *options, "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "both the recording and report: name another file" in done.stderr


def test_a_directory_for_recordings_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "recordings"
    command = [sys.executable, "-m", "callsheet", "tap", "--record", f"{folder}/", "--", "true"]
    environment = {**os.environ, "CALLSHEET_HISTORY": "off"}
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, env=environment, check=False, timeout=60
    )
    assert done.returncode == 0
    assert len(list(folder.iterdir())) == 1
