"""Connect to a server, over a child's pipes or over streamable HTTP.

A `Link` provides the two streams that the MCP SDK uses. Its `over` is done when no more messages can arrive.

Over HTTP, the SDK lets one failed request end the whole connection, and every call with it. So failures are
converted to responses here: an error for the one request that failed, which states whether the server may
have received it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from secrets import token_hex
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types.jsonrpc import jsonrpc_message_adapter

from callsheet.tools.mcp.config import McpServer
from callsheet.tools.mcp.process import LONGEST_LINE, TAIL, PipeClosed, ServerProcess

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, TransportStreams


class Link(Protocol):
    """A link to a server."""

    @property
    def over(self) -> asyncio.Future[str]:
        """Done when no more messages can arrive; its result is the reason."""
        ...

    @property
    def tail(self) -> str:
        """The last of what the server wrote to stderr, where that can be known."""
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
        """Done when no more messages can arrive; its result is the reason."""
        return self._process.over

    @property
    def tail(self) -> str:
        """The last of what the child wrote to stderr."""
        return self._process.tail

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[TransportStreams]:
        """Return the streams for the SDK."""
        yield _Reader(self._process), _Writer(self._process)


class _ChildStream:
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


class _Reader(_ChildStream):
    """Messages of a child. Lines that are none are stored with what it wrote to stderr."""

    async def receive(self) -> SessionMessage:
        while (line := await self._process.line()) is not None:
            try:
                return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
            except ValueError:
                self._process.add_to_tail(line[:TAIL])
        raise anyio.EndOfStream

    def __aiter__(self) -> ReadStream[SessionMessage]:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class _Writer(_ChildStream):
    """Messages to a child."""

    async def send(self, item: SessionMessage, /) -> None:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            await self._process.write(text.encode() + b"\n")
        except PipeClosed:
            raise anyio.BrokenResourceError from None


NOT_DELIVERED = -32019
"""The code of our own error for a request that the server did not receive."""

FAILED = -32018
"""The code of our own error for a failed request that the server may have received."""

_MARK = token_hex(16)
"""Marks our own errors, so that no server can claim that it did not receive a request."""

CONNECT_TIMEOUT = 10.0
WRITE_TIMEOUT = 60.0
"""Seconds. For an answer, nobody waits less long than the call may take."""


def is_undelivered(code: int, data: object) -> bool:
    """Return whether an error is our own for a request that the server did not receive."""
    return code == NOT_DELIVERED and data == _MARK


class HttpLink:
    """Streamable HTTP."""

    tail = ""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self.over: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[TransportStreams]:
        """Return the streams for the SDK."""
        async with (
            _HttpClient(self._server, self.lose) as client,
            streamable_http_client(
                self._server.url or "", http_client=client, max_sse_event_size=LONGEST_LINE
            ) as streams,
        ):
            yield streams
        self.lose("was closed")

    def lose(self, why: str) -> None:
        """Mark the link as over."""
        if not self.over.done():
            self.over.set_result(why)


class _HttpClient(httpx2.AsyncClient):
    """Send requests, and convert failures to JSON-RPC error responses."""

    def __init__(self, server: McpServer, lose: Callable[[str], None]) -> None:
        timeout = httpx2.Timeout(None, connect=CONNECT_TIMEOUT, write=WRITE_TIMEOUT)
        super().__init__(headers=dict(server.headers), timeout=timeout)
        self._lose = lose

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request. Network errors are not raised, but returned as responses."""
        try:
            response = await super().send(request, **options)
            if _is_json(response):
                await response.aread()
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as exc:
            why = f"can't be reached ({_text_of(exc)})"
            if (
                request.method == "GET"
            ):  # the stream that is always open: nobody waits for an answer
                self._lose(why)
            return _failure(request, 503, NOT_DELIVERED, why)
        except httpx2.TransportError as exc:
            return _failure(request, 502, FAILED, f"lost the connection ({_text_of(exc)})")
        if response.status_code < 400 or request.method == "GET":
            return response
        if _is_json(response) and not _is_forgotten(request, response):
            return response  # the server's own JSON-RPC error
        await response.aclose()
        return _refused(request, response)


def _refused(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    status = response.status_code
    status_line = f"{status} {response.reason_phrase}".strip()
    if _is_forgotten(request, response):
        return _failure(request, 404, NOT_DELIVERED, f"has forgotten the session ({status_line})")
    hint = "; put what it wants in `headers`" if status in (401, 403) else ""
    return _failure(request, status, FAILED, f"answered {status_line}{hint}")


def _is_forgotten(request: httpx2.Request, response: httpx2.Response) -> bool:
    """Return whether the server refused a request because it does not know the session, so ran nothing."""
    return response.status_code == 404 and "mcp-session-id" in request.headers


def _failure(request: httpx2.Request, status: int, code: int, why: str) -> httpx2.Response:
    if request.method == "DELETE":  # the session is to be forgotten: so it is
        return httpx2.Response(204, request=request)
    error: dict[str, Any] = {"code": code, "message": why, "data": _MARK}
    return httpx2.Response(
        status, request=request, json={"jsonrpc": "2.0", "id": None, "error": error}
    )


def _is_json(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").lower().startswith("application/json")


def _text_of(exc: Exception) -> str:
    return str(exc).strip() or type(exc).__name__
