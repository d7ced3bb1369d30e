"""`callsheet record` stands between a client and an agent, and nobody but the recording shows it."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest

from callsheet.acp.jsonrpc import LineBuffer
from callsheet.check.engine import check_stream
from callsheet.observe.lines import is_json, read_lines
from callsheet.tap import recording
from callsheet.tap.recording import RecordingWriter
from callsheet.testing import AgentClient, assert_every_call_ended
from tests.support.processes import linux, new_token, wait_until_gone, with_token

RECORD = [sys.executable, "-m", "callsheet", "record", "-o"]
PATIENCE = 20


def start(path: object, *command: str, **options: Any) -> subprocess.Popen[bytes]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # What is started in the background of a shell ignores SIGINT, and so would what we start.
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
    options = pipes | (heard if os.name == "posix" else {}) | options
    return subprocess.Popen([*RECORD, str(path), "--", *command], bufsize=0, **options)


def run(path: object, *command: str, said: bytes = b"") -> tuple[int, bytes, str]:
    process = start(path, *command)
    out, err = process.communicate(said, timeout=PATIENCE)
    return process.returncode, out, err.decode()


def python(code: str) -> tuple[str, str, str]:
    return sys.executable, "-c", code


def lines_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def read_until(process: subprocess.Popen[bytes], wanted: bytes) -> bytes:
    """Read what is there as it comes, until it ends with this."""
    assert process.stdout is not None
    said = b""
    while not said.endswith(wanted):
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
        more = process.stdout.read(1 << 16) if ready else b""
        assert more, f"{said!r} and no more"
        said += more
    return said


def wait_for(done: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traffic.jsonl"


# What is passed on


def test_every_byte_is_passed_on_both_ways(path: Path) -> None:
    said = random.Random(8).randbytes(3_000_000) + b"\n" + b"x" * 2_000_000
    code, heard, errors = run(path, "cat", said=said)
    assert (code, errors) == (0, "")
    assert heard == said


def test_what_is_no_line_yet_is_passed_on_at_once(path: Path) -> None:
    with start(path, "cat") as process:
        assert process.stdin is not None
        for piece in (b'{"a"', b": 1", b"}", b"\n", b"\xff\0"):
            process.stdin.write(piece)
            assert read_until(process, piece) == piece
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


def test_stderr_is_the_agents(path: Path) -> None:
    assert run(path, "sh", "-c", "echo oops >&2; exit 3") == (3, b"", "oops\n")


def test_a_client_that_reads_late_still_gets_all_of_an_agent_that_has_ended(path: Path) -> None:
    with start(path, *python("import os; os.write(1, b'x' * 150_000)")) as process:
        time.sleep(0.9)  # longer than anybody who is silent is waited for
        assert process.stdout is not None
        assert process.poll() is None
        assert len(process.stdout.read()) == 150_000
        assert process.wait(PATIENCE) == 0


def test_the_end_of_each_side_reaches_the_other(path: Path) -> None:
    closes = "import os, sys; os.close(1); sys.stdin.read(); sys.exit(7)"
    with start(path, *python(closes)) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.read() == b""  # it still runs
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(PATIENCE) == 7


def test_an_agent_is_notified_that_its_client_does_not_read_any_more(path: Path) -> None:
    writes = "import os, signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL)\nwhile True: os.write(1, b'x' * 999)"
    with start(path, *python(writes)) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(PATIENCE) == 128 + signal.SIGPIPE


def test_a_client_is_notified_that_the_agent_does_not_read_any_more(path: Path) -> None:
    with start(path, *python("import os, time; os.close(0); time.sleep(60)")) as process:
        assert process.stdin is not None
        with pytest.raises(BrokenPipeError):
            for _ in range(10_000):
                process.stdin.write(b"x" * 1000)
                time.sleep(0.001)
        process.terminate()
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM


def test_what_else_the_client_has_opened_is_the_agents_and_ends_with_it(path: Path) -> None:
    read_end, write_end = os.pipe()
    tells = f"import os; os.write({write_end}, b'hello')"
    with start(path, *python(tells), pass_fds=[write_end]) as process:
        os.close(write_end)
        with os.fdopen(read_end, "rb") as pipe:
            assert pipe.read() == b"hello"
        assert process.wait(PATIENCE) == 0


# How it ends


def test_the_exit_code_is_the_agents(path: Path) -> None:
    assert run(path, "sh", "-c", "exit 42")[0] == 42
    assert run(path, "sh", "-c", "kill -9 $$")[0] == 128 + signal.SIGKILL


def test_a_command_that_is_not_there_is_said_and_no_recording_is_touched(path: Path) -> None:
    path.write_text("{}\n")
    code, out, errors = run(path, "no-such-agent", "--acp")
    assert (code, out) == (127, b"")
    assert errors == "callsheet record: no-such-agent: there is no such command\n"
    assert run(path, str(path))[0] == 126
    assert path.read_text() == "{}\n"


def test_without_a_command_or_a_file_it_says_what_is_missing(path: Path) -> None:
    for arguments, said in (
        (["-o", str(path)], "COMMAND"),
        (["--", "cat"], "--output"),
        (["-o", "-", "--", "cat"], "stdout is the client's"),
    ):
        done = subprocess.run(
            [*RECORD[:-1], *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signals_are_passed_on(name: str, path: Path) -> None:
    answers = f"import signal, sys, time; signal.signal(signal.{name}, lambda *_: sys.exit(9)); print('ready', flush=True); time.sleep(60)"
    with start(path, *python(answers)) as process:
        read_until(process, b"ready\n")
        process.send_signal(getattr(signal, name))
        assert process.wait(PATIENCE) == 9


def test_an_agent_that_does_not_care_about_a_signal_goes_on(path: Path) -> None:
    deaf = "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); print('ready', flush=True); print(sys.stdin.read())"
    with start(path, *python(deaf)) as process:
        assert process.stdin is not None
        read_until(process, b"ready\n")
        process.send_signal(signal.SIGINT)
        process.stdin.write(b"still here")
        process.stdin.close()
        read_until(process, b"still here\n")
        assert process.wait(PATIENCE) == 0


def test_ctrl_c_reaches_all_that_the_agent_runs_in_the_foreground(path: Path) -> None:
    with start(path, "sh", "-c", "echo ready; sleep 60; echo no") as process:
        read_until(process, b"ready\n")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 128 + signal.SIGINT


@linux
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, None])
def test_nothing_is_left_behind(end: int | None, path: Path) -> None:
    token = new_token()
    stays = f"trap '' TERM; sleep {token} & sleep {token} & echo ready; "
    with start(
        path, "sh", "-c", stays + ("wait; wait; wait" if end == signal.SIGKILL else "cat")
    ) as process:
        assert process.stdin is not None
        read_until(process, b"ready\n")
        if end is not None:
            process.send_signal(end)
        process.stdin.close()
        process.wait(PATIENCE)
        assert wait_until_gone(token) == []


DETACHED = """\
import subprocess, sys, time
nothing = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
subprocess.Popen(["sleep", sys.argv[1]], start_new_session=True, **nothing)
print("ready", flush=True)
"""


@linux
@pytest.mark.parametrize("killed", ["agent", "recorder"])
def test_nothing_is_left_of_an_agent_that_was_killed(killed: str, path: Path) -> None:
    token = new_token()
    with start(path, *python(DETACHED + "time.sleep(60)"), token) as process:
        read_until(process, b"ready\n")
        (agent,) = [
            child
            for child in psutil.Process(process.pid).children()
            if child.cmdline()[:2] == [sys.executable, "-c"]
        ]
        (agent if killed == "agent" else process).kill()
        process.wait(PATIENCE)
        assert wait_until_gone(token) == []


@linux
def test_what_an_agent_leaves_running_when_it_ends_by_itself_runs_on(path: Path) -> None:
    token = new_token()
    code, out, _ = run(path, *python(DETACHED), token)
    try:
        assert (code, out) == (0, b"ready\n")
        assert with_token(token)
    finally:
        for line in with_token(token):
            os.kill(int(line.split()[0]), signal.SIGKILL)


# What is recorded


def test_lines_are_recorded_as_they_came(path: Path) -> None:
    said = b'{"b" :1,"a":"\\u00e9 \xc3\xa9"}\r\n\n[1]\nLoading\xe2\x80\xa6\n\xff\n{"cut": '
    assert run(path, "cat", said=said)[1] == said
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for way in ("client->agent", "agent->client"):
        mine = [line for line in lines_in(path) if line["dir"] == way]
        kept = [{key: line[key] for key in line if key not in ("t", "dir")} for line in mine]
        assert kept == [
            {"msg": {"b": 1, "a": "é é"}},
            {"msg": [1]},
            {"raw": "Loading…"},
            {"base64": "/w=="},
            {"raw": '{"cut": '},
        ]
    assert b'"msg": {"b" :1,"a":"\\u00e9 \xc3\xa9"}' in path.read_bytes()
    times = [line["t"] for line in lines_in(path)]
    assert times == sorted(times)
    assert 0 <= times[0] <= times[-1] < PATIENCE


def test_what_was_no_message_is_read_as_such(path: Path) -> None:
    run(path, "printf", "%s\\n", '{"jsonrpc":"2.0","id":1,"result":{}}', "Loading", '{"cut": ')
    with path.open("rb") as stream:
        message, loading, cut = read_lines(stream)
    assert (message.sender, message.message) == ("agent", {"jsonrpc": "2.0", "id": 1, "result": {}})
    assert (loading.sender, loading.message, loading.raw) == ("agent", None, b"Loading")
    assert "no JSON" in str(loading.problem)
    assert loading.time is not None
    assert (cut.message, cut.raw, cut.fault) == (None, b'{"cut": ', "cut")


def test_a_permission_request_comes_before_its_answer(path: Path) -> None:
    with start(path, "cat") as process:
        assert process.stdin is not None
        for number in range(300):
            process.stdin.write(b"%d\n" % number)
            read_until(process, b"%d\n" % number)
        process.stdin.close()
        process.wait(PATIENCE)
    told = [(line["msg"], line["dir"]) for line in lines_in(path)]
    assert told == [(n, way) for n in range(300) for way in ("client->agent", "agent->client")]


def test_it_can_be_read_while_the_agent_runs(path: Path) -> None:
    with start(path, "cat") as process:
        assert process.stdin is not None
        process.stdin.write(b"1\n")
        wait_for(lambda: path.exists() and path.read_bytes().count(b"\n") == 2)
        process.kill()
    assert [line["msg"] for line in lines_in(path)] == [1, 1]


def test_a_directory_gets_a_file_for_each_run(tmp_path: Path) -> None:
    for _ in range(2):
        assert run(tmp_path, "/bin/echo", "1")[0] == 0
    assert len(list(tmp_path.glob("echo-*.jsonl"))) == 2


def test_a_file_is_replaced_and_is_the_users_alone(path: Path) -> None:
    path.write_text("old\n")
    path.chmod(0o644)
    with path.open() as held:
        assert run(path, "true") == (0, b"", "")
        assert path.read_text() == "old\n", "a run without a message replaces nothing"
        _, _, errors = run(path, "echo", "1")
        assert errors == f"callsheet record: {path}: the recording that was there is replaced\n"
        assert held.read() == "old\n"
    assert [line["msg"] for line in lines_in(path)] == [1]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("bad", ["/no/such/directory/x.jsonl", "/dev/full"])
def test_a_file_that_can_not_be_written_is_said_once_and_holds_up_nothing(bad: str) -> None:
    said = b"1\n" * 100_000
    code, heard, errors = run(bad, "cat", said=said)
    assert (code, heard) == (0, said)
    assert errors.count("\n") == 1
    assert errors.startswith(f"callsheet record: {bad}: No s")


def test_a_disk_that_is_too_slow_ends_the_recording_and_this_is_said_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(path)
    said: list[str] = []
    monkeypatch.setattr(recording, "MOST", 100_000)
    writer = RecordingWriter(str(path), warn=said.append)
    for number in range(4):  # nobody reads yet, so nothing is written
        writer.write("agent->client", b'{"id": %d, "x": "%s"}\n' % (number, b"x" * 60_000))
    heard: list[bytes] = []
    reader = Thread(target=lambda: heard.append(path.read_bytes()))
    reader.start()
    writer.close()
    reader.join(PATIENCE)
    assert [json.loads(line)["msg"]["id"] for line in heard[0].splitlines()] == [0, 1]
    assert [one.partition(": ")[2] for one in said] == [
        "the disk is too slow; what follows is not recorded"
    ]


def test_a_line_that_is_too_long_is_cut_and_says_so(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LineBuffer.__init__, "__defaults__", (5,))
    monkeypatch.setattr("callsheet.acp.jsonrpc.EXCERPT", 3)
    writer = RecordingWriter(str(path), warn=pytest.fail)
    for piece in (b"123", b"456", b"78\n12", b"345\n\n12345"):
        writer.write("agent->client", piece)
    writer.close()
    cut, whole, rest = map(json.loads, path.read_bytes().splitlines())
    assert (cut["raw"], cut["size"]) == ("123", 6)
    assert (whole["msg"], rest["msg"]) == (12345, 12345)


@pytest.mark.parametrize(
    "data", [b'{"a":1}}', b'{"a":"\xff"}', b'1},{"x":2', b'{"a":1', b"NaN", b"", b"[" * 100_000]
)
def test_only_what_is_json_goes_into_the_line_as_it_is(data: bytes) -> None:
    assert not is_json(data)


# With a real agent and a real client


def recorded(path: Path, command: Sequence[str]) -> list[str]:
    return [*RECORD, str(path), "--", *command]


@pytest.mark.parametrize("version", [1, 2])
async def test_a_session_goes_as_ever_and_its_recording_is_what_the_client_saw(
    version: int, tmp_path: Path, path: Path
) -> None:
    agent = [sys.executable, "-m", "callsheet", "agent", "--protocol", str(version)]
    client = AgentClient(recorded(path, agent), protocol=version)  # pyright: ignore[reportArgumentType]
    async with client:
        session = await client.new_session(str(tmp_path))
        (tmp_path / "notes.txt").write_text("one\ntwo\n")
        prompt = "/read notes.txt\n!echo out; exit 3\n/write new.txt content=hello"
        assert await client.prompt(session, prompt) == "end_turn"
    assert client.exit_code == 0
    kept = {"in": list[bytes](), "out": list[bytes]()}
    for line in path.read_bytes().splitlines():
        way = "in" if b'"dir": "agent->client"' in line[:50] else "out"
        kept[way].append(line.partition(b'"msg": ')[2][:-1] + b"\n")
    assert kept["in"] == client.lines
    assert kept["out"] == [frame.line for frame in client.recording.frames if frame.way == "out"]
    assert_every_call_ended([line["msg"] for line in lines_in(path)], at_least=3)
    with path.open("rb") as stream:
        assert list(check_stream(stream)) == []
