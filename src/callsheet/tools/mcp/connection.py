"""One connection to a server, from the handshake to its end: MCP, spoken over a transport.

A connection is never repaired: `Server` (in `servers`) makes another one when a call needs it. Every request
ends when its connection does.

Transports send messages, and pass on what the server sends to `receive`: `stdio_transport` through the pipes
of a child, `http_transport` over streamable HTTP. Their `send` raises `NotDelivered` if the server surely did
not get the message, and `ServerFault` if there will be no answer. No SDK is involved: of MCP's many messages,
tools need these few, and one client serves whatever version of the SDK an application brings.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import Context
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from callsheet import __version__
from callsheet.acp.jsonrpc import (
    Message,
    Notification,
    Request,
    Response,
    UnknownMethod,
    decode_line,
    to_json,
)
from callsheet.report.json import EMPTY, JsonObject, is_object
from callsheet.tools.errors import (
    ExecutionFailed,
    InvalidArguments,
    IOFailed,
    NotFound,
    TimedOut,
    ToolError,
)
from callsheet.tools.mcp.config import STATELESS, McpServer, NotDelivered, ServerFault
from callsheet.tools.mcp.stdio_transport import StdioTransport

if TYPE_CHECKING:
    from callsheet.tools.mcp.http_transport import HttpTransport

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The versions of MCP with a handshake, newest first."""

_MOST_PAGES = 1000
_MOST_UNREAD = 1000
"""Messages that nobody waits for, and that the server has not read yet."""

_METHOD_NOT_FOUND = -32601
_NO_HANDSHAKE = (_METHOD_NOT_FOUND, -32022)  # the method or the version is not supported
_ERRORS: dict[int, type[ToolError]] = {
    -32602: InvalidArguments,
    _METHOD_NOT_FOUND: NotFound,
    -32001: TimedOut,
}
_CLIENT: JsonObject = {"name": "callsheet", "version": __version__}
_CAPABILITIES: JsonObject = {"roots": {}}

OnProgress: TypeAlias = Callable[[object, object, object], None]
"""Receives how much is done, of how much, and a message, unchecked."""

T = TypeVar("T")


class DeclaredTool(Struct, frozen=True, rename="camel"):
    """A tool, as its server declares it."""

    name: str
    input_schema: JsonObject
    title: str | None = None
    description: str | None = None
    annotations: JsonObject | None = None


class _ToolPage(Struct, rename="camel"):
    tools: list[DeclaredTool]
    next_cursor: str | None = None


class _Greeting(Struct, rename="camel"):
    protocol_version: str


class _Refusal(ServerFault):
    """The server answered a request with an error."""

    def __init__(self, error: JsonObject) -> None:
        self.code: int = error["code"]
        self.text: str = error["message"] or "an error without a message"
        super().__init__(f"answered: {self.text}")


