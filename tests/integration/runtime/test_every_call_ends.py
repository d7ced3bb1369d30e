"""Every announced call ends, exactly once: whatever happens, at every single point where it can.

One scripted tool runs with everything on: several consumers (one of them async, one a real pipe),
nested calls, a batch, permission, output, a timeout. A first run counts the await points of all its
tasks, those inside callsheet included. Then it runs again once for each point, and at that point
something is injected.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from callsheet import Peer, PermissionDenied, PipeSink, Session
from callsheet.testing import Recorder, assert_every_call_ended


class Injected(Exception):
    """What is thrown into a task."""


class Injector:
    """Counts the await points of all tasks of a loop, and does something at one of them."""

    def __init__(self, at: int, act: Callable[[Any], BaseException | None]) -> None:
        self.count = 0
        self.fired: str | None = None
        self._at = at
        self._act = act

    def task_factory(self, loop: Any, coro: Coroutine[Any, Any, Any], **options: Any) -> Any:
        return asyncio.Task(Watched(self, coro), loop=loop, **options)

    def at_a_point(self, coro: Any) -> BaseException | None:
        """Hear that a task is about to wait. Gives what to throw into it instead."""
        self.count += 1
        if self.count != self._at:
            return None
        self.fired = coro.__qualname__
        return self._act(asyncio.current_task())


class Watched(Coroutine[Any, Any, Any]):
    """A coroutine that tells of each point at which it waits."""

    def __init__(self, injector: Injector, coro: Coroutine[Any, Any, Any]) -> None:
        self._injector, self._coro = injector, coro

    def send(self, value: Any) -> Any:
        return self._or_thrown(self._coro.send(value))

    def throw(self, *exc: Any) -> Any:
        return self._or_thrown(self._coro.throw(*exc))

    def close(self) -> None:
        self._coro.close()

    def _or_thrown(self, waiting: Any) -> Any:
        thrown = self._injector.at_a_point(self._coro)
        if thrown is None:
            return waiting
        if waiting is not None:
            waiting._asyncio_future_blocking = False
        return self.throw(thrown)

    def __await__(self) -> Any:
        return self._coro.__await__()


class World:
    """Who listens to the scripted tool."""

    def __init__(self) -> None:
        self.v1, self.v2 = Recorder(), Recorder(Peer(version=2))
        self.taken: list[bytes] = []
        self.read_end, self.write_end = os.pipe()
        self.is_dead = False

    async def slow(self, line: bytes) -> None:
        await asyncio.sleep(0)
        if self.is_dead:
            raise BrokenPipeError
        self.taken.append(line)

    def kill_peers(self, _: Any = None) -> None:
        self.is_dead = True
        os.close(self.read_end)
        self.read_end = -1

    def close(self) -> None:
        os.close(self.write_end)
        if self.read_end >= 0:
            os.close(self.read_end)


async def scripted(world: World) -> None:
    async def ask(question: Any) -> str:
        await asyncio.sleep(0)
        return "reject_once" if question.report.name == "rm" else "allow_once"

    sinks = [world.v1, world.v2, world.slow, PipeSink(world.write_end)]
    async with Session(sinks=sinks, on_permission=ask, dead_after=5) as session:
        async with session.call("task", {"goal": "tests"}) as parent:
            parent.start()
            async with session.batch("Reading 2 files", total=2, summary=True) as batch:
                await asyncio.gather(*[_read(batch, name) for name in ("a", "b")])
            try:
                async with parent.call("rm", {"path": "/"}) as denied:
                    await denied.permission()
            except Exception as exc:
                if isinstance(exc, Injected):
                    raise
            async with parent.call("bash", {"command": "make"}) as run:
                await run.permission()
                run.start()
                run.write(b"compiling\n")
                await asyncio.sleep(0)
                run.pause()
                await session.flush()
                run.resume()
                run.succeed("built", raw={"exit_code": 0})
            await session.flush()
            parent.succeed("done")


async def _read(batch: Any, name: str) -> None:
    async with batch.call("read", {"path": name}, timeout=30) as call:
        call.start()
        await asyncio.sleep(0)
        call.progress(1, 2)
        await asyncio.sleep(0)
        call.succeed(name)


def play(world: World, injector: Injector) -> BaseException | None:
    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(injector.task_factory)
        await asyncio.wait_for(asyncio.get_running_loop().create_task(scripted(world)), 20)

    try:
        asyncio.run(main())
    except (Injected, asyncio.CancelledError, PermissionDenied) as exc:
        return exc
    finally:
        world.close()
    return None


def points() -> int:
    injector = Injector(0, lambda _: None)
    world = World()
    assert play(world, injector) is None
    assert len(assert_every_call_ended(world.v1)) == 6
    return injector.count


def test_there_are_points_to_inject_at_and_they_are_the_same_each_time() -> None:
    assert points() == points() >= 25


@pytest.mark.parametrize("what", ["cancellation", "exception", "dead peer"])
def test_every_call_ends_whatever_happens_at_any_await_point(what: str) -> None:
    fired: list[str] = []
    for at in range(1, points() + 1):
        world = World()
        acts: dict[str, Callable[[Any], BaseException | None]] = {
            "cancellation": lambda task: task.cancel() and None,
            "exception": lambda task: Injected(),
            "dead peer": world.kill_peers,
        }
        injector = Injector(at, acts[what])
        play(world, injector)
        assert injector.fired, f"point {at} was not reached"
        fired.append(injector.fired)
        for recording in (world.v1, world.v2):
            calls = assert_every_call_ended(recording)
            ends = [
                s
                for statuses in calls.values()
                for s in statuses
                if s in ("completed", "failed", "cancelled")
            ]
            assert len(ends) == len(calls)
        assert world.v1.fold().counts.ended == world.v2.fold().counts.ended
        if what != "dead peer":
            assert_every_call_ended(world.taken)
    assert {"scripted", "_read", "CallbackSink._rest"} <= set(fired), (
        "callsheet's own tasks are among them"
    )


# The end of the process

SCRIPT = """
import asyncio, os, sys, threading
from callsheet import Session, PipeSink, Peer

