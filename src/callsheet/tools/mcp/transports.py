"""Connect to a server: a child process and its pipes, or streamable HTTP.

A link provides the two streams that the MCP SDK uses. Its `over` is done when no more messages can
arrive. This file and `connection` need the SDK, which takes most of a second to import; they are imported
when the first server is opened.

The SDK has a stdio client of its own. Ours is there because a server runs under a keeper, like any command
(`callsheet.processes`): so nothing of it is left, even if we are killed, and its exit code and last words on
stderr can be reported. Also, its lines are bounded, and what it prints beside messages does no harm.

Over HTTP, the SDK lets one failed request end the whole connection, and every call with it. So failures are
converted to responses here: an error for the one request that failed, which states whether the server may
have received it.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from inspect import signature
from secrets import token_hex
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types.jsonrpc import jsonrpc_message_adapter

from callsheet.processes.process import Process
from callsheet.tools.mcp.config import McpServer, ServerFault

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

LONGEST_LINE = 32 << 20
"""Maximum size of one message in bytes."""

TAIL = 4096
"""Bytes that are stored of what a server wrote to stderr."""

GRACE = 1.0
"""Seconds that a server has to exit when its stdin is closed, and again after TERM."""

SETTLE = 0.3
"""Seconds in which a process that ends is expected to have closed its stdout, and the other way."""

_INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "TMPDIR", "TZ")


class PipeLink:
    """A child process, its stdin and stdout, and the last of what it wrote to stderr."""

    def __init__(self, server: McpServer, cwd: str) -> None:
        loop = asyncio.get_running_loop()
        self.over: asyncio.Future[str] = loop.create_future()
        """Done when no more messages can arrive; its result is the reason."""
        self._server: McpServer = server
        self._cwd: str = server.cwd or cwd
        self._tail: bytearray = bytearray()
        self._closed: asyncio.Future[str] = loop.create_future()
        """Done when the child has closed a pipe; its result names it."""
        self._process: Process
        self._stdin: asyncio.StreamWriter
        self._stdout: asyncio.StreamReader
        self._pipe: asyncio.ReadTransport

    @property
    def is_over(self) -> bool:
        """Whether the child can't answer any more, also if the event loop has not noticed yet."""
        if self.over.done() or self._pipe.is_closing():
            return True
        poll = select.poll()
        poll.register(self._pipe.get_extra_info("pipe"), 0)  # the end of a pipe is reported always
        return bool(poll.poll(0))

    @property
    def tail(self) -> str:
        """The last of what the child wrote to stderr, and to stdout beside messages."""
        return self._tail.decode("utf-8", "replace").strip()

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[TransportStreams]:
        """Start the child, and return the streams for the SDK. Leaving this ends the child.

        Raises:
            ServerFault: The child can't be started.
        """
        received, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, to_send = anyio.create_memory_object_stream[SessionMessage](0)

        async def receive() -> None:
            while line := await self._line():
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:  # something that it prints beside messages
                    self._add_to_tail(line[:TAIL] if line.strip() else b"")
                else:
                    await received.send(SessionMessage(message))
            self._note_close("closed its stdout")
            await self.over  # so that it is known why when the SDK sees the end
            received.close()

        async def send() -> None:
            with suppress(ConnectionError):
                async for item in to_send:
                    text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                    self._stdin.write(text.encode() + b"\n")
                    await self._stdin.drain()
            self._note_close("closed its stdin")

        async with (
            received, read, write, to_send, self._running(), anyio.create_task_group() as tasks
        ):  # fmt: skip
            for work in (receive, send, self._watch):
                tasks.start_soon(work)
            try:
                yield read, write
            finally:
                tasks.cancel_scope.cancel()

    @asynccontextmanager
    async def _running(self) -> AsyncGenerator[None]:
        loop = asyncio.get_running_loop()
        stdin, stdout = self._start()
        try:
            self._stdout = asyncio.StreamReader(LONGEST_LINE)
            reading = asyncio.StreamReaderProtocol(self._stdout)
            self._pipe, _ = await loop.connect_read_pipe(lambda: reading, stdout)
            writing = asyncio.StreamReaderProtocol(asyncio.StreamReader())
            transport, _ = await loop.connect_write_pipe(lambda: writing, stdin)
            self._stdin = asyncio.StreamWriter(transport, writing, None, loop)
            try:
                yield
                self._stdin.close()
                await asyncio.wait({self._process.over}, timeout=GRACE)
            finally:
                self._stdin.transport.abort()
                self._pipe.close()
        finally:
            self._end("was closed")
            await self._process.end()
            stdin.close()
            stdout.close()

    def _start(self) -> tuple[BinaryIO, BinaryIO]:
        """Start the process, and return our ends of its stdin and stdout."""
        server = self._server
        env = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        (stdin, to_child), (from_child, stdout) = os.pipe(), os.pipe()
        try:
            self._process = Process(
                [server.command or "", *server.args],
                cwd=self._cwd,
                env=env | dict(server.env),
                on_output=self._add_to_tail,
                stdin=stdin,
                stdout=stdout,
                grace=GRACE,
            )
            self._process.start()
        except (OSError, ValueError) as exc:
            os.close(to_child)
            os.close(from_child)
            raise ServerFault(f"can't be started: {self._why_not(exc)}") from None
        finally:
            os.close(stdin)
            os.close(stdout)
        return os.fdopen(to_child, "wb", buffering=0), os.fdopen(from_child, "rb", buffering=0)

    async def _line(self) -> bytes:
        """Return the next line; nothing at the end, or if it is too long."""
        try:
            return await self._stdout.readline()
        except ValueError:
            self._end(f"sent a message of more than {LONGEST_LINE >> 20} MB")
            return b""

    async def _watch(self) -> None:
        """Wait for the end of the process or of a pipe, and for a moment also for the other one."""
        ends = {self._process.over, self._closed}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait(ends, timeout=SETTLE)
        self._end(self._exit_text() if self._process.over.done() else self._closed.result())

    def _exit_text(self) -> str:
        process = self._process
        if process.failure is not None:
            return f"can't be started: {self._why_not(process.failure)}"
        if process.ended is None:
            return "was killed"
        code, sign = process.ended.exit_code, process.ended.signal
        return f"exited with code {code}" if sign is None else f"was killed by {sign}"

    def _why_not(self, exc: Exception) -> str:
        if not isinstance(exc, OSError):
            return str(exc)
        if exc.filename == self._cwd:
            return f"its directory {self._cwd}: {exc.strerror}"
        if isinstance(exc, FileNotFoundError) and exc.filename == self._server.command:
            return f"there is no program {self._server.command!r}"
        return exc.strerror or str(exc)

    def _add_to_tail(self, data: bytes) -> None:
        self._tail += data
        del self._tail[:-TAIL]

    def _note_close(self, what: str) -> None:
        if not self._closed.done():
            self._closed.set_result(what)

    def _end(self, why: str) -> None:
        if not self.over.done():
            self.over.set_result(why)


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
        """Done when no more messages can arrive; its result is the reason."""

    @property
    def is_over(self) -> bool:
        """Whether no more messages can arrive."""
        return self.over.done()

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[TransportStreams]:
        """Return the streams for the SDK."""
        # Before 2.3, the SDK leaves the size of an event to httpx2.
        known = "max_sse_event_size" in signature(streamable_http_client).parameters
        size: Any = {"max_sse_event_size": LONGEST_LINE} if known else {}
        url = self._server.url or ""
        async with (
            _HttpClient(self._server, self._lose) as client,
            streamable_http_client(url, http_client=client, **size) as streams,
        ):
            yield streams
        self._lose("was closed")

    def _lose(self, why: str) -> None:
        if not self.over.done():
            self.over.set_result(why)


Link: TypeAlias = PipeLink | HttpLink


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
            if request.method == "GET":  # the stream that is always open: nobody awaits an answer
                self._lose(why)
            return _failure(request, 503, NOT_DELIVERED, why)
        except httpx2.TransportError as exc:
            return _failure(request, 502, FAILED, f"lost the connection ({_text_of(exc)})")
        status = response.status_code
        if status < 400 or request.method == "GET":
            return response
        # A server that does not know the session has run nothing.
        is_forgotten = status == 404 and "mcp-session-id" in request.headers
        if _is_json(response) and not is_forgotten:
            return response  # the server's own JSON-RPC error
        await response.aclose()
        line = f"{status} {response.reason_phrase}".strip()
        if is_forgotten:
            return _failure(request, 404, NOT_DELIVERED, f"has forgotten the session ({line})")
        hint = "; put what it wants in `headers`" if status in (401, 403) else ""
        return _failure(request, status, FAILED, f"answered {line}{hint}")


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
