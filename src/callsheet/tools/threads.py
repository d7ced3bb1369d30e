"""Threads for sync tools. They don't keep the interpreter from ending, as a pool's would."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeAlias

from .errors import ExecutionFailed

IDLE = 10.0
"""Seconds that a thread waits for more work."""

_Job: TypeAlias = "tuple[Callable[[], Any], asyncio.Future[Any], asyncio.AbstractEventLoop]"


class _Worker:
    """One thread, and the work that it is handed."""

    __slots__ = ("handed", "job")

    def __init__(self, job: _Job) -> None:
        self.job: _Job | None = job
        self.handed: threading.Event = threading.Event()


_lock = threading.Lock()
_idle: deque[_Worker] = deque()


async def in_thread(function: Callable[[], Any]) -> Any:
    """Run a function in a thread, in the context of the caller.

    If this is cancelled, the thread goes on, and what it gives is dropped.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = copy_context()
    job = (lambda: context.run(function), future, loop)
    with _lock:
        worker = _idle.pop() if _idle else None
    if worker is None:
        worker = _Worker(job)
        threading.Thread(target=_work, args=(worker,), name="callsheet tool", daemon=True).start()
    else:
        worker.job = job
        worker.handed.set()
    return await future


def _work(worker: _Worker) -> None:
    while worker.job is not None:
        job, worker.job = worker.job, None
        _do(*job)
        del job
        worker.handed.clear()
        with _lock:
            _idle.append(worker)
        if not worker.handed.wait(IDLE):
            with _lock:
                if worker in _idle:
                    _idle.remove(worker)
                    return
            worker.handed.wait()


def _do(
    function: Callable[[], Any], future: asyncio.Future[Any], loop: asyncio.AbstractEventLoop
) -> None:
    value, problem = None, None
    try:
        value = function()
    except (SystemExit, KeyboardInterrupt) as exc:
        problem = ExecutionFailed(f"the tool tried to end the program ({exc!r})")
    except StopIteration as exc:  # a future can't hold it
        problem = RuntimeError(f"the tool raised {exc!r}")
    except BaseException as exc:  # noqa: BLE001 - raised where it is awaited
        problem = exc
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(_settle, future, value, problem)


def _settle(future: asyncio.Future[Any], value: Any, problem: BaseException | None) -> None:
    if future.done():
        return
    if problem is None:
        future.set_result(value)
    else:
        future.set_exception(problem)
