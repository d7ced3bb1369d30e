"""How `callsheet tap` starts: the agent first, for an editor waits for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from callsheet.cli import main
from callsheet.cli.start import early
from callsheet.tap.context import TapSettings
from tests.support.processes import linux, new_token, wait_until_gone
from tests.support.shells import Terminal

CALLSHEET = [sys.executable, "-m", "callsheet"]


class Started:
    """Stands for an agent that was started, and for what serves it."""

    def __init__(self) -> None:
        self.reported: dict[str, Any] = {}
        self.child = self
        self.ended = 0

    def start(self, command: list[str]) -> Started:
        self.reported["command"] = command
        return self

    def tap(self, command: tuple[str], settings: TapSettings, **more: Any) -> tuple[int, None]:
        assert more.pop("between") is self
        assert callable(more.pop("started"))
        self.reported |= {"settings": settings, "again": list(command), **more}
        return 7, None

    def end(self) -> None:
        self.ended += 1

    def wait(self) -> None: ...


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    made = Started()
    monkeypatch.setattr("callsheet.tap.stdio.Between", made.start)
    monkeypatch.setattr("callsheet.tap.live.tap", made.tap)
    monkeypatch.setenv("CALLSHEET_HISTORY", "off")
    return made


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["callsheet", "tap", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize(
    ("options", "settings", "record"),
    [
        ([], {}, None),
        (["--no-repair", "--no-bound", "--no-notice"], {"repair": False, "bound": False}, None),
        (["--no-redact", "--record", "a.jsonl"], {"redact": False}, "a.jsonl"),
        (["--record=a b.jsonl", "--report", "told.txt", "--history", "off"], {}, "a b.jsonl"),
        (["--locale", "de"], {"locale": "de"}, None),
    ],
    ids=["nothing", "flags", "a flag and a file", "values", "locale"],
)
def test_the_agent_is_started_first_and_then_served(
    options: list[str],
    settings: dict[str, Any],
    record: str | None,
    started: Started,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run(monkeypatch, *options, "--", "agent", "--acp") == 7
    assert started.reported == {
        "command": ["agent", "--acp"],
        "again": ["agent", "--acp"],
        "settings": TapSettings(**settings),
        "history": None,
        "record": record,
        "notice": "--no-notice" not in options,
        "budget": None,
    }
    assert started.ended == 0


@pytest.mark.parametrize(
    "options",
    [
        ["--unknown"],
        ["--no-repair=1"],
        ["--record", "-"],
        ["--locale", "xx"],
        ["--history", "x://y"],
    ],
    ids=" ".join,
)
def test_an_agent_that_was_started_is_ended_if_an_option_is_wrong(
    options: list[str], started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(monkeypatch, *options, "--", "agent") == 2
    assert (started.reported, started.ended) == ({"command": ["agent"]}, 1)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["--help", "--", "agent"],
        ["--"],
        ["agent"],
        ["--no-repair"],
        ["npx", "--", "agent"],
        ["--no-repair", "npx", "--", "agent"],
        ["--record=a", "npx", "--", "agent"],
        ["--record", "a", "npx", "--", "agent"],
        ["--notice", "npx", "--", "agent"],
    ],
    ids=" ".join,
)
def test_nothing_is_started_that_may_not_be_the_agent(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callsheet.tap.stdio.Between", pytest.fail)
    assert early(["tap", *arguments]) == (None, None)


def test_little_is_imported_before_the_agent_is_started() -> None:
    heavy = ["asyncio", "callsheet.tap.pipeline", "click", "msgspec", "rich"]
    read = "import sys; from callsheet.cli import start; import callsheet.tap.live"
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


def test_an_agent_that_is_not_there_is_reported_as_a_shell_would() -> None:
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
    assert "both the recording and the report: name another file" in done.stderr


def test_a_directory_for_recordings_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "recordings"
    command = [sys.executable, "-m", "callsheet", "tap", "--record", f"{folder}/", "--", "true"]
    environment = {**os.environ, "CALLSHEET_HISTORY": "off"}
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, env=environment, check=False, timeout=60
    )
    assert done.returncode == 0
    assert len(list(folder.iterdir())) == 1


def test_somebody_at_a_terminal_learns_what_this_is() -> None:
    terminal = Terminal(["tap", "--history", "off", "--", "cat"], Path.cwd(), columns=100)
    terminal.until("callsheet setup zed --tap AGENT")
    terminal.type("\x04")
    assert terminal.end() == 0
