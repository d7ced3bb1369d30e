"""Odd moments in the life of a call: nothing hangs, nothing leaks, and the result obeys the standard."""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
import threading
import time
from pathlib import Path

import pytest

from callsheet import Call, Session, ToolResult, tool
from callsheet.report.errors import InvalidValue
from callsheet.runtime.health import SessionClosed
from callsheet.testing import Recorder, assert_standard
from callsheet.tools import stdio_guard
from callsheet.tools.errors import NotFound


@tool
async def wait(seconds: float = 30.0) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "waited"


# Stopping


async def test_a_call_that_is_stopped_and_whose_task_is_cancelled_at_once_does_not_hang():
    async with Session(tools=[wait]) as session:
        task = asyncio.ensure_future(session.run("wait", alias="one"))
        await asyncio.sleep(0)  # it is announced, and the tool has not begun
        assert session.cancel("one")
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=2)
        assert done
        assert task.cancelled()


def test_a_program_that_ends_right_after_starting_a_call_ends():
    kept: list[asyncio.Task[object]] = []

    async def main() -> None:
        session = Session(tools=[wait])
        kept.append(asyncio.ensure_future(session.run("wait")))
        await asyncio.sleep(0)

    program = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    program.start()
    program.join(5)
    assert not program.is_alive()
    assert kept[0].cancelled()


async def test_a_call_can_be_cancelled_from_another_thread():
    async with Session(tools=[wait]) as session:
        task = asyncio.ensure_future(session.run("wait", alias="one"))
        await asyncio.sleep(0.05)
        begun = time.monotonic()
        threading.Timer(0.05, session.cancel, ["one"]).start()
        result = await asyncio.wait_for(task, 5)  # nothing else wakes the loop until then
        assert result.metadata["error_code"] == "cancelled"
        assert time.monotonic() - begun < 2


@pytest.mark.parametrize("seconds", [0, -1])
async def test_a_timeout_of_zero_or_less_is_refused(seconds: float):
    async with Session(tools=[wait]) as session:
        result = await session.run("wait", {"seconds": 0}, timeout=seconds)
        assert result.metadata["error_code"] == "invalid_arguments"


async def test_running_none_at_once_is_refused():
    async with Session(tools=[wait]) as session:
        with pytest.raises(InvalidValue, match="at_once"):
            await asyncio.wait_for(session.run_all([("wait", {"seconds": 0})], at_once=0), 2)


async def test_nothing_is_begun_while_the_session_closes():
    begun = 0

    @tool
    async def stubborn() -> None:
        """Take a while to stop."""
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0.2)

    @tool
    async def new() -> None:
        """Begin."""
        nonlocal begun
        begun += 1

    session = Session(tools=[stubborn, new])
    running = asyncio.ensure_future(session.run("stubborn"))
    await asyncio.sleep(0.05)
    closing = asyncio.ensure_future(session.close())
    await asyncio.sleep(0.05)
    with pytest.raises(SessionClosed):
        await session.run("new")
    await asyncio.wait_for(asyncio.gather(closing, running), 5)
    assert begun == 0


async def test_what_breaks_while_a_tool_is_stopped_is_not_the_reason_for_its_end():
    @tool
    async def breaking() -> None:
        """Break when stopped."""
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            raise RuntimeError("connection lost") from None

    async with Session(tools=[breaking]) as session:
        result = await session.run("breaking", timeout=0.1)
        assert result.metadata["error_code"] == "timeout"
        assert result.metadata["exception"] == "RuntimeError"
        assert "connection lost" in result.output


# Other event loops


async def test_a_session_can_be_used_from_the_loop_of_another_thread(tmp_path: Path):
    @tool
    async def slow(path: Path) -> str:
        """Take a while."""
        await asyncio.sleep(0.1)
        return path.name

    async with Session(cwd=tmp_path, tools=[slow]) as session:
        here = asyncio.ensure_future(session.run("slow", {"path": "a"}))
        await asyncio.sleep(0.02)

        def there() -> list[ToolResult]:
            async def both() -> list[ToolResult]:
                one = session.run("slow", {"path": "a"})  # waits for the one over here
                return [await one, *await session.run_all([("slow", {"path": "b"})])]

            return asyncio.run(asyncio.wait_for(both(), 5))

        assert [result.output for result in await asyncio.to_thread(there)] == ["a", "b"]
        assert (await here).success


