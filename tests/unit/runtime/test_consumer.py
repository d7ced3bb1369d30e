"""What each consumer is sent: in order, once, also when sends fail, peers are slow, or go away."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from callsheet import Peer, PipeSink, Session, ToolCallReport
from callsheet.runtime.sanitizer import GuardSettings
from callsheet.runtime.send_queue import SendQueue
from callsheet.testing import (
    FakeClock,
    Recorder,
    assert_every_call_ended,
    fold,
)
from tests.support.peers import DyingPeer, SlowPeer


class Gate:
    """A consumer that takes lines only while it is open."""

    def __init__(self, peer: Peer | None = None) -> None:
        self.peer = peer or Peer()
        self.lines: list[bytes] = []
        self.open = asyncio.Event()

    async def _take(self, items: deque[Any]) -> None:
        while items:
            await self.open.wait()
            self.lines.append(items.popleft())

    def send(self, items: deque[Any]) -> Any:
        return self._take(items)

    def close(self) -> None:
        pass


async def test_every_status_change_is_sent_and_what_is_between_merges() -> None:
    gate = Gate()
    async with Session(sinks=[gate], dead_after=60) as session:
        async with session.call("x", {}) as call:
            call.start()
            for step in range(1000):
                call.progress(step, 1000)
                call.title(f"Step {step}")
            call.pause()
            call.resume()
            for step in range(1000):
                call.title(f"Again {step}")
            call.succeed()
        gate.open.set()
    statuses = [u["status"] for u in map(_update, gate.lines) if "status" in u]
    assert statuses == ["pending", "in_progress", "in_progress", "in_progress", "completed"]
    assert len(gate.lines) < 12


async def test_order_is_kept_across_calls() -> None:
    """Whatever merges, nothing is seen before what happened before it."""
    gate = Gate()
    async with Session(sinks=[gate], dead_after=60) as session:
        calls = [session.call(f"c{i}", {}, title="0").__enter__() for i in range(5)]
        for number in range(1, 200):
            call = calls[number * 7 % 5]
            call.title(str(number))
            if number % 31 == 0:
                (call.pause if call.status.value == "in_progress" else call.start)()
        gate.open.set()
        for number, call in enumerate(calls, 200):
            call.title(str(number))
            call.succeed()
    titles = [int(u["title"]) for u in map(_update, gate.lines) if u.get("title", "0") != "0"]
    assert titles == sorted(titles)


async def test_a_send_that_fails_is_tried_again_and_nothing_is_lost_or_doubled() -> None:
    lines: list[bytes] = []
    fails = {1, 2, 4}
    tries = 0

    def flaky(line: bytes) -> None:
        nonlocal tries
        tries += 1
        if tries in fails:
            raise RuntimeError("try again")
        lines.append(line)

    clock = FakeClock()
    session = Session(on_update=flaky, clock=clock).open()
    async with session.call("x", {}) as call:
        call.start()
        call.title("y")
        call.succeed("done")
    await clock.advance(5)
    await session.close()
    assert session.health.failed == 3
    assert [u.get("status") for u in map(_update, lines)] == ["pending", "in_progress", "completed"]
    assert_every_call_ended(lines)


async def test_an_async_send_that_fails_is_tried_again() -> None:
    lines: list[bytes] = []
    failed = False

    async def flaky(line: bytes) -> None:
        nonlocal failed
        await asyncio.sleep(0)
        if len(lines) == 1 and not failed:
            failed = True
            raise RuntimeError("once")
        lines.append(line)

    clock = FakeClock()
    session = Session(on_update=flaky, clock=clock).open()
    async with session.call("x", {}) as call:
        call.succeed("done")
    await clock.advance(1)
    await session.close()
    assert failed
    assert [u["status"] for u in map(_update, lines)] == ["pending", "in_progress", "completed"]


async def test_a_consumer_that_only_fails_is_given_up_and_the_others_go_on() -> None:
    lost: list[str] = []

    def broken(line: bytes) -> None:
        raise TimeoutError("always")

    clock, good = FakeClock(), Recorder()
    session = Session(
        on_update=broken,
        sinks=[good],
        clock=clock,
        dead_after=10,
        on_lost=lambda _, why: lost.append(why),
    ).open()
    async with session.call("x", {}) as call:
        call.start()
        await clock.advance(9)
        assert session.health.dead == 0
        await clock.advance(5)
        call.succeed("still here")
    await session.close()
    assert (session.health.dead, len(lost)) == (1, 1)
    assert "always" in lost[0]
    assert_every_call_ended(good)


async def test_a_consumer_with_a_bug_is_given_up_soon_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(line: bytes) -> None:
        line.decod()  # type: ignore[attr-defined]

    clock = FakeClock()
    session = Session(on_update=broken, clock=clock).open()
    async with session.call("x", {}) as call:
        await clock.advance(4)
        call.succeed()
    assert session.health.dead == 1
    assert "has no attribute 'decod'" in caplog.text
    await session.close()


async def test_a_consumer_that_never_answers_is_given_up_and_flush_returns() -> None:
    gate, good, clock = Gate(), Recorder(), FakeClock()
    session = Session(sinks=[gate, good], clock=clock, dead_after=30).open()
    async with session.call("x", {}) as call:
        call.succeed()
    flush = asyncio.create_task(session.flush())
    await clock.advance(29)
    assert not flush.done()
    await clock.advance(2)
    await asyncio.wait_for(flush, 1)
    assert session.health.dead == 1
    assert "took nothing for 30 seconds" in session.health.faults[-1]
    assert_every_call_ended(good)
    await session.close()


async def test_a_slow_consumer_that_takes_something_is_not_given_up() -> None:
    lines: list[bytes] = []
    clock = FakeClock()

    async def slow(line: bytes) -> None:
        waiting = asyncio.get_running_loop().create_future()
        clock.call_later(asyncio.get_running_loop(), 20, lambda: waiting.set_result(None))
        await waiting
        lines.append(line)

    session = Session(on_update=slow, clock=clock, dead_after=30).open()
    async with session.call("x", {}) as call:
        call.succeed()
    await clock.advance(100)
    await session.close()
    assert (session.health.dead, len(lines)) == (0, 3)
    assert session.health.late >= 1


async def test_a_consumer_too_far_behind_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SendQueue, "MAX_WEIGHT", 100_000)
    gate, good = Gate(), Recorder()
    async with Session(sinks=[gate, good], dead_after=60) as session:
        session.call("first", {}).__enter__().succeed()
        await asyncio.sleep(0)  # now the gate keeps us waiting
        for _ in range(300):
            async with session.call("x", {"path": "y" * 500}) as call:
                call.succeed("z" * 500)
        await asyncio.sleep(0)
        assert session.health.dead == 1
        assert "too far behind" in session.health.faults[-1]
    assert len(assert_every_call_ended(good)) == 301


# With each length, the queue is full at another step of a call.
@pytest.mark.parametrize("length", range(500, 600, 20))
async def test_a_tool_that_never_lets_the_loop_turn_costs_no_memory(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SendQueue, "MAX_WEIGHT", 100_000)
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        most = 0
        for _ in range(400):
            with session.call("x", {"path": "y" * length}) as call:
                call.succeed("z" * 500)
            most = max(most, session.consumers[0].queue.weight)
        assert most < 110_000
    assert session.health.is_good
    assert len(assert_every_call_ended(recorder)) == 400


async def test_a_closed_pipe_is_noticed_and_the_calls_go_on() -> None:
    good = Recorder()
    with DyingPeer(lines=2) as dying:
        async with Session(sinks=[dying.sink(), good]) as session:
            for number in range(50):
                async with session.call("x", {"n": number}) as call:
                    call.start()
                    await asyncio.sleep(0)
                    call.succeed("done")
                await session.flush()
                if number == 10:
                    await asyncio.to_thread(dying.has_died.wait, 5)
        assert session.health.dead == 1
    assert len(assert_every_call_ended(good)) == 50


async def test_a_peer_that_stops_reading_holds_nobody_up_and_costs_no_memory() -> None:
    good = Recorder()
    with SlowPeer(rate=0) as stopped:
        session = Session(sinks=[stopped.sink(Peer(version=2)), good], dead_after=0.3).open()
        async with session.call("x", {}) as call:
            call.start()
            for _ in range(200):
                call.write(b"x" * 4096)
                call.progress(1, 2)
            (stuck, *_) = session.consumers
            waiting = sum(map(len, stuck.queue.lines)) + len(stuck.queue.waiting)
            assert waiting < 1 << 16
            call.succeed()
        await session.close()
    assert session.health.dead == 1
    assert_every_call_ended(good)


async def test_a_slow_pipe_gets_every_status_and_whole_lines() -> None:
    with SlowPeer(rate=400_000, step=1000) as slow:
        async with Session(sinks=[slow.sink()]) as session:
            for number in range(40):
                async with session.call("x", {"n": number, "text": "y" * 3000}) as call:
                    call.start()
                    call.succeed("z" * 3000)
            await session.flush()
        while slow.received.count(b"\n") < 120:
            await asyncio.sleep(0.01)
    assert len(assert_every_call_ended(bytes(slow.received).splitlines())) == 40


@pytest.mark.parametrize("kind", ["pipe", "socket", "file"])
async def test_lines_go_to_pipes_sockets_and_files(kind: str, tmp_path: Path) -> None:
    if kind == "socket":
        here, there = socket.socketpair()
        target: Any = here
    elif kind == "pipe":
        read_end, write_end = os.pipe()
        target = write_end
    else:
        target = (tmp_path / "out").open("wb")
    async with Session(sinks=[PipeSink(target)]) as session:
        async with session.call("x", {}) as call:
            call.succeed("done")
    if kind == "socket":
        here.close()
        data = there.recv(1 << 16)
        there.close()
    elif kind == "pipe":
        assert os.get_blocking(write_end), "the flags of an open file are shared; they are not ours"
        os.close(write_end)
        data = os.read(read_end, 1 << 16)
        os.close(read_end)
    else:
        target.close()
        data = (tmp_path / "out").read_bytes()
    assert list(assert_every_call_ended(data.splitlines()).values()) == [
        ["pending", "in_progress", "completed"]
    ]


async def test_a_socket_that_is_full_is_waited_for() -> None:
    here, there = socket.socketpair()
    here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    received = bytearray()

    def read() -> None:
        while data := there.recv(4096):
            received.extend(data)

    async with Session(sinks=[PipeSink(here)]) as session:
        async with session.call("x", {"text": "y" * 300_000}) as call:
            call.succeed("z" * 300_000)
        reader = asyncio.create_task(asyncio.to_thread(read))
        await session.flush()
    here.close()
    await reader
    there.close()
    assert_every_call_ended(bytes(received).splitlines())


async def test_consumers_of_reports_get_reports() -> None:
    class Reports:
        peer = None

        def __init__(self) -> None:
            self.got: list[ToolCallReport] = []

        def send(self, items: deque[Any]) -> None:
            self.got.extend(items)
            items.clear()

        def close(self) -> None:
            pass

    reports = Reports()
    async with Session(sinks=[reports]) as session:
        async with session.call("x", {}) as call:
            call.start()
            call.write(b"live\n")
            call.progress(1, 2)
            call.succeed("done")
    assert [report.status.value for report in reports.got] == [
        "pending",
        "in_progress",
        "completed",
    ]
    assert reports.got[-1].title == "X"
    texts = [item.text for item in reports.got[-1].content]  # type: ignore[attr-defined]
    assert texts == ["```\nlive\n```", "done"]


async def test_a_frame_over_the_budget_still_reports_the_status() -> None:
    recorder = Recorder()
    no_limits = GuardSettings(limits=None)
    async with Session(sinks=[recorder], guard=no_limits) as session:
        async with session.call("x", {}) as call:
            call.succeed("z" * 9_000_000, raw={"more": "y" * 9_000_000})
    assert_every_call_ended(recorder)
    assert session.health.cut == 1
    assert max(map(len, recorder.lines)) < 9_000_000


async def test_changes_are_paced() -> None:
    """A tool that says a thousand things in a second is shown about twelve times, the last included."""
    clock, recorder = FakeClock(), Recorder()
    async with Session(sinks=[recorder], clock=clock) as session:
        async with session.call("x", {}) as call:
            call.start()
            for step in range(1000):
                call.title(f"Step {step}")
                await clock.advance(0.001)
            await clock.advance(0.1)
            titles = [u["title"] for u in recorder.updates if "title" in u]
            assert 8 <= len(titles) <= 16
            assert titles[-1] == "Step 999"
            call.succeed()


async def test_a_cancelled_sender_is_tried_again() -> None:
    """Somebody who cancels every task of the loop must not silence a session."""
    gate = Gate()
    session = Session(sinks=[gate]).open()
    async with session.call("x", {}) as call:
        await asyncio.sleep(0)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        gate.open.set()
        call.succeed()
    await session.close()
    assert assert_every_call_ended(gate.lines) == {call.id: ["pending", "in_progress", "completed"]}


async def test_a_peer_sees_the_same_whoever_else_listens() -> None:
    peers = [Recorder(Peer(version=2)), Recorder(Peer(terminals="meta")), Recorder()]
    async with Session(sinks=peers) as session:
        async with session.call("x", {"command": "ls"}) as call:
            call.start()
            call.write("äöü\n")
            call.locate("/a", 1)
            call.succeed("done", raw={"exit_code": 0})
    folds = [peer.fold()[call.id] for peer in peers]
    assert {fold.status.value for fold in folds} == {"completed"}  # type: ignore[union-attr]
    assert len({fold.locations for fold in folds}) == 1  # type: ignore[union-attr]
    assert fold(peers[0]).terminal(folds[0].content[0].terminal_id).output == "äöü\n".encode()  # type: ignore[union-attr]


def _update(line: bytes) -> dict[str, Any]:
    return json.loads(line)["params"]["update"]
