"""`callsheet setup` and `callsheet doctor`, as real processes with a home of their own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.shells import CALLSHEET


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def run(home: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    home.mkdir(exist_ok=True)
    places = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": "",
        "XDG_DATA_HOME": "",
        "CALLSHEET_HISTORY": "",
    }
    return subprocess.run(
        [*CALLSHEET, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **places, **env},
        cwd=home,
    )


def test_settings_are_printed_ready_to_paste(home: Path) -> None:
    done = run(home, "setup", "zed", "--tap", "kimi")
    assert done.returncode == 0
    entry = json.loads(done.stdout)["agent_servers"]["Kimi, tapped"]
    assert entry["type"] == "custom"
    assert entry["args"][-4:-2] == ["tap", "--"]
    assert Path(entry["args"][-2]).name == "kimi"
    assert entry["args"][-1] == "acp"
    assert "~/.config/zed/settings.json" in done.stderr
    assert not list(home.rglob("settings.json"))


def test_what_it_writes_starts_a_real_agent(home: Path) -> None:
    done = run(home, "setup", "jetbrains", "--write")
    assert done.returncode == 0, done.stderr
    entry = json.loads((home / ".jetbrains" / "acp.json").read_text())["agent_servers"]["Callsheet"]
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    answer = subprocess.run(
        [entry["command"], *entry["args"]],
        input=json.dumps(hello) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert json.loads(answer.stdout)["result"]["protocolVersion"] == 1


def test_a_written_file_keeps_its_comments_and_has_a_backup(home: Path) -> None:
    file = home / ".config" / "zed" / "settings.json"
    file.parent.mkdir(parents=True)
    before = '{\n  // mine\n  "theme": "One",\n}\n'
    file.write_text(before)
    done = run(home, "setup", "zed", "--tap", "my-agent --acp", "--write")
    assert done.returncode == 0, done.stderr
    assert "// mine" in file.read_text()
    assert '"my-agent, tapped"' in file.read_text()
    assert file.with_name("settings.json.before-callsheet").read_text() == before


def test_a_broken_file_is_named_and_left_alone(home: Path) -> None:
    file = home / ".jetbrains" / "acp.json"
    file.parent.mkdir(parents=True)
    file.write_text("{oops")
    done = run(home, "setup", "jetbrains", "--write")
    assert (done.returncode, file.read_text()) == (1, "{oops")
    assert "nothing was changed" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("setup", "emacs"), "'zed', 'jetbrains', 'neovim'"),
        (("setup", "zed", "--tap", "nobody"), "claude, codex"),
        (("setup", "zed", "--tap", "it's"), "No closing quotation"),
        (("setup", "neovim", "--write"), "paste what `callsheet setup neovim` prints"),
    ],
)
def test_what_can_not_be_set_up_says_what_can(
    arguments: tuple[str, ...], reason: str, home: Path
) -> None:
    done = run(home, *arguments)
    assert done.returncode == 2
    assert reason in done.stderr


def test_neovim_gets_text_for_both_of_its_plugins(home: Path) -> None:
    done = run(home, "setup", "neovim", "--tap", "opencode")
    assert "acp_providers" in done.stdout
    assert "commands = { default = {" in done.stdout
    assert '"tap", "--", ' in done.stdout


def test_the_doctor_finds_nothing_wrong_with_a_new_home(home: Path) -> None:
    done = run(home, "doctor")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Nothing is wrong." in done.stdout
    assert "There is no history" in done.stdout


def test_the_doctor_names_what_is_wrong(home: Path) -> None:
    settings = home / ".config" / "callsheet" / "callsheet.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[history]\nmax_age = 'soon'\n")
    zed = home / ".config" / "zed" / "settings.json"
    zed.parent.mkdir(parents=True)
    zed.write_text(json.dumps({"agent_servers": {"X": {"command": "/gone/callsheet", "args": []}}}))
    done = run(home, "doctor")
    assert done.returncode == 1
    assert "max_age" in done.stdout
    assert "“X” starts /gone/callsheet, which is not there" in done.stdout
    assert "things are wrong." in done.stdout