async def test_a_tool_in_a_thread_can_make_calls_of_its_own():
    @tool
    def outer(call: Call) -> ToolResult:
        """Call another."""
        return asyncio.run(call.session.run("wait", {"seconds": 0}))

    recorder = Recorder()
    async with Session(tools=[outer, wait], on_update=recorder) as session:
        result = await session.run("outer")
        assert (result.output, result.tool_name) == ("waited", "outer")
    first, second = recorder.fold()
    assert second.notes["parentId"] == first.tool_call_id


# The protocol's pipe


async def test_a_thread_that_is_left_behind_still_can_not_reach_stdout(capsys):
    printed = threading.Event()

    @tool
    def late() -> None:
        """Print late."""
        time.sleep(0.4)
        print("too late")
        printed.set()

    async with Session(tools=[late]) as session:
        result = await session.run("late", timeout=0.05)
        assert result.metadata["error_code"] == "timeout"
        assert await asyncio.to_thread(printed.wait, 5)
    assert capsys.readouterr().out == ""


async def test_stdin_is_at_its_end_also_as_bytes():
    @tool
    async def reading() -> str:
        """Read."""
        return repr((sys.stdin.buffer.read(), sys.stdin.read(), list(sys.stdin)))

    async with Session(tools=[reading]) as session:
        result = await session.run("reading")
        assert result.output == "(b'', '', [])"


async def test_whoever_else_replaces_stdout_meanwhile_the_process_gets_its_own_back():
    while stdio_guard._users:  # a thread that an earlier test left behind
        await asyncio.sleep(0.01)
    out, into = sys.stdout, sys.stdin
    inside, leave = asyncio.Event(), asyncio.Event()

    @tool
    async def redirecting() -> None:
        """Redirect."""
        with contextlib.redirect_stdout(io.StringIO()):
            inside.set()
            await leave.wait()

    async with Session(tools=[redirecting, wait]) as session:
        for _ in range(3):
            inside.clear()
            leave.clear()
            task = asyncio.ensure_future(session.run("redirecting"))
            await inside.wait()
            await session.run("wait", {"seconds": 0})
            leave.set()
            await task
            assert sys.stdout is out
            assert sys.stdin is into


# What tools return


async def test_a_sync_function_may_give_something_to_await():
    async def later() -> str:
        await asyncio.sleep(0)
        return "done"

    @tool
    def wrapped():
        """Do it later."""
        return later()

    async with Session(tools=[wrapped]) as session:
        assert (await session.run("wrapped")).output == "done"


@pytest.mark.parametrize("how", ["fails", "times out"])
async def test_what_a_stream_yielded_before_it_failed_reaches_the_model(how: str):
    @tool
    async def stream():
        """Stream."""
        yield "line one\n"
        if how == "fails":
            raise ValueError("then it broke")
        await asyncio.sleep(30)

    async with Session(tools=[stream]) as session:
        result = await session.run("stream", timeout=0.2)
        assert not result.success
        assert result.output == f"line one\n\n{result.error}"
        assert_standard(result)


async def test_blank_output_is_no_output():
    @tool
    def blank() -> str:
        """Say nothing."""
        return " \n"

    async with Session(tools=[blank], permission="allow") as session:
        for name, arguments in (("blank", {}), ("bash", {"command": "echo"})):
            result = await session.run(name, arguments)
            assert result.success
            assert_standard(result)


async def test_metadata_does_not_replace_an_errors_own_code():
    @tool
    def lost() -> str:
        """Be lost."""
        raise NotFound("nothing there", error_code=404, retry="please")

    async with Session(tools=[lost]) as session:
        result = await session.run("lost")
        assert (result.metadata["error_code"], result.metadata["retry"]) == ("not_found", "changed")
        assert_standard(result)


# Permission


async def test_a_yes_for_one_path_outside_is_none_for_another(tmp_path: Path):
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    (work / "mine").write_text("mine")
    (outside / "theirs").write_text("theirs")
    answers = ["allow_always", "reject_once"]
    async with Session(cwd=work, on_permission=lambda _: answers.pop(0)) as session:
        there = str(outside / "there")
        assert (await session.run("move", {"source": "mine", "destination": there})).success
        (outside / "there").unlink()
        theirs = str(outside / "theirs")
        result = await session.run("move", {"source": theirs, "destination": there})
        assert result.metadata["error_code"] == "permission_denied"
        assert not answers
    assert (outside / "theirs").exists()
