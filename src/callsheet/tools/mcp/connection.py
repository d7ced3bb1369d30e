"""One connection to a server, from the handshake to its end, spoken by the SDK.

A connection is never repaired: `Server` (in `servers`) makes another one when a call needs it. The SDK's
contexts must be left by the task that entered them, so each connection has a task that owns them, and calls
are made from other tasks. Every call ends when its connection does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import Context
from pathlib import Path
from typing import Any, cast

import mcp_types as types
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from pydantic import FileUrl, TypeAdapter, ValidationError

from callsheet import __version__
from callsheet.tools.errors import (
    ExecutionFailed,
    InvalidArguments,
    IOFailed,
    NotFound,
    TimedOut,
    ToolError,
)
from callsheet.tools.mcp.config import McpServer, NotDelivered, ServerFault
from callsheet.tools.mcp.transports import (
    FAILED,
    NOT_DELIVERED,
    HttpLink,
    Link,
    PipeLink,
    is_undelivered,
)

ABANDON = 0.5
"""Seconds to wait for a cancellation to be sent to a server."""

LAST_WORDS = 0.2
"""Seconds in which a response that arrived just before the end is still accepted."""

_MOST_PAGES = 1000
_NO_HANDSHAKE = (types.METHOD_NOT_FOUND, types.UNSUPPORTED_PROTOCOL_VERSION)
_ANSWER: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)
_ERRORS: dict[int, Callable[..., ToolError]] = {
    types.INVALID_PARAMS: InvalidArguments,
    types.METHOD_NOT_FOUND: NotFound,
    types.REQUEST_TIMEOUT: TimedOut,
    types.CONNECTION_CLOSED: IOFailed,
    FAILED: IOFailed,
}


class ServerConnection:
    """A connection. Creating one starts to connect; `ready` waits for it."""

    def __init__(
        self, server: McpServer, cwd: str, roots: Sequence[Path], on_change: Callable[[], None]
    ) -> None:
        loop = asyncio.get_running_loop()
        self._server = server
        self._roots = roots
        self._on_change = on_change
        self._link: Link = HttpLink(server) if server.command is None else PipeLink(server, cwd)
        self._session: ClientSession | None = None
        self._ready: asyncio.Future[Sequence[types.Tool]] = loop.create_future()
        self._end: asyncio.Future[str] = loop.create_future()
        self._abandoned: set[asyncio.Task[Any]] = set()
        # Not in the context of the call that happens to need the connection: it outlives the call.
        self._owner = asyncio.create_task(
            self._own(), name=f"callsheet {server}", context=Context()
        )
        self._owner.add_done_callback(lambda _: self._fail("was closed"))  # if it never began

    @property
    def is_over(self) -> bool:
        """Whether the connection can no longer be used."""
        is_open = self._session is not None and not self._end.done()
        return self._link.is_over if is_open else self._end.done()

    @property
    def is_gone(self) -> bool:
        """Whether the connection is completely cleaned up."""
        return self._owner.done() and not self._abandoned

    async def ready(self) -> Sequence[types.Tool]:
        """Wait for the handshake, and return the server's tools. Raise `ServerFault` if it fails."""
        return await asyncio.shield(self._ready)

    def lose(self, why: str) -> None:
        """Mark the connection as ended, which ends all its calls."""
        if not self._end.done():
            self._end.set_result(why)

    async def close(self) -> None:
        """End the connection, and wait until it is cleaned up."""
        self.lose("was closed")
        if not self._ready.done():
            self._owner.cancel()
        await asyncio.wait({self._owner, *self._abandoned})

    @property
    def why(self) -> str:
        """Why the connection ended, and the last that the server wrote to stderr."""
        why = self._end.result() if self._end.done() else "is not connected"
        return f"{why}. The last that it wrote:\n{self._link.tail}" if self._link.tail else why

    # The task that owns it

    async def _own(self) -> None:
        deadline = asyncio.timeout(self._server.start_timeout)
        try:
            async with deadline, self._link.streams() as (read, write):
                self._link.over.add_done_callback(lambda _: self._note_end())
                async with ClientSession(
                    read,
                    write,
                    list_roots_callback=self._list_roots,
                    message_handler=self._on_message,
                    client_info=types.Implementation(name="callsheet", version=__version__),
                ) as session:
                    try:
                        tools = await self._greet(session)
                    except BaseException as exc:  # before the cleanup, which takes a while
                        self._fail(self._why_not(exc, timed_out=deadline.expired()))
                        raise
                    deadline.reschedule(None)
                    self._session = session
                    self._ready.set_result(tools)
                    await asyncio.shield(self._end)
        except (Exception, asyncio.CancelledError) as exc:  # noqa: BLE001 - whoever waits gets it
            self._fail(self._why_not(exc, timed_out=deadline.expired()))
        finally:
            self.lose("was closed")

    def _note_end(self) -> None:
        if self._link.over.done():
            self.lose(self._link.over.result())

    def _fail(self, why: str) -> None:
        self.lose(why)
        if not self._ready.done():
            self._ready.set_exception(ServerFault(self.why))
            self._ready.exception()  # retrieved, also if nobody waits

    def _why_not(self, exc: BaseException, *, timed_out: bool) -> str:
        while isinstance(exc, BaseExceptionGroup):  # the SDK's task groups wrap exceptions
            exc = cast("BaseExceptionGroup[BaseException]", exc).exceptions[0]
        if timed_out:
            return f"did not start within {self._server.start_timeout:g} seconds"
        if isinstance(exc, ServerFault):
            return str(exc)
        if isinstance(exc, asyncio.CancelledError):
            return "was closed"
        return f"can't be spoken with: {str(exc).strip() or type(exc).__name__}"

    async def _list_roots(self, context: ClientRequestContext) -> types.ListRootsResult:  # noqa: ARG002
        return types.ListRootsResult(
            roots=[types.Root(uri=FileUrl(root.as_uri()), name=root.name) for root in self._roots]
        )

    async def _on_message(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._on_change()

    # The handshake, and the tools

    async def _greet(self, session: ClientSession) -> list[types.Tool]:
        # The older handshake first: every server knows it, or refuses it in a known way. Some servers end
        # at once if the newer one is the first that they read.
        with self._server_faults():
            try:
                await session.initialize()
            except MCPError as exc:
                if exc.code not in _NO_HANDSHAKE or self._link.over.done():
                    raise
                await session.discover()
        return await self._list(session)

    async def list_tools(self) -> Sequence[types.Tool]:
        """Request the tools again. Raise `ServerFault` if that fails."""
        return [] if self._session is None else await self._list(self._session)

    async def _list(self, session: ClientSession) -> list[types.Tool]:
        tools: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            with self._server_faults():
                try:
                    page = await session.list_tools(params=params)
                except MCPError as exc:
                    if exc.code == types.METHOD_NOT_FOUND and cursor is None:
                        return []
                    raise
            tools += page.tools
            if not page.next_cursor or page.next_cursor == cursor:
                break
            cursor = page.next_cursor
        return tools

    @contextmanager
    def _server_faults(self) -> Generator[None]:
        try:
            yield
        except MCPError as exc:
            if self._link.over.done():
                raise ServerFault(self._link.over.result()) from None
            own = exc.code in (NOT_DELIVERED, FAILED)
            raise ServerFault(exc.message if own else f"answered: {exc.message}") from None
        except ValidationError as exc:
            raise ServerFault(f"does not speak MCP as it should: {_first(exc)}") from None
        except RuntimeError as exc:  # a version that the SDK does not know
            raise ServerFault(f"can't be spoken with: {exc}") from None

    # Calls

    async def call(
        self, tool: str, arguments: dict[str, Any], on_progress: ProgressFnT
    ) -> types.CallToolResult:
        """Call a tool, once. If this is cancelled, the server is notified.

        Raises:
            ToolError: The call failed, or the connection ended during the call.
            NotDelivered: The server did not receive the request.
        """
        if self._session is None or self.is_over:
            raise NotDelivered(self.why)
        asking = asyncio.create_task(self._ask(self._session, tool, arguments, on_progress))
        asking.add_done_callback(_retrieve)
        try:
            await asyncio.wait({asking, self._end}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                await asyncio.wait({asking}, timeout=LAST_WORDS)
            self._note_end()
            if self._end.done() and (not asking.done() or isinstance(asking.exception(), IOFailed)):
                why = f"The call of {tool!r} was lost, since {self._server} {self.why}"
                raise IOFailed(why, mcp_server_lost=True)
            return asking.result()
        finally:
            if not asking.done():
                self._abandoned.add(asking)
                asking.add_done_callback(self._abandoned.discard)
                asking.cancel()
                await asyncio.wait({asking}, timeout=ABANDON)

    async def _ask(
        self,
        session: ClientSession,
        tool: str,
        arguments: dict[str, Any],
        on_progress: ProgressFnT,
    ) -> types.CallToolResult:
        try:  # over HTTP, arguments that can't be encoded would end the connection for all calls
            json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError) as exc:
            raise InvalidArguments(f"arguments: they can't be sent as JSON: {exc}") from None
        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=tool, arguments=arguments)
        )
        try:
            answer = await session.send_request(request, _ANSWER, progress_callback=on_progress)
        except MCPError as exc:
            raise self._error(exc) from None
        except ValidationError as exc:
            raise ExecutionFailed(
                f"{self._server} gave a result that is not as MCP has it: {_first(exc)}"
            ) from None
        if isinstance(answer, types.InputRequiredResult):
            raise ExecutionFailed(f"{self._server} asks for more input, which can't be given here")
        return answer

    def _error(self, exc: MCPError) -> Exception:
        if is_undelivered(exc.code, exc.error.data):
            return NotDelivered(exc.message)
        message = exc.message or "an error without a message"
        if exc.code == types.CONNECTION_CLOSED:
            message = f"the connection was lost ({message})"
        kind = _ERRORS.get(exc.code, ExecutionFailed)
        return kind(f"{self._server}: {message}", mcp_code=exc.code)


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Retrieve a task's exception, so that asyncio does not log it if nobody waits any more."""
    if not task.cancelled():
        task.exception()


def _first(exc: ValidationError) -> str:
    """Return the first error."""
    first = exc.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
