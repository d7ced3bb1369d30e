"""Running tools: checked, permitted, timed, in parallel, and reported to the end on every path."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from callsheet import (
    Call,
    GuardSettings,
    PermissionDenied,
    Session,
    ToolCallContent,
    ToolCallStatus,
    ToolError,
    ToolResult,
    tool,
)
from callsheet.acp.peer import Peer
from callsheet.redaction.redactor import Redactor
from callsheet.testing import Recorder, assert_every_call_ended, assert_standard
from callsheet.tools import stdio_guard
from callsheet.tools.errors import ExecutionFailed, NotFound
from callsheet.tools.session import ToolSettings


@tool(kind="read", title="Looking at {path}")
async def look(call: Call, path: str) -> ToolResult:
    """Look."""
    return call.success(f"saw {path}").with_metadata("n", 1)


@tool
async def wait(seconds: float = 30.0) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "waited"


@tool
def wait_in_thread(seconds: float = 0.5) -> str:
    """Wait."""
    time.sleep(seconds)
    return "waited"


@tool
async def fail_with(how: str) -> str:
    """Fail."""
    raise {
        "tool error": ToolError("broken", output="so far", place=1),
        "not found": NotFound("nothing there"),
        "value": ValueError("bad\nsecond line"),
        "missing": FileNotFoundError(2, "No such file or directory", "/a/b"),
        "denied": PermissionDenied("no"),
        "exit": SystemExit(3),
        "timeout": TimeoutError(),
        "disk": OSError(28, "No space left on device"),
        "cancelled": asyncio.CancelledError(),
        "exit code": ExecutionFailed("Exit code 3", exit_code=3),
        "os denied": PermissionError(13, "Permission denied", "/a/b"),
    }[how]


def fold(recorder: Recorder):
    return list(recorder.fold())


async def run(one, arguments=None, **options):
    recorder = Recorder()
    async with Session("s", tools=[one], on_update=recorder, builtin=False) as session:
        result = await session.run(one.name, arguments, **options)
    assert_standard(result)
    assert_every_call_ended(recorder)
    return result, fold(recorder)[0]


async def test_the_whole_life_is_reported():
    result, report = await run(look, {"path": "a.txt"})
    assert result.success
    assert result.output == "saw a.txt"
    assert report.tool_call_id == result.call_id
    assert (report.name, report.title, report.kind) == ("look", "Looking at a.txt", "read")
    assert report.status == "completed"
    assert report.raw_input == {"path": "a.txt"}
    assert report.raw_output["metadata"]["n"] == 1
    assert report.content == (ToolCallContent.text("saw a.txt"),)
    assert report.notes["durationMs"] >= 0
    assert result.metadata["working_directory"] == str(Path.cwd())


@pytest.mark.parametrize(
    ("how", "code", "reason", "said"),
    [
        ("tool error", "execution_failed", "tool_error", "broken"),
        ("not found", "not_found", "tool_error", "nothing there"),
        ("value", "execution_failed", "exception", "ValueError: bad"),
        ("missing", "not_found", "tool_error", "/a/b: No such file or directory"),
        ("denied", "permission_denied", "denied", "no"),
        ("exit", "execution_failed", "tool_error", "tried to end the program"),
        ("timeout", "timeout", "timeout", "Timed out"),
        ("disk", "io_error", "tool_error", "No space left on device"),
        ("cancelled", "cancelled", "cancelled", "Cancelled"),
        ("exit code", "execution_failed", "exit_code", "Exit code 3"),
        ("os denied", "permission_denied", "tool_error", "/a/b: Permission denied"),
    ],
)
async def test_each_way_to_fail_has_its_code_and_reason(how, code, reason, said):
    result, report = await run(fail_with, {"how": how})
    assert result.metadata["error_code"] == code
    assert said in result.error
    assert report.status.value == ("cancelled" if how == "cancelled" else "failed")
    assert report.notes["reason"] == reason
    assert said in report.content[-1].text


async def a_lost_failure(call: Call) -> ToolResult:
    """Forget a return."""
    call.error("this is lost")


def a_failure_by_hand(call: Call) -> ToolResult:
    """Describe a failure, in a thread."""
    return {"success": False, "error": "not seen"}


@pytest.mark.parametrize(
    ("one", "what"), [(a_lost_failure, "nothing"), (a_failure_by_hand, "dict")]
)
async def test_what_is_declared_to_return_a_result_never_succeeds_without_one(one, what):
    result, report = await run(tool(one))
    assert f"{one.__name__} returned {what}, and is declared to return a ToolResult" in result.error
    assert (report.status, report.notes["reason"]) == ("failed", "tool_error")


async def test_an_unknown_tool_is_reported_and_answered_with_the_nearest_names():
    recorder = Recorder()
    async with Session("s", tools=[look], on_update=recorder, builtin=False) as session:
        result = await session.run("lok", {"path": "a"})
    assert_standard(result)
    assert "did you mean look?" in result.error
    assert (result.tool_name, result.metadata["error_code"]) == ("lok", "not_found")
    assert fold(recorder)[0].status == "failed"


@pytest.mark.parametrize("one", [wait, wait_in_thread])
async def test_a_timeout_ends_the_call_and_is_its_reason(one):
    result, report = await run(one, {}, timeout=0.05)
    assert result.metadata["error_code"] == "timeout"
    assert result.error == "Timed out after 0.05 s"
    assert report.notes["reason"] == "timeout"


async def test_the_declared_timeout_holds_and_the_callers_wins():
    slow = tool(timeout=0.05)(wait.function)
    assert (await run(slow, {"seconds": 0.2}))[0].metadata["error_code"] == "timeout"
    assert (await run(slow, {"seconds": 0.1}, timeout=5))[0].success


async def test_the_sessions_timeout_holds_for_the_rest():
    async with Session(tools=[wait], tool_settings=ToolSettings(timeout=0.05)) as session:
        assert (await session.run("wait")).metadata["error_code"] == "timeout"


async def test_cancelling_one_call_leaves_the_others_alone():
    recorder = Recorder()
    async with Session("s", tools=[wait], on_update=recorder) as session:
        calls = [
            asyncio.ensure_future(session.run("wait", {"seconds": seconds}, alias=f"w{n}"))
            for n, seconds in enumerate([30, 0.2, 0.2])
        ]
        await asyncio.sleep(0.05)
        assert session.cancel("w0")
        assert not session.cancel("unknown")
        first, *others = await asyncio.gather(*calls)
        assert not session.cancel("w0")
    assert first.metadata["error_code"] == "cancelled"
    assert [other.output for other in others] == ["waited", "waited"]
    assert_every_call_ended(recorder, at_least=3)


async def test_cancelling_the_task_cancels_the_tool_and_ends_the_call():
    stopped = []

    @tool
    async def careful() -> None:
        """Clean up."""
        try:
            await asyncio.sleep(30)
        finally:
            stopped.append(True)

    recorder = Recorder()
    async with Session("s", tools=[careful], on_update=recorder) as session:
        task = asyncio.ensure_future(session.run("careful"))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert stopped == [True]
    report = fold(recorder)[0]
    assert report.notes["reason"] == "cancelled"


@pytest.mark.parametrize("turns", range(6))
async def test_a_call_can_be_cancelled_at_any_moment_of_its_beginning(turns):
    recorder = Recorder()
    async with Session("s", tools=[wait], on_update=recorder) as session:
        for stop in (session.cancel, None):
            task = asyncio.ensure_future(session.run("wait", alias=f"w{stop is None}"))
            for _ in range(turns):
                await asyncio.sleep(0)
            begun = time.monotonic()
            if stop is None:
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            elif stop("wFalse"):
                assert (await task).metadata["error_code"] == "cancelled"
            else:
                assert turns == 0
                task.cancel()
            assert time.monotonic() - begun < 1
    assert_every_call_ended(recorder, at_least=0)


async def test_a_tool_that_does_not_stop_is_left_behind(monkeypatch):
    monkeypatch.setattr("callsheet.tools.executor.GRACE", 0.1)
    freed = asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Never stop."""
        while not freed.is_set():
            try:
                await freed.wait()
            except asyncio.CancelledError:
                continue
        return "done"

    async with Session("s", tools=[stubborn]) as session:
        begun = time.monotonic()
        result = await session.run("stubborn", timeout=0.05)
        assert time.monotonic() - begun < 5
        assert result.metadata["error_code"] == "timeout"
        assert session.health.failed == 1
        freed.set()
        await asyncio.sleep(0)


