"""Children of ours that are cancelled while they start: nothing of what they have started stays."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from callsheet.tools import ripgrep
from callsheet.tools.mcp import McpServer
from callsheet.tools.mcp.stdio_transport import StdioTransport
from tests.support.processes import linux, new_token, wait_until_gone

TURNS = 12
"""Of the event loop: more than it takes to start a child."""


async def search(command: str) -> None:
    async with ripgrep.run(["sh", "-c", command], "/"):
        pass


async def server(command: str) -> None:
    config = McpServer("sh", command="sh", args=["-c", command])
    transport = StdioTransport(config, "/", lambda _: None, lambda _: None)
    try:
        await transport.start()
        await asyncio.sleep(60)
    finally:
        await transport.close()


@linux
@pytest.mark.parametrize("start", [search, server])
async def test_a_cancel_at_any_moment_of_a_start_leaves_nothing(
    start: Callable[[str], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callsheet.tools.mcp.stdio_transport.GRACE", 0.05)
    token = new_token()
    for turns in range(TURNS):
        task = asyncio.ensure_future(start(f"sleep {token} & sleep {token}"))
        for _ in range(turns):
            await asyncio.sleep(0)
        time.sleep(0.03)  # the loop is busy elsewhere, while the child starts its own
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert wait_until_gone(token) == []
