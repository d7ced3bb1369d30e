"""`callsheet demo`, as a real process: into a pipe, on a terminal, interrupted; and what its checks find."""

from __future__ import annotations

import asyncio
import fcntl
import io
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from rich.cells import cell_len

from callsheet.cli.demo import stage
from callsheet.cli.demo.scenes import Scene
from callsheet.cli.demo.summary import StoredCalls, agent_command, check_traffic
from callsheet.testing import AgentClient, Frame
from tests.support.processes import linux, new_token, wait_until_gone, with_token
from tests.support.sizes import sized

CALLSHEET = [sys.executable, "-m", "callsheet"]
SECRET = re.compile(r"ghp_[A-Za-z0-9]{36}")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\]8;[^\x1b]*\x1b\\")
COLUMNS = 60


class Done(NamedTuple):
    code: int
    shown: str
    errors: str = ""


def piped(*args: str, **env: str) -> Done:
    done = subprocess.run(
        [*CALLSHEET, "demo", *args],
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, **env},
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def on_a_terminal(*args: str, columns: int) -> Done:
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(
        [*CALLSHEET, "demo", *args], stdout=terminal, stderr=terminal, env=env
    ) as child:
        os.close(terminal)
        shown = b""
        try:
            while chunk := os.read(controller, 65536):
                shown += chunk
        except OSError:  # Linux says so when the other end is closed
            pass
        os.close(controller)
        return Done(child.wait(timeout=60), shown.decode())


@pytest.fixture(scope="module")
def runs() -> Iterator[dict[str, Future[Done]]]:
    """The whole demo, twice side by side: into a pipe without Unicode, and on a narrow terminal."""
    with ThreadPoolExecutor() as pool:
        ascii_only = {"PYTHONIOENCODING": "ascii", "TERM": "dumb"}
        options = ("--protocol", "2", "--locale", "de")
        yield {
            "plain": pool.submit(piped, **ascii_only),
            "terminal": pool.submit(on_a_terminal, *options, columns=COLUMNS),
        }


@pytest.mark.parametrize("name", ["plain", "terminal"])
def test_all_checks_pass_and_no_secret_is_shown(name: str, runs: dict[str, Future[Done]]) -> None:
    done = runs[name].result()
    assert (done.code, done.errors) == (0, "")
    text = ESCAPE.sub("", done.shown)
    assert "Checks: 4 of 4 passed" in text
    assert not SECRET.search(text)
    assert "[redacted:github-token]" in text
    assert "7 completed, 1 failed, 1 denied, 1 cancelled" in text


def test_into_a_pipe_go_plain_lines(runs: dict[str, Future[Done]]) -> None:
    shown = runs["plain"].result().shown
    assert "\x1b" not in shown
    assert "\r" not in shown
    for line in (
        "> /read prices.py",
        "Reading prices.py",
        "failed: exit code 1",
        "8 +     return sum(PRICES[name] * count for name, count in basket.items())",
        "7/7 the whole shop: 6525",
        "  !python stock.py milk 4".replace("python", Path(sys.executable).name),
        "denied",
        "cancelled",
    ):
        assert line in shown


def test_titles_and_answers_are_in_the_users_language(runs: dict[str, Future[Done]]) -> None:
    shown = ESCAPE.sub("", runs["terminal"].result().shown)
    assert "prices.py wird gelesen" in shown
    assert "Einmal erlauben" in shown
    assert "ACP v2" in shown


def test_a_terminal_gets_spinners_and_its_cursor_back(runs: dict[str, Future[Done]]) -> None:
    shown = runs["terminal"].result().shown
    assert len(set("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏") & set(shown)) > 3
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    assert "✓ ◫ prices.py wird gelesen" in ESCAPE.sub("", shown)


def test_nothing_is_wider_than_a_narrow_terminal(runs: dict[str, Future[Done]]) -> None:
    shown = ESCAPE.sub("", runs["terminal"].result().shown)
    shown, _, rest = shown.partition("Use it in your editor")
    assert max(cell_len(row) for row in re.split(r"[\r\n]+", shown)) <= COLUMNS
    assert "agent_servers" in rest


def test_what_is_to_be_pasted_is_whole(runs: dict[str, Future[Done]]) -> None:
    shown = runs["plain"].result().shown
    zed, jetbrains = (json.loads(text) for text in re.findall(r"^\{\n.*?^\}$", shown, re.M | re.S))
    server = jetbrains["agent_servers"]["Callsheet"]
    assert zed["agent_servers"]["Callsheet"] == {"type": "custom", **server}
    assert [server["command"], *server["args"]] == [*CALLSHEET, "agent"]
    assert f'command = "{sys.executable}",' in shown


# Interrupted