async def test_closing_the_session_stops_its_tools():
    recorder = Recorder()
    async with Session("s", tools=[wait], on_update=recorder) as session:
        task = asyncio.ensure_future(session.run("wait"))
        await asyncio.sleep(0.05)
    assert (await task).metadata["error_code"] == "cancelled"
    assert_every_call_ended(recorder)


async def test_results_come_in_the_order_of_the_calls_and_the_calls_share_a_batch():
    recorder = Recorder()
    async with Session("s", tools=[wait], on_update=recorder) as session:
        begun = time.monotonic()
        results = await session.run_all(
            [
                ("wait", {"seconds": 0.3}),
                ("wait", {"seconds": 0.1}),
                ("nope", {}),
                ("wait", {"x": 1}),
            ]
        )
        assert time.monotonic() - begun < 0.38 + 0.2
    assert [result.success for result in results] == [True, True, False, False]
    reports = fold(recorder)
    assert [report.tool_call_id for report in reports] == [result.call_id for result in results]
    assert len({report.notes["batchId"] for report in reports}) == 1


async def test_a_run_all_keeps_to_its_limit():
    now, most = 0, 0

    @tool(read_only=True)
    async def count() -> None:
        """Count."""
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1

    async with Session("s", tools=[count]) as session:
        assert len(await session.run_all([("count", {})] * 20, at_once=3)) == 20
    assert most == 3


