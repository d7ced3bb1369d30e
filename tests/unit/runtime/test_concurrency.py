"""A thousand calls at once, from asyncio and from threads: each recording folds to what was said."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from callsheet import Call, Peer, PipeSink, Session
from callsheet.testing import Recorder, assert_every_call_ended
from tests.support.sizes import sized

CALLS, UPDATES = sized(1000, 400), sized(50, 10)


def change(call: Call, number: int, step: int) -> None:
    """The step-th of a call's updates, of all sorts."""
    sort = step % 5
    if step == 0:
        call.start()
    elif sort == 0:
        call.title(f"Call {number}, step {step}")
    elif sort == 1:
        call.progress(step, UPDATES)
    elif sort == 2:
        call.locate(f"/f{number}", step)
    elif sort == 3:
        call.write(f"{number}.{step}\n")
    else:
        call.custom(step=step)


def end(call: Call, number: int) -> None:
    if number % 3:
        call.succeed(f"result {number}", raw={"n": number})
    else:
        call.fail(f"no {number}", reason="tool_error")


async def from_asyncio(session: Session) -> None:
    together = asyncio.Barrier(CALLS)

    async def work(number: int) -> None:
        async with session.call(
            "work", {"n": number}, kind="execute", alias=f"model_{number}"
        ) as call:
            await together.wait()
            for step in range(UPDATES):
                change(call, number, step)
                if step % 7 == 0:
                    await asyncio.sleep(0)
            end(call, number)

    await asyncio.gather(*map(work, range(CALLS)))


async def from_threads(session: Session) -> None:
    """Eight threads, each with 125 calls open at once."""
    together = threading.Barrier(8, timeout=30)

    def work(first: int) -> None:
        calls = {
            n: session.call("work", {"n": n}, kind="execute", alias=f"model_{n}").__enter__()
            for n in range(first, CALLS, 8)
        }
        together.wait()
        for step in range(UPDATES):
            for number, call in calls.items():
                change(call, number, step)
        for number, call in calls.items():
            end(call, number)

    await in_threads(work, range(8))


async def in_threads(work: Callable[[int], Any], numbers: range) -> list[Any]:
    """Run with a thread for each number (asyncio's own pool may have fewer)."""
    with ThreadPoolExecutor(len(numbers)) as pool:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*[loop.run_in_executor(pool, work, n) for n in numbers])


def assert_is_right(recorder: Recorder) -> None:
    assert len(assert_every_call_ended(recorder)) == CALLS
    ledger = recorder.fold()
    for number in range(CALLS):
        report: Any = ledger[f"model_{number}"]
        assert report.raw_input == {"n": number}
        assert report.title == f"Call {number}, step {UPDATES - 5}"
        assert report.locations[-1].line == UPDATES - 3
        assert len(report.locations) == 1
        assert report.notes["custom"] == {"step": UPDATES - 1}
        assert report.status.value == ("completed" if number % 3 else "failed")
        expected = f"result {number}" if number % 3 else f"no {number}"
        assert report.content[-1].text == expected
    assert_in_order(recorder)


def assert_in_order(recorder: Recorder) -> None:
    """Within a call, nothing older is seen after something newer."""
    steps: dict[str, int] = {}
    for update in recorder.updates:
        notes = (update.get("_meta") or {}).get("callsheet") or {}
        step = (notes.get("custom") or {}).get("step")
        if step is not None:
            key = update["toolCallId"]
            assert steps.get(key, -1) <= step
            steps[key] = step
    assert set(steps.values()) == {UPDATES - 1}


@pytest.mark.parametrize("drive", [from_asyncio, from_threads])
async def test_many_calls_at_once_fold_to_the_right_reports(
    drive: Callable[[Session], Any],
) -> None:
    recorders = [Recorder(), Recorder(Peer(version=2)), Recorder(Peer(terminals="meta"))]
    async with Session(sinks=recorders) as session:
        await drive(session)
        await session.flush()
        assert session.health.is_good, session.health
    for recorder in recorders:
        assert_is_right(recorder)
    for recorder in recorders[1:]:
        outputs = {state.output for state in recorder.fold()._terminals.values()}
        lines = {
            "".join(f"{n}.{step}\n" for step in range(3, UPDATES, 5)).encode() for n in range(CALLS)
        }
        assert outputs == lines


async def test_ids_never_collide_and_aliases_find_their_calls_from_all_threads() -> None:
    async with Session() as session:

        def work(_: int) -> set[str]:
            ids: set[str] = set()
            for _ in range(300):
                with session.call("x", {}, alias="bash:0") as call:  # as some models do
                    ids.add(call.id)
                    call.succeed()
            return ids

        found = await in_threads(work, range(8))
    assert len(set.union(*found)) == 2400


async def test_several_sessions_write_to_pipes_at_once() -> None:
    import os

    async def one(number: int) -> bytes:
        read_end, write_end = os.pipe()
        received = bytearray()

        def read() -> None:
            while data := os.read(read_end, 1 << 16):
                received.extend(data)

        reader = asyncio.create_task(asyncio.to_thread(read))
        async with Session(f"s{number}", sinks=[PipeSink(write_end)]) as session:
            for _ in range(100):
                async with session.call("x", {"text": "y" * 2000}) as call:
                    call.start()
                    await asyncio.sleep(0)
                    call.succeed("z" * 2000)
        os.close(write_end)
        await reader
        os.close(read_end)
        return bytes(received)

    for number, data in enumerate(await asyncio.gather(*map(one, range(4)))):
        assert len(assert_every_call_ended(data.splitlines())) == 100
        assert data.count(b'"sessionId":"s%d"' % number) == 300
