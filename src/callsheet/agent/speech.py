"""What a mind says, piece by piece, without secrets: also without those that are split over two pieces.

What may be the beginning of a secret waits for the next piece, for a pause, or for whatever comes after it.
"""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from callsheet.redaction.redact import StreamRedactor

QUIET = 0.1
"""Seconds without a piece, after which nothing waits any longer."""


class Speech:
    """Messages of one session: one kind at a time."""

    def __init__(
        self,
        stream: Callable[[], StreamRedactor | None],
        send: Callable[[str, str], Awaitable[None]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._stream: Callable[[], StreamRedactor | None] = stream
        self._send: Callable[[str, str], Awaitable[None]] = send
        self._spawn: Callable[[Coroutine[Any, Any, None]], None] = spawn
        self._kind: str = ""
        self._open: StreamRedactor | None = None
        self._decoder: codecs.IncrementalDecoder = _decoder()
        self._timer: asyncio.TimerHandle | None = None

    async def say(self, kind: str, text: str) -> None:
        """Take in a piece, and send what surely is no part of a secret."""
        if kind != self._kind:
            await self.flush()
            self._kind = kind
        if self._open is None:
            self._open = self._stream()
        if self._open is None:  # nothing is to be taken out
            await self._send(kind, text)
            return
        data = self._open.feed(text.encode("utf-8", "replace"))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._open.held:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(QUIET, lambda: self._spawn(self._pause()))
        await self._pass_on(data)

    async def flush(self) -> None:
        """Send what waits: something else comes now, or nothing more."""
        stream, self._open = self._open, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if stream is not None:
            await self._pass_on(stream.finish())

    async def _pause(self) -> None:
        self._timer = None
        if self._open is not None and self._open.held:
            await self._pass_on(self._open.flush())

    async def _pass_on(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        if text:
            await self._send(self._kind, text)


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("replace")