async def test_writers_of_a_path_wait_for_each_other_and_readers_do_not(tmp_path):
    log: list[str] = []

    async def body(call: Call, path: Path) -> None:
        """Do."""
        log.append(f"+{call.report.name}")
        await asyncio.sleep(0.03)
        log.append(f"-{call.report.name}")

    writer = tool(name="put", kind="edit")(body)
    reader = tool(name="see", kind="read")(body)
    async with Session("s", cwd=tmp_path, tools=[writer, reader], strict=True) as session:
        await session.run_all([("put", {"path": "a"}), ("put", {"path": "./x/../a"})])
        assert log == ["+put", "-put", "+put", "-put"]
        log.clear()
        await session.run_all([("put", {"path": "a"}), ("put", {"path": "b"})])
        assert log == ["+put", "+put", "-put", "-put"]
        log.clear()
        await session.run_all([("see", {"path": "a"}), ("see", {"path": "a"})])
        assert log == ["+see", "+see", "-see", "-see"]
        log.clear()
        await session.run_all([("put", {"path": "d/f"}), ("see", {"path": "d"})])
        assert log == ["+put", "-put", "+see", "-see"]


async def test_a_tool_may_run_tools_on_its_own_paths(tmp_path):
    @tool(kind="edit")
    async def inner(path: Path) -> str:
        """Do."""
        return "inner"

    @tool(kind="edit")
    async def outer(call: Call, path: Path) -> ToolResult:
        """Do."""
        return await call.session.run("inner", {"path": str(path)})

    recorder = Recorder()
    tools = [inner, outer]
    async with Session("s", cwd=tmp_path, tools=tools, on_update=recorder) as session:
        result = await asyncio.wait_for(session.run("outer", {"path": "a"}), 5)
    assert result.output == "inner"
    assert result.tool_name == "outer"
    reports = {report.name: report for report in recorder.fold()}
    assert reports["inner"].notes["parentId"] == reports["outer"].tool_call_id


async def test_no_tool_is_run_twice_by_itself():
    runs = []

    @tool
    async def once(how: str) -> None:
        """Fail in all ways."""
        runs.append(how)
        await fail_with.function(how)

    async with Session("s", tools=[once]) as session:
        for how in ("tool error", "timeout", "disk", "cancelled", "value"):
            await session.run("once", {"how": how})
    assert runs == ["tool error", "timeout", "disk", "cancelled", "value"]


# What tools return


@pytest.mark.parametrize(
    ("value", "output"),
    [("text", "text"), (None, "(no output)"), ("", "(no output)"), (b"a\xff", "a�")],
)
async def test_text_bytes_and_nothing_are_outputs(value, output):
    @tool
    def give():
        """Give."""
        return value

    assert (await run(give))[0].output == output


