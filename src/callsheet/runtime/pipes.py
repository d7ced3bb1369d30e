"""The two ends of a connection's pipes: lines out, bytes in.

All writers take turns on one sink, so that no line is cut by another. Bytes are read in a thread, because
stdin may be a pipe, a socket, a terminal or a file, and its flags must stay as they were found: another
process may share them.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections import deque
from collections.abc import Awaitable
from typing import Any, Protocol

from callsheet.runtime.sinks import PipeSink

READ = 1 << 16
"""Bytes that are read at once."""

AHEAD = 64
"""Pieces that are read before anybody has taken them."""


class PipeWriter:
    """A pipe that several share. Lines are written whole and in order.

    `gone` is done when the other side has closed its end, or after `close`. From then on nothing is written.
    """

    def __init__(self, file: int | Any) -> None:
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pipe: PipeSink = PipeSink(file)
        self._waiting: deque[tuple[deque[Any], asyncio.Future[None]]] = deque()
        self._pump: asyncio.Task[None] | None = None

    @property
    def taken(self) -> int:
        """The bytes that the other side, or the system's buffer, has taken."""
        return self._pipe.taken

    @property
    def is_full(self) -> bool:
        """Whether something waits for the other side to read."""
        return self._pump is not None

    def send(self, items: deque[Any]) -> asyncio.Future[None] | None:
        """Write lines, when everything before them is written."""
        if self.gone.done():
            raise _gone()
        rest = None
        if self._pump is None:
            try:
                rest = self._pipe.send(items)
            except OSError:
                self.close()
                raise
            if rest is None:
                return None
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._waiting.append((items, done))
        if rest is not None:
            # A separate task: the sender may be cancelled, but a line that was begun must be finished.
            self._pump = loop.create_task(self._write(asyncio.ensure_future(rest)))
        return done

    async def post(self, line: bytes) -> None:
        """Write one line."""
        rest = self.send(deque((line,)))
        if rest is not None:
            await rest

    def close(self) -> None:
        """Write nothing more. Senders that wait get a `BrokenPipeError`."""
        if not self.gone.done():
            self.gone.set_result(None)
        if self._pump is not None:
            self._pump.cancel()
            self._pump = None
        while self._waiting:
            _, done = self._waiting.popleft()
            if not done.done():
                done.set_exception(_gone())
        self._pipe.close()

    async def _write(self, rest: Awaitable[None] | None) -> None:
        """Write what waits. The first is being written; it leaves the queue when it is done."""
        try:
            while True:
                if rest is not None:
                    await rest
                _, done = self._waiting.popleft()
                if not done.done():
                    done.set_result(None)
                if not self._waiting:
                    return
                rest = self._pipe.send(self._waiting[0][0])
        except OSError:
            self.close()
        finally:
            self._pump = None


def _gone() -> BrokenPipeError:
    return BrokenPipeError(errno.EPIPE, "the other side is gone")


class Source(Protocol):
    """Where bytes come from. `ended` is done when nothing more will come."""

    ended: asyncio.Future[None]

    async def piece(self) -> bytes:
        """Return the next bytes; none at the end."""
        ...


class PipeReader:
    """Reads a descriptor in a thread, a bounded way ahead. `ahead` was read from it before."""

    def __init__(self, fd: int, ahead: bytes = b"") -> None:
        self._fd: int = fd
        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._room: threading.Semaphore = threading.Semaphore(AHEAD)
        self.ended: asyncio.Future[None] = self._loop.create_future()
        if ahead:
            self._pieces.put_nowait(ahead)
        threading.Thread(target=self._read, name="callsheet reader", daemon=True).start()

    async def piece(self) -> bytes:
        """Return the next bytes; none at the end."""
        data = await self._pieces.get()
        self._room.release()
        return data

    def _read(self) -> None:
        data = b"-"
        while data:
            self._room.acquire()
            try:
                data = os.read(self._fd, READ)
            except OSError:  # the other end is gone, which is an end as well
                data = b""
            try:
                self._loop.call_soon_threadsafe(self._take, data)
            except RuntimeError:  # the loop is closed
                return

    def _take(self, data: bytes) -> None:
        self._pieces.put_nowait(data)
        if not data:
            self.ended.set_result(None)
