"""One run of streaming, in a process of its own (`python -m bench.stream_run`).

A tool writes so many bytes of live output to a call, which goes to a pipe that another process
reads. A small run is repeated, with a new call each time, so that its time can be told.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from time import perf_counter, process_time
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from callsheet.acp.peer import Peer
from callsheet.runtime.call import RuntimeCall
from callsheet.runtime.consumer import PACE
from callsheet.runtime.session import RuntimeSession
from callsheet.runtime.sinks import PipeSink
from callsheet.testing import FakeClock

from . import memory
from .output import WRITE, pieces, texts
from .pipes import Counter
from .reader import Count
from .timing import queued
from .work import SESSION

TEXT = "v1 text"
META = "v1 _meta"
V2 = "v2"
OWN = "client-owned"
SDK = "Python SDK"

PEERS = {
    TEXT: Peer(),
    META: Peer(terminals="meta"),
    V2: Peer(version=2),
    OWN: Peer(owns_terminals=True),
}

ASYNC = "async"
THREAD = "thread"
DRIP = "drip"
"""One write, then a pause that is long enough for it to be sent. Time is not real there."""

BREATH = 100
"""Writes between two turns of the event loop that an async tool gives."""

_T = TypeVar("_T")


class Run(Struct):
    """What came of it: bytes that were written, by each of the calls, and what these cost."""

    written: int
    calls: int
    seconds: list[float]
    """Time on the wall, less what the writing thread waited for a CPU that others had."""

    cpu_seconds: list[float]
    mebibytes: float
    """Growth of memory at its peak, over what was held before the first write."""

    count: Count
    cut: int = 0
    """How often the session's health says that something was cut."""

    stopped: bool = False


class _Meter:
    """Time and memory of a run."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.cpu_seconds: list[float] = []
        memory.forget_peak()
        self._before: float = memory.now()

    def start(self) -> None:
        self._start: tuple[float, float] = (perf_counter(), process_time())

    def stop(self, wait: float) -> None:
        wall, cpu = self._start
        self.cpu_seconds.append(process_time() - cpu)
        self.seconds.append(perf_counter() - wall - wait)

    def run(self, written: int, count: Count, **more: Any) -> Run:
        grown = max(0.0, memory.peak() - self._before)
        times = [round(value, 6) for value in self.seconds]
        cpu = [round(value, 6) for value in self.cpu_seconds]
        return Run(written, len(times), times, cpu, round(grown, 2), count, **more)


# Ours


async def stream(mode: str, writer: str, size: int, repeat: int) -> Run:
    """Let a tool write `size` bytes to each of so many calls."""
    data, counter = pieces(), Counter()
    clock = FakeClock() if writer == DRIP else None
    write = {ASYNC: _write_async, THREAD: _write_in_thread, DRIP: _drip}[writer]
    with counter.pipe() as fd:
        async with RuntimeSession(
            SESSION, sinks=[PipeSink(fd, PEERS[mode])], clock=clock
        ) as session:
            meter = _Meter()
            for _ in range(repeat):
                meter.start()
                async with session.call(
                    "bash", {"command": "make test"}, title="make test", kind="execute"
                ) as call:
                    if mode == OWN:
                        call.terminal("client_1")
                    call.start()
                    wait = await write(call, data, size // WRITE)
                    call.succeed(raw={"exit_code": 0})
                await session.flush()
                meter.stop(wait)
            cut = session.health.cut
    return meter.run(size // WRITE * WRITE, counter.count, cut=cut)


async def _write_async(call: RuntimeCall, data: Sequence[bytes], times: int) -> float:
    """Write as an async tool does, which lets others have their turn now and then."""
    start, write, endless = queued(), call.write, _again(data, times)
    while some := list(islice(endless, BREATH)):
        for piece in some:
            write(piece)
        await asyncio.sleep(0)
    return queued() - start


async def _write_in_thread(call: RuntimeCall, data: Sequence[bytes], times: int) -> float:
    """Write as a plain function does, which knows of no event loop."""

    def work() -> float:
        start, write = queued(), call.write
        for piece in _again(data, times):
            write(piece)
        return queued() - start

    return await asyncio.to_thread(work)


async def _drip(call: RuntimeCall, data: Sequence[bytes], times: int) -> float:
    """Write a little, and let the clock go on, so that there is time to send each write alone."""
    start, clock = queued(), call.session.clock
    assert isinstance(clock, FakeClock)
    for piece in _again(data, times):
        call.write(piece)
        await clock.advance(2 * PACE)
    return queued() - start


def _again(data: Sequence[_T], times: int) -> Iterator[_T]:
    return islice(cycle(data), times)


# The Python SDK's tracker


async def stream_sdk(size: int, limit: float) -> Run:
    """Let the SDK's tracker append to one call, for so many seconds at most."""
    from . import sdk_python

    data, counter, times = texts(), Counter(), 0
    with counter.pipe() as fd:
        agent = await sdk_python.connect_pipe(os.dup(fd))
        meter = _Meter()
        meter.start()
        until, start = perf_counter() + limit, queued()
        for update in sdk_python.stream(_again(data, size // WRITE)):
            await agent.session_update(SESSION, update)
            times += 1
            if perf_counter() > until:
                break
        meter.stop(queued() - start)
        await sdk_python.disconnect(agent)
    stopped = times < size // WRITE + 2
    written = (times - 1) * WRITE if stopped else size // WRITE * WRITE
    return meter.run(written, counter.count, stopped=stopped)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.stream_run")
    parser.add_argument("--mode", choices=[*PEERS, SDK], required=True)
    parser.add_argument("--writer", choices=[ASYNC, THREAD, DRIP], default=ASYNC)
    parser.add_argument("--bytes", type=int, required=True)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--limit", type=float, default=10.0)
    options = parser.parse_args()
    if options.mode == SDK:
        run = asyncio.run(stream_sdk(options.bytes, options.limit))
    else:
        run = asyncio.run(stream(options.mode, options.writer, options.bytes, options.repeat))
    sys.stdout.write(msgspec.json.encode(run).decode())


if __name__ == "__main__":
    _main()