async def test_data_is_output_as_json_and_metadata():
    @tool
    def give() -> dict[str, list[int]]:
        """Give."""
        return {"n": [1, 2]}

    result, _ = await run(give)
    assert result.metadata["result"] == {"n": [1, 2]}
    assert '"n"' in result.output


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_what_a_tool_yields_is_its_live_output_shown_once(kind):
    async def stream(n: int):
        """Stream."""
        for i in range(n):
            yield f"line {i}\n"
            await asyncio.sleep(0)

    def stream_sync(n: int):
        """Stream."""
        for i in range(n):
            yield f"line {i}\n".encode()

    one = tool(name="stream")(stream if kind == "async" else stream_sync)
    result, report = await run(one, {"n": 3})
    assert result.output == "line 0\nline 1\nline 2\n"
    shown = [item.text for item in report.content]
    assert len(shown) == 1
    assert shown[0].count("line 1") == 1


async def test_a_stream_may_end_with_a_result_of_its_own():
    @tool
    async def stream(call: Call):
        """Stream."""
        yield "working\n"
        yield call.success("all good").with_metadata("n", 2)

    result, report = await run(stream)
    assert (result.output, result.metadata["n"]) == ("all good", 2)
    assert "working" in report.content[0].text
    assert report.content[1].text == "all good"


# Permission


async def ask(mode, one=wait, answer="allow_once", arguments=None, **options):
    asked = []

    def on_permission(question):
        asked.append(question.report.raw_input)
        return answer

    recorder = Recorder()
    options = {"on_permission": on_permission, **options}
    async with Session("s", tools=[one], permission=mode, on_update=recorder, **options) as session:
        result = await session.run(one.name, arguments or {"seconds": 0})
        again = await session.run(one.name, arguments or {"seconds": 0})
    assert_every_call_ended(recorder, at_least=2)
    assert_standard(result)
    return result, again, len(asked)


async def test_a_tool_that_changes_things_is_asked_about():
    result, again, asked = await ask(None)
    assert result.success
    assert again.success
    assert asked == 2


async def test_always_is_remembered_for_the_session():
    assert (await ask(None, answer="allow_always"))[2] == 1
    result, again, asked = await ask(None, answer="reject_always")
    assert (result.success, again.success, asked) == (False, False, 1)
    assert result.metadata["error_code"] == again.metadata["error_code"] == "permission_denied"


async def noted(mode, answer="allow_once"):
    """Return the notes on how two calls were decided, as the client is sent them."""
    recorder = Recorder()
    options = {"on_permission": lambda _: answer, "on_update": recorder, "locale": "en"}
    async with Session("s", tools=[wait], permission=mode, **options) as session:
        for _ in range(2):
            await session.run("wait", {"seconds": 0})
    return [report.notes["permission"] for report in recorder.fold()]


async def test_a_report_says_who_decided_and_after_how_long():
    for note in await noted(None):
        assert (note["outcome"], note["by"], note["option"]) == ("allowed", "user", "Allow once")
        assert note["waitedMs"] >= 0
        assert note["askedAt"] <= note["answeredAt"]
    first, second = await noted(None, "reject_always")
    assert (first["outcome"], first["by"], first["scope"]) == ("denied", "user", "wait")
    assert second == {"outcome": "denied", "by": "remembered", "scope": "wait"}
    assert await noted("allow") == [{"outcome": "allowed", "by": "mode", "option": "allow"}] * 2
    assert await noted("deny") == [{"outcome": "denied", "by": "mode", "option": "deny"}] * 2


async def test_modes_allow_and_deny_ask_nobody():
    result, _, asked = await ask("allow")
    assert (result.success, asked) == (True, 0)
    result, _, asked = await ask("deny")
    assert (result.metadata["error_code"], result.metadata["retry"]) == ("permission_denied", "no")
    assert asked == 0


async def test_read_only_tools_are_not_asked_about_even_in_deny():
    assert (await ask("deny", look, arguments={"path": "a"}))[0].success
    assert (await ask(None, look, arguments={"path": "a"}))[2] == 0


async def test_without_anybody_to_ask_the_program_has_decided_except_for_tools_that_insist():
    assert (await ask(None, on_permission=None))[0].success
    insisting = tool(name="wait", permission=True)(wait.function)
    assert not (await ask(None, insisting, on_permission=None))[0].success
    assert (await ask("allow", insisting, on_permission=None))[0].success
    assert not (await ask("ask", on_permission=None))[0].success


