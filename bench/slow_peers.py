"""A tool that works, while its client reads slowly, stops reading, or goes away.

The tool hashes, writes a line after each block, and says now and then how far it is; from the event
loop's thread and from another. Its own time is that on the wall, since waiting is what must not
happen, less what its thread waited for a CPU that others had. The peers take turns in one process
per round (`python -m bench.slow_peers`), and each round begins with another; a peer is judged
against the fast one of the same round.

Then a flood, in a process for each peer, to see what memory does: 100 MB of output to one call, and
calls of 4 KB, one after the other, until the peer is given up or there are 100 MB of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from hashlib import sha256
from itertools import cycle, islice
from statistics import median
from time import perf_counter, process_time
from typing import Any, TypeAlias

from tests.support.peers import DyingPeer, SlowPeer

from callsheet.acp.peer import Peer
from callsheet.runtime.call import RuntimeCall
from callsheet.runtime.send_queue import SendQueue
from callsheet.runtime.session import DEAD_AFTER, RuntimeSession
from callsheet.runtime.sinks import PipeSink, Sink

from . import memory
from .output import WRITE, pieces
from .pipes import drain, run_module
from .table import Claim, Figures, Subject
from .timing import queued, ratio
from .work import SESSION, TEXT

ROUNDS = 7
SECONDS = 0.6
MEBIBYTES = 32
FLOOD = 100_000_000
QUEUE_MEBIBYTES = SendQueue.MAX_WEIGHT // 2**20 + MEBIBYTES
"""What calls may take that wait to be told: every change of their status does."""

BLOCK = 256 * 1024
LINE = (
    b"%08d 2026-03-04T10:00:00Z INFO hashed another block of /home/dev/app/data.bin, all is well\n"
)
BREATH, TELL = 10, 100
"""Steps after which an async tool lets others have their turn, and after which it tells how far it is."""

FAST = "reads fast"
NOBODY = "nobody is told"
SLOW = "reads 1 KB/s"
STOPS = "stops reading"
DIES = "closes after 6 lines"

PATIENCE = {STOPS: 0.3}
"""Seconds after which a peer is given up, where they are not the session's own."""

ASYNC, THREAD = "async", "thread"

Found: TypeAlias = dict[str, Any]


def measure() -> Subject:
    """Let all peers take part in each round."""
    steps = _steps()
    runs: dict[tuple[str, str], list[Found]] = {}
    for turn in range(ROUNDS):
        options = (f"--steps={steps}", f"--turn={turn}")
        for found in run_module("bench.slow_peers", *options, timeout=120):
            runs.setdefault((found["peer"], found["tool"]), []).append(found)
    claims: list[Claim] = []
    rows: list[tuple[str, ...]] = []
    kept: Figures = {}
    notes = _notes(steps)
    for (peer, tool), found in sorted(runs.items(), key=lambda item: _order(*item[0])):
        fast = runs[FAST, tool]
        change = _change(found, fast, "seconds")
        wall_change = _change(found, fast, "wall_seconds")
        cpu_change = _change(found, fast, "cpu_seconds")
        grown = max(one["mebibytes"] for one in found)
        ended, closed = found[-1]["health"], found[-1]["health_closed"]
        kept[f"{peer}, {tool}"] = {
            "seconds": round(_median(found, "seconds"), 4),
            "change_percent": round(change, 2),
            "wall_change_percent": round(wall_change, 2),
            "cpu_seconds": round(_median(found, "cpu_seconds"), 4),
            "cpu_change_percent": round(cpu_change, 2),
            "mebibytes": grown,
            "health": ended,
            "health_closed": closed,
        }
        rows.append(
            (
                f"{peer}, {tool}",
                f"{_median(found, 'seconds'):.3f}",
                f"{change:+.1f} %",
                f"{wall_change:+.1f} %",
                f"{cpu_change:+.1f} %",
                f"{grown:.1f}",
                _counts(ended),
                _counts(closed),
            )
        )
        if peer not in (FAST, NOBODY):
            name = f"a peer that {peer}, {tool} tool"
            claims.append(Claim(f"{name}: its own time changes by", abs(change), 5, unit=" %"))
            claims.append(Claim(f"{name}: memory grows by", grown, MEBIBYTES, unit=" MiB"))
    for peer in (SLOW, STOPS):
        found = run_module("bench.slow_peers", f"--flood={peer}", timeout=120)
        kept[f"{peer}, flood"] = found
        claims += _flood_claims(peer, found)
        notes.append(
            f"a flood for a peer that {peer}: {FLOOD / 1e6:g} MB of output grow memory by"
            f" {found['output_mebibytes']:.1f} MiB, {found['calls']:,} calls by"
            f" {found['calls_mebibytes']:.1f} MiB; then its health is: {_counts(found['health'])}"
        )
    head = (
        "peer, tool",
        "s",
        "change",
        "wall",
        "CPU",
        "MiB",
        "health when done",
        "health when closed",
    )
    return Subject("A tool and its peer", head, rows, claims, notes, kept)


