"""Commands as processes: what they get, what is told of them, and that nothing of them stays behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from callsheet.processes import process as processes
from callsheet.processes import table
from callsheet.processes.process import Ended, Process
from callsheet.processes.table import end_tree
from tests.support.needs import needs
from tests.support.processes import children, linux, new_token, wait_until_gone, with_token
from tests.support.sizes import FULL

PYTHON = sys.executable

# Ways to get away from whoever started the command. {t} stands for seconds to sleep.
RUNAWAYS = {
    "a child": "sleep {t} & sleep {t}",
    "a group of its own": "set -m; sleep {t} & sleep {t}",
    "a session of its own": "setsid sleep {t} & sleep {t}",
    "orphaned": "(sleep {t} &); sleep {t}",
    "a daemon": "(setsid sleep {t} >/dev/null 2>&1 </dev/null &); sleep {t}",
    "a daemon without environment": "(setsid env -i sleep {t} >/dev/null 2>&1 &); sleep {t}",
    "deaf": "trap '' TERM INT HUP; sleep {t} & (trap '' TERM; exec setsid sleep {t}) & sleep {t}",
    "stopped": "sleep {t} & kill -STOP $!; sleep {t}",
    "starts more when told to end": "trap 'setsid sleep {t} & sleep {t}' TERM; sleep {t} & wait",
    "deep": 'sh -c \'sh -c "sh -c \\"sleep {t} & sleep {t}\\" & sleep {t}" & sleep {t}\'',
}

# After a timeout, all of them are tried every day; other ends take the same way from there on.
HARDEST = ("a daemon without environment", "deaf", "starts more when told to end")
SOME = RUNAWAYS if FULL else {kind: RUNAWAYS[kind] for kind in HARDEST}

# Each child takes over from its parent, and is gone from where it was when one looks.
RELAY = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(1, b"up")
for _ in range(20_000):
    if os.fork():
        os._exit(0)
    if sys.argv[1] == "sessions":
        os.setsid()
os.write(1, b"came to its end")
"""


@pytest.fixture
def token() -> Iterator[str]:
    """Return something that marks the processes of a test, and hold that none is left after it."""
    value = new_token()
    before = children()
    yield value
    if sys.platform == "linux":
        assert with_token(value) == []
        assert children(before) == []


class Output(bytearray):
    """What was printed."""

    def wait_for(self, text: bytes) -> Any:
        async def wait() -> None:
            while text not in self:
                await asyncio.sleep(0.005)

        return asyncio.wait_for(wait(), 5)


def process(command: str, output: Output, token: str = "", **options: Any) -> Process:
    env = {**os.environ, "TOKEN": token}
    argv = ["bash", "-c", command.replace("{t}", token)]
    return Process(argv, cwd="/", env=env, on_output=output.extend, **options)


async def run(
    command: str, token: str = "", timeout: float | None = 20, **options: Any
) -> tuple[Ended, bytes]:
    output = Output()
    ended = await process(command, output, token, **options).run(timeout)
    return ended, bytes(output)


# What a command gets


async def test_both_outputs_come_in_the_order_in_which_they_were_written() -> None:
    _, output = await run("for i in {0..99}; do echo o$i; echo e$i >&2; done")
    assert output.split() == [f"{kind}{i}".encode() for i in range(100) for kind in "oe"]


async def test_output_comes_while_the_command_runs(token: str) -> None:
    output = Output()
    task = asyncio.create_task(process("echo first; sleep {t}", output, token).run())
    await output.wait_for(b"first\n")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_input_is_at_its_end_at_once() -> None:
    ended, output = await run("cat; echo $?; read x; echo $?")
    assert (ended.exit_code, output) == (0, b"0\n1\n")


@linux
async def test_nothing_is_inherited_but_the_three_standard_descriptors() -> None:
    with Path("/dev/null").open() as file:
        os.set_inheritable(file.fileno(), True)
        _, output = await run("for f in /proc/$$/fd/*; do [ -e $f ] && echo ${f##*/}; done")
    assert output.split() == [b"0", b"1", b"2"]


@linux
async def test_it_leads_a_session_and_a_group_without_a_terminal() -> None:
    _, output = await run("echo $$; cut -d' ' -f5-7 /proc/$$/stat; cat /dev/tty")
    pid, group, session, terminal = output.split()[:4]
    assert pid == group == session
    assert terminal == b"0"
    assert b"/dev/tty: No such device" in output