async def test_a_tool_may_decide_by_its_arguments_whether_it_needs_permission():
    picky = tool(name="wait", permission=lambda given: given["seconds"] > 0.001)(wait.function)
    assert (await ask(None, picky, arguments={"seconds": 0}))[2] == 0
    assert (await ask(None, picky, arguments={"seconds": 0.01}))[2] == 2


async def test_a_bad_mode_is_refused():
    with pytest.raises(ValueError, match="expected one of ask, edits, allow, deny, got 'maybe'"):
        Session("s", permission="maybe")


# Paths


@tool(kind="read")
def peek(path: Path) -> str:
    """Peek."""
    return str(path)


async def test_paths_are_absolute_and_inside(tmp_path):
    (tmp_path / "work" / "sub").mkdir(parents=True)
    (tmp_path / "work" / "out").symlink_to(tmp_path)
    async with Session("s", cwd=tmp_path / "work", tools=[peek], permission="allow") as session:
        inside = await session.run("peek", {"path": "sub/../a.txt"})
        assert inside.output == str((tmp_path / "work" / "a.txt").resolve())
        for path in ("..", "../x", "/etc/passwd", "out/x", "sub/../../x", str(tmp_path)):
            result = await session.run("peek", {"path": path})
            assert not result.success, path
            assert result.metadata["error_code"] == "permission_denied"
            assert "outside the workspace" in result.error
        for path in ("", "a\0b", "x" * 300, "y/" * 3000, "\ud800"):
            result = await session.run("peek", {"path": path})
            assert result.metadata["error_code"] == "invalid_arguments", path
        assert (await session.run("peek", {"path": "~"})).output.endswith("/work/~")


async def test_outside_the_workspace_somebody_must_approve(tmp_path):
    arguments = {"path": str(tmp_path / "x")}
    (tmp_path / "work").mkdir()
    for mode in ("allow", "ask", None):
        result, _, asked = await ask(mode, peek, arguments=arguments, cwd=tmp_path / "work")
        assert (result.success, asked) == (True, 2)
    result, _, asked = await ask("deny", peek, arguments=arguments, cwd=tmp_path / "work")
    assert (result.success, asked) == (False, 0)


