"""How long an editor waits for an agent: from the start of its process to the answer to `initialize`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

from . import sdk_typescript
from .agents import CALLSHEET, INITIALIZE, NODE, SDK_READER, TAPPED, agent, missing
from .table import Claim, Figures, Subject
from .timing import ratio, summarise

RUNS = 11
OURS = "callsheet agent, with all its tools"
BEHIND_A_TAP = "the same, behind callsheet tap"
SDK = "Python SDK, an agent without tools"
TYPESCRIPT = "TypeScript SDK on node, an agent without tools"
BARE = "Python itself, which starts and ends"


def measure() -> Subject:
    """Start all of them in turns."""
    commands: dict[str, Sequence[str]] = {OURS: CALLSHEET, BEHIND_A_TAP: TAPPED}
    notes = [f"{RUNS} processes each, in turns; wall time", *missing()]
    if find_spec("acp") is not None:
        commands[SDK] = SDK_READER
    if sdk_typescript.missing() is None:
        commands[TYPESCRIPT] = NODE
        notes.append(sdk_typescript.versions())
    hello: dict[str, list[float]] = {name: [] for name in (*commands, BARE)}
    session: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        for round_ in range(RUNS + 1):
            for name, command in commands.items():
                first, second = _start(command, Path(folder).resolve())
                if round_:  # the first one writes bytecode and warms the disk's cache
                    hello[name].append(first * 1000)
                    session[name].append(second * 1000)
            if round_:
                begun = perf_counter()
                subprocess.run((sys.executable, "-c", ""), check=True)
                hello[BARE].append((perf_counter() - begun) * 1000)
    return _subject(hello, session, notes)


def _start(command: Sequence[str], cwd: Path) -> tuple[float, float]:
    """Return the seconds until `initialize` is answered, and until `session/new` is."""
    begun = perf_counter()
    with agent(command, cwd) as started:
        started.ask("initialize", INITIALIZE)
        first = perf_counter() - begun
        started.ask("session/new", {"cwd": str(cwd), "mcpServers": []})
        return first, perf_counter() - begun


def _subject(
    hello: dict[str, list[float]], session: dict[str, list[float]], notes: list[str]
) -> Subject:
    more = summarise(hello[BEHIND_A_TAP]).median - summarise(hello[OURS]).median
    notes.append(
        f"a tap makes the start {more:.0f} ms longer: the agent starts while it reads its own code"
    )
    claims = [Claim("start to initialize / Python's own", ratio(hello[OURS], hello[BARE]), 3)]
    if SDK in hello:
        figure = ratio(hello[OURS], hello[SDK])
        claims.append(Claim("start to initialize / Python SDK", figure, 1 / 3))
    rows = [
        (name, *summarise(hello[name]).cells(), f"{summarise(session[name]).median:.1f}")
        for name in session
    ]
    rows.append((BARE, *summarise(hello[BARE]).cells(), ""))
    kept: Figures = {
        "initialize_ms": {name: summarise(values).rounded() for name, values in hello.items()},
        "session_new_ms": {name: summarise(values).rounded() for name, values in session.items()},
    }
    head = ("agent", "ms", "min–max", "spread", "to the first session")
    return Subject("An agent's start", head, rows, claims, notes, kept)
