"""Bytes from one descriptor to another, at once, in a thread of their own."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Protocol, TypeAlias

PIECE = 1 << 16
"""Bytes that are passed on in one go, at most: as much as a pipe holds."""

LOOK = 1.0
"""Seconds between two looks whether anybody is there for whom a side that does not read is waited for."""

_NOBODY = select.POLLERR | select.POLLHUP | select.POLLNVAL

Send: TypeAlias = Callable[[bytes], None]


class Hook(Protocol):
    """Is given what one side says, piece by piece, and sends on what the other side is to hear.

    Pieces end anywhere. One that only looks on sends each on as it is; one that changes lines holds back what
    has no end yet (`lines.py`).
    """

    def begin(self, send: Send) -> None:
        """Get the way to the other side, before anything comes. It may be used by any thread in turn."""
        ...

    def take(self, data: bytes, send: Send) -> None:
        """Take the next piece."""
        ...

    def end(self, send: Send) -> None:
        """Nothing more will come."""
        ...


class Relay(Thread):
    """Passes on what comes from `source` to `target`, until one of them ends. It closes both.

    So the end of one side reaches the other, whichever it is: a reader comes to the end, and a writer is told
    that nobody reads.
    """

    def __init__(
        self, source: int, target: int, hook: Hook, is_wanted: Callable[[], bool] | None = None
    ) -> None:
        """`is_wanted` tells whether what comes from `source` still matters, while `target` does not read."""
        super().__init__(daemon=True)
        self.is_listening: bool = False
        """Whether it has passed on all that it took, and waits for more."""
        self.pieces: int = 0
        """How many pieces it has taken."""
        self._source: int = source
        self._target: int = target
        self._hook: Hook = hook
        self._is_wanted: Callable[[], bool] | None = is_wanted
        if is_wanted is not None:
            os.set_blocking(target, False)
        hook.begin(self._send)

    @property
    def is_heard(self) -> bool:
        """Whether the other side may still read."""
        poll = select.poll()
        try:
            poll.register(self._target, 0)
            found = poll.poll(0)
        except (OSError, ValueError):
            return False
        return not any(what & _NOBODY for _, what in found)

    @property
    def is_idle(self) -> bool:
        """Whether all that came so far was passed on, and nothing waits to be read."""
        try:
            return self.is_listening and not _wait(self._source, select.POLLIN, 0)
        except (OSError, ValueError):  # it has ended meanwhile
            return False

    def run(self) -> None:
        """Pass on bytes until there are no more, or nobody wants them."""
        source, take, send = self._source, self._hook.take, self._send
        try:
            while True:
                self.is_listening = True
                data = _read(source)
                self.is_listening = False
                if not data:
                    break
                self.pieces += 1
                take(data, send)
            self._hook.end(send)
        except OSError:
            pass  # nobody reads any more; who writes is told so by what follows
        finally:
            with suppress(OSError):
                self._leave()

    def _leave(self) -> None:
        """Close both. Others may still send: the target's number stays ours, and leads to nowhere."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, self._target, inheritable=False)
        os.close(nowhere)
        os.close(self._source)

    def _send(self, data: bytes) -> None:
        try:
            written = os.write(self._target, data)  # nearly always all of it
        except BlockingIOError:
            written = 0
        if written < len(data):
            rest = memoryview(data)[written:]
            while rest:
                rest = rest[self._write(rest) :]

    def _write(self, data: memoryview) -> int:
        while True:
            try:
                return os.write(self._target, data)
            except BlockingIOError:
                while not _wait(self._target, select.POLLOUT, self._is_wanted and LOOK):
                    if self._is_wanted is not None and not self._is_wanted():
                        raise BrokenPipeError from None


def _read(descriptor: int) -> bytes:
    """Return what is there, or nothing at the end. What we were given need not be blocking."""
    while True:
        try:
            return os.read(descriptor, PIECE)
        except BlockingIOError:
            _wait(descriptor, select.POLLIN)
        except OSError:  # a terminal that was hung up, a socket that was reset
            return b""


def _wait(descriptor: int, what: int, seconds: float | None = None) -> bool:
    poll = select.poll()
    poll.register(descriptor, what)
    return bool(poll.poll(None if seconds is None else seconds * 1000))
