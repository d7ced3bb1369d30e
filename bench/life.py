"""One call's life: three notifications, from values to lines of bytes. Nothing is sent anywhere.

The call is announced with a place and its input, is in progress, and is completed with 2 KB of
content and the same as raw output.

One process is a lottery: with its hash seed and its memory's layout, ratios move by a tenth. So the
rounds are spread over several processes, and the TypeScript SDK takes its turns between them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from . import ours, sdk_typescript
from .peers import FLOOR, OURS, SDK, SDK_CONNECTION, SDK_SAME, Updates, check_same, updates_of
from .table import Claim, Figures, Subject
from .timing import Sample, ratio, summarise

PROCESSES = 7
ROUNDS = 7
SECONDS = 0.12

TYPESCRIPT = "TypeScript SDK, connection to a null stream"

_ROOT = Path(__file__).parent.parent


def measure() -> Subject:
    """Time all peers that are here."""
    lines = ours.make_life()()
    size = sum(map(len, lines))
    notes = [
        f"{len(lines)} lines, {size:,} bytes; {PROCESSES} processes, in each {ROUNDS} rounds of"
        f" {SECONDS:g} s; no input or output"
    ]
    missing = sdk_typescript.missing()
    took: dict[str, list[float]] = {}
    typescript: list[float] = []
    for _ in range(PROCESSES):
        for name, values in _time_python().items():
            took.setdefault(name, []).extend(values)
        if missing is None:
            try:
                typescript += _time_typescript(updates_of(lines))
            except (subprocess.SubprocessError, OSError, ValueError) as error:
                missing = f"node failed with {type(error).__name__}"
    samples = {name: summarise(values) for name, values in took.items()}
    if missing is None:
        samples[TYPESCRIPT] = summarise(typescript)
    notes.append(
        f"the TypeScript SDK is left out: {missing}" if missing else sdk_typescript.versions()
    )
    return _subject(samples, took, notes)


def _time_python() -> dict[str, list[float]]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.peers", f"--rounds={ROUNDS}", f"--seconds={SECONDS}"],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=True,
    )
    return json.loads(done.stdout)


def _time_typescript(updates: Updates) -> list[float]:
    run = sdk_typescript.run(updates, rounds=ROUNDS, seconds=SECONDS)
    check_same(TYPESCRIPT, run.lines, updates)
    return run.micros


def _subject(samples: dict[str, Sample], took: dict[str, list[float]], notes: list[str]) -> Subject:
    ratios = {"callsheet / floor": ratio(took[OURS], took[FLOOR])}
    claims = [Claim("one call's life, callsheet / msgspec alone", ratios["callsheet / floor"], 3)]
    if SDK in took:
        ratios["SDK encoding / callsheet"] = ratio(took[SDK], took[OURS])
        ratios["SDK connection / callsheet"] = ratio(took[SDK_CONNECTION], took[OURS])
        ratios["SDK doing the same / callsheet"] = ratio(took[SDK_SAME], took[OURS])
        ratios["SDK encoding / floor"] = ratio(took[SDK], took[FLOOR])
        notes.append("the Python SDK's helpers take no name and no _meta, so its lines lack these")
    else:
        notes.append("the Python SDK is left out: agent-client-protocol is not installed")
    kept: Figures = {
        "microseconds_per_life": {name: sample.rounded() for name, sample in samples.items()},
        "ratios": {name: round(value, 3) for name, value in ratios.items()},
    }
    head = ("peer", "µs per life", "min–max", "spread", "× callsheet")
    base = samples[OURS].median
    rows = [
        (name, *sample.cells(), f"{sample.median / base:.2f}") for name, sample in samples.items()
    ]
    return Subject("One call's life, three notifications", head, rows, claims, notes, kept)
