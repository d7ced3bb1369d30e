"""A turn with 1,000 calls, each a read of a small file in three updates, from the prompt to its answer.

The same agent twice, as processes over pipes. On callsheet, the tool is a function: its arguments and the
path are checked, title, kind and place found, secrets looked for, times and usage told, and the call ends
whatever happens. On the official Python SDK, the agent makes the reports by the SDK's helpers, and no more.
Beside them callsheet's own `read`, which numbers lines and says what it knows of the file.
"""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from .agents import INITIALIZE, OUR_READER, SDK_READER, AgentProcess, agent, missing
from .table import Claim, Subject
from .timing import ratio, summarise

ROUNDS = 5
CALLS = 1000
OURS = "callsheet, the same tool"
BUILTIN = "callsheet, its own `read`"
SDK = "Python SDK"


class Took(NamedTuple):
    """Microseconds a call, by round."""

    wall: list[float]
    cpu: list[float]


class Peer(NamedTuple):
    """An agent with a session, and what it is told to do."""

    process: AgentProcess
    session: str
    prompt: str

    def turn(self) -> None:
        """Let it have a turn."""
        before = self.process.updates
        blocks = [{"type": "text", "text": self.prompt}]
        params = {"sessionId": self.session, "prompt": blocks}
        reason = self.process.ask("session/prompt", params)["stopReason"]
        told = self.process.updates - before
        if reason != "end_turn" or told < 3 * CALLS:
            raise RuntimeError(f"{self.prompt}: {told} updates, not {3 * CALLS}; {reason}")


def measure() -> Subject:
    """Let all have their turns, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        cwd = Path(folder).resolve()
        (cwd / "small.txt").write_text("a line of text\n" * 20, encoding="utf-8")
        with agent(OUR_READER, cwd) as ours:
            session = _open(ours, cwd)
            peers = {
                OURS: Peer(ours, session, f"{CALLS} read_small"),
                BUILTIN: Peer(ours, session, f"{CALLS} read"),
            }
            if find_spec("acp") is None:
                return _subject(_rounds(peers))
            with agent(SDK_READER, cwd) as sdk:
                peers[SDK] = Peer(sdk, _open(sdk, cwd), f"{CALLS}")
                return _subject(_rounds(peers))


def _open(process: AgentProcess, cwd: Path) -> str:
    process.ask("initialize", INITIALIZE)
    return process.ask("session/new", {"cwd": str(cwd), "mcpServers": []})["sessionId"]


def _rounds(peers: dict[str, Peer]) -> dict[str, Took]:
    took = {name: Took([], []) for name in peers}
    for round_ in range(ROUNDS + 1):
        for name, peer in peers.items():
            used, begun = peer.process.cpu(), perf_counter()
            peer.turn()
            seconds, used = perf_counter() - begun, peer.process.cpu() - used
            if round_:  # the first one warms up
                took[name].wall.append(seconds / CALLS * 1e6)
                took[name].cpu.append(used / CALLS * 1e6)
    return took


def _subject(took: dict[str, Took]) -> Subject:
    notes = [
        f"{ROUNDS} turns each, in turns; CPU time of the agent's process",
        *missing(),
    ]
    rows: list[tuple[str, ...]] = []
    kept: dict[str, object] = {}
    for name, (wall, cpu) in took.items():
        whole, used = summarise(wall), summarise(cpu) if all(cpu) else None
        against = f"{ratio(wall, took[SDK].wall):.2f}×" if SDK in took else ""
        rows.append((name, *whole.cells(), f"{used.median:.0f}" if used else "not told", against))
        kept[name] = {"wall_us": whole.rounded(), "cpu_us": used and used.rounded()}
    claims = [
        Claim(f"a turn, CPU: {name} / Python SDK", ratio(took[name].cpu, took[SDK].cpu), most)
        for name, most in ((OURS, 1.0), (BUILTIN, 1.1))
        if SDK in took and all(took[SDK].cpu)
    ]
    head = ("agent", "µs a call", "min–max", "spread", "CPU µs", "of the SDK")
    return Subject("A turn with 1,000 calls", head, rows, claims, notes, kept)
