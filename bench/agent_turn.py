"""A turn with 1,000 calls, each a read of a small file in three updates, from the prompt to its answer.

The same agent twice, as processes over pipes: on callsheet, with its `read` tool, which checks the arguments
and the path, finds title, kind and place, looks for secrets, and tells times; and on the official Python SDK,
with its helpers. A client that only counts reads what they write.
"""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

from .agents import INITIALIZE, OUR_READER, SDK_READER, AgentProcess, agent, missing
from .table import Claim, Subject
from .timing import ratio, summarise

ROUNDS = 5
CALLS = 1000
OURS, SDK = "callsheet", "Python SDK"


def measure() -> Subject:
    """Let both have their turns, in turns."""
    wall: dict[str, list[float]] = {OURS: []}
    cpu: dict[str, list[float]] = {OURS: []}
    with tempfile.TemporaryDirectory() as folder:
        cwd = Path(folder).resolve()
        (cwd / "small.txt").write_text("a line of text\n" * 20, encoding="utf-8")
        with agent(OUR_READER, cwd) as ours:
            peers = {OURS: _opened(ours, cwd)}
            if find_spec("acp") is None:
                _rounds(peers, wall, cpu)
            else:
                wall[SDK], cpu[SDK] = [], []
                with agent(SDK_READER, cwd) as sdk:
                    _rounds({**peers, SDK: _opened(sdk, cwd)}, wall, cpu)
    return _subject(wall, cpu)


Peer = tuple[AgentProcess, str]


def _opened(process: AgentProcess, cwd: Path) -> Peer:
    process.ask("initialize", INITIALIZE)
    session = process.ask("session/new", {"cwd": str(cwd), "mcpServers": []})["sessionId"]
    return process, session


def _rounds(
    peers: dict[str, Peer], wall: dict[str, list[float]], cpu: dict[str, list[float]]
) -> None:
    for round_ in range(ROUNDS + 1):
        for name, (process, session) in peers.items():
            before, used, begun = process.updates, process.cpu(), perf_counter()
            prompt = [{"type": "text", "text": str(CALLS)}]
            answer = process.ask("session/prompt", {"sessionId": session, "prompt": prompt})
            seconds, used = perf_counter() - begun, process.cpu() - used
            told = process.updates - before
            if answer["stopReason"] != "end_turn" or told < 3 * CALLS:
                raise RuntimeError(f"{name}: {told} updates in a turn, not {3 * CALLS}")
            if round_:  # the first one warms up
                wall[name].append(seconds / CALLS * 1e6)
                cpu[name].append(used / CALLS * 1e6)


def _subject(wall: dict[str, list[float]], cpu: dict[str, list[float]]) -> Subject:
    notes = [
        f"{ROUNDS} turns each, in turns; CPU time of the agent's process",
        "callsheet's `read` also tells the line where it reads, mostly in an update of its own",
        *missing(),
    ]
    claims: list[Claim] = []
    if SDK in wall:
        claims.append(Claim("a turn of 1,000 calls / Python SDK", ratio(wall[OURS], wall[SDK]), 1))
        if all(cpu[SDK]):
            figure = ratio(cpu[OURS], cpu[SDK])
            claims.append(Claim("a turn of 1,000 calls / Python SDK, CPU", figure, 1))
    rows = [
        (name, *summarise(wall[name]).cells(), *summarise(cpu[name]).cells()[:2])
        for name in wall
        if all(cpu[name])
    ]
    kept = {
        name: {"wall_us": summarise(wall[name]).rounded(), "cpu_us": summarise(cpu[name]).rounded()}
        for name in wall
        if all(cpu[name])
    }
    head = ("agent", "µs a call", "min–max", "spread", "CPU µs", "min–max")
    return Subject("A turn with 1,000 calls", head, rows, claims, notes, kept)