def _notes(steps: int) -> list[str]:
    return [
        f"{steps:,} blocks of {BLOCK // 1024} KiB hashed, {steps * len(LINE % 0):,} bytes written; v2"
        f" peers; {ROUNDS} rounds; change: median of the rounds' own ratios to the fast peer",
        f"a session gives a peer up after {DEAD_AFTER:g} s without a sign, here the one that stops"
        f" reading after {PATIENCE[STOPS]:g} s; before closing, the slow one's pipe is closed",
    ]


def _flood_claims(peer: str, found: Found) -> list[Claim]:
    name, unit = f"a flood for a peer that {peer}", " MiB"
    output, calls = found["output_mebibytes"], found["calls_mebibytes"]
    return [
        Claim(f"{name}: memory grows with output by", output, MEBIBYTES, unit=unit),
        Claim(f"{name}: memory grows with calls by", calls, QUEUE_MEBIBYTES, unit=unit),
    ]


def _order(peer: str, tool: str) -> tuple[int, str]:
    return list(_PEERS).index(peer), tool


def _change(found: Sequence[Found], fast: Sequence[Found], which: str) -> float:
    """Return the change in percent against the fast peer of the same rounds."""
    over, under = ([one[which] for one in side] for side in (found, fast))
    return 100 * (ratio(over, under) - 1)


def _median(found: Sequence[Found], which: str) -> float:
    return median(one[which] for one in found)


def _counts(health: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in health.items() if count) or "good"


def _steps() -> int:
    """Find how many blocks this machine hashes in the time of a run."""
    block, best = bytes(BLOCK), 1.0
    for _ in range(50):
        start = perf_counter()
        sha256(block)
        best = min(best, perf_counter() - start)
    return max(TELL, round(SECONDS / best))


# In the process of its own


@contextmanager
def _fast() -> Generator[Sink, None, None]:
    with drain() as fd:
        yield PipeSink(fd, Peer(version=2))


@contextmanager
def _nobody() -> Generator[None, None, None]:
    yield None


def _behind(make: Callable[[], SlowPeer]) -> Callable[[], Any]:
    @contextmanager
    def opened() -> Generator[Sink, None, None]:
        with make() as peer:
            yield peer.sink(Peer(version=2))

    return opened


_PEERS: dict[str, Callable[[], Any]] = {
    NOBODY: _nobody,
    FAST: _fast,
    SLOW: _behind(lambda: SlowPeer(1024)),
    STOPS: _behind(lambda: SlowPeer(0)),
    DIES: _behind(lambda: DyingPeer(lines=6)),
}


