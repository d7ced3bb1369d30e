"""Where a consumer's news go. A sink takes what it is given in order, and says when it has it.

`send` gets a deque and takes items off its front as they are delivered. It returns None when all
are, or something to await until then. If it fails, what is left in the deque was not delivered.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import stat
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Protocol, TypeAlias, runtime_checkable

from callsheet.report.errors import InvalidValue
from callsheet.wire.peer import Peer


@runtime_checkable
class Sink(Protocol):
    """What a consumer is to a session.

    With a `peer`, it gets ACP's `session/update` notifications as lines, in that peer's terms;
    with None, it gets the reports themselves (`ToolCallReport`).
    """

    peer: Peer | None

    def send(self, items: deque[Any]) -> Awaitable[None] | None:
        """Take the items, from the front, removing each that is delivered."""
        ...

    def close(self) -> None:
        """Let go of what was opened. Nothing is sent after this."""
        ...


OnUpdate: TypeAlias = Callable[[bytes], object]
"""A function, plain or async, that takes one line."""


class CallbackSink:
    """Calls a function with each line, on the session's event loop. It may be async; it must not block."""

    def __init__(self, callback: OnUpdate, peer: Peer | None = None) -> None:
        if not callable(callback):
            kind = type(callback).__name__
            raise InvalidValue(f"sink: expected a function or a Sink, got {kind}")
        self.peer: Peer | None = Peer() if peer is None else peer
        self._callback: OnUpdate = callback

    def send(self, items: deque[Any]) -> Awaitable[None] | None:
        """Call with each line. A line whose call raises was not delivered."""
        callback = self._callback
        while items:
            answer = callback(items[0])
            if answer is not None and hasattr(answer, "__await__"):
                return self._rest(answer, items)  # pyright: ignore[reportArgumentType]
            items.popleft()
        return None

    def close(self) -> None:
        """Nothing was opened."""

    async def _rest(self, answer: Awaitable[object], items: deque[Any]) -> None:
        await answer
        items.popleft()
        while items:
            again = self._callback(items[0])
            if hasattr(again, "__await__"):
                await again  # pyright: ignore[reportGeneralTypeIssues]
            items.popleft()


class PipeSink:
    """Writes lines to a pipe, a socket, a terminal or a file, and never blocks: a full pipe is waited for.

    `taken` counts the bytes that the other end, or the system's buffer, has taken.
    """

    def __init__(self, file: int | Any, peer: Peer | None = None) -> None:
        fd: int = file if isinstance(file, int) else file.fileno()
        self.peer: Peer | None = Peer() if peer is None else peer
        self.taken: int = 0
        self._socket: socket.socket | None = None
        self._fd: int = -1
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            self._socket = socket.socket(fileno=os.dup(fd))
        else:
            self._fd = _never_blocking(fd)
        self._rest: memoryview = memoryview(b"")
        self._waiting: asyncio.Future[None] | None = None

    def fileno(self) -> int:
        """Give the descriptor that it writes to: one of its own."""
        return self._fd if self._socket is None else self._socket.fileno()

    def send(self, items: deque[Any]) -> Awaitable[None] | None:
        """Write the lines, all at once if the pipe has room."""
        data = items[0] if len(items) == 1 else b"".join(items)
        written = self._write(data)
        if written == len(data):
            items.clear()
            return None
        self._rest = memoryview(data)[written:]
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        loop.add_writer(self.fileno(), self._go_on)
        return self._until_written(self._waiting, items)

    def send_now(self, items: deque[Any], until: float) -> None:
        """Write the lines without an event loop, until a monotonic time; for the end of a process."""
        rest = self._rest or memoryview(b"".join(items))
        self._rest = memoryview(b"")
        poll = select.poll()
        poll.register(self.fileno(), select.POLLOUT)
        while rest:
            rest = rest[self._write(rest) :]
            if rest and not poll.poll(max(0.0, until - monotonic()) * 1000):
                raise TimeoutError("the pipe is full and nobody reads it")
        items.clear()

    def close(self) -> None:
        """Close our own descriptor. The one that was given stays open."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.cancel()
        if self._socket is not None:
            self._socket.close()
        elif self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    async def _until_written(self, waiting: asyncio.Future[None], items: deque[Any]) -> None:
        try:
            await waiting
        finally:
            with contextlib.suppress(OSError, ValueError):
                asyncio.get_running_loop().remove_writer(self.fileno())
        items.clear()

    def _go_on(self) -> None:
        waiting = self._waiting
        if waiting is None or waiting.done():
            return
        try:
            self._rest = self._rest[self._write(self._rest) :]
        except OSError as exc:
            waiting.set_exception(exc)
        else:
            if not self._rest:
                waiting.set_result(None)

    def _write(self, data: bytes | memoryview) -> int:
        try:
            if self._socket is None:
                written = os.write(self._fd, data)
            else:
                written = self._socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        self.taken += written
        return written


def _never_blocking(fd: int) -> int:
    """Give a descriptor of our own for the same file that never blocks.

    Not blocking is a property of an open file, shared by all who have it open: a terminal's shell
    would be surprised. So the file is opened anew where the system can do that.
    """
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return os.dup(fd)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    own = os.dup(fd)
    os.set_blocking(own, False)
    return own
