"""Starting children with asyncio so that nothing of them stays if that is cancelled meanwhile.

When it is cancelled, asyncio itself kills the child but not what this has started, and may wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

Child = TypeVar("Child")


async def started(
    starting: Coroutine[Any, Any, Child], end: Callable[[Child], Awaitable[object]]
) -> Child:
    """Wait until a child is there. If this is cancelled, it is waited for all the same, and ended."""
    task = asyncio.ensure_future(starting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(OSError):  # it could not be started
            await end(await task)
        raise
