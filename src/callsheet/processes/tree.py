"""Ending a process with all that came from it, where no keeper watches over it.

This finds what is under the process, in its session or its group, or was started with a marker in
its environment. Whatever left all of these is not found; a command that a keeper watches over can't.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from time import monotonic

from callsheet.processes.table import ask_to_end, family, kill

GRACE = 0.4
"""Seconds from SIGTERM to SIGKILL."""

PATIENCE = 1.0
"""Seconds until a process that was killed is taken for one that can't be ended."""

_PACE = 0.01


async def end_tree(*roots: int, marker: str | None = None, grace: float = GRACE) -> int:
    """End processes and all that came from them: SIGTERM, and SIGKILL after a grace.

    `marker` is `NAME=value`, as it stands in the environment of what is meant. Gives how many could
    not be ended. If this is cancelled, what is still there is killed at once.
    """
    mark = (marker or "").encode()
    try:
        ask_to_end(family(roots, mark))
        until = monotonic() + grace
        while family(roots, mark) and monotonic() < until:
            await asyncio.sleep(_PACE)
    finally:
        left = _kill_once(roots, mark)
    until = monotonic() + PATIENCE
    while left and monotonic() < until:
        await asyncio.sleep(_PACE)
        left = _kill_once(roots, mark)
    return left


def _kill_once(roots: Iterable[int], mark: bytes) -> int:
    members = family(roots, mark)
    kill(members)
    return len(members)
