"""A consumer that takes records: told of beginnings and ends at once, by whatever thread, and whole."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Any

from callsheet.acp.peer import Peer
from callsheet.report.terminal import CallRecord
from callsheet.runtime.consumer import TRIES
from callsheet.runtime.session import RuntimeSession
from callsheet.runtime.shutdown import end_now


class Kept:
    """A sink that takes records, and fails as often as it is told to."""

    peer: Peer | None = None
    takes_records = True

    def __init__(self, failing: int = 0) -> None:
        self.records: list[CallRecord] = []
        self.failing = failing
        self.waited = False

    @property
    def states(self) -> list[str]:
        return [record.report.status.value for record in self.records]

    def send(self, items: deque[Any]) -> None:
        if self.failing:
            self.failing -= 1
            raise ValueError("not now")
        while items:
            self.records.append(items.popleft())

    def send_now(self, items: deque[Any], until: float) -> None:
        self.send(items)
        self.waited = True

    def close(self) -> None:
        pass


async def test_a_beginning_and_an_end_are_handed_over_at_once() -> None:
    kept = Kept()
    async with RuntimeSession(sinks=[kept]) as session:
        with session.call("read") as call:
            assert kept.states == ["pending"]
            call.succeed("done")
            assert kept.states == ["pending", "completed"]


async def test_what_is_between_is_handed_over_once_by_a_flush_or_in_time() -> None:
    kept = Kept()
    async with RuntimeSession(sinks=[kept]) as session:
        with session.call("read") as call:
            call.start()
            for number in range(100):
                call.title(f"Step {number}")
            assert kept.states == ["pending"]
            await session.flush()
            assert kept.states == ["pending", "in_progress"]
            assert kept.records[-1].report.title == "Step 99"
            call.title("Last step")
            async with asyncio.timeout(10):
                while len(kept.records) < 3:
                    await asyncio.sleep(0.01)
            assert kept.records[-1].report.title == "Last step"
            call.succeed("done")


async def test_a_call_that_has_ended_is_not_opened_again_by_what_came_before() -> None:
    kept = Kept()
    async with RuntimeSession(sinks=[kept]) as session:
        with session.call("read") as call:
            call.start()
            call.title("Soon done")
            call.succeed("done")
        await session.flush()
        await asyncio.sleep(0.2)
        assert kept.states == ["pending", "completed"]


async def test_output_is_kept_also_where_nobody_else_holds_it() -> None:
    kept = Kept()
    async with RuntimeSession(sinks=[kept]) as session:
        with session.call("bash", {"command": "make"}) as call:
            call.write("one\n")
            call.write("two\n")
            call.exit(0)
    (terminal,) = kept.records[-1].terminals
    assert terminal.tail == b"one\ntwo\n"
    assert terminal.exit_status is not None


async def test_calls_of_many_threads_all_come_whole_and_in_order() -> None:
    kept = Kept()
    async with RuntimeSession(sinks=[kept]) as session:

        def work() -> None:
            for number in range(50):
                with session.call("read", {"n": number}) as call:
                    call.start()
                    call.succeed("done")

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
    states: dict[str, list[str]] = {}
    for record in kept.records:
        states.setdefault(record.report.tool_call_id, []).append(record.report.status.value)
    assert len(states) == 200
    for seen in states.values():
        assert (seen[0], seen[-1]) == ("pending", "completed")
        assert seen.count("completed") == 1


async def test_what_was_not_taken_comes_with_the_next() -> None:
    kept = Kept(failing=1)
    async with RuntimeSession(sinks=[kept]) as session:
        with session.call("read") as call:
            assert kept.states == []
            call.succeed("done")
        assert kept.states == ["pending", "completed"]
        assert session.health.failed == 1


async def test_one_that_always_fails_is_given_up_and_harms_nobody() -> None:
    lost: list[str] = []
    kept, other = Kept(failing=1 << 30), Kept()
    async with RuntimeSession(
        sinks=[kept, other], on_lost=lambda _, why: lost.append(why)
    ) as session:
        for _ in range(TRIES):
            with session.call("read") as call:
                call.succeed("done")
        await session.flush()
        await asyncio.sleep(0)
        assert len(lost) == 1
        assert "not now" in lost[0]
        assert len(other.records) == 2 * TRIES


async def test_at_the_end_of_a_process_it_is_waited_for() -> None:
    kept = Kept()
    session = RuntimeSession(sinks=[kept]).open()
    call = session.call("read").__enter__()
    call.start()
    end_now(session, until=float("inf"))
    assert kept.states == ["pending", "in_progress", "failed"] or kept.states == [
        "pending",
        "failed",
    ]
    assert kept.waited