async def test_additional_directories_are_inside(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with Session(
        "s", cwd=tmp_path / "a", additional_directories=[str(tmp_path / "b")], tools=[peek]
    ) as session:
        assert (await session.run("peek", {"path": str(tmp_path / "b" / "x")})).success
        assert not (await session.run("peek", {"path": "../c"})).success


# Threads and the process's own pipes


async def test_sync_tools_run_beside_the_loop_and_each_other():
    idents = set()

    @tool
    def where() -> None:
        """Say where."""
        idents.add(threading.get_ident())
        time.sleep(0.1)

    async with Session("s", tools=[where]) as session:
        begun = time.monotonic()
        await session.run_all([("where", {})] * 8)
        assert time.monotonic() - begun < 0.7
    assert threading.get_ident() not in idents


async def test_what_a_tool_prints_is_live_output_and_not_on_stdout(capsys):
    @tool
    async def chatty() -> str:
        """Print."""
        print("printed")
        sys.stdout.buffer.write(b"bytes\n")
        sys.stdout.flush()
        assert sys.stdin.read() == ""
        assert list(sys.stdin) == []
        return "done"

    @tool
    def chatty_thread() -> str:
        """Print."""
        print("printed")
        sys.stdout.writelines(["a", "b"])
        return "done"

    while stdio_guard._users:  # a thread that an earlier test left behind
        await asyncio.sleep(0.01)
    before = sys.stdout, sys.stdin
    _, report = await run(chatty)
    assert "printed\nbytes" in report.content[0].text
    _, report = await run(chatty_thread)
    assert "printed\nab" in report.content[0].text
    assert (sys.stdout, sys.stdin) == before
    assert capsys.readouterr().out == ""


async def test_a_program_may_print_beside_its_tools(capsys):
    async with Session("s", tools=[wait]) as session:
        task = asyncio.ensure_future(session.run("wait", {"seconds": 0.1}))
        await asyncio.sleep(0.05)
        print("mine")
        await task
    assert capsys.readouterr().out == "mine\n"


SHIELDED = """
import asyncio, os, subprocess, sys
from callsheet import Session, PipeSink, tool
from callsheet.tools.stdio_guard import own_stdio

@tool
async def rude() -> str:
    "Do everything that corrupts a protocol."
    print("printed")
    os.write(1, b"written to 1\\n")
    subprocess.run(["echo", "from a child"])
    read = subprocess.run(["cat"], capture_output=True)
    assert read.stdout == b"", read.stdout
    assert os.read(0, 10) == b""
    return "done"

async def main(own):
    async with Session("s", tools=[rude], builtin=False, sinks=[PipeSink(own.stdout)]) as session:
        result = await session.run("rude")
        assert result.success, result
    assert own.stdin.readline() == b"the client's line\\n"

with own_stdio() as own:
    asyncio.run(main(own))
print("after")
"""


def test_the_protocols_pipe_is_out_of_reach_of_tools_and_their_children():
    done = subprocess.run(
        [sys.executable, "-c", SHIELDED],
        input=b"the client's line\n",
        capture_output=True,
        check=False,
        timeout=30,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    )
    assert done.returncode == 0, done.stderr.decode()
    *lines, last = done.stdout.splitlines()
    assert last == b"after"
    assert lines
    assert all(line.startswith(b'{"jsonrpc"') for line in lines)
    assert b"written to 1" in done.stderr
    assert b"from a child" in done.stderr
    assert_every_call_ended(lines)


@pytest.mark.parametrize("code", [0, 3])
async def test_what_was_shown_live_is_not_sent_again_but_how_it_ended_is(tmp_path, code):
    recorder = Recorder()
    async with Session("s", cwd=tmp_path, on_update=recorder, permission="allow") as session:
        await session.run("bash", {"command": f"echo shown; exit {code}"})
    (report,) = recorder.fold()
    assert report.raw_output["message"] == f"Exit code {code}"
    assert "shown" not in str(report.raw_output | {"metadata": None})


async def test_output_in_a_clients_own_terminal_is_sent_too(tmp_path):
    @tool
    def fails(call: Call) -> ToolResult:
        """Fail in a terminal of the client."""
        call.terminal("theirs")
        call.write("so far\n")
        return call.error("Exit code 3", output="so far").with_exit_code(3)

    recorder = Recorder(Peer(owns_terminals=True))
    options = {
        "tools": [fails],
        "permission": "allow",
        "on_update": recorder,
        "peer": recorder.peer,
    }
    async with Session("s", cwd=tmp_path, **options) as session:
        await session.run("fails", {})
    (report,) = recorder.fold()
    assert "so far" in report.raw_output["output"]


async def test_what_was_written_a_moment_ago_is_not_shown_again_as_plain_text(tmp_path):
    @tool(read_only=True)
    async def hurried(call: Call) -> ToolResult:
        """Write something, and be done."""
        call.write(b"\x1b[31mred\x1b[0m\r\n")
        return call.success("red\n").as_written()

    async with Session("s", cwd=tmp_path, tools=[hurried]) as session:
        await session.run("hurried")
        (report,) = session.reports
    assert [type(item).__name__ for item in report.content] == ["TerminalContent"]


class _Watched(Redactor):
    """Notes which thread looks through long values."""

    threads: set[int]

    def is_clean_json(self, data: bytes) -> bool:
        if len(data) > 1_000_000:
            self.threads.add(threading.get_ident())
        return super().is_clean_json(data)


@tool
async def repeat(text: str, times: int) -> str:
    """Repeat."""
    return text * times


@pytest.mark.parametrize("long", ["input", "output"])
async def test_the_loop_goes_on_while_long_values_are_looked_through(long: str) -> None:
    redactor = _Watched()
    redactor.threads = set()
    text = "password=hunter2x " * 60_000
    given = {"text": text, "times": 0} if long == "input" else {"text": text[:18], "times": 60_000}
    guard = GuardSettings(redact=redactor, spill=False)
    async with Session(tools=[repeat], guard=guard) as session:
        result = await session.run("repeat", given)
        assert result.success
        assert session.reports[0].status is ToolCallStatus.COMPLETED
    assert redactor.threads
    assert threading.get_ident() not in redactor.threads


async def test_a_call_that_is_cancelled_while_it_is_announced_ends() -> None:
    recorder = Recorder()
    async with Session(tools=[repeat], sinks=[recorder]) as session:
        task = asyncio.create_task(session.run("repeat", {"text": "word " * 200_000, "times": 1}))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert all(report.is_final for report in session.reports)
    assert_every_call_ended(recorder.lines)
