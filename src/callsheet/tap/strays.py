"""What an agent has started and what is no longer in its group: found by a mark in its environment.

Some agents run each command in a session of its own. When such an agent is killed, nobody is left to end
the command. An agent that ends by itself is another matter: what it leaves running, it may mean to.
Systems without /proc show no environments; there, nothing is found.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

GRACE = 0.4
"""Seconds from SIGTERM to SIGKILL."""

ROUNDS = 3
"""How often is looked for what was started meanwhile."""

_PACE = 0.02


def new_mark() -> str:
    """Return the name of a variable that nobody else has."""
    return f"CALLSHEET_BEHIND_{os.getpid()}_{os.urandom(4).hex()}"


def end_marked(mark: str, grace: float = GRACE) -> None:
    """Ask all that has the mark to end, and kill what is still there after the grace."""
    if not _send(mark, signal.SIGTERM):
        return
    until = time.monotonic() + grace
    while time.monotonic() < until:
        time.sleep(_PACE)
        if not marked(mark):
            return
    for _ in range(ROUNDS):
        if not _send(mark, signal.SIGKILL):
            return


def marked(mark: str) -> list[int]:
    """Return the processes that were started with the mark in their environment."""
    wanted = mark.encode() + b"="
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - this is loaded at every start, and pathlib is slow
    except OSError:
        return []
    return [int(name) for name in names if name.isdigit() and wanted in _environment(name)]


def _send(mark: str, number: int) -> bool:
    found = marked(mark)
    for pid in found:
        with suppress(OSError):
            os.kill(pid, number)
    return bool(found)


def _environment(pid: str) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError:  # it has ended, or is another user's
        return b""
