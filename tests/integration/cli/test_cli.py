"""The command line, as real processes: into a pipe, on a terminal, with a wrong argument, with a reader gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Command

CALLSHEET = [sys.executable, "-m", "callsheet"]


def run(*args: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CALLSHEET, *args], capture_output=True, text=True, timeout=60, check=False, **options
    )  # type: ignore[call-overload]


def test_a_wrong_command_is_named_and_exits_with_2(command: Command, tmp_path: Path) -> None:
    done = command("dmeo", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such command 'dmeo'" in done.stderr
    assert "demo" in done.stderr


def test_a_wrong_option_is_named_and_exits_with_2(command: Command, tmp_path: Path) -> None:
    done = command("demo", "--fast", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--fast" in done.stderr


def test_help_lists_the_commands_on_stdout(command: Command, tmp_path: Path) -> None:
    done = command("--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "demo" in done.stdout
    assert command(cwd=tmp_path).stdout == done.stdout


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    with subprocess.Popen(
        [*CALLSHEET, "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        errors = child.stderr.read()
        child.wait(timeout=60)
    assert errors == b""


def test_a_full_disk_is_reported_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*CALLSHEET, "demo"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "callsheet: No space left on device\n")


def test_a_closed_stdout_is_reported_in_one_line() -> None:
    line = " ".join([*CALLSHEET, "demo", ">&-"])
    done = subprocess.run(
        ["sh", "-c", line], stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "callsheet: stdout is closed, so there is nowhere to answer\n"


def test_ctrl_c_ends_it_quietly_whenever_it_comes() -> None:
    for wait in (0.05, 0.15):
        with subprocess.Popen(
            [*CALLSHEET, "demo"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as child:
            time.sleep(wait)
            child.send_signal(signal.SIGINT)
            assert child.stderr is not None
            errors = child.stderr.read()
            code = child.wait(timeout=60)
        # 1: it came while Python itself was starting, before a line of ours had run
        assert code in (0, 1, 130, -signal.SIGINT)
        assert b"callsheet/cli" not in errors


def test_a_terminal_without_unicode_is_no_reason_to_fail() -> None:
    done = run("tools", env={**os.environ, "PYTHONIOENCODING": "ascii", "TERM": "dumb"})
    assert (done.returncode, done.stderr) == (0, "")


def test_importing_callsheet_brings_nothing_that_is_slow() -> None:
    code = "import sys, callsheet; print(*sorted(m for m in sys.modules if '.' not in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert loaded.isdisjoint({"asyncio", "click", "rich", "acp", "pydantic", "difflib"})


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("ch", "plain,check"),
        ("check --cl", "plain,--client"),
        ("history st", "plain,stats"),
        ("call read --mc", "plain,--mcp"),
        ("call gl", "plain,glob"),
        ("check --explain size/fl", "plain,size/flood"),
        ("lint --ignore com", "plain,comment plain,comment/unknown-rule"),
        ("check record", "file,record"),
        ("view record", "file,record"),
        ("repair record", "file,record"),
    ],
)
def test_commands_options_names_and_files_are_completed(words: str, completed: str) -> None:
    line = f"callsheet {words}"
    env = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
        "_CALLSHEET_COMPLETE": "bash_complete",
    }
    done = subprocess.run(
        [Path(sys.executable).with_name("callsheet")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **env},
    )
    assert done.stdout.split() == completed.split()


@pytest.mark.parametrize("name", ["tap", "record"])
def test_without_a_command_it_is_explained_what_would_be_right(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "callsheet", name, *(["-o", "x.jsonl"] if name == "record" else [])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "name the agent's command" in done.stderr
    expected = {
        "tap": "callsheet setup zed --tap AGENT",
        "record": "callsheet record -o DIRECTORY --",
    }
    assert expected[name] in done.stderr
