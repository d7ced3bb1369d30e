"""`callsheet tap` in front of an agent: what a client, a terminal and the process table see of it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from callsheet.check.engine import check_stream
from callsheet.cli.app import app
from callsheet.cli.history.lookup import opened
from callsheet.history import Query
from callsheet.testing import AgentClient, Recording, assert_every_call_ended
from tests.support.processes import linux, new_token, wait_until_gone
from tests.support.puppet import puppet

TAP = [sys.executable, "-m", "callsheet", "tap"]
PATIENCE = 30
SECRET = "ghp_" + "a1B2" * 9


def update(told: dict[str, Any], kind: str = "tool_call") -> list[Any]:
    params = {"sessionId": "s1", "update": {"sessionUpdate": kind, **told}}
    return ["say", {"jsonrpc": "2.0", "method": "session/update", "params": params}]


def answer(result: dict[str, Any]) -> list[Any]:
    return ["say", {"jsonrpc": "2.0", "id": "$id", "result": result}]


GREETING = [
    ["await", "initialize"],
    answer({"protocolVersion": 1, "agentInfo": {"name": "puppet", "version": "1"}}),
    ["await", "session/new"],
    answer({"sessionId": "s1"}),
]
CALL = {"toolCallId": "c1", "title": "bash", "kind": "execute", "status": "in_progress"}
OPEN = update({**CALL, "rawInput": {"command": "make"}})


SHORT = "from callsheet.tap import stdio; stdio.GONE = 0.4; from callsheet.cli import main; main()"
"""Runs a command with little patience for agents whose clients are gone."""


def start(*command: str, options: tuple[str, ...] = (), **more: Any) -> subprocess.Popen[bytes]:
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    tap = [sys.executable, "-c", SHORT, "tap"]
    return subprocess.Popen([*tap, *options, "--", *command], bufsize=0, **pipes, **heard, **more)


def run(*command: str, said: bytes = b"", options: tuple[str, ...] = ()) -> tuple[int, bytes, str]:
    process = start(*command, options=options)
    out, err = process.communicate(said, timeout=PATIENCE)
    return process.returncode, out, err.decode()


def requests(*methods: str) -> bytes:
    params = {
        "initialize": {"protocolVersion": 1},
        "session/new": {"cwd": "/code", "mcpServers": []},
    }
    lines = [
        json.dumps(
            {
                "jsonrpc": "2.0",
                "id": n,
                "method": method,
                "params": params.get(method, {"sessionId": "s1", "prompt": []}),
            }
        )
        for n, method in enumerate(methods)
    ]
    return "".join(line + "\n" for line in lines).encode()


TURN = requests("initialize", "session/new", "session/prompt")


def updates_in(out: bytes) -> list[dict[str, Any]]:
    messages = [json.loads(line) for line in out.splitlines()]
    return [m["params"]["update"] for m in messages if m.get("method") == "session/update"]


# What passes


def test_what_is_not_about_calls_passes_byte_for_byte_both_ways() -> None:
    dice = random.Random(9)
    pieces = [
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":'
        b'"agent_message_chunk","content":{"type":"text","text":"%d hello"}}}}\n' % n
        for n in range(500)
    ]
    odd = [b"no json\r\n", b"\n", b'{"a" : 1e5 , "b":"\\u0041"}\n', dice.randbytes(999), b"the end"]
    said = b"".join([*pieces, *odd])
    assert run("cat", said=said) == (0, said, "")


def test_stderr_and_the_exit_code_are_the_agents() -> None:
    assert run(*puppet(["grumble", "oops"], ["exit", 3])) == (3, b"", "oops\n")
    assert run("sh", "-c", "kill -9 $$")[0] == 128 + signal.SIGKILL


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_signals_are_passed_on(name: str) -> None:
    code = (
        f"import signal, sys, time; signal.signal(signal.{name}, lambda *_: sys.exit(9));"
        "print('ready', flush=True); time.sleep(60)"
    )
    with start(sys.executable, "-c", code) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(getattr(signal, name))
        assert process.wait(PATIENCE) == 9


def test_what_is_wrong_with_the_command_line_is_said() -> None:
    assert run("no-such-agent") == (
        127,
        b"",
        "callsheet tap: no-such-agent: there is no such command\n",
    )
    for arguments, said in (
        ([], "COMMAND"),
        (["--record", "-", "--", "cat"], "stdout is the client's"),
        (["--history", "mysql://x", "--", "cat"], "mysql"),
        (["--locale", "--", "cat"], "expected one of en, de, "),
    ):
        done = CliRunner().invoke(app, ["tap", *arguments])
        assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


# How calls end


def test_a_call_that_an_agent_leaves_open_when_it_dies_is_ended(tmp_path: Path) -> None:
    dies = [*GREETING, ["await", "session/prompt"], OPEN, ["exit", 5]]
    report = tmp_path / "report.txt"
    code, out, err = run(*puppet(*dies), said=TURN, options=("--report", str(report)))
    assert (code, err) == (5, "")
    (opened, ended) = updates_in(out)
    assert (opened["title"], opened["status"]) == ("Running `make`", "in_progress")
    assert (ended["status"], ended["_meta"]["callsheet"]["reason"]) == ("failed", "abandoned")
    assert "1  open call ended" in report.read_text()


def test_what_is_reported_an_agent_that_dies_within_a_line_stands_on_lines_of_its_own(
    tmp_path: Path,
) -> None:
    dies = [*GREETING, ["await", "session/prompt"], OPEN, ["mumble", '{"jsonrpc":'], ["exit", 5]]
    path = tmp_path / "traffic.jsonl"
    code, out, _ = run(*puppet(*dies), said=TURN, options=("--record", str(path)))
    lines = out.splitlines()
    assert (code, lines[-2]) == (5, b'{"jsonrpc":')
    assert updates_in(lines[-1])[0]["status"] == "failed"
    recorded = [json.loads(line) for line in path.read_text().splitlines()]
    assert recorded[-2]["raw"] == '{"jsonrpc":'
    assert recorded[-1]["msg"] == json.loads(lines[-1])


def test_an_announcement_without_input_waits_but_not_for_long() -> None:
    slow = [*GREETING, ["await", "session/prompt"], update({**CALL, "rawInput": {}}), ["sleep", 60]]
    with start(*puppet(*slow)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(TURN)
        lines = [process.stdout.readline() for _ in range(3)]
        assert updates_in(b"".join(lines))[0]["title"] == "Running a command"
        process.terminate()
        process.wait(PATIENCE)


def test_a_call_starts_when_it_is_reported_by_the_time_of_day() -> None:
    tells = [*GREETING, ["await", "session/prompt"], OPEN, ["await", "never"]]
    asked = TURN.splitlines(keepends=True)
    with start(*puppet(*tells)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join(asked[:2]))
        _ = [process.stdout.readline() for _ in range(2)]
        before = time.time()
        process.stdin.write(asked[2])
        (opened,) = updates_in(process.stdout.readline())
        after = time.time()
    began = datetime.fromisoformat(opened["_meta"]["callsheet"]["startedAt"]).timestamp()
    assert before - 0.01 <= began <= after + 0.01


def test_the_end_of_a_turn_comes_after_the_ends_of_its_calls() -> None:
    leaves = [*GREETING, ["await", "session/prompt"], OPEN, answer({"stopReason": "end_turn"})]
    _, out, err = run(*puppet(*leaves), said=TURN)
    last = [json.loads(line) for line in out.splitlines()][-2:]
    assert last[0]["params"]["update"]["status"] == "failed"
    assert last[1]["result"] == {"stopReason": "end_turn"}
    assert err.startswith("callsheet tap: 1 call\n")


# Who is left behind


@linux
def test_an_agent_that_stays_when_its_client_is_gone_is_ended() -> None:
    token = new_token()
    stays = f"trap '' HUP; sleep {token} & echo ready; wait"
    with start("sh", "-c", stays) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"ready\n"
        process.stdin.close()
        process.stdout.close()
        assert process.wait(PATIENCE) != 0
        assert wait_until_gone(token) == []


@linux
def test_an_agent_that_works_on_for_a_client_that_only_listens_is_let_be() -> None:
    works = "import sys, time; sys.stdin.read(); time.sleep(1); print('done')"
    assert run(sys.executable, "-c", works)[:2] == (0, b"done\n")


@linux
def test_nothing_is_left_behind_if_the_tap_is_killed() -> None:
    token = new_token()
    with start("sh", "-c", f"sleep {token} & echo ready; wait") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.kill()
        process.wait(PATIENCE)
        assert wait_until_gone(token) == []


# What is kept


def test_a_recording_is_what_the_client_saw_without_secrets(tmp_path: Path) -> None:
    shows = {
        "content": [{"type": "content", "content": {"type": "text", "text": f"TOKEN={SECRET}"}}]
    }
    write = {"sessionId": "s1", "path": "/code/session/update", "content": f"TOKEN={SECRET}"}
    steps = [
        *GREETING,
        ["await", "session/prompt"],
        OPEN,
        ["say", {"jsonrpc": "2.0", "id": 7, "method": "fs/write_text_file", "params": write}],
        update({"toolCallId": "c1", "status": "completed", **shows}, "tool_call_update"),
        answer({"stopReason": "end_turn"}),
    ]
    path = tmp_path / "traffic.jsonl"
    wrote = b'{"jsonrpc":"2.0","id":7,"result":{"was":"TOKEN=%s"}}\n' % SECRET.encode()
    typed = TURN.replace(b'"prompt": []', b'"prompt": [{"type": "text", "text": "Use %s"}]')
    said = typed % SECRET.encode() + wrote
    _, out, _ = run(*puppet(*steps), said=said, options=("--record", str(path)))
    assert SECRET in out.decode()  # the file must get what was meant …
    assert sum(SECRET.encode() in line for line in out.splitlines()) == 1
    recorded = path.read_bytes()
    assert SECRET.encode() not in recorded  # … and nobody else
    assert recorded.count(b'"client->agent"') == said.count(b"\n")
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open("rb") as stream:
        assert [f.rule for f in check_stream(stream) if f.severity == "error"] == []


def test_calls_and_what_was_said_are_kept_in_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"content": {"type": "text", "text": "On it."}}
    steps = [
        *GREETING,
        ["await", "session/prompt"],
        update(said, "agent_message_chunk"),
        OPEN,
        answer({"stopReason": "end_turn"}),
    ]
    url = f"sqlite:///{tmp_path}/history.sqlite"
    # All of it is there before the agent answers anything, so its name and the directory come late.
    typed = TURN.replace(b'"prompt": []', b'"prompt": [{"type": "text", "text": "Go"}]')
    run(*puppet(*steps), said=typed, options=("--history", url))
    with opened(url) as store:
        found = store.session("s1")
    assert found is not None
    assert (found.origin.agent_name, found.cwd) == ("puppet 1", "/code")
    monkeypatch.setenv("CALLSHEET_HISTORY", url)
    shown = CliRunner().invoke(app, ["show", "c1"]).stdout
    assert "failed, abandoned" in shown
    (repaired,) = (line for line in shown.splitlines() if line.startswith("repaired"))
    assert {"end", "name", "title"} <= set(repaired.removeprefix("repaired").strip().split(", "))
    replayed = CliRunner().invoke(app, ["replay", "s1"]).stdout
    assert "On it." in replayed
    assert replayed.index("On it.") < replayed.index("Running")


# Our own agent


@pytest.mark.parametrize("version", [1, 2])
async def test_our_own_agent_is_as_good_behind_the_tap(version: Any, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(f"# Hello\n{SECRET}\n")
    report = tmp_path / "report.txt"
    command = [*TAP, "--report", str(report), "--", sys.executable, "-m", "callsheet", "agent"]
    recording = Recording()
    async with AgentClient(
        [*command, "--protocol", str(version)], protocol=version, recording=recording
    ) as here:
        session = await here.new_session(str(tmp_path))
        for typed in (
            "/read README.md",
            "!echo one; sleep 0.1; echo two; exit 3",
            "/write a.txt content=hi",
            "/edit path=a.txt old_text=nowhere new_text=ho",
        ):
            assert await here.prompt(session, typed) == "end_turn"
    assert here.version == version
    assert here.exit_code == 0
    assert_every_call_ended(here.lines)
    assert recording.check() == []
    assert SECRET.encode() not in b"".join(here.lines)
    assert re.fullmatch(r"callsheet tap: 4 calls\n.* to the client\n", report.read_text())


@pytest.mark.parametrize(
    ("of_agent", "sources"),
    [("here", ["agent"]), ("off", ["tap"]), ("elsewhere", ["tap"])],
)
async def test_what_our_own_agent_stores_is_not_stored_again(
    of_agent: str, sources: list[str], tmp_path: Path
) -> None:
    (tmp_path / "README.md").write_text("Hello\n")
    urls = {name: f"sqlite:///{tmp_path}/{name}.sqlite" for name in ("here", "elsewhere")}
    agent = ["agent", "--history", urls.get(of_agent, of_agent)]
    command = [*TAP, "--history", urls["here"], "--", sys.executable, "-m", "callsheet", *agent]
    async with AgentClient(command) as here:
        session = await here.new_session(str(tmp_path))
        await here.prompt(session, "/read README.md")
    with opened(urls["here"]) as store:
        assert [one.origin.source for one in store.sessions()] == sources
        assert len(store.calls(Query())) == 1
        found = store.session(session)
    assert found is not None
    assert found.title == "/read README.md"


async def test_a_cancel_reaches_the_agent_and_what_ran_is_cancelled(tmp_path: Path) -> None:
    command = [*TAP, "--", sys.executable, "-m", "callsheet", "agent", "--permission", "allow"]
    recording = Recording()
    async with AgentClient(command, recording=recording) as here:
        session = await here.new_session(str(tmp_path))
        turn = asyncio.ensure_future(here.prompt(session, "!sleep 30"))
        until = time.monotonic() + PATIENCE
        while not any(b"in_progress" in line for line in here.lines):
            assert time.monotonic() < until
            await asyncio.sleep(0.02)
        await here.cancel(session)
        assert await turn == "cancelled"
    assert_every_call_ended(here.lines)
    assert recording.check() == []


def test_the_last_line_of_an_agent_is_looked_into_without_its_end() -> None:
    last = json.dumps(update({**CALL, "rawInput": {"command": f"echo {SECRET}"}})[1])
    agent = puppet(*GREETING, ["await", "session/prompt"], ["mumble", last], ["exit", 0])
    _, out, _ = run(*agent, said=TURN)
    told = [json.loads(line)["params"]["update"]["status"] for line in out.splitlines()[2:]]
    assert SECRET.encode() not in out
    assert told == ["in_progress", "failed"]


@linux
def test_calls_end_though_somebody_whom_the_agent_left_behind_holds_its_stdout() -> None:
    daemon = ["run", ["setsid", "sleep", "3"]]
    last = [["sleep", 0.2], ["exit", 3]]
    with start(*puppet(*GREETING, ["await", "session/prompt"], OPEN, daemon, *last)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(TURN)
        lines = process.stdout.read().splitlines()
        assert process.wait(PATIENCE) == 3
    assert json.loads(lines[-1])["params"]["update"]["status"] == "failed"


@linux
def test_an_agent_that_has_closed_its_stdin_is_ended_when_the_client_is_gone() -> None:
    deaf = "import os, time; os.close(0); print(flush=True); time.sleep(60)"
    with start(sys.executable, "-c", deaf) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.read(1)
        with suppress(BrokenPipeError):  # as from a bare pipe
            process.stdin.write(TURN)
        process.stdin.close()
        process.stdout.close()
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM


@linux
def test_an_agent_that_never_reads_is_ended_when_the_client_is_gone() -> None:
    deaf = "import time; print(flush=True); time.sleep(60)"
    with start(sys.executable, "-c", deaf) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.read(1)
        os.set_blocking(process.stdin.fileno(), False)
        with suppress(BlockingIOError):
            while process.stdin.write(b'{"jsonrpc":"2.0","method":"_x"}\n' * 2000):
                time.sleep(0.1)
        process.stdin.close()
        process.stdout.close()
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM
