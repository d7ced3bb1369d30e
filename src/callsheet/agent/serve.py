"""The agent on stdio, from the first byte to the last: editors end agents without asking.

The end of stdin, SIGTERM, SIGINT, SIGHUP or a broken pipe: each ends every turn, closes every call, and
leaves no child behind. The exit code is 0 when the client has gone, and 128 plus the signal's number after
a signal.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress

from callsheet.tools.shield import OwnStdio, own_stdio

from .agent import Agent, AgentSettings
from .pipe import Reader, Writer

LAST = 10.0
"""Seconds that a mind or a tool that does not stop can hold up the end."""

_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")


def serve(settings: AgentSettings) -> int:
    """Serve the client at stdin and stdout. Gives the exit code."""
    with own_stdio() as own:
        return asyncio.run(_serve(settings, own))


async def _serve(settings: AgentSettings, own: OwnStdio) -> int:
    agent = Agent(settings, Reader(own.stdin.fileno()), Writer(own.stdout.fileno()))
    loop = asyncio.get_running_loop()
    signalled: asyncio.Future[int] = loop.create_future()

    def stop(number: int) -> None:
        if not signalled.done():  # a second one must not disturb the end
            signalled.set_result(number)

    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None:
            with suppress(NotImplementedError, RuntimeError):  # not on Windows
                loop.add_signal_handler(number, stop, number)
    await agent.serve(signalled)
    code = 128 + signalled.result() if signalled.done() else 0
    _end_at_last(code)
    await agent.close()
    return code


def _end_at_last(code: int) -> None:
    """End the process by force if something of it does not want to end."""
    timer = threading.Timer(LAST, os._exit, (code,))
    timer.daemon = True
    timer.start()
