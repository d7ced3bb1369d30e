"""Work on files that is done in a thread, and to its end even if it is cancelled.

A thread can't be stopped from outside. So a cancelled write is not left behind, to change a file when
nobody expects it any more: it is told, stops before the file is changed, or says that it was too late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event

from callsheet.tools.errors import Cancelled
from callsheet.tools.result import ToolResult
from callsheet.tools.threads import in_thread


async def finished(work: Callable[[Callable[[], None]], ToolResult]) -> ToolResult:
    """Run `work` in a thread. It calls what it is given before it changes anything."""
    unwanted = Event()

    def go_on() -> None:
        if unwanted.is_set():
            raise Cancelled("stopped", output="Nothing was written")

    task = asyncio.ensure_future(in_thread(lambda: work(go_on)))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        unwanted.set()
        result = await task
        raise Cancelled("stopped too late", output=result.output, **dict(result.metadata)) from None
