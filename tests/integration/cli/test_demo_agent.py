"""`callsheet demo agent`, as a real process: into a pipe, on a terminal, interrupted; and what its check finds."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.cells import cell_len

from callsheet.check.finding import Finding
from callsheet.cli import main
from callsheet.cli.demo import scenes as demo
from callsheet.testing import Recording
from tests.support.processes import linux, new_token, wait_until_gone, with_token
from tests.support.shells import CALLSHEET, Terminal, without_escapes
from tests.support.sizes import sized

SECRET = re.compile(r"ghp_[A-Za-z0-9]{36}")
COLUMNS = 60


class Done(NamedTuple):
    code: int
    shown: str
    errors: str = ""


def piped(**env: str) -> Done:
    done = subprocess.run(
        [*CALLSHEET, "demo", "agent"],
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, **env},
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def on_a_terminal() -> Done:
    terminal = Terminal(["demo", "agent"], Path.cwd(), columns=COLUMNS, LC_ALL="de_DE.UTF-8")
    return Done(terminal.end(), terminal.text)


@pytest.fixture(scope="module")
def runs() -> Iterator[dict[str, Future[Done]]]:
    """The whole demo, twice side by side: into a pipe without Unicode, and on a narrow terminal."""
    with ThreadPoolExecutor() as pool:
        ascii_only = {"PYTHONIOENCODING": "ascii", "TERM": "dumb"}
        yield {"plain": pool.submit(piped, **ascii_only), "terminal": pool.submit(on_a_terminal)}


@pytest.mark.parametrize("name", ["plain", "terminal"])
def test_nothing_is_wrong_and_no_secret_is_shown(name: str, runs: dict[str, Future[Done]]) -> None:
    done = runs[name].result()
    assert (done.code, done.errors) == (0, "")
    text = without_escapes(done.shown)
    assert re.search(r"callsheet check: 7 calls, \d+ messages: nothing is\s+wrong\.", text)
    assert not SECRET.search(text)
    assert "[redacted:github-token]" in text


def test_into_a_pipe_go_plain_lines(runs: dict[str, Future[Done]]) -> None:
    shown = runs["plain"].result().shown
    assert "\x1b" not in shown
    assert "\r" not in shown
    for line in (
        "> /read prices.py",
        "Reading prices.py",
        "failed: exit code 1",
        "8 +     return sum(PRICES[name] * count for name, count in basket.items())",
        "5/5 the whole shop: 6525",
        "denied",
        "cancelled",
    ):
        assert line in shown


def test_a_terminal_gets_spinners_and_its_cursor_back(runs: dict[str, Future[Done]]) -> None:
    shown = runs["terminal"].result().shown
    assert len(set("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏") & set(shown)) > 3
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    # In German, too, it is in English: the words between the cards are.
    assert "✓ ◫ Reading prices.py" in without_escapes(shown)
    assert "Allow once" in without_escapes(shown)
    rows = [without_escapes(row) for row in re.split(r"[\r\n]", shown)]
    assert max(map(cell_len, rows)) <= COLUMNS


# Interrupted


@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM][: sized(2, 1)])
def test_a_signal_ends_the_agent_and_its_command_and_removes_the_project(
    number: signal.Signals, tmp_path: Path
) -> None:
    token = new_token()
    env = {**os.environ, "CALLSHEET_TEST_TOKEN": token, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [*CALLSHEET, "demo", "agent"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        seen = next(line for line in child.stdout if line.startswith("1/5"))  # it is running now
        assert seen == "1/5 a loaf: 320\n"
        assert len(with_token(token, but=child.pid)) >= 2  # the agent, and the command
        assert list(tmp_path.glob("callsheet-demo-*"))
        child.send_signal(number)
        rest, errors = child.stdout.read(), child.stderr.read()
        assert child.wait(timeout=30) == 128 + number
    assert errors == ""
    assert "cancelled" in rest
    assert "callsheet check" not in rest
    assert wait_until_gone(token) == []
    assert not list(tmp_path.glob("callsheet-demo-*"))


@linux
def test_a_reader_that_has_enough_ends_the_agent_too(tmp_path: Path) -> None:
    token = new_token()
    env = {**os.environ, "CALLSHEET_TEST_TOKEN": token, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [*CALLSHEET, "demo", "agent"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.readline()
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(timeout=30) == 1
    assert wait_until_gone(token) == []
    assert not list(tmp_path.glob("callsheet-demo-*"))


@linux
def test_an_agent_ends_when_the_demo_is_killed(tmp_path: Path) -> None:
    token = new_token()
    env = {**os.environ, "CALLSHEET_TEST_TOKEN": token, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [*CALLSHEET, "demo", "agent"], stdout=subprocess.PIPE, text=True, env=env
    ) as child:
        assert child.stdout is not None
        next(line for line in child.stdout if line.startswith("1/5"))
        child.kill()
    assert wait_until_gone(token, 10) == []


# What it says


def test_what_callsheet_check_finds_is_shown_and_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finding = Finding(
        rule="lifecycle/no-end",
        severity="error",
        session=None,
        call=None,
        line=1,
        field=None,
        message="it never ended",
    )
    monkeypatch.setattr(demo, "SCENES", demo.SCENES[:1])
    monkeypatch.setattr(Recording, "check", lambda *_, **__: [finding])
    monkeypatch.setattr(sys, "argv", ["callsheet", "demo", "agent"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert "lifecycle/no-end: it never ended\n" in capsys.readouterr().out


def test_an_agent_that_does_not_start_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('no msgspec')")
    code = (
        "import sys, callsheet.cli.demo.scenes, os;"
        f"os.environ['PYTHONPATH'] = {str(tmp_path)!r};"
        "from callsheet.cli import main; sys.argv = ['callsheet', 'demo', 'agent']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "callsheet: the agent has ended with 1; its stderr: no msgspec\n"