class ServerConnection:
    """A connection. Creating one starts to connect; `ready` waits for it."""

    def __init__(
        self, server: McpServer, cwd: str, roots: Sequence[Path], on_change: Callable[[], None]
    ) -> None:
        self._server = server
        self._cwd = cwd
        self._roots = roots
        self._on_change = on_change
        self._transport: StdioTransport | HttpTransport | None = None
        self._meta: JsonObject = {}
        self._last_id: int = 0
        self._waiting: dict[object, tuple[asyncio.Future[Any], OnProgress | None]] = {}
        self._end: str | None = None
        self._notes: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None
        # Not in the context of the call that happens to need the connection: it outlives the call.
        self._opening = asyncio.create_task(
            self._open(), name=f"callsheet {server}", context=Context()
        )
        self._opening.add_done_callback(_retrieve)

    @property
    def is_over(self) -> bool:
        """Whether the connection can no longer be used."""
        has_ended = self._transport is not None and self._transport.is_over
        return self._end is not None or (self._opening.done() and has_ended)

    @property
    def is_gone(self) -> bool:
        """Whether the connection is completely cleaned up."""
        return self._closing is not None and self._closing.done()

    @property
    def why(self) -> str:
        """Why the connection ended, and the last that the server wrote to stderr."""
        tail = "" if self._transport is None else self._transport.tail
        why = self._end or "is not connected"
        return f"{why}. The last that it wrote:\n{tail}" if tail else why

    async def ready(self) -> list[DeclaredTool]:
        """Wait for the handshake, and return the server's tools. Raise `ServerFault` if it fails."""
        await asyncio.wait({self._opening})
        if self._opening.cancelled():  # before it began
            raise ServerFault(self.why)
        return self._opening.result()

    def lose(self, why: str) -> None:
        """Mark the connection as ended, which ends all its calls."""
        if self._end is not None:
            return
        self._end = why
        for answer, _ in self._waiting.values():
            if not answer.done():
                answer.set_exception(ServerFault(self.why))
        self._closing = asyncio.create_task(self._clean_up())

    async def close(self) -> None:
        """End the connection, and wait until it is cleaned up."""
        self._opening.cancel()
        await asyncio.wait({self._opening})
        self.lose("was closed")
        assert self._closing is not None
        await asyncio.wait({self._closing})

    async def _clean_up(self) -> None:
        for task in self._notes:
            task.cancel()
        if self._transport is not None:
            await self._transport.close()

    # The handshake, and the tools

    async def _open(self) -> list[DeclaredTool]:
        try:
            async with asyncio.timeout(self._server.start_timeout):
                transport = await self._connect()
                await self._greet(transport)
                return await self.list_tools()
        except TimeoutError:
            self.lose(f"did not start within {self._server.start_timeout:g} seconds")
        except ServerFault as exc:
            self.lose(str(exc))
        except asyncio.CancelledError:
            self.lose("was closed")
        except Exception as exc:  # noqa: BLE001 - whoever waits gets it
            self.lose(f"can't be spoken with: {str(exc).strip() or type(exc).__name__}")
        raise ServerFault(self.why)

    async def _connect(self) -> StdioTransport | HttpTransport:
        if self._server.command is not None:
            transport = StdioTransport(self._server, self._cwd, self._receive, self.lose)
        else:
            # In a thread, because that takes a while.
            http = await asyncio.to_thread(import_module, "callsheet.tools.mcp.http_transport")
            transport = http.HttpTransport(self._server, self._receive, self.lose)
        self._transport = transport
        await transport.start()
        return transport

    async def _greet(self, transport: StdioTransport | HttpTransport) -> None:
        # The older handshake first: every server knows it, or refuses it in a known way. Some servers end
        # at once if the newer one is the first that they read.
        about: JsonObject = {"capabilities": _CAPABILITIES, "clientInfo": _CLIENT}
        try:
            given = await self._request("initialize", {"protocolVersion": VERSIONS[0], **about})
        except _Refusal as exc:
            if exc.code not in _NO_HANDSHAKE:
                raise
            key = "io.modelcontextprotocol/"
            self._meta = {f"{key}{name}": value for name, value in (
                ("protocolVersion", STATELESS), ("clientInfo", _CLIENT), ("clientCapabilities", {}),
            )}  # fmt: skip
            transport.version = STATELESS
            await self._request("server/discover", {})
            return
        version = self._converted(given, _Greeting).protocol_version
        if version not in VERSIONS:
            raise ServerFault(f"speaks version {version!r} of MCP, which is not known here")
        transport.version = version
        await self._send(transport, Notification("notifications/initialized"))
        transport.listen()

    async def list_tools(self) -> list[DeclaredTool]:
        """Request the tools. Raise `ServerFault` if that fails."""
        tools: list[DeclaredTool] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            try:
                answer = await self._request("tools/list", {"cursor": cursor} if cursor else {})
            except _Refusal as exc:
                if exc.code == _METHOD_NOT_FOUND and cursor is None:
                    return []
                raise
            page = self._converted(answer, _ToolPage)
            tools += page.tools
            if not page.next_cursor or page.next_cursor == cursor:
                break
            cursor = page.next_cursor
        return tools

    def _converted(self, given: object, kind: type[T]) -> T:
        try:
            return msgspec.convert(given, kind)
        except msgspec.ValidationError as exc:
            raise ServerFault(f"does not speak MCP as it should: {exc}") from None

    # Requests

    async def call(
        self, tool: str, arguments: JsonObject, on_progress: OnProgress, meta: JsonObject = EMPTY
    ) -> object:
        """Call a tool, once, and return the server's result. If this is cancelled, the server is notified.

        `meta` is the trace context that the server's own spans are part of.

        Raises:
            ToolError: The call failed, or the connection ended during the call.
            NotDelivered: The server did not receive the request.
        """
        if self.is_over:
            raise NotDelivered(self.why)
        params = {"name": tool, "arguments": arguments}
        try:
            result = await self._request("tools/call", params, on_progress, meta)
        except _Refusal as exc:
            kind = _ERRORS.get(exc.code, ExecutionFailed)
            raise kind(f"{self._server}: {exc.text}", mcp_code=exc.code) from None
        except NotDelivered:
            raise
        except ServerFault as exc:
            why = f"The call of {tool!r} was lost, since {self._server} {exc}"
            raise IOFailed(why, mcp_server_lost=True) from None
        except (TypeError, ValueError, RecursionError) as exc:
            raise InvalidArguments(f"arguments: they can't be sent as JSON: {exc}") from None
        if is_object(result) and result.get("resultType") == "input_required":
            raise ExecutionFailed(f"{self._server} asks for more input, which can't be given here")
        return result

    async def _request(
        self,
        method: str,
        params: JsonObject,
        on_progress: OnProgress | None = None,
        meta: JsonObject = EMPTY,
    ) -> Any:
        """Send a request, and return the result of its response."""
        transport = self._transport
        if self._end is not None or transport is None:
            raise NotDelivered(self.why)
        self._last_id += 1
        key = self._last_id
        meta = {**self._meta, **meta}
        if on_progress is not None:
            meta["progressToken"] = key
        request = Request(key, method, {**params, "_meta": meta} if meta else params)
        sending = asyncio.create_task(self._send(transport, request))
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[key] = answer, on_progress
        sending.add_done_callback(partial(_pass_failure, answer))
        try:
            return await answer
        except asyncio.CancelledError:
            if transport.version != STATELESS or isinstance(transport, StdioTransport):
                self._post(Notification("notifications/cancelled", {"requestId": key}))
            raise
        finally:
            del self._waiting[key]
            sending.cancel()

    def _send(
        self, transport: StdioTransport | HttpTransport, message: Message
    ) -> Coroutine[Any, Any, None]:
        data = json.dumps(to_json(message), ensure_ascii=False, allow_nan=False).encode()
        return transport.send(message, data)

    def _post(self, message: Message) -> None:
        """Send a message that nobody waits for."""
        if self._transport is None or self._end is not None:
            return
        if len(self._notes) >= _MOST_UNREAD:
            self.lose("reads nothing of what is sent to it")
            return
        task = asyncio.create_task(self._send(self._transport, message))
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)
        task.add_done_callback(_retrieve)

    # What the server sends

    def _receive(self, data: bytes | str, key: int | None = None) -> Message | None:
        """Handle a message, and return it; None if it is none. `key` is the request that it answers."""
        message = decode_line(data)
        if isinstance(message, Response):
            answer, _ = self._waiting.get(message.id if key is None else key, (None, None))
            if answer is None or answer.done():
                pass  # it was cancelled
            elif message.error is not None:
                answer.set_exception(_Refusal(message.error))
            else:
                answer.set_result(message.result)
        elif isinstance(message, Notification):
            with suppress(Exception):  # nobody waits for an answer
                self._note(message)
        elif isinstance(message, Request):
            self._post(self._answer(message))
        return message if isinstance(message, Message) else None

    def _note(self, message: Notification) -> None:
        params = message.params if is_object(message.params) else {}
        if message.method == "notifications/tools/list_changed":
            self._on_change()
        elif message.method == "notifications/progress":
            token = params.get("progressToken")
            _, on_progress = self._waiting.get(token if type(token) is int else None, (None, None))
            if on_progress is not None:
                on_progress(params.get("progress"), params.get("total"), params.get("message"))

    def _answer(self, request: Request) -> Response:
        """Answer a request of the server. Sampling and elicitation are declined."""
        if request.method == "ping":
            return Response(request.id, {})
        if request.method == "roots/list":
            roots = [{"uri": root.as_uri(), "name": root.name} for root in self._roots]
            return Response(request.id, {"roots": roots})
        return Response(request.id, error=UnknownMethod(request.method).to_error())


def _pass_failure(answer: asyncio.Future[Any], sending: asyncio.Task[None]) -> None:
    """Let a request fail that could not be sent."""
    if not sending.cancelled() and (exc := sending.exception()) and not answer.done():
        answer.set_exception(exc)


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Retrieve a task's exception, so that asyncio does not log it if nobody waits any more."""
    if not task.cancelled():
        task.exception()
