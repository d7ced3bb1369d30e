"""Changes that come in the midst of a change: by signals' handlers, and by other threads."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import threading
import time
from collections import deque
from typing import Any

import pytest

from callsheet import Peer, Session, ToolCallStatus
from callsheet.runtime.pipes import PipeWriter
from callsheet.runtime.send_queue import SendQueue
from callsheet.testing import Recorder, assert_every_call_ended


async def test_calls_that_a_signals_handler_ends_end_once_and_last() -> None:
    v1, v2 = Recorder(), Recorder(Peer(version=2))
    live: list[Any] = []

    def cancel(*_: object) -> None:
        if live and live[0].id and not live[0].has_ended:
            live[0].cancel()

    before = signal.signal(signal.SIGALRM, cancel)
    chance = random.Random(7)
    try:
        async with Session(sinks=[v1, v2]) as session:
            took = 4e-4
            end = time.monotonic() + 0.5
            while time.monotonic() < end:
                call = session.call("x")
                live[:] = [call]
                # At any time in a life, or after it, however slow the machine is just now.
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(2e-5, 2 * took))
                began = time.monotonic()
                call.__enter__()
                call.start()
                call.title("Working")
                call.pause()
                call.resume()
                call.succeed("done")
                signal.setitimer(signal.ITIMER_REAL, 0)
                took = time.monotonic() - began
                live.clear()
                assert call.has_ended
                await asyncio.sleep(0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    statuses = [each[-1] for each in assert_every_call_ended(v1).values()]
    assert {"completed", "failed"} == set(statuses), "some were cancelled, some were not"
    titles = [{c.tool_call_id: c.title for c in one.fold()} for one in (v1, v2)]
    assert titles[0] == titles[1]


class SlowRecords:
    """A sink that stores calls, and takes its time for it in the thread that reports."""

    peer = None
    takes_records = True

    def __init__(self) -> None:
        self.taken: list[Any] = []

    def send(self, items: deque[Any]) -> None:
        time.sleep(0.05)
        self.taken += items
        items.clear()

    def close(self) -> None:
        pass


async def test_flush_does_not_wait_for_what_another_thread_has_just_sent() -> None:
    sink = SlowRecords()
    async with Session(sinks=[sink]) as session:
        call = session.call("x").__enter__()
        call.start()
        thread = threading.Thread(target=call.succeed, args=("done",))
        thread.start()
        await asyncio.sleep(0.02)  # the thread is within the sink now
        call.title("too late")
        session.call("y").__enter__()
        await asyncio.wait_for(session.flush(), 2)
        thread.join()
        assert [r.report.status for r in sink.taken if r.report.name == "x"][-1] is (
            ToolCallStatus.COMPLETED
        )


async def test_giving_up_one_session_leaves_the_pipe_to_the_others() -> None:
    read_end, write_end = os.pipe()
    writer = PipeWriter(write_end)

    class Shared:
        peer = Peer()

        def send(self, items: deque[Any]) -> Any:
            return writer.send(items)

        def close(self) -> None:
            pass

    session = Session(sinks=[Shared()], dead_after=0.1).open()
    for _ in range(60):
        with session.call("x", {"text": "y" * 5000}) as call:
            call.succeed("z" * 5000)
    await asyncio.sleep(0.3)  # nobody reads
    assert session.health.dead == 1
    received = bytearray()

    def read() -> None:
        while b"after" not in received:
            received.extend(os.read(read_end, 1 << 16))

    thread = threading.Thread(target=read)
    thread.start()
    await asyncio.wait_for(writer.post(b'{"after":1}\n'), 5)
    await asyncio.to_thread(thread.join)
    assert all(json.loads(line) for line in received.splitlines())
    await session.close()
    writer.close()
    os.close(read_end)
    os.close(write_end)


async def test_threads_cost_no_memory_while_the_loop_is_blocked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SendQueue, "MAX_WEIGHT", 100_000)
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:

        def work() -> None:
            for _ in range(300):
                with session.call("x") as call:
                    call.succeed("z" * 5000)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()  # which blocks the loop
        assert session.consumers[0].queue.weight < 400_000
        assert session.health.cut > 200
    assert len(assert_every_call_ended(recorder)) == 300


async def test_flush_sends_what_was_held_back_and_what_waits() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        with session.call("x") as call:
            call.start()
            for step in range(40):
                call.update(content=f"{step} " * 2000)
                await asyncio.sleep(0)
            await session.flush()
            shown = [u["content"][0]["content"]["text"] for u in recorder.updates if "content" in u]
            assert shown[-1].startswith("39 ")
            assert len(shown[-1]) >= 6000