@linux
async def test_no_signal_is_blocked_or_ignored_in_it() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        _, output = await run("grep -E 'Sig(Ign|Blk)' /proc/self/status")
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        signal.signal(signal.SIGHUP, before)
    libc_own = 0b11 << 31  # signals 32 and 33 are the C library's, and no program can set them back
    masks = [int(line.split()[1], 16) & ~libc_own for line in output.splitlines()]
    assert masks == [0, 0]


async def test_environment_and_directory_are_those_that_were_given(tmp_path: Path) -> None:
    output = Output()
    env = {"ODD": "a=b\nc ", "EMPTY": "", "PATH": os.environ["PATH"]}
    argv = ["bash", "-c", 'pwd; printf "%s|" "$ODD" "$EMPTY"; compgen -e']
    await Process(argv, cwd=tmp_path, env=env, on_output=output.extend).run()
    directory, rest = output.decode().split("\n", 1)
    assert Path(directory) == tmp_path
    assert rest.startswith("a=b\nc ||")
    assert {"ODD", "EMPTY", "PATH"} <= set(rest.rpartition("|")[2].split())
    assert "HOME" not in rest


# What is told of it


@pytest.mark.parametrize(
    ("command", "code", "sign"),
    [
        ("true", 0, None),
        ("exit 3", 3, None),
        ("exit 255", 255, None),
        ("kill -KILL $$", None, "SIGKILL"),
        ("kill -SEGV $$", None, "SIGSEGV"),
        ("exec sh -c 'kill -USR1 $$'", None, "SIGUSR1"),
        ("sh -c 'kill -KILL $$'; exit $?", 137, None),
        ("kill -40 $$", None, "SIGRTMIN+6"),
    ],
)
async def test_exit_code_or_signal_is_reported(
    command: str, code: int | None, sign: str | None
) -> None:
    if sign and "RT" in sign and sys.platform != "linux":
        pytest.skip("there are no real-time signals")
    ended, _ = await run(command)
    assert (ended.exit_code, ended.signal, ended.timed_out) == (code, sign, False)


async def test_time_and_memory_of_all_that_it_started_are_counted() -> None:
    work = "import time; b = bytearray(60_000_000)\nwhile time.process_time() < 0.25: pass"
    ended, _ = await run(f"""'{PYTHON}' -c '{work}' & (setsid '{PYTHON}' -c '{work}' &); wait""")
    assert ended.cpu_ms is not None
    assert ended.max_rss_kb is not None
    assert 500 <= ended.cpu_ms < 5000
    assert 58_000 <= ended.max_rss_kb < 120_000
    idle, _ = await run("sleep 0.3")
    assert idle.cpu_ms is not None
    assert idle.cpu_ms < 200


# The end of it


@linux
@pytest.mark.parametrize("command", RUNAWAYS.values(), ids=RUNAWAYS)
async def test_after_a_timeout_nothing_is_left(command: str, token: str) -> None:
    begun = time.monotonic()
    ended, output = await run("echo here; " + command, token, timeout=0.2)
    assert ended.timed_out
    assert output.startswith(b"here\n")
    assert time.monotonic() - begun < 1.5


@linux
@pytest.mark.parametrize("command", SOME.values(), ids=SOME)
async def test_after_a_cancel_nothing_is_left(command: str, token: str) -> None:
    output = Output()
    running = process("echo here; " + command, output, token)
    task = asyncio.create_task(running.run())
    await output.wait_for(b"here")
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert running.ended is not None
    assert running.ended.survivors == 0


@linux
@pytest.mark.parametrize("command", SOME.values(), ids=SOME)
async def test_after_an_end_by_itself_nothing_is_left(command: str, token: str) -> None:
    commands = f"({command}) >/dev/null 2>&1 & sleep 0.1; echo done; exit 7"
    ended, output = await run(commands, token)
    assert (ended.exit_code, output) == (7, b"done\n")
    assert any(token in name for name in ended.left)


@linux
@pytest.mark.parametrize("kind", ["processes", "sessions"])
async def test_what_runs_away_by_forking_is_caught(kind: str, token: str, tmp_path: Path) -> None:
    await catch_a_relay(kind, token, tmp_path)


async def catch_a_relay(kind: str, token: str, tmp_path: Path) -> None:
    script = tmp_path / f"relay-{token}.py"
    script.write_text(RELAY)
    output = Output()
    running = process(f"'{PYTHON}' '{script}' {kind}; sleep {{t}}", output, token, grace=0.1)
    task = asyncio.create_task(running.run())
    await output.wait_for(b"up")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert running.ended is not None
    assert running.ended.survivors == 0
    assert b"came to its end" not in output


async def test_what_ends_soon_after_the_command_can_finish(token: str) -> None:
    ended, output = await run("echo hi > >(sleep 0.1; cat; echo there)", token)
    assert (ended.left, output) == ((), b"hi\nthere\n")


