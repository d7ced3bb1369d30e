"""One call's life, through a session to a pipe that another process reads. CPU time of the writer.

The same call as in `life`. Callsheet finds title, kind and place by itself, looks for secrets, holds
the fields to their limits, and doesn't repeat in the raw output what the content says. It is measured
twice: when each of the three states is on the pipe before the next, as the Python SDK does it by awaiting
each; and when only the end is waited for, as an agent would. The Python SDK does the bare minimum:
its helpers, its connection, three notifications; it keeps no state and tells no times.

As in `life`, the rounds are spread over several processes (`python -m bench.life_pipe`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from time import process_time
from typing import Any

from callsheet.acp.peer import Peer
from callsheet.runtime.session import RuntimeSession
from callsheet.runtime.sinks import PipeSink
from callsheet.testing import Recorder

from . import floor, ours, sdk_typescript
from .peers import Updates, check_same, updates_of
from .pipes import drain, run_module
from .table import Claim, Figures, Subject
from .timing import Batch, interleave, ratio, summarise
from .work import LIMIT, NAME, PATH, SESSION, TEXT

CWD = "/home/dev/app"
_TITLE = "Reading settings.py (lines 1–200)"

PROCESSES = 5
ROUNDS = 7
SECONDS = 0.12

FLOOR = "msgspec alone, three writes (the floor)"
EACH = "callsheet, each state waited for"
END = "callsheet, the end waited for"
SDK = "Python SDK, the bare minimum"
TYPESCRIPT = "TypeScript SDK"


def measure() -> Subject:
    """Time all peers that are here."""
    took: dict[str, list[float]] = {}
    typescript: list[float] = []
    expected, missing = updates_of(ours.make_life()()), sdk_typescript.missing()
    for _ in range(PROCESSES):
        options = (f"--rounds={ROUNDS}", f"--seconds={SECONDS}")
        for name, values in run_module("bench.life_pipe", *options, timeout=120).items():
            took.setdefault(name, []).extend(values)
        if missing is None:
            try:
                typescript += _time_typescript(expected)
            except (subprocess.SubprocessError, OSError, ValueError) as error:
                missing = f"node failed with {type(error).__name__}"
    notes = [
        f"CPU time of the process that writes; {PROCESSES} processes, in each {ROUNDS} rounds of"
        f" {SECONDS:g} s; `cat` reads",
        "callsheet's lines also tell when the call began and ended, how long it took and what it used",
    ]
    if missing is None:
        took[TYPESCRIPT] = typescript
    notes.append(
        f"the TypeScript SDK is left out: {missing}" if missing else sdk_typescript.versions()
    )
    return _subject(took, notes)


def _time_typescript(updates: Updates) -> list[float]:
    with drain() as pipe:
        run = sdk_typescript.run(updates, rounds=ROUNDS, seconds=SECONDS, pipe=pipe)
    check_same(TYPESCRIPT, run.lines, updates)
    return run.micros


def _subject(took: dict[str, list[float]], notes: list[str]) -> Subject:
    samples = {name: summarise(values) for name, values in took.items()}
    claims: list[Claim] = []
    ratios: dict[str, float] = {}
    for name, faster, most in ((EACH, 2.8, 1.1), (END, 3.3, 0.9)):
        text = "one call's life to a pipe"
        if SDK in took:
            gain = ratios[f"{SDK} / {name}"] = ratio(took[SDK], took[name])
            claims.append(Claim(f"{text}, {SDK} / {name}", gain, faster, True))
        if TYPESCRIPT in took:
            share = samples[name].median / samples[TYPESCRIPT].median
            ratios[f"{name} / {TYPESCRIPT}"] = share
            claims.append(Claim(f"{text}, {name} / {TYPESCRIPT}", share, most))
    if SDK not in took:
        notes.append("the Python SDK is left out: agent-client-protocol is not installed")
    kept: Figures = {
        "cpu_microseconds_per_life": {name: sample.rounded() for name, sample in samples.items()},
        "ratios": {name: round(value, 3) for name, value in ratios.items()},
    }
    base = samples[EACH].median
    rows = [
        (name, *sample.cells(), f"{sample.median / base:.2f}") for name, sample in samples.items()
    ]
    head = ("peer", "CPU µs per life", "min–max", "spread", "× callsheet")
    return Subject("One call's life, to a pipe", head, rows, claims, notes, kept)


# In the process of its own


def time_peers(rounds: int, seconds: float) -> dict[str, list[float]]:
    """Return CPU microseconds per life, by peer and round."""
    _check()
    with ExitStack() as stack:
        peers = {
            FLOOR: _floor(stack.enter_context(drain())),
            EACH: stack.enter_context(_session(stack.enter_context(drain()), each=True)),
            END: stack.enter_context(_session(stack.enter_context(drain()), each=False)),
        }
        if find_spec("acp"):
            from . import sdk_python

            peers[SDK] = stack.enter_context(
                sdk_python.pipe_connection(stack.enter_context(drain()))
            )
        return interleave(peers, rounds=rounds, seconds=seconds)


def _floor(fd: int) -> Batch:
    life, write = floor.make_life(), os.write

    def batch(times: int) -> float:
        start = process_time()
        for _ in range(times):
            for line in life():
                write(fd, line)
        return process_time() - start

    return batch


@contextmanager
def _session(fd: int, *, each: bool) -> Generator[Batch, None, None]:
    with asyncio.Runner() as runner:
        session = RuntimeSession(SESSION, cwd=CWD, sinks=[PipeSink(fd, Peer())])
        runner.run(session.__aenter__())
        try:
            yield lambda times: runner.run(_live(session, times, each))
        finally:
            runner.run(session.close())


async def _live(session: RuntimeSession, times: int, each: bool) -> float:
    flush = session.flush
    start = process_time()
    for _ in range(times):
        async with session.call(NAME, {"path": PATH, "limit": LIMIT}) as call:
            if each:
                await flush()
            call.start()
            if each:
                await flush()
            call.succeed(TEXT, raw={"content": TEXT})
        await flush()
    return process_time() - start


def _check() -> None:
    """Hold that a session says what the others say: the whole call, that it runs, that it is done."""
    recorder = Recorder()

    async def live() -> None:
        async with RuntimeSession(SESSION, cwd=CWD, sinks=[recorder], strict=True) as session:
            await _live(session, 1, each=True)

    asyncio.run(live())
    opened, running, done = recorder.updates
    right = (
        (opened["kind"], opened["title"], opened["locations"]) == ("read", _TITLE, [{"path": PATH}])
        and opened["rawInput"] == {"path": PATH, "limit": LIMIT}
        and running["status"] == "in_progress"
        and (done["status"], done["content"][0]["content"]["text"]) == ("completed", TEXT)
    )
    if not right:
        raise RuntimeError(f"a session says something else: {recorder.updates}")


def _without_meta(lines: Sequence[bytes]) -> list[bytes]:
    frames: list[dict[str, Any]] = [json.loads(line) for line in lines]
    for frame in frames:
        frame["params"]["update"].pop("_meta", None)
    return [json.dumps(frame).encode() + b"\n" for frame in frames]


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.life_pipe")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    options = parser.parse_args()
    print(json.dumps(time_peers(options.rounds, options.seconds)))


if __name__ == "__main__":
    _main()