@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM][: sized(2, 1)])
def test_a_signal_ends_the_agent_and_its_command_and_removes_the_project(
    number: signal.Signals, tmp_path: Path
) -> None:
    token = new_token()
    env = {**os.environ, "CALLSHEET_TEST_TOKEN": token, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [*CALLSHEET, "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        seen = next(line for line in child.stdout if line.startswith("1/7"))  # it is running now
        assert seen == "1/7 a loaf: 320\n"
        assert len(with_token(token, but=child.pid)) >= 2  # the agent, and the command
        assert list(tmp_path.glob("callsheet-demo-*"))
        child.send_signal(number)
        rest, errors = child.stdout.read(), child.stderr.read()
        assert child.wait(timeout=30) == 128 + number
    assert errors == ""
    assert "cancelled" in rest
    assert "Checks" not in rest
    assert wait_until_gone(token) == []
    assert not list(tmp_path.glob("callsheet-demo-*"))


@linux
def test_a_reader_that_has_enough_ends_the_agent_too(tmp_path: Path) -> None:
    token = new_token()
    env = {**os.environ, "CALLSHEET_TEST_TOKEN": token, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [*CALLSHEET, "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
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
        [*CALLSHEET, "demo"], stdout=subprocess.PIPE, text=True, env=env
    ) as child:
        assert child.stdout is not None
        next(line for line in child.stdout if line.startswith("1/7"))
        child.kill()
    assert wait_until_gone(token, 10) == []


# What it says


def test_a_wrong_locale_is_named_and_exits_with_2() -> None:
    done = piped("--locale", "xx")
    assert (done.code, done.shown) == (2, "")
    assert "'xx': expected one of en, " in done.errors


def test_a_check_that_fails_is_told_and_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = (Scene("A file is read.", "/read prices.py", ends=("denied",)),)
    monkeypatch.setattr(stage, "scenes", lambda python: wrong)
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    assert stage.run(1, None, stream) == 1
    shown = stream.buffer.getvalue().decode()  # type: ignore[attr-defined]
    assert "✗ every call ended as it should  completed; expected denied\n" in shown


def test_an_agent_that_does_not_start_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('no msgspec')")
    code = (
        "import sys, callsheet.cli.demo.stage as stage, os;"
        f"os.environ['PYTHONPATH'] = {str(tmp_path)!r};"
        "from callsheet.cli import main; sys.argv = ['callsheet', 'demo']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "callsheet: the agent has ended with 1; it said: no msgspec\n"


# The command for editors


def test_the_installed_command_is_given_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "callsheet"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["callsheet", "demo"])
    assert agent_command() == [str(program), "agent"]
    program.unlink()
    assert agent_command() == [*CALLSHEET, "agent"]


async def test_the_command_for_editors_starts_the_agent(tmp_path: Path) -> None:
    async with AgentClient(agent_command()) as client:
        assert await client.new_session(str(tmp_path))
    assert client.exit_code == 0


# The checks, over traffic that was recorded and then spoilt


SECRET_SHOWN = "ghp_" + "aB3" * 12


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> AgentClient:
    """A client that has played a short session."""
    cwd = tmp_path_factory.mktemp("project")
    (cwd / ".env").write_text(f"TOKEN={SECRET_SHOWN}\n")

    async def record() -> AgentClient:
        async with AgentClient(
            [*CALLSHEET, "agent"],
            capabilities={"_meta": {"terminal_output": True}},
            on_permission=lambda _: "allow_once",
        ) as client:
            session = await client.new_session(str(cwd))
            await client.prompt(session, "!cat .env; sleep 0.2; cat .env")
        return client

    return asyncio.run(record())


def failed(client: AgentClient, ends: tuple[str, ...] = ("completed",), **more: Any) -> list[str]:
    return [
        verdict.name.split()[1]
        for verdict in check_traffic(client, [SECRET_SHOWN], ends, more.get("stored"))
        if not verdict.passed
    ]


def spoilt(client: AgentClient, spoil: Callable[[dict[str, Any]], None]) -> Any:
    """Return what stands for a client whose agent has sent something else."""
    traffic: list[Frame] = []
    for frame in client.traffic:
        message = json.loads(frame.line)
        spoil(message)
        traffic.append(Frame(frame.way, json.dumps(message).encode() + b"\n", frame.at))
    return SimpleNamespace(traffic=traffic, version=client.version, exit_code=client.exit_code)


def update_of(message: dict[str, Any]) -> dict[str, Any]:
    return (message.get("params") or {}).get("update") or {}


def test_good_traffic_passes(client: AgentClient) -> None:
    assert failed(client) == []
    assert failed(client, ("denied",)) == ["call"]


def test_what_callsheet_check_finds_is_a_failure(client: AgentClient) -> None:
    def drop_status(message: dict[str, Any]) -> None:
        update_of(message).pop("status", None)

    assert failed(spoilt(client, drop_status)) == ["check", "call"]


def test_a_secret_in_any_field_is_found(client: AgentClient) -> None:
    def leak(message: dict[str, Any]) -> None:
        if update_of(message).get("status") == "completed":
            update_of(message)["_meta"]["note"] = SECRET_SHOWN

    assert "secret" in failed(spoilt(client, leak))


def test_a_secret_in_two_pieces_of_output_is_found(client: AgentClient) -> None:
    halves = iter((SECRET_SHOWN[:9], SECRET_SHOWN[9:]))

    def leak(message: dict[str, Any]) -> None:
        output = (update_of(message).get("_meta") or {}).get("terminal_output")
        if output is not None:
            output["data"] = next(halves, "")

    assert "secret" in failed(spoilt(client, leak))


def test_an_agent_that_had_to_be_killed_and_a_history_with_less_are_found(
    client: AgentClient,
) -> None:
    other = spoilt(client, lambda _: None)
    other.exit_code = -9
    assert failed(other, stored=StoredCalls("h", "s", [])) == ["agent", "history"]


def test_a_run_stays_well_under_fifteen_seconds(runs: dict[str, Future[Done]]) -> None:
    took = [
        float(found[1])
        for run in runs.values()
        if (found := re.search(r"in\s+(\d+\.\d) s\b", ESCAPE.sub("", run.result().shown)))
    ]
    assert len(took) == len(runs)
    assert min(took) < 15  # the fastest: this machine may have other things to do
