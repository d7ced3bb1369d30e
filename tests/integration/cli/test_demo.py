"""`callsheet demo`, as a real process: into a pipe, on a terminal, interrupted; and what its checks find."""

from __future__ import annotations

import asyncio
import base64
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
from typing import Any, NamedTuple

import pytest
from rich.cells import cell_len

from callsheet.cli.demo import checks, editors, stage
from callsheet.cli.demo.checks import Evidence, verdicts
from callsheet.cli.demo.scenes import Scene
from callsheet.testing import AgentClient, Frame
from tests.support.processes import linux, new_token, wait_until_gone, with_token

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
    """The whole demo, three times side by side."""
    with ThreadPoolExecutor() as pool:
        ascii_only = {"PYTHONIOENCODING": "ascii", "TERM": "dumb"}
        yield {
            "plain": pool.submit(piped),
            "other": pool.submit(piped, "--protocol", "2", "--locale", "de", **ascii_only),
            "terminal": pool.submit(on_a_terminal, columns=COLUMNS),
        }


@pytest.mark.parametrize("name", ["plain", "other", "terminal"])
def test_all_checks_pass_and_no_secret_is_shown(name: str, runs: dict[str, Future[Done]]) -> None:
    done = runs[name].result()
    assert (done.code, done.errors) == (0, "")
    text = ESCAPE.sub("", done.shown)
    assert f"Checks: {len(checks.CHECKS)} of {len(checks.CHECKS)} passed" in text
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
    shown = runs["other"].result().shown
    assert "prices.py wird gelesen" in shown
    assert "Einmal erlauben" in shown
    assert "ACP v2" in shown


def test_a_terminal_gets_spinners_and_its_cursor_back(runs: dict[str, Future[Done]]) -> None:
    shown = runs["terminal"].result().shown
    assert len(set("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏") & set(shown)) > 3
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    assert "✓ ◫ Reading prices.py" in ESCAPE.sub("", shown)


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
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
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
    assert "✗ every call ended as it should\n  completed; expected denied\n" in shown


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
    assert editors.agent_command() == [str(program), "agent"]
    program.unlink()
    assert editors.agent_command() == [*CALLSHEET, "agent"]


async def test_the_command_for_editors_starts_the_agent(tmp_path: Path) -> None:
    async with AgentClient(editors.agent_command()) as client:
        assert await client.new_session(str(tmp_path))
    assert client.exit_code == 0


# The checks, over traffic that was recorded and then spoilt


ENDS = ("completed", "completed", "denied")