async def test_what_is_left_may_tidy_up(token: str) -> None:
    command = "(trap 'echo tidy; exit' TERM; while :; do sleep 0.02; done) & echo done"
    ended, output = await run(command, token)
    assert (ended.exit_code, bool(ended.left)) == (0, True)
    assert output.startswith(b"done\n")
    assert output.endswith(b"tidy\n")


async def test_it_may_tidy_up_when_it_gets_sigterm(token: str) -> None:
    command = "trap 'echo tidy; exit 5' TERM; echo up; sleep {t} & wait"
    ended, output = await run(command, token, timeout=0.2)
    assert (ended.exit_code, ended.timed_out, output) == (5, True, b"up\ntidy\n")


async def test_it_gets_sigterm_once(token: str) -> None:
    command = "trap 'echo told' TERM; echo up; sleep {t} & while :; do wait; done"
    _, output = await run(command, token, timeout=0.2)
    assert output == b"up\ntold\n"


async def test_what_does_not_follow_is_killed_after_the_grace(token: str) -> None:
    output = Output()
    command = process("trap '' TERM; echo up; sleep {t}", output, token, grace=0.3)
    task = asyncio.create_task(command.run())
    await output.wait_for(b"up")
    begun = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert command.ended is not None
    assert command.ended.signal == "SIGKILL"
    assert 0.3 <= time.monotonic() - begun < 3


async def test_a_second_cancel_ends_the_grace(token: str) -> None:
    output = Output()
    task = asyncio.create_task(
        process("trap '' TERM; echo up; sleep {t}", output, token, grace=20).run()
    )
    await output.wait_for(b"up")
    begun = time.monotonic()
    task.cancel()
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - begun < 1


@linux
async def test_a_cancel_before_it_has_started_leaves_nothing(token: str) -> None:
    for delay in (0, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03):
        task = asyncio.create_task(process("sleep {t} & sleep {t}", Output(), token).run())
        await asyncio.sleep(delay)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert with_token(token) == []


async def test_the_end_of_the_output_is_not_the_end_of_the_command() -> None:
    ended, output = await run("echo a; exec >&- 2>&-; sleep 0.2; exit 6")
    assert (ended.exit_code, output) == (6, b"a\n")


@linux
async def test_somebody_else_who_holds_the_output_is_not_waited_for(token: str) -> None:
    output = Output()
    task = asyncio.create_task(process("echo $$.; sleep 0.3", output, token).run())
    await output.wait_for(b".")
    with Path(f"/proc/{int(output[:-2])}/fd/1").open("wb"):
        ended = await asyncio.wait_for(task, 3)
    assert ended.exit_code == 0


@linux
async def test_a_command_that_kills_its_keeper_ends_all_the_same(token: str) -> None:
    command = "sleep {t} & setsid sleep {t} & sleep 0.1; kill -KILL $PPID; sleep {t}"
    ended, _ = await run(command, token)
    assert (ended.exit_code, ended.signal, ended.survivors) == (None, "SIGKILL", 0)


@linux
async def test_a_command_that_stops_its_keeper_ends_in_time_all_the_same(token: str) -> None:
    begun = time.monotonic()
    ended, _ = await run("kill -STOP $PPID; sleep {t} & sleep {t}", token, timeout=0.3)
    assert time.monotonic() - begun < 2
    assert (ended.timed_out, ended.signal) == (True, "SIGTERM")


@linux
async def test_signals_that_can_be_caught_do_not_end_the_keeper() -> None:
    ended, _ = await run("kill -TERM $PPID; kill -INT $PPID; kill -HUP $PPID; sleep 0.1; exit 3")
    assert ended.exit_code == 3


HOST = """
import asyncio, os, sys, time
from callsheet.processes import process as processes
from callsheet.processes.process import Process

if "slow" in sys.argv:  # the keeper is held up as soon as the command runs
    slow = "import time; begin = keeper._start; "
    slow += "keeper._start = lambda *given: (begin(*given), time.sleep(0.5))[0]; keeper.main()"
    processes._KEEPER = processes._KEEPER.replace("keeper.main()", slow)

def show(data):
    other = 0
    if "forked" in sys.argv:
        other = os.fork()
        if not other:
            time.sleep(60)
    os.write(1, b"%d\\n" % other)

command = "trap '' TERM; setsid sleep $TOKEN & sleep $TOKEN & echo up; wait"
process = Process(["bash", "-c", command], cwd="/", env=dict(os.environ), on_output=show)
asyncio.run(process.run())
"""


