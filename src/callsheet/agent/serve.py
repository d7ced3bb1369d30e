"""The agent on stdio, from the first byte to the last: editors end agents without asking.

The end of stdin, SIGTERM, SIGINT, SIGHUP or a broken pipe: each ends every turn, closes every call, and leaves no
child behind.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress

from callsheet.tools.shield import OwnStdio, own_stdio

from .agent import Agent, AgentSettings
from .pipe import Reader, Writer

_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")


def serve(settings: AgentSettings) -> int:
    """Serve the client at stdin and stdout. Gives the exit code."""
    with own_stdio() as own:
        return asyncio.run(_serve(settings, own))


async def _serve(settings: AgentSettings, own: OwnStdio) -> int:
    agent = Agent(settings, Reader(own.stdin.fileno()), Writer(own.stdout.fileno()))
    running = asyncio.ensure_future(agent.run())
    ended_by: list[int] = []

    def stop(number: int) -> None:
        ended_by.append(number)
        running.cancel()

    loop = asyncio.get_running_loop()
    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None:
            with suppress(NotImplementedError, RuntimeError):  # not on Windows
                loop.add_signal_handler(number, stop, number)
    with suppress(asyncio.CancelledError):
        await running
    return 128 + ended_by[0] if ended_by else 0