@pytest.fixture(scope="module", params=[1, 2])
def evidence(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    cwd = tmp_path_factory.mktemp("project")
    secret = "ghp_" + "aB3" * 12
    (cwd / "a.txt").write_text("one\n")
    (cwd / ".env").write_text(f"TOKEN={secret}\n")

    async def record() -> AgentClient:
        answers = iter(("allow_once", "reject_once"))
        async with AgentClient(
            [*CALLSHEET, "agent", "--protocol", str(request.param)],
            protocol=request.param,
            capabilities={"_meta": {"terminal_output": True}},
            on_permission=lambda _: next(answers),
        ) as client:
            session = await client.new_session(str(cwd))
            await client.prompt(session, "/read a.txt\n!cat .env; sleep 0.2; cat a.txt")
            await client.prompt(session, "/delete a.txt")
        return client

    client = asyncio.run(record())
    return Evidence(client.traffic, client.version, [secret], ENDS, client.exit_code or 0)


def failed(evidence: Evidence) -> set[str]:
    functions = dict(checks.CHECKS)
    return {functions[name].__name__ for name, verdict in verdicts(evidence) if not verdict.ok}


def spoilt(
    evidence: Evidence, spoil: Callable[[dict[str, Any]], object], once: bool = True
) -> Evidence:
    """Change the first message that `spoil` says something about: what it gives is put in its place."""
    frames: list[Frame] = []
    done = False
    for frame in evidence.traffic:
        made = spoil(json.loads(frame.line)) if not (done and once) else None
        done = done or made is not None
        lines = (
            [json.dumps(one).encode() + b"\n" for one in made] if made is not None else [frame.line]
        )  # type: ignore[attr-defined]
        frames += [Frame(frame.way, line, frame.at) for line in lines]
    assert done
    return evidence._replace(traffic=frames)


def update_of(message: dict[str, Any]) -> dict[str, Any]:
    return (message.get("params") or {}).get("update") or {}


def test_good_traffic_passes(evidence: Evidence) -> None:
    assert failed(evidence) == set()


def test_a_call_that_never_ends_is_found(evidence: Evidence) -> None:
    def drop_end(message: dict[str, Any]) -> object:
        return [] if update_of(message).get("status") == "completed" else None

    found = failed(spoilt(evidence, drop_end))
    assert {"every_call_ended", "turns_are_whole", "ended_rightly"} <= found


def test_a_call_that_ends_twice_is_found(evidence: Evidence) -> None:
    def repeat(message: dict[str, Any]) -> object:
        return [message] * 2 if update_of(message).get("status") == "completed" else None

    assert "every_call_ended" in failed(spoilt(evidence, repeat))


def test_a_line_that_is_no_message_is_found(evidence: Evidence) -> None:
    found = evidence.traffic[:-1]
    bad = evidence._replace(
        traffic=[*found, Frame("in", b"Traceback\n", 0.0), evidence.traffic[-1]]
    )
    assert "all_is_readable" in failed(bad)


def test_an_update_before_its_session_is_found(evidence: Evidence) -> None:
    early = next(f for f in evidence.traffic if b"available_commands_update" in f.line)
    assert failed(evidence._replace(traffic=[early, *evidence.traffic])) == {"nothing_came_early"}


def test_a_turn_that_is_answered_too_early_is_found(evidence: Evidence) -> None:
    frames = list(evidence.traffic)
    at = next(
        n
        for n, frame in enumerate(frames)
        if b'"stopReason"' in frame.line and b'"end_turn"' in frame.line
    )
    end = max(
        n
        for n, frame in enumerate(frames[:at])
        if b'"status":"completed"' in frame.line and b"toolCallId" in frame.line
    )
    frames.insert(end, frames.pop(at))
    assert failed(evidence._replace(traffic=frames)) == {"turns_are_whole"}


def test_a_request_that_shows_another_input_is_found(evidence: Evidence) -> None:
    def change(message: dict[str, Any]) -> object:
        if message.get("method") != "session/request_permission":
            return None
        params = message["params"]
        params.get("subject", params)["toolCall"]["rawInput"] = {"command": "true"}
        return [message]

    assert failed(spoilt(evidence, change)) == {"nobody_approved_blind"}


def test_a_secret_in_any_field_is_found(evidence: Evidence) -> None:
    def leak(message: dict[str, Any]) -> object:
        if update_of(message).get("status") != "completed":
            return None
        update_of(message)["_meta"]["note"] = f"token: {evidence.secrets[0]}"
        return [message]

    assert failed(spoilt(evidence, leak)) == {"no_secret_came"}


def test_a_secret_in_two_pieces_of_output_is_found(evidence: Evidence) -> None:
    halves = iter((evidence.secrets[0][:9], evidence.secrets[0][9:]))

    def leak(message: dict[str, Any]) -> object:
        update = update_of(message)
        output = (update.get("_meta") or {}).get("terminal_output")
        if output is None and update.get("sessionUpdate") != "terminal_output_chunk":
            return None
        if output is not None:
            output["data"] = next(halves, "")
        else:
            update["data"] = base64.b64encode(next(halves, "").encode()).decode()
        return [message]

    assert "no_secret_came" in failed(spoilt(evidence, leak, once=False))


def test_output_that_is_sent_twice_is_found(evidence: Evidence) -> None:
    def repeat(message: dict[str, Any]) -> object:
        is_output = b"terminal_output" in json.dumps(message).encode()
        return [message] * 20 if is_output and "status" not in update_of(message) else None

    assert failed(spoilt(evidence, repeat, once=False)) == {"bytes_are_linear"}


def test_an_agent_that_had_to_be_killed_is_found(evidence: Evidence) -> None:
    assert failed(evidence._replace(exit_code=-9)) == {"agent_ended"}


def test_a_run_stays_well_under_fifteen_seconds(runs: dict[str, Future[Done]]) -> None:
    took = [
        float(found[1])
        for run in runs.values()
        if (found := re.search(r"in\s+(\d+\.\d) s\b", ESCAPE.sub("", run.result().shown)))
    ]
    assert len(took) == len(runs)
    assert min(took) < 15  # the fastest: this machine may have other things to do
