"""Live output in writes of 47 bytes, from 100 KB to 100 MB: what it costs on the wire, in time, in memory.

Each run is a process of its own that writes to a pipe; another process reads it and counts. The
tool writes as fast as it can, from the event loop's thread (`async`) and from another (`thread`).
When the reader or the loop can't follow, output is left out and said to be: so what a byte costs is
told by what was shown. Or it drips: each write has time to be sent alone, which is the hardest case
for the wire.

The Python SDK's `append_stream_text` sends all the text again with each write. It is stopped after
so many seconds.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from statistics import median
from typing import NamedTuple

from msgspec import convert

from .output import WRITE
from .pipes import run_module
from .stream_run import ASYNC, DRIP, META, OWN, PEERS, SDK, TEXT, THREAD, V2, Run
from .table import Claim, Figures, Subject
from .timing import ratio

REPEAT = {100_000: 20, 1_000_000: 15, 10_000_000: 1, 100_000_000: 1}
"""How many calls write so many bytes, in one process."""

ROUNDS = 3
"""Processes for the sizes whose times are judged. The others have one."""

DRIPS = (100_000, 1_000_000)
LIMIT = 10.0
"""Seconds that the SDK gets for each size."""

CONSTANT = 300 * 1024
"""Bytes that a text may cost besides 4 for each byte of output: what is given to every call, and its end."""

_EARLY, _LATE = 1_000_000, 100_000_000


class Case(NamedTuple):
    """How so many bytes were written."""

    mode: str
    writer: str
    size: int


class Cost(NamedTuple):
    """What a case cost in the middle of its rounds; memory at its worst."""

    written: int
    wire: float
    shown: float
    seconds: float
    ns_per_byte: float
    cpu_ns_per_byte: float
    mebibytes: float
    cut: float
    stopped: bool = False


def measure() -> Subject:
    """Run all cases, round by round."""
    fast = [
        Case(mode, writer, size) for mode in PEERS for writer in (ASYNC, THREAD) for size in REPEAT
    ]
    drips = [Case(mode, DRIP, size) for mode in (TEXT, META, V2) for size in DRIPS]
    runs: dict[Case, list[Run]] = {case: [] for case in fast}
    for turn in range(ROUNDS):
        for case in fast:
            if turn == 0 or case.size in (_EARLY, _LATE):
                runs[case].append(_run(case, REPEAT[case.size]))
    runs |= {case: [_run(case, 1)] for case in drips}
    costs = {case: _cost(found) for case, found in runs.items()}
    claims = _claims(runs, costs)
    notes = [
        f"writes of {WRITE} bytes; median of {ROUNDS} processes for 1 and 100 MB, memory at its"
        " worst; small sizes by several calls; a drip's pauses are not real time",
        "time is that on the wall, less what the writer waited for a CPU that others had",
        "wire: bytes on it for each byte that was written; shown: the share of the output that the"
        " reader got (a text shows its beginning and end; a client shows its own terminal itself)",
    ]
    notes += [_drip_note(costs, mode) for mode in (META, V2)]
    if find_spec("acp"):
        costs |= _sdk_costs(notes)
    else:
        notes.append("the Python SDK is left out: agent-client-protocol is not installed")
    head = ("output", "size", "wire bytes", "wire", "shown", "s", "ns/byte", "CPU ns/byte", "MiB")
    rows = [_row(case, cost) for case, cost in costs.items()]
    kept: Figures = {
        f"{case.mode}, {case.writer}, {case.size:,} bytes": {
            name: round(value, 6 if name == "seconds" else 2)
            for name, value in cost._asdict().items()
        }
        for case, cost in costs.items()
    }
    return Subject("Live output, in writes of 47 bytes", head, rows, claims, notes, kept)


def _drip_note(costs: dict[Case, Cost], mode: str) -> str:
    cost = costs[Case(mode, DRIP, DRIPS[-1])]
    return (
        f"a drip in {mode} costs {cost.wire / cost.written:.1f}×: each {WRITE} bytes have an update"
        " of their own around them; its limit is judged at full speed"
    )


def _run(case: Case, repeat: int) -> Run:
    options = [f"--mode={case.mode}", f"--bytes={case.size}", f"--repeat={repeat}"]
    options.append(f"--limit={LIMIT}" if case.mode == SDK else f"--writer={case.writer}")
    found = run_module("bench.stream_run", *options, timeout=60 + case.size / 500_000)
    return convert(found, Run)


def _sdk_costs(notes: list[str]) -> dict[Case, Cost]:
    """Let the SDK go as far as it gets. Where it was stopped once, more bytes change nothing."""
    costs: dict[Case, Cost] = {}
    for size in REPEAT:
        case = Case(SDK, "append_stream_text", size)
        try:
            cost = costs[case] = _cost([_run(case, 1)])
        except (subprocess.SubprocessError, OSError, ValueError) as error:
            notes.append(f"the Python SDK failed at {size:,} bytes: {type(error).__name__}")
            break
        if cost.stopped:
            notes.append(
                f"the Python SDK was stopped after {LIMIT:g} s on the wall, at {cost.written:,} bytes of"
                f" {size:,}, with {cost.wire / 1e6:,.0f} MB on the wire; larger sizes are not tried"
            )
            break
    return costs


def _cost(runs: Iterable[Run]) -> Cost:
    runs = list(runs)
    first, written = runs[0], runs[0].written
    seconds = median(median(run.seconds) for run in runs)
    cpu = median(median(run.cpu_seconds) for run in runs)
    return Cost(
        written,
        median(run.count.wire / run.calls for run in runs),
        median(run.count.shown / run.calls for run in runs),
        seconds,
        seconds / written * 1e9,
        cpu / written * 1e9,
        max(run.mebibytes for run in runs),
        median(run.cut / run.calls for run in runs),
        first.stopped,
    )


def _row(case: Case, cost: Cost) -> tuple[str, ...]:
    share = cost.shown / cost.written
    return (
        f"{case.mode}, {case.writer}",
        _size(case.size) if not cost.stopped else f"{_size(cost.written)} of {_size(case.size)}",
        f"{cost.wire:,.0f}",
        f"{cost.wire / cost.written:.3f}×" if cost.wire else "–",
        f"{share:.0%}" if case.mode in (META, V2) else "–",
        f"{cost.seconds:.3f}",
        f"{cost.ns_per_byte:.1f}",
        f"{cost.cpu_ns_per_byte:.1f}",
        f"{cost.mebibytes:.1f}",
    )


def _size(size: int) -> str:
    return f"{size // 1_000_000} MB" if size >= 1_000_000 else f"{round(size / 1000)} KB"


def _claims(runs: dict[Case, list[Run]], costs: dict[Case, Cost]) -> list[Claim]:
    """Judge each limit where it is worst."""
    text = max(run.count.wire / run.calls / (4 * run.written + CONSTANT) for run in _of(runs, TEXT))
    claims = [Claim(f"live output, {TEXT}: wire / (4 × output + {CONSTANT // 1024} KiB)", text, 1)]
    fast = {case: found for case, found in runs.items() if case.writer != DRIP}
    for mode in (META, V2):
        wire = max(run.count.wire / run.count.shown for run in _of(fast, mode))
        claims.append(Claim(f"live output, {mode}: wire / what was shown", wire, 1.5))
    wire = max(run.count.wire / run.calls / run.written for run in _of(runs, OWN))
    claims.append(Claim(f"live output, {OWN}: wire / output", wire, 1.5))
    for mode in PEERS:
        wall, cpu = (max(_growths(runs, mode, which)) for which in ("seconds", "cpu_seconds"))
        claims.append(Claim(f"live output, {mode}: time per byte, 1 → 100 MB", wall, 1.1))
        claims.append(Claim(f"live output, {mode}: CPU time per byte, 1 → 100 MB", cpu, 1.1))
    most = max(cost.mebibytes for cost in costs.values())
    claims.append(Claim("live output, any size and mode: memory grows by", most, 32, unit=" MiB"))
    return claims


def _of(runs: dict[Case, list[Run]], mode: str) -> Iterable[Run]:
    return (run for case, found in runs.items() if case.mode == mode for run in found)


def _growths(runs: dict[Case, list[Run]], mode: str, which: str) -> Iterator[float]:
    """Return how much longer a byte takes, by writer: the median of the rounds' own ratios."""
    for writer in (ASYNC, THREAD):
        early, late = runs[Case(mode, writer, _EARLY)], runs[Case(mode, writer, _LATE)]
        yield ratio(
            *([median(getattr(r, which)) / r.written for r in side] for side in (late, early))
        )
