"""What the executor adds to a tool: a small async function called bare, by us, and by an MCP server.

Ours checks the arguments, runs the function in a task of its own with a timeout, and reports its life
to a client in three lines. The peer is the official MCP SDK with server and client in one process, joined in
memory: it checks the arguments, too, and answers. CPU time, in rounds that take turns.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from callsheet import Session, tool

from .table import Claim, Subject
from .timing import Sample, ratio, summarise

ROUNDS = 9
CALLS = 300
BARE, OURS, SILENT, PEER = (
    "the function, called bare",
    "callsheet: session.run, three lines to a client",
    "callsheet: session.run, nobody listens",
    "MCP SDK: call_tool, in memory",
)


async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def measure() -> Subject:
    """Time all of them."""
    took, notes = asyncio.run(_measure())
    samples = {name: summarise(values) for name, values in took.items()}
    rows = [
        [name, f"{sample.median * 1e6:,.1f} µs", _against(sample, samples)]
        for name, sample in samples.items()
    ]
    claims: list[Claim] = []
    if PEER in took:
        claims.append(Claim("session.run / MCP in memory", ratio(took[OURS], took[PEER]), 0.42))
    kept = {name: {"us": round(sample.median * 1e6, 2)} for name, sample in samples.items()}
    return Subject("A tool, executed", ["", "CPU a call", "of MCP"], rows, claims, notes, kept)


def _against(sample: Sample, samples: dict[str, Sample]) -> str:
    peer = samples.get(PEER)
    return "" if peer is None else f"{sample.median / peer.median:.3f}×"


async def _measure() -> tuple[dict[str, list[float]], list[str]]:
    notes = [f"{ROUNDS} rounds of {CALLS} calls each, in turns; CPU time of the whole process"]
    lines: list[bytes] = []
    made = tool(add)
    async with (
        Session("s", tools=[made], builtin=False, on_update=lines.append) as told,
        Session("t", tools=[made], builtin=False) as silent,
    ):

        async def ours(session: Session) -> None:
            result = await session.run("add", {"a": 1, "b": 2})
            assert result.output == "3"

        async def ours_told() -> None:
            await ours(told)
            lines.clear()

        work: dict[str, Callable[[], Awaitable[object]]] = {
            BARE: lambda: add(1, 2),
            OURS: ours_told,
            SILENT: lambda: ours(silent),
        }
        try:
            from mcp import Client
            from mcp.server.mcpserver import MCPServer
        except ImportError as error:
            notes.append(f"the MCP SDK is left out: {error}")
            return await _rounds(work), notes
        server = MCPServer("bench", log_level="ERROR")
        server.tool()(add)
        async with Client(server) as client:

            async def peer() -> None:
                result = await client.call_tool("add", {"a": 1, "b": 2})
                assert result.content[0].text == "3"

            return await _rounds({**work, PEER: peer}), notes


async def _rounds(work: dict[str, Callable[[], Awaitable[object]]]) -> dict[str, list[float]]:
    took: dict[str, list[float]] = {name: [] for name in work}
    for round_ in range(ROUNDS + 1):
        for name, once in work.items():
            begun = time.process_time()
            for _ in range(CALLS):
                await once()
            if round_:  # the first one warms up
                took[name].append((time.process_time() - begun) / CALLS)
    return took
