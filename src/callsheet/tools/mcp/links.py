"""How a server is reached: what a connection needs to know of pipes and of HTTP, and no more.

A `Link` is an async context that gives the two streams that the MCP SDK speaks over. Its `over` is done
when nothing can come any more. Here is the link over a child's pipes; the one over HTTP is in `http`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types.jsonrpc import jsonrpc_message_adapter

from .process import TAIL, PipeClosed, ServerProcess

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, TransportStreams


class Link(Protocol):
    """A way to a server."""

    @property
    def over(self) -> asyncio.Future[str]:
        """Done when nothing comes any more; says why."""
        ...

    @property
    def tail(self) -> str:
        """The last of what the server complained of, where that can be known."""
        ...

    def streams(self) -> AbstractAsyncContextManager[TransportStreams]:
        """Return the streams for the SDK. Leaving this closes the link."""
        ...


class PipeLink:
    """The pipes of a child."""

    def __init__(self, process: ServerProcess) -> None:
        self._process = process

    @property
    def over(self) -> asyncio.Future[str]:
        """Done when nothing comes any more; says why."""
        return self._process.over

    @property
    def tail(self) -> str:
        """The last of what the child complained of."""
        return self._process.tail

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[TransportStreams]:
        """Return the streams for the SDK."""
        yield _Reader(self._process), _Writer(self._process)


class _Stream:
    """What the SDK asks of every stream. The child is closed by whoever started it."""

    def __init__(self, process: ServerProcess) -> None:
        self._process = process

    async def aclose(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        pass


class _Reader(_Stream):
    """Messages of a child. Lines that are none are kept with what it complained of."""

    async def receive(self) -> SessionMessage:
        while (line := await self._process.line()) is not None:
            try:
                return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
            except ValueError:
                self._process.complain(line[:TAIL])
        raise anyio.EndOfStream

    def __aiter__(self) -> ReadStream[SessionMessage]:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class _Writer(_Stream):
    """Messages to a child."""

    async def send(self, item: SessionMessage, /) -> None:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            await self._process.write(text.encode() + b"\n")
        except PipeClosed:
            raise anyio.BrokenResourceError from None
