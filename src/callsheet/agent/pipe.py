"""The two ends of a client's pipe: bytes in, lines out.

Everything that goes out takes turns on one sink, so that no line is cut by another. Bytes come in through
a thread, because stdin may be a pipe, a socket, a terminal or a file, and must stay as it was found.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Awaitable
from typing import Any

from callsheet.runtime.sinks import PipeSink
from callsheet.wire.peer import Peer

READ = 1 << 16
AHEAD = 64
"""Pieces that are read before anybody has looked at them."""


class Writer:
    """One pipe for many: sessions, answers and questions. What comes first is written first."""

    def __init__(self, file: int | Any) -> None:
        self._pipe: PipeSink = PipeSink(file)
        self._waiting: deque[tuple[deque[Any], asyncio.Future[None]]] = deque()
        self._pump: asyncio.Task[None] | None = None

    def send(self, items: deque[Any]) -> Awaitable[None] | None:
        """Write lines, when everything before them is written."""
        rest = None
        if self._pump is None:
            rest = self._pipe.send(items)
            if rest is None:
                return None
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        if rest is None:
            self._waiting.append((items, done))
        else:
            # A task of its own: whoever waits may be cancelled, and a line that was begun is finished.
            self._pump = loop.create_task(self._write(rest, done))
        return done

    async def post(self, line: bytes) -> None:
        """Write one line."""
        rest = self.send(deque((line,)))
        if rest is not None:
            await rest

    def close(self) -> None:
        """Let go of the pipe."""
        if self._pump is not None:
            self._pump.cancel()
        self._pipe.close()

    async def _write(self, rest: Awaitable[None] | None, done: asyncio.Future[None]) -> None:
        try:
            while True:
                await _settled(rest, done)
                if not self._waiting:
                    return
                items, done = self._waiting.popleft()
                rest = self._sent(items, done)
        finally:
            self._pump = None
            for _, done in self._waiting:
                done.cancel()
            self._waiting.clear()

    def _sent(self, items: deque[Any], done: asyncio.Future[None]) -> Awaitable[None] | None:
        try:
            return self._pipe.send(items)
        except Exception as exc:  # noqa: BLE001 - told to whoever waits
            if not done.done():
                done.set_exception(exc)
            return None


async def _settled(rest: Awaitable[None] | None, done: asyncio.Future[None]) -> None:
    """Wait for the rest of some lines, and tell whoever waits for them."""
    try:
        if rest is not None:
            await rest
    except Exception as exc:  # noqa: BLE001 - told to whoever waits
        if not done.done():
            done.set_exception(exc)
        return
    if not done.done():
        done.set_result(None)


class SharedSink:
    """What a session writes to: its share of the pipe."""

    def __init__(self, writer: Writer, peer: Peer) -> None:
        self.peer: Peer | None = peer
        self._writer: Writer = writer

    def send(self, items: deque[Any]) -> Awaitable[None] | None:
        """Write lines."""
        return self._writer.send(items)

    def close(self) -> None:
        """The pipe is everybody's."""


class Reader:
    """Reads a descriptor in a thread, a bounded way ahead."""

    def __init__(self, fd: int) -> None:
        self._fd: int = fd
        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._room: threading.Semaphore = threading.Semaphore(AHEAD)
        threading.Thread(target=self._read, name="callsheet stdin", daemon=True).start()

    async def piece(self) -> bytes:
        """Give what has come; nothing at the end."""
        data = await self._pieces.get()
        self._room.release()
        return data

    def _read(self) -> None:
        data = b"-"
        while data:
            self._room.acquire()
            try:
                data = os.read(self._fd, READ)
            except OSError:  # the other end is gone, which is an end, too
                data = b""
            if not self._tell(data):
                return

    def _tell(self, data: bytes) -> bool:
        try:
            self._loop.call_soon_threadsafe(self._pieces.put_nowait, data)
        except RuntimeError:  # the loop is closed
            return False
        return True