def run_round(turn: int, steps: int) -> list[Found]:
    """Let the tool run with each of the peers, beginning with another one each turn."""
    cases = [(peer, tool) for tool in (ASYNC, THREAD) for peer in _PEERS]
    first = turn % len(cases)
    asyncio.run(_run(NOBODY, ASYNC, steps // 10))  # so that all code is warm
    return [asyncio.run(_run(*case, steps)) for case in cases[first:] + cases[:first]]


async def _run(peer: str, tool: str, steps: int) -> Found:
    memory.forget_peak()
    before = memory.now()
    async with _session(peer) as session:
        async with session.call(
            "hash", {"path": "/home/dev/app/data.bin"}, title="Hashing data.bin", kind="read"
        ) as call:
            call.start()
            start, cpu = perf_counter(), process_time()
            if tool == ASYNC:
                wait = await _hash_async(call, steps)
            else:
                wait = await asyncio.to_thread(_hash, call, 0, steps, steps)
            seconds, cpu_seconds = perf_counter() - start, process_time() - cpu
            call.succeed("hashed")
        health = session.health.counts()
    return {
        "peer": peer,
        "tool": tool,
        "seconds": seconds - wait,
        "wall_seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "mebibytes": round(max(0.0, memory.peak() - before), 2),
        "health": health,
        "health_closed": session.health.counts(),
    }


@asynccontextmanager
async def _session(peer: str) -> AsyncIterator[RuntimeSession]:
    """Return a session with that peer. A peer that would not take the rest goes before it is closed."""
    with _PEERS[peer]() as sink:
        session = RuntimeSession(
            SESSION,
            sinks=[] if sink is None else [sink],
            dead_after=PATIENCE.get(peer, DEAD_AFTER),
        )
        session.open()
        yield session
        with suppress(TimeoutError):
            await asyncio.wait_for(session.flush(), 0.5)
            await session.close()
    await asyncio.wait_for(session.close(), 10)


async def _hash_async(call: RuntimeCall, steps: int) -> float:
    start = queued()
    for begin in range(0, steps, BREATH):
        _hash(call, begin, min(begin + BREATH, steps), steps)
        await asyncio.sleep(0)
    return queued() - start


def _hash(call: RuntimeCall, begin: int, end: int, steps: int) -> float:
    """Hash, and give the seconds that this waited for a CPU."""
    start, block, digest = queued(), _BLOCK, sha256()
    for step in range(begin, end):
        digest.update(block)
        call.write(LINE % step)
        if step % TELL == 0:
            call.progress(step, steps)
    return queued() - start


_BLOCK = bytes(BLOCK)


async def flood(peer: str) -> Found:
    """Write and tell far more than the peer takes."""
    data = pieces()
    with _PEERS[peer]() as sink:
        session = RuntimeSession(SESSION, sinks=[sink]).open()
        memory.forget_peak()
        before = memory.now()
        async with session.call("bash", {"command": "make test"}, kind="execute") as call:
            call.start()
            for number, piece in enumerate(islice(cycle(data), FLOOD // WRITE)):
                call.write(piece)
                if number % TELL == 0:
                    await asyncio.sleep(0)
            call.succeed(raw={"exit_code": 0})
        output = memory.peak() - before
        memory.forget_peak()
        before = memory.now()
        calls = await _flood_calls(session)
        grown, health = memory.peak() - before, session.health.counts()
    await asyncio.wait_for(session.close(), 10)
    return {
        "output_mebibytes": round(max(0.0, output), 2),
        "calls_mebibytes": round(max(0.0, grown), 2),
        "calls": calls,
        "health": health,
    }


async def _flood_calls(session: RuntimeSession) -> int:
    for number in range(FLOOD // (2 * len(TEXT))):
        path = f"/home/dev/app/file_{number}.py"
        async with session.call("read", {"path": path}, kind="read") as call:
            call.start()
            call.succeed(f"{TEXT}{number}", raw={"content": f"{number}{TEXT}"})
        if number % BREATH == 0:
            await asyncio.sleep(0)
        if session.health.dead:
            return number + 1
    return FLOOD // (2 * len(TEXT))


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.slow_peers")
    parser.add_argument("--steps", type=int, default=TELL)
    parser.add_argument("--turn", type=int, default=0)
    parser.add_argument("--flood", choices=_PEERS)
    options = parser.parse_args()
    if options.flood:
        print(json.dumps(asyncio.run(flood(options.flood))))
        return
    print(json.dumps(run_round(options.turn, options.steps)))


if __name__ == "__main__":
    _main()
