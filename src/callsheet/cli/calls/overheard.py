"""What tools and their children write to stderr while cards are drawn: it is printed above them.

Without this it would be written into the middle of a card. A thread reads it, so that who writes never
waits for an event loop that is held up. Whoever prints a card calls `tell` first: what was written before
is then above it.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread
from types import TracebackType
from typing import Self

PATIENCE = 0.2
"""Seconds that the last of it is waited for: a child may still have it open."""


class Overheard:
    """Takes descriptors 1 and 2, and gives what is written there to `say`, in whole lines."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say: Callable[[str], None] = say
        self._lock: Lock = Lock()
        self._heard: bytes = b""
        self._ended: bool = False
        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._read_end, write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._kept: list[int] = [os.dup(1), os.dup(2)]
        for fd in (1, 2):
            os.dup2(write_end, fd)
        os.close(write_end)
        self._thread: Thread = Thread(target=self._listen, daemon=True)
        self._thread.start()

    def tell(self) -> None:
        """Say what was written so far. Called on the event loop."""
        self._read()
        with self._lock:
            whole, newline, self._heard = self._heard.rpartition(b"\n")
        if newline:
            self._say(whole.decode(errors="replace"))

    def __enter__(self) -> Self:
        """Listen already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Return the descriptors back, and say the last of it."""
        for fd, own in zip((1, 2), self._kept, strict=True):
            os.dup2(own, fd)
            os.close(own)
        self._thread.join(PATIENCE)
        self.tell()
        if self._heard:
            self._say(self._heard.decode(errors="replace"))

    def _listen(self) -> None:
        while not self._ended:
            select.select([self._read_end], [], [])
            self._read()
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self.tell)

    def _read(self) -> None:
        """Read what there is, whichever thread is first."""
        with self._lock, suppress(BlockingIOError):
            while not self._ended:
                data = os.read(self._read_end, 1 << 16)
                self._heard += data
                self._ended = not data
