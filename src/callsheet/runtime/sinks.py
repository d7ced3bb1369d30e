"""Sinks: where a consumer's lines go. A sink takes lines in order, and reports when they are delivered.

`send` receives a deque and takes items off its front as they are delivered. It returns None when
all are, or something to await until then. If it fails, what is left in the deque was not delivered,
and is sent again.

The last part writes to a shared file descriptor without ever blocking, and without changing its
mode for other processes that share it.
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
from inspect import iscoroutinefunction
from itertools import islice
from time import monotonic
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from callsheet.acp.peer import Peer
from callsheet.report.errors import InvalidValue
from callsheet.report.json import JsonObject


@runtime_checkable
class Sink(Protocol):
    """What a consumer is to a session.

    With a `peer`, it gets ACP's `session/update` notifications as lines, in that peer's terms;
    with None, it gets the reports themselves (`ToolCallReport`), or, if it has a `takes_records`
    that is true, `CallRecord`s: reports with the terminals that they show. Records are handed over by
    any thread in the midst of a change; such a sink takes them all at once, and never waits.
    """

    peer: Peer | None

    def send(self, items: deque[Any]) -> Awaitable[None] | None:
        """Take the items, from the front, removing each that is delivered."""
        ...

    def close(self) -> None:
        """Release what was opened. Nothing is sent after this."""
        ...


OnUpdate: TypeAlias = Callable[[bytes], object]
"""A function, plain or async, that takes one line."""


OnParams: TypeAlias = Callable[[JsonObject], object]
"""A function, plain or async, that takes the `params` of one `session/update`."""


def params_of(line: bytes) -> JsonObject:
    """Return the `params` of a line."""
    return msgspec.json.decode(line)["params"]


class CallbackSink:
    """Calls a function with each line, on the session's event loop. It may be async; it must not block.

    The next line is sent when the function has returned, or what it returned was awaited. So an async
    function that waits for a slow client holds up nothing but its own lines, which are merged meanwhile.

    Args:
        callback: The function.
        peer: What the client behind it understands.
        convert: What the function gets of a line, if not the line itself.
    """

    def __init__(
        self,
        callback: Callable[[Any], object],
        peer: Peer | None = None,
        convert: Callable[[bytes], Any] | None = None,
    ) -> None:
        if not callable(callback):
            kind = type(callback).__name__
            raise InvalidValue(f"sink: expected a function or a Sink, got {kind}")
        self.peer: Peer | None = Peer() if peer is None else peer
        self._callback: OnUpdate = callback
        if convert is not None:
            self._callback = lambda line: callback(convert(line))
        self._is_async: bool = iscoroutinefunction(callback)

    def send(self, items: deque[Any]) -> Awaitable[None] | None:
        """Call with each line. A line whose call raises was not delivered."""
        if self._is_async:
            # It is called when this is awaited: nothing is begun that may be cancelled before.
            return self._rest(None, items)
        callback = self._callback
        while items:
            answer = callback(items[0])
            if answer is not None and hasattr(answer, "__await__"):
                return self._rest(answer, items)  # pyright: ignore[reportArgumentType]
            items.popleft()
        return None

    def close(self) -> None:
        """Nothing was opened."""

    async def _rest(self, answer: Awaitable[object] | None, items: deque[Any]) -> None:
        if answer is not None:
            await answer
            items.popleft()
        while items:
            again = self._callback(items[0])
            if hasattr(again, "__await__"):
                await again  # pyright: ignore[reportGeneralTypeIssues]
            items.popleft()


MOST_LINES = 256
"""Lines that are written at once: joining them takes their memory a second time."""


class PipeSink:
    """Writes lines to a pipe, a socket, a terminal or a file, and never blocks: a full pipe is waited for.

    `taken` counts the bytes that the other end, or the system's buffer, has taken.
    """

    def __init__(self, file: int | Any, peer: Peer | None = None) -> None:
        self.peer: Peer | None = Peer() if peer is None else peer
        self.taken: int = 0
        self._file: NonBlocking = NonBlocking(file if isinstance(file, int) else file.fileno())
        # Bytes of the first items that were begun and are not written yet.
        self._rest: memoryview = memoryview(b"")
        self._begun: int = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: asyncio.Future[None] | None = None

    def fileno(self) -> int:
        """Return the descriptor that it writes to: one of its own."""
        return self._file.fd

    def send(self, items: deque[Any]) -> Awaitable[None] | None:
        """Write the lines, all at once if the pipe has room."""
        if not self._begun and len(items) <= MOST_LINES:  # nearly always, and all of it fits
            data = b"".join(items)
            written = self._file.write(data)
            self.taken += written
            if written == len(data):
                items.clear()
                return None
            self._begun, self._rest = len(items), memoryview(data)[written:]
        if self._write_on(items):
            return None
        self._loop = loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        loop.add_writer(self._file.fd, self._go_on, items)
        return self._until_written(self._waiting)

    def send_now(self, items: deque[Any], until: float) -> None:
        """Write the lines without an event loop, until a monotonic time; for the end of a process."""
        while not self._write_on(items):
            if not self._file.wait(until):
                raise TimeoutError("the pipe is full and nobody reads it")

    def close(self) -> None:
        """Close our own descriptor. The caller's stays open."""
        self._stop_waiting()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.cancel()
        self._file.close()

    def _write_on(self, items: deque[Any]) -> bool:
        """Write as much as there is room for. Return whether everything is written.

        A line that was begun is always finished first: to begin it anew would break the stream.
        """
        while items:
            if not self._begun:
                first = list(islice(items, MOST_LINES))
                self._begun, self._rest = len(first), memoryview(b"".join(first))
            written = self._file.write(self._rest)
            self.taken += written
            self._rest = self._rest[written:]
            if self._rest:
                return False
            for _ in range(self._begun):
                items.popleft()
            self._begun = 0
        return True

    def _go_on(self, items: deque[Any]) -> None:
        waiting = self._waiting
        if waiting is None or waiting.done():
            return
        try:
            if self._write_on(items):
                waiting.set_result(None)
        except OSError as exc:
            waiting.set_exception(exc)

    async def _until_written(self, waiting: asyncio.Future[None]) -> None:
        try:
            await waiting
        finally:
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._loop is not None and not self._loop.is_closed() and self._file.fd >= 0:
            with contextlib.suppress(OSError, ValueError):
                self._loop.remove_writer(self._file.fd)
        self._loop = None