async def main():
    session = Session(sinks=[PipeSink(1), PipeSink(int(sys.argv[1]), Peer(version=2))]).open()
    call = session.call("left open", {}).__enter__()
    call.start()
    call.write("half a li")
    child = call.call("child", {}).__enter__()
    child.pause()
    %s

asyncio.run(main())
"""

LEAVES = {
    "falling off the end": "await session.flush()",
    "sys.exit": "sys.exit(3)",
    "an exception": "1 / 0",
    "before anything was sent": "pass",
    "a stopped loop": "asyncio.get_running_loop().stop(); await asyncio.sleep(60)",
    "a daemon thread": "threading.Thread(target=threading.Event().wait, daemon=True).start()",
    "a fork that exits": "await session.flush(); os.fork() or sys.exit(0); os.wait()",
}


@pytest.mark.parametrize("leave", LEAVES)
def test_calls_left_open_end_when_the_interpreter_does(leave: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT % LEAVES[leave]))
    with (tmp_path / "v2").open("wb") as second:
        done = subprocess.run(
            [sys.executable, script, str(second.fileno())],
            pass_fds=[second.fileno()],
            capture_output=True,
            timeout=30,
            check=False,
        )
    for recording in (done.stdout.splitlines(), tmp_path / "v2"):
        calls = assert_every_call_ended(recording)
        assert [statuses[-1] for statuses in calls.values()] == ["failed", "failed"]
    assert b"Interrupted: the agent stopped" in done.stdout
    assert b"half a li" in done.stdout


def test_the_end_of_the_process_does_not_wait_for_a_peer_that_does_not_read(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import asyncio
        from callsheet import Session, PipeSink

        async def main():
            session = Session(sinks=[PipeSink(1)]).open()
            for number in range(100):
                session.call("x", {"text": "y" * 10_000}).__enter__()

        asyncio.run(main())
        """)
    )
    read_end, write_end = os.pipe()
    try:
        done = subprocess.run([sys.executable, script], stdout=write_end, timeout=20, check=False)
    finally:
        os.close(read_end)
        os.close(write_end)
    assert done.returncode == 0
