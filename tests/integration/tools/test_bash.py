"""`bash`: what a model, a machine and a person are told of a command, and that it ends when it must."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from callsheet import Session
from callsheet.processes.shell import LIMIT, CommandOutput
from callsheet.report.content import TextContent
from callsheet.report.terminal import TerminalState
from callsheet.testing import Recorder
from callsheet.tools.builtin import bash as module
from callsheet.tools.result import ToolResult
from tests.support.processes import children, linux, new_token, with_token
from tests.support.sizes import sized

METADATA = {
    "command", "exit_code", "signal", "timed_out", "output_bytes", "cpu_ms", "max_rss_kb",
    "working_directory", "truncated", "timestamp",
}  # fmt: skip


@pytest.fixture
def token() -> Iterator[str]:
    value = new_token()
    yield value
    if sys.platform == "linux":
        assert with_token(value) == []


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = children()
    yield
    if sys.platform == "linux":
        assert children(before) == []


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    async with Session("s", cwd=str(tmp_path), on_update=lambda _: None, strict=True) as opened:
        yield opened


async def run(session: Session, command: str, **arguments: Any) -> ToolResult:
    return await session.run("bash", {"command": command, **arguments})


def report_of(session: Session, result: ToolResult) -> Any:
    found = session.get(result.call_id)
    assert found is not None
    return found


# What a model and a machine are told


async def test_output_and_all_metadata_are_given(session: Session, tmp_path: Path) -> None:
    result = await run(session, "echo out; echo err >&2; pwd")
    assert result.success
    assert result.output == f"out\nerr\n{tmp_path.resolve()}\n"
    assert set(result.metadata) == METADATA
    told = {key: result.metadata[key] for key in METADATA - {"timestamp", "cpu_ms", "max_rss_kb"}}
    assert told == {
        "command": "echo out; echo err >&2; pwd",
        "exit_code": 0,
        "signal": None,
        "timed_out": False,
        "output_bytes": len(result.output.encode()),
        "working_directory": str(tmp_path.resolve()),
        "truncated": False,
    }
    assert isinstance(result.metadata["cpu_ms"], int)
    assert isinstance(result.metadata["max_rss_kb"], int)


async def test_a_command_that_prints_nothing_still_has_an_output(session: Session) -> None:
    assert (await run(session, "true")).output


async def test_an_exit_code_is_a_failure_with_its_output(session: Session) -> None:
    result = await run(session, "echo before; exit 3")
    assert not result.success
    assert (result.exit_code, result.metadata["exit_code"]) == (3, 3)
    assert (result.error, result.output) == ("Exit code 3", "before\n\nExit code 3")
    report = report_of(session, result)
    assert (report.status.value, report.notes["reason"]) == ("failed", "exit_code")
    assert report.raw_output["metadata"]["output_bytes"] == 7


async def test_a_signal_is_named_and_there_is_no_exit_code(session: Session) -> None:
    result = await run(session, "echo before; kill -SEGV $$")
    assert (result.exit_code, result.metadata["signal"]) == (None, "SIGSEGV")
    assert result.error == "Ended by signal SIGSEGV"
    assert result.output.startswith("before\n")
    assert report_of(session, result).notes["reason"] == "exit_code"


async def test_a_code_that_stands_for_a_signal_is_explained_but_not_taken_for_one(
    session: Session,
) -> None:
    result = await run(session, "sh -c 'kill -KILL $$'; exit $?")
    assert (result.exit_code, result.metadata["signal"]) == (137, None)
    assert "SIGKILL" in (result.error or "")


async def test_what_it_used_is_in_the_report(session: Session) -> None:
    work = "while time.process_time() < 0.2: pass"
    result = await run(session, f"'{sys.executable}' -c 'import time\n{work}'")
    usage = report_of(session, result).notes["usage"]
    assert usage["cpuMs"] == result.metadata["cpu_ms"] >= 200
    assert usage["maxRssKb"] == result.metadata["max_rss_kb"]


async def test_long_output_has_its_beginning_and_end_and_counts_what_is_missing(
    session: Session,
) -> None:
    result = await run(session, "seq 1 100000")
    whole = "".join(f"{i}\n" for i in range(1, 100_001))
    assert result.metadata["output_bytes"] == len(whole)
    assert result.metadata["truncated"] is True
    assert len(result.output) < LIMIT + 200
    head, notice, tail = re.split(
        r"\[… (\d+ bytes left out · \d+ lines left out) …\]\n", result.output
    )
    assert whole.startswith(head)
    assert head.startswith("1\n2\n")
    assert whole.endswith(tail)
    count, lines = map(int, re.findall(r"\d+", notice))
    assert count == len(whole) - len(head) - len(tail)
    assert lines == 100_000 - head.count("\n") - tail.count("\n")


async def test_a_model_gets_plain_text(session: Session) -> None:
    command = r"printf '10%%\r50%%\r100%%\n\033[31mred\033[0m \007bell\033]0;title\007\n\377end\n'"
    assert (await run(session, command)).output == "100%\nred bell\n�end\n"


async def test_data_that_is_no_text_is_only_counted(session: Session) -> None:
    result = await run(session, "head -c 50000 /dev/urandom")
    assert result.output == "[50000 bytes that are no text]"
    assert result.metadata["truncated"] is True


def test_a_character_split_over_two_reads_stays_whole() -> None:
    kept = CommandOutput()
    for byte in "größer 漢字".encode():
        kept.add(bytes([byte]))
    assert kept.text() == "größer 漢字"


@pytest.mark.parametrize("text", ["a\0b\n", "nul \0 here", "é" * 5000, ""])
def test_text_with_something_odd_in_it_is_still_text(text: str) -> None:
    kept = CommandOutput()
    kept.add(text.encode())
    assert kept.text() == text.replace("\0", "")
    assert not kept.is_cut


def test_memory_does_not_grow_with_the_output() -> None:
    kept = CommandOutput()
    for _ in range(2000):
        kept.add(b"x" * 65536)
    assert kept.total == 2000 * 65536
    assert len(kept._state._kept) < 1 << 18  # pyright: ignore[reportPrivateUsage]


# What people see


async def test_output_is_shown_while_the_command_runs(tmp_path: Path) -> None:
    shown: list[bytes] = []
    async with Session("s", cwd=str(tmp_path), on_update=shown.append, strict=True) as session:
        command = "printf 'o%s' ne; while [ ! -e go ]; do sleep 0.01; done; printf 'tw%s' o"
        task = asyncio.create_task(run(session, command))
        async with asyncio.timeout(5):
            while b"one" not in b"".join(shown):
                await asyncio.sleep(0.01)
        assert b"two" not in b"".join(shown)
        (tmp_path / "go").touch()
        assert (await task).output == "onetwo"
        await session.flush()
        assert b"two" in b"".join(shown)


async def test_bytes_that_are_shown_are_those_that_were_printed(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = bytearray()
    real = TerminalState.write

    def write(self: TerminalState, data: bytes) -> None:
        if self.terminal_id != "captured":
            written.extend(data)
        real(self, data)

    monkeypatch.setattr(TerminalState, "write", write)
    await run(session, r"printf '\033[1mbold\033[0m\r\n\377\000%s' größer")
    assert bytes(written) == b"\x1b[1mbold\x1b[0m\r\n\xff\x00" + "größer".encode()


async def test_the_report_names_the_command_and_is_of_kind_execute(session: Session) -> None:
    report = report_of(session, await run(session, "echo hi"))
    assert report.kind.value == "execute"
    assert "echo hi" in report.title


MUCH = sized(150_000_000, 60_000_000)
"""Bytes of output: more than memory may grow by."""


async def test_much_output_leaves_the_event_loop_its_turns_and_memory_flat(
    session: Session,
) -> None:
    gaps: list[float] = []
    sizes: list[int] = []

    async def tick() -> None:
        while True:
            begun = time.monotonic()
            await asyncio.sleep(0.005)
            gaps.append(time.monotonic() - begun)
            if sys.platform == "linux":
                sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) * 4096)

    ticking = asyncio.create_task(tick())
    result = await run(session, f"yes 0123456789 | head -c {MUCH}")
    ticking.cancel()
    assert result.metadata["output_bytes"] == MUCH
    assert max(gaps) < 2
    assert len(gaps) > 10
    if sizes:
        assert max(sizes) - sizes[0] < sized(40_000_000, 15_000_000)


# Where and with what it runs


async def test_directory_and_environment_can_be_given(session: Session, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    environment = {"NEW": "1 2", "HOME": None, "GIT_EDITOR": "mine"}
    command = 'pwd; echo "$NEW|${HOME-none}|$GIT_EDITOR|$PAGER"'
    result = await run(session, command, cwd="sub", env=environment)
    assert result.output == f"{tmp_path.resolve() / 'sub'}\n1 2|none|mine|cat\n"
    assert result.metadata["working_directory"] == str(tmp_path.resolve() / "sub")


async def test_nothing_waits_for_a_person(session: Session) -> None:
    command = (
        "cat; git --no-pager version >/dev/null; echo $TERM $PAGER $GIT_PAGER $GIT_TERMINAL_PROMPT"
    )
    result = await run(session, command, timeout=5)
    assert result.output.splitlines()[-1] == "dumb cat cat 0"


async def test_the_process_itself_keeps_its_environment(session: Session) -> None:
    before = dict(os.environ)
    await run(session, "true", env={"NEW": "1"})
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ({"command": "a\0b"}, "invalid_arguments", "NUL"),
        ({"command": "a\ud800b"}, "invalid_arguments", "can't be passed on"),
        ({"command": "true # " + "x" * 200_000}, "invalid_arguments", "write it to a file"),
        ({"command": ""}, "invalid_arguments", "command"),
        ({"command": "true", "env": {"A=B": "c"}}, "invalid_arguments", "'A=B'"),
        ({"command": "true", "timeout": 0}, "invalid_arguments", "timeout"),
        ({"command": "true", "timeout": 4000}, "invalid_arguments", "3600"),
        ({"command": "true", "cwd": "missing"}, "not_found", "missing does not exist"),
        ({"command": "true", "cwd": "file"}, "invalid_arguments", "file is not a directory"),
        ({"command": "true", "cwd": "/"}, "permission_denied", "outside the workspace"),
    ],
)
async def test_what_can_not_be_run_is_refused_with_the_reason(
    session: Session, tmp_path: Path, arguments: dict[str, Any], code: str, said: str
) -> None:
    (tmp_path / "file").touch()
    result = await session.run("bash", arguments)
    assert not result.success
    assert result.metadata["error_code"] == code
    assert said in result.output


async def test_a_session_whose_directory_has_vanished_reports_it(
    session: Session, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path)
    result = await run(session, "true")
    assert result.metadata["error_code"] == "not_found"
    assert str(tmp_path) in result.output


async def test_a_command_may_begin_with_a_dash(session: Session) -> None:
    assert (await run(session, "-x 2>/dev/null; echo on")).output == "on\n"


async def test_without_bash_there_is_sh(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = shutil.which("sh")
    assert found is not None
    only = tmp_path / "only"
    only.mkdir()
    (only / "sh").symlink_to(found)
    monkeypatch.setenv("PATH", str(only))
    assert (await run(session, "-x 2>/dev/null; echo $0")).output == f"{only / 'sh'}\n"


async def test_without_any_shell_the_error_names_what_is_missing(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(module.os, "defpath", str(tmp_path))
    result = await run(session, "true")
    assert result.metadata["error_code"] == "not_found"
    assert "neither bash nor sh" in result.output


async def test_commands_do_not_wait_for_each_other(session: Session) -> None:
    begun = time.monotonic()
    calls = [("bash", {"command": "sleep 0.5", "cwd": "."}) for _ in range(6)]
    results = await session.run_all(calls)
    assert all(result.success for result in results)
    assert time.monotonic() - begun < 2


# Its end


async def until_it_sleeps(token: str, count: int) -> None:
    """Wait until so many processes sleep."""
    until = time.monotonic() + 20
    while sum(" 'sleep" in one for one in with_token(token)) < count:
        assert time.monotonic() < until
        await asyncio.sleep(0.01)


@linux
@pytest.mark.parametrize("turn", range(sized(8, 3)))
async def test_cancelled_at_once_no_process_is_left_and_output_is_there(
    session: Session, token: str, turn: int
) -> None:
    command = f"echo started; sleep {token} & sleep {token}"
    task = asyncio.create_task(session.run("bash", {"command": command}, alias="it"))
    await until_it_sleeps(token, 2)
    begun = time.monotonic()
    assert session.cancel("it")
    result = await task
    assert time.monotonic() - begun < 1
    assert with_token(token) == []
    assert result.output == "started\n\nCancelled"
    assert set(result.metadata) >= METADATA
    assert (result.metadata["signal"], result.metadata["timed_out"]) == ("SIGTERM", False)
    assert report_of(session, result).notes["reason"] == "cancelled"


@linux
async def test_two_sleeping_processes_are_gone_within_a_second(
    session: Session, token: str
) -> None:
    arguments = {"command": "sleep 60 & sleep 60", "env": {"MARK": token}}
    task = asyncio.create_task(session.run("bash", arguments, alias="it"))
    await until_it_sleeps(token, 2)
    begun = time.monotonic()
    session.cancel("it")
    await task
    assert time.monotonic() - begun < 1
    assert with_token(token) == []


async def test_a_timeout_ends_it_with_its_output(session: Session, token: str) -> None:
    result = await run(session, f"echo started; sleep {token} & sleep {token}", timeout=1)
    assert result.output.startswith("started\n\nTimed out after 1 s")
    assert result.metadata["timed_out"] is True
    assert result.metadata["error_code"] == "timeout"
    assert report_of(session, result).notes["reason"] == "timeout"


async def test_a_timeout_of_the_session_is_reported_as_one(session: Session, token: str) -> None:
    command = f"trap 'exit 5' TERM; echo started; sleep {token} & wait"
    result = await session.run("bash", {"command": command}, timeout=1)
    assert result.output.startswith("started\n\nTimed out after 1 s")
    assert (result.metadata["timed_out"], result.metadata["exit_code"]) == (True, 5)
    assert report_of(session, result).notes["reason"] == "timeout"


async def test_a_session_that_is_closed_ends_it(tmp_path: Path, token: str) -> None:
    async with Session("s", cwd=str(tmp_path), on_update=lambda _: None) as session:
        task = asyncio.create_task(run(session, f"sleep {token} & sleep {token}"))
        await asyncio.sleep(0.2)
    result = await task
    assert result.metadata["error_code"] == "cancelled"


async def test_what_it_leaves_in_the_background_is_ended_and_named(
    session: Session, token: str
) -> None:
    result = await run(session, f"sleep {token} & echo done")
    assert result.success
    assert result.output.startswith("done\n\n[Still running when the command had ended")
    assert f"sleep {token}" in result.output
    assert result.metadata["ended_in_background"] == [f"sleep {token}"]
    texts = [item for item in report_of(session, result).content if isinstance(item, TextContent)]
    assert [f"sleep {token}" in item.text for item in texts] == [True]


async def test_cancelling_one_leaves_the_others(session: Session, token: str) -> None:
    one = asyncio.create_task(session.run("bash", {"command": f"sleep {token}"}, alias="one"))
    other = asyncio.create_task(session.run("bash", {"command": "sleep 0.4; echo whole"}))
    await asyncio.sleep(0.2)
    session.cancel("one")
    assert not (await one).success
    assert (await other).output == "whole\n"


async def test_a_secret_that_is_printed_last_is_counted_once(tmp_path: Path) -> None:
    """It is held back while more may come, and must not be shown again as the result."""
    (tmp_path / ".env").write_text("GITHUB_TOKEN=ghp_" + "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3cD4")
    recorder = Recorder()
    async with Session("s", cwd=tmp_path, permission="allow", on_update=recorder) as session:
        await session.run("bash", {"command": "cat .env"})
    (report,) = recorder.fold()
    assert report.notes["redactions"] == 1
    assert len(report.content) == 1
