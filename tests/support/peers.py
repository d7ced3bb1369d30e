"""Peers that misbehave behind real pipes: readers that are slow, stop, or go away."""

from __future__ import annotations

import os
from threading import Event, Thread
from typing import Self

from callsheet.acp.peer import Peer
from callsheet.runtime.sinks import PipeSink


class SlowPeer:
    """A client that reads slowly: `with SlowPeer(rate=1024) as slow: Session(sinks=[slow.sink()])`.

    `received` holds the bytes that it has read so far.

    Args:
        rate: Bytes to read per second; with 0, it reads nothing.
        step: Bytes to read at once.
    """

    def __init__(self, rate: float = 1024, *, step: int = 256) -> None:
        self.received: bytearray = bytearray()
        self._rate: float = rate
        self._step: int = step
        self._stop: Event = Event()
        self._read_end: int = -1
        self._write_end: int = -1
        self._thread: Thread | None = None

    def sink(self, peer: Peer | None = None) -> PipeSink:
        """Return a sink that writes to this peer."""
        return PipeSink(self._write_end, peer)

    def __enter__(self) -> Self:
        """Open the pipe, and begin to read."""
        self._read_end, self._write_end = os.pipe()
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop reading, and close the pipe."""
        self._stop.set()
        os.close(self._write_end)
        if self._thread is not None:
            self._thread.join(timeout=5)
        self._close_read_end()

    def _read(self) -> None:
        while self._rate and not self._stop.wait(self._step / self._rate):
            data = os.read(self._read_end, self._step)
            if not data:
                return
            self.received += data

    def _close_read_end(self) -> None:
        if self._read_end >= 0:
            os.close(self._read_end)
            self._read_end = -1


class DyingPeer(SlowPeer):
    """A client that reads until it has `lines` lines, and then closes its end of the pipe."""

    def __init__(self, lines: int = 1) -> None:
        super().__init__()
        self._lines: int = lines
        self.has_died: Event = Event()

    def _read(self) -> None:
        while not self._stop.is_set() and self.received.count(b"\n") < self._lines:
            data = os.read(self._read_end, self._step)
            if not data:
                break
            self.received += data
        self._close_read_end()
        self.has_died.set()
