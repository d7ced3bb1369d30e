"""How long an editor waits for an agent: from the start of its process to the answer to `initialize`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

from . import sdk_typescript
from .agents import CALLSHEET, INITIALIZE, NODE, SDK_READER, agent, missing
from .table import Claim, Figures, Subject
from .timing import ratio, summarise

RUNS = 11
OURS = "callsheet agent, with all its tools"
SDK = "Python SDK, an agent without tools"
TYPESCRIPT = "TypeScript SDK on node, an agent without tools"


def measure() -> Subject:
    """Start all of them in turns."""
    commands: dict[str, Sequence[str]] = {OURS: CALLSHEET}
    notes = [f"{RUNS} processes each, in turns; wall time", *missing()]
    if find_spec("acp") is not None:
        commands[SDK] = SDK_READER
    if sdk_typescript.missing() is None:
        commands[TYPESCRIPT] = NODE
        notes.append(sdk_typescript.versions())
    took: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        for round_ in range(RUNS + 1):
            for name, command in commands.items():
                seconds = _start(command, Path(folder))
                if round_:  # the first one writes bytecode and warms the disk's cache
                    took[name].append(seconds * 1000)
    samples = {name: summarise(values) for name, values in took.items()}
    claims: list[Claim] = []
    if SDK in took:
        claims.append(
            Claim("start to initialize / Python SDK", ratio(took[OURS], took[SDK]), 1 / 3)
        )
    rows = [(name, *sample.cells()) for name, sample in samples.items()]
    kept: Figures = {"milliseconds": {name: sample.rounded() for name, sample in samples.items()}}
    head = ("agent", "ms", "min–max", "spread")
    return Subject("An agent's start", head, rows, claims, notes, kept)


def _start(command: Sequence[str], cwd: Path) -> float:
    begun = perf_counter()
    with agent(command, cwd) as started:
        started.ask("initialize", INITIALIZE)
        return perf_counter() - begun
