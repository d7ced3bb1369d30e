"""`callsheet setup` and `callsheet doctor`, as real processes with a home of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from callsheet.cli import doctor
from callsheet.cli.editors import callsheet_command
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


def test_a_file_keeps_its_mode_its_newlines_and_its_indentation(home: Path) -> None:
    file = home / ".config" / "zed" / "settings.json"
    file.parent.mkdir(parents=True)
    real = home / "dotfiles.json"
    before = '\ufeff{\r\n\t"theme": "One", // mine\r\n\t"agent_servers": {}\n}\r\n'
    real.write_bytes(before.encode())
    real.chmod(0o640)
    file.symlink_to(real)
    assert run(home, "setup", "zed", "--tap", "my-agent --acp", "--write").returncode == 0
    after = real.read_bytes().decode()
    assert file.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    _, _, made = after.partition('"agent_servers": {')
    assert after.startswith(before[: before.index("{}") + 1])
    assert made.startswith('\r\n\t\t"my-agent, tapped": {\r\n\t\t\t"type": "custom",\r\n')
    assert made.endswith("\r\n\t\t}\r\n\t}\n}\r\n")


def test_writing_twice_changes_nothing_and_no_backup_is_overwritten(home: Path) -> None:
    file = home / ".jetbrains" / "acp.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"mine": 1}\n')
    for expected in ("Added “Kimi, tapped” to", "“Kimi, tapped” is already in"):
        done = run(home, "setup", "jetbrains", "--tap", "kimi", "--write")
        assert f"{expected} JetBrains: {file}" in done.stderr
    assert run(home, "setup", "jetbrains", "--tap", "gemini", "--write").returncode == 0
    kept = {one.name: one.read_text() for one in file.parent.iterdir()}
    assert sorted(kept) == ["acp.json", "acp.json.before-callsheet", "acp.json.before-callsheet2"]
    assert kept["acp.json.before-callsheet"] == '{"mine": 1}\n'
    assert set(json.loads(kept["acp.json"])["agent_servers"]) == {"Kimi, tapped", "Gemini, tapped"}


def test_our_own_agent_is_tapped_by_its_path_and_a_typing_mistake_is_named(home: Path) -> None:
    done = run(home, "setup", "zed", "--tap", "callsheet agent")
    (entry,) = json.loads(done.stdout)["agent_servers"].values()
    behind = entry["args"][entry["args"].index("--") + 1 :]
    assert behind[:1] == callsheet_command()[:1]
    assert "needs it" not in done.stderr
    done = run(home, "setup", "zed", "--tap", "claud")
    assert (done.returncode, "did you mean claude?" in done.stderr) == (2, True)


def test_a_command_is_written_as_an_editor_can_start_it(home: Path) -> None:
    done = run(home, "setup", "zed", "--tap", "~/bin/my.agent --acp")
    (entry,) = json.loads(done.stdout)["agent_servers"].values()
    assert entry["args"][-2:] == [f"{home}/bin/my.agent", "--acp"]
    assert f"{home}/bin/my.agent was not found on PATH" in done.stderr
    (entry,) = json.loads(run(home, "setup", "zed", "--tap", "./a b").stdout)[
        "agent_servers"
    ].values()
    assert entry["args"][-2:] == [f"{home}/a", "b"]
    lua = run(home, "setup", "neovim", "--tap", "my.agent x").stdout
    assert '["my_agent_tapped"] = function()' in lua


def test_a_script_is_named_by_its_whole_path_and_names_the_entry(home: Path) -> None:
    home.mkdir()
    for name in ("one.py", "two.py", "acp"):
        (home / name).touch()
    for script, others in (("one.py", "acp"), ("two.py", ""), ("gone.py", "")):
        done = run(home, "setup", "zed", "--tap", f"python3 {script} {others}", "--write")
        assert ("there is no file gone.py" in done.stderr) == (script == "gone.py")
        assert "replaced" not in done.stderr
    file = home / ".config" / "zed" / "settings.json"
    found = json.loads(file.read_text())["agent_servers"]
    assert found["one, tapped"]["args"][-2:] == [f"{home}/one.py", "acp"]
    assert found["two, tapped"]["args"][-1] == f"{home}/two.py"
    assert "“gone, tapped” starts gone.py, which does not exist" in run(home, "doctor").stdout
    done = run(home, "setup", "zed", "--tap", "python3 -u one.py", "--write")
    assert "that replaced “one, tapped”: {" in done.stderr


def test_our_own_agent_is_set_up_with_its_options(home: Path) -> None:
    home.mkdir()
    (home / "mine.py").touch()
    options = ("--tools=mine.py", "--handler", "mine.py:Agent", "--permission", "allow")
    found = json.loads(run(home, "setup", "zed", "--", *options).stdout)["agent_servers"]
    whole = [f"--tools={home}/mine.py", "--handler", f"{home}/mine.py:Agent"]
    assert found["mine"]["args"][-6:] == ["agent", *whole, "--permission", "allow"]
    done = run(home, "setup", "zed", "--", "--handlers", "mine.py:Agent")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--handlers" in done.stderr


def test_a_broken_file_is_named_and_left_alone(home: Path) -> None:
    file = home / ".jetbrains" / "acp.json"
    file.parent.mkdir(parents=True)
    broken = '{\n  // mine\n  "a": 1\n  "b": 2\n}\n'
    file.write_text(broken)
    done = run(home, "setup", "jetbrains", "--write")
    assert (done.returncode, file.read_text()) == (1, broken)
    assert f"{file}: line 4 is not JSON" in done.stderr
    assert "nothing was changed" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("setup", "emacs"), "'zed', 'jetbrains', 'neovim'"),
        (("setup", "zed", "--tap", "nobody"), "claude, codex"),
        (("setup", "zed", "--tap", "it's"), "No closing quotation"),
        (("setup", "neovim", "--write"), "paste what `callsheet setup neovim` prints"),
        (("setup", "neovim", "--tap", "my x", "--write"), "`callsheet setup neovim --tap 'my x'`"),
        (("setup", "zed", "--tap", "kimi", "--", "--tools", "a.py"), "nothing may follow --"),
    ],
)
def test_what_can_not_be_set_up_says_what_can(
    arguments: tuple[str, ...], reason: str, home: Path
) -> None:
    done = run(home, *arguments)
    assert done.returncode == 2
    assert reason in done.stderr


def test_neovim_gets_text_for_both_of_its_plugins(home: Path) -> None:
    assert 'extend("opencode"' in run(home, "setup", "neovim").stdout
    done = run(home, "setup", "neovim", "--tap", "claude")
    assert 'extend("claude_code"' in done.stdout
    assert 'provider = "claude_tapped"' in done.stdout
    assert "acp_providers" in done.stdout
    assert "commands = { default = {" in done.stdout
    assert '"tap", "--", ' in done.stdout


def test_the_doctor_finds_nothing_wrong_with_a_new_home(home: Path) -> None:
    done = run(home, "doctor")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Nothing is wrong." in done.stdout
    assert "There is no history" in done.stdout
    assert "· Zed " in done.stdout
    assert "ui " in done.stdout


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
    assert "“X” starts /gone/callsheet, which does not exist" in done.stdout
    assert "things are wrong." in done.stdout


def test_the_doctor_names_a_tapped_agent_that_is_not_there(home: Path) -> None:
    assert run(home, "setup", "zed", "--tap", "no-such-agent --acp", "--write").returncode == 0
    assert run(home, "setup", "zed", "--write").returncode == 0
    done = run(home, "doctor")
    assert done.returncode == 1
    assert "“no-such-agent, tapped” starts no-such-agent, which does not exist" in done.stdout
    (works,) = (line for line in done.stdout.splitlines() if line.startswith("✓ Zed"))
    assert works.endswith("settings.json: “Callsheet”")


@pytest.mark.parametrize(
    ("history", "code", "told"),
    [
        ("off", 0, "off: calls are not stored"),
        ("damaged.sqlite", 1, "damaged.sqlite"),
        ("nowhere://x", 1, "nowhere"),
    ],
)
def test_the_doctor_looks_at_the_history(home: Path, history: str, code: int, told: str) -> None:
    home.mkdir()
    (home / "damaged.sqlite").write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
    done = run(home, "doctor", CALLSHEET_HISTORY=history)
    assert (done.returncode, done.stderr) == (code, "")
    assert told in done.stdout


@pytest.mark.parametrize(
    ("prefix", "install"),
    [
        ("/home/me/.local/share/uv/tools/callsheet", "uv tool install"),
        ("/home/me/.local/pipx/venvs/callsheet", "pipx install --force"),
        ("/home/me/app/.venv", "pip install"),
    ],
)
def test_the_doctor_says_how_to_install_what_is_missing(
    prefix: str, install: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(doctor, "EXTRAS", {"teapot": "no-such-package"})
    doctor.command.main([], standalone_mode=False)
    assert f"not installed: {install} 'callsheet[teapot]'" in capsys.readouterr().out