class NonBlocking:
    """A descriptor of our own for an open file: a pipe, a socket, a terminal, a file."""

    def __init__(self, fd: int) -> None:
        self._socket: socket.socket | None = None
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            self._socket = socket.socket(fileno=os.dup(fd))
            self.fd: int = self._socket.fileno()
        else:
            self.fd = _opened_anew(fd)

    def write(self, data: bytes | memoryview) -> int:
        """Write as much as there is room for, and return how many bytes that was."""
        try:
            if self._socket is None:
                return os.write(self.fd, data)
            return self._socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def wait(self, until: float) -> bool:
        """Wait for room until a monotonic time. Return whether there is some."""
        poll = select.poll()
        poll.register(self.fd, select.POLLOUT)
        return bool(poll.poll(max(0.0, until - monotonic()) * 1000))

    def close(self) -> None:
        """Close our own descriptor. The caller's stays open."""
        fd, self.fd = self.fd, -1
        with contextlib.suppress(OSError):
            if self._socket is not None:
                self._socket.close()
            elif fd >= 0:
                os.close(fd)


def _opened_anew(fd: int) -> int:
    """Return a descriptor of our own for the same file.

    Not blocking is a property of an open file, shared by all who have it open: a terminal's shell
    would be surprised. So pipes and terminals are opened anew where the system can do that.
    """
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode):
        return os.dup(fd)
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    path = f"/proc/self/fd/{fd}" if stat.S_ISFIFO(found.st_mode) else _terminal(fd)
    if path is not None and sys.platform == "linux":
        with contextlib.suppress(OSError):
            own = os.open(path, flags)
            now = os.fstat(own)
            if (now.st_dev, now.st_ino) == (found.st_dev, found.st_ino):
                return own
            os.close(own)
    own = os.dup(fd)
    os.set_blocking(own, False)
    return own


def _terminal(fd: int) -> str | None:
    """Return the path of a terminal. Opening a pseudo-terminal's master would make another one."""
    with contextlib.suppress(OSError):
        name = os.ttyname(fd)
        return None if name.endswith("/ptmx") else name
    return None
