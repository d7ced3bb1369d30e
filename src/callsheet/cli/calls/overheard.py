"""What tools and their children write to stderr while cards are drawn: it is printed above them.

Without this it would be written into the middle of a card. A thread reads it, so that who writes never
waits for an event loop that is held up.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from threading import Thread

PATIENCE = 0.2
"""Seconds that the last of it is waited for: a child may still have it open."""


@contextmanager
def overheard(say: Callable[[str], None]) -> Generator[None]:
    """Give what is written to descriptors 1 and 2 to `say`, on the event loop, in whole lines."""
    loop = asyncio.get_running_loop()
    read_end, write_end = os.pipe()
    kept = os.dup(1), os.dup(2)
    for fd in (1, 2):
        os.dup2(write_end, fd)
    os.close(write_end)

    def listen() -> None:
        rest = b""
        while data := os.read(read_end, 1 << 16):
            whole, newline, rest = (rest + data).rpartition(b"\n")
            if newline:
                tell(whole)
        tell(rest)
        os.close(read_end)

    def tell(data: bytes) -> None:
        if data:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(say, data.decode(errors="replace"))

    thread = Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield
    finally:
        for fd, own in zip((1, 2), kept, strict=True):
            os.dup2(own, fd)
            os.close(own)
        thread.join(PATIENCE)