@contextmanager
def host(token: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Return another process that runs a command, and a fork of it."""
    env = {**os.environ, "TOKEN": token, "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [PYTHON, "-c", HOST, *arguments]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())


@linux
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_if_we_are_killed_the_command_ends_too(token: str, sign: signal.Signals) -> None:
    with host(token) as (process, _):
        process.send_signal(sign)
    assert wait_until_gone(token) == []


@linux
@pytest.mark.parametrize("pace", ["", "slow"])
def test_if_we_are_killed_a_fork_of_us_does_not_keep_the_command(token: str, pace: str) -> None:
    """A fork has our end of the socket too, so the keeper is not told by the socket."""
    with host(token, "forked", pace) as (process, fork):
        process.kill()
        left = wait_until_gone(token, but=fork)
        os.kill(fork, signal.SIGKILL)
    assert left == []
    assert wait_until_gone(token) == []


@linux
async def test_a_run_that_is_dropped_ends_the_command(token: str) -> None:
    output, before = Output(), children()
    running = process("echo up; sleep {t}", output, token).run()
    running.send(None)
    await output.wait_for(b"up")
    running.close()
    assert await asyncio.to_thread(wait_until_gone, token) == []
    until = time.monotonic() + 3
    while children(before) and time.monotonic() < until:
        await asyncio.sleep(0.01)


# Around it


async def test_a_fault_of_whoever_takes_the_output_ends_the_command(token: str) -> None:
    def take(_: bytes) -> None:
        raise KeyError("no room")

    argv = ["bash", "-c", f"echo up; sleep {token}"]
    with pytest.raises(KeyError, match="no room"):
        await Process(argv, cwd="/", env=dict(os.environ), on_output=take).run(20)


async def test_many_run_at_the_same_time(token: str) -> None:
    found = await asyncio.gather(*[run(f"echo {i}; exit {i}", token) for i in range(20)])
    assert [(ended.exit_code, int(output)) for ended, output in found] == [
        (i, i) for i in range(20)
    ]


def test_any_thread_may_have_the_event_loop(token: str) -> None:
    found: list[Ended] = []

    def work() -> None:
        found.append(asyncio.run(run("exit 4", token))[0])

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert [ended.exit_code for ended in found] == [4, 4, 4]


@linux
def test_a_thread_that_ends_does_not_end_what_it_started(token: str) -> None:
    """A keeper gets a signal when the thread that started it ends. Only the end of the process counts."""
    loop, output = asyncio.new_event_loop(), Output()

    async def start() -> Process:
        running = process("sleep 0.3; echo whole", output, token)
        running.start()
        return running

    async def wait(running: Process) -> None:
        await running.over
        await running.end()

    made: list[Process] = []
    thread = threading.Thread(target=lambda: made.append(loop.run_until_complete(start())))
    thread.start()
    thread.join()
    loop.run_until_complete(wait(*made))
    loop.close()
    assert made[0].ended is not None
    assert (made[0].ended.exit_code, output) == (0, b"whole\n")


async def test_a_program_may_have_a_standard_input_and_an_output_apart(token: str) -> None:
    (stdin, feed), (result, stdout) = os.pipe(), os.pipe()
    errors = Output()
    command = ["bash", "-c", "read line; echo got $line; echo warned >&2; cat"]
    running = Process(
        command, cwd="/", env=dict(os.environ), on_output=errors.extend, stdin=stdin, stdout=stdout
    )
    running.start()
    os.close(stdin)
    os.close(stdout)
    os.write(feed, b"this\n")
    os.close(feed)  # which ends it
    await asyncio.wait_for(running.over, 5)
    await running.end()
    with os.fdopen(result, "rb") as file:
        assert file.read() == b"got this\n"
    assert (running.ended and running.ended.exit_code, errors) == (0, b"warned\n")


async def test_it_works_where_ends_of_children_are_ignored(token: str) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        ended, _ = await run("(exit 2); exit $(($? + 1))", token)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert ended.exit_code == 3


@pytest.mark.parametrize(
    ("argv", "cwd", "kind", "name"),
    [
        (["no-such-program"], "/", FileNotFoundError, "no-such-program"),
        (["/etc/passwd"], "/", PermissionError, "/etc/passwd"),
        (["true"], "/no/such/directory", FileNotFoundError, "/no/such/directory"),
        (["true"], "/etc/passwd", NotADirectoryError, "/etc/passwd"),
        (["echo", "x" * 3_000_000], "/", OSError, "echo"),
    ],
)
async def test_what_can_not_be_started_is_named(
    argv: list[str], cwd: str, kind: type[OSError], name: str, token: str
) -> None:
    with pytest.raises(kind) as caught:
        await Process(argv, cwd=cwd, env=dict(os.environ), on_output=print).run()
    assert caught.value.filename == name


@pytest.mark.parametrize(
    ("argv", "env"),
    [
        (["echo", "a\0b"], {}),
        (["echo", "\ud800"], {}),
        (["echo"], {"A=B": ""}),
        (["echo"], {"": ""}),
    ],
)
def test_a_text_that_can_not_be_passed_on_is_refused(argv: list[str], env: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="can't be"):
        Process(argv, cwd="/", env=env, on_output=print)


async def test_a_keeper_that_does_not_start_is_a_clear_error(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ChildProcessError, match="exit code 1"):
        await run("true")


def test_a_program_that_only_contains_python_is_not_run_as_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert processes.python() != sys.executable or "python3" in sys.executable
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="no python3"):
        processes.python()


# Much output


async def test_much_output_holds_up_neither_memory_nor_the_event_loop() -> None:
    count = 0
    gaps: list[float] = []

    def take(data: bytes) -> None:
        nonlocal count
        count += len(data)

    async def tick() -> None:
        while True:
            begun = time.monotonic()
            await asyncio.sleep(0.001)
            gaps.append(time.monotonic() - begun)

    ticking = asyncio.create_task(tick())
    argv = ["bash", "-c", "head -c 200000000 /dev/zero"]
    await Process(argv, cwd="/", env=dict(os.environ), on_output=take).run()
    ticking.cancel()
    assert count == 200_000_000
    assert max(gaps) < 0.25
    assert len(gaps) > 20


# Without a keeper, and without what only Linux has


@linux
async def test_end_tree_ends_what_was_started_elsewhere(token: str) -> None:
    command = f"trap '' TERM; sleep {token} & (setsid sleep {token} &); echo up; wait"
    env = {**os.environ, "MARK": token}
    with subprocess.Popen(["bash", "-c", command], env=env, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert await asyncio.to_thread(end_tree, other.pid, marker=f"MARK={token}", grace=0.1) == 0


Patch = Callable[[str], None]


@pytest.fixture
def in_keeper(monkeypatch: pytest.MonkeyPatch) -> Patch:
    """Return a way to change something in the keepers that are started."""

    def patch(code: str) -> None:
        boot = processes._KEEPER.replace("keeper.main()", f"{code}; keeper.main()")  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(processes, "_KEEPER", boot)

    return patch


@linux
async def test_what_runs_away_is_caught_where_a_look_at_all_processes_takes_long(
    in_keeper: Patch, token: str, tmp_path: Path
) -> None:
    """As where there are thousands of them, or the machine is busy: it is another when the look is over."""
    in_keeper("import time; from callsheet.processes import table; rows = table._rows")
    in_keeper("table._rows = lambda: ([*rows()], time.sleep(0.05))[0]")
    await catch_a_relay("sessions", token, tmp_path)


FOUND_ELSEWHERE = ["a group of its own", "deaf", "deep"]


@needs("ps")
@pytest.mark.parametrize("table_of", ["_rows_of_proc", "_rows_of_ps"])
@pytest.mark.parametrize("kind", FOUND_ELSEWHERE)
async def test_where_keepers_do_not_own_orphans_most_is_found(
    kind: str, table_of: str, in_keeper: Patch, token: str
) -> None:
    in_keeper("keeper._prctl = lambda *_: False")
    in_keeper(f"from callsheet.processes import table; table._rows = table.{table_of}")
    ended, _ = await run(RUNAWAYS[kind], token, timeout=0.2)
    assert ended.timed_out


@needs("ps")
@linux
def test_ps_and_proc_agree() -> None:
    by_ps = dict(table._rows_of_ps())  # pyright: ignore[reportPrivateUsage]
    by_proc = dict(table._rows_of_proc())  # pyright: ignore[reportPrivateUsage]
    mine = os.getpid()
    assert by_ps[mine][:2] == by_proc[mine][:2] == (os.getppid(), os.getpgrp())
    assert by_ps[mine][3] is by_proc[mine][3] is True


def test_a_process_without_a_command_line_is_named_by_its_number() -> None:
    assert table.name(2**22 + 1) == f"process {2**22 + 1}"
    assert len(table.name(os.getpid())) <= table.LONGEST_NAME


@linux
async def test_a_keeper_names_a_few_and_counts_the_others(token: str) -> None:
    ended, _ = await run("for i in {1..8}; do sleep {t} & done", token)
    assert len(ended.left) == 6
    assert ended.left[-1] == "3 more"
