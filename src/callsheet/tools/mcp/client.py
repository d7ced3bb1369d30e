"""The MCP protocol with a server, by the SDK: handshake, listing tools, calling one; and its errors as ours.

This file and `transports` need the SDK, which takes most of a second to import. They are imported when the
first server is opened.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from pydantic import FileUrl, TypeAdapter, ValidationError

from callsheet.tools.errors import (
    ExecutionFailed,
    InvalidArguments,
    IOFailed,
    NotFound,
    TimedOut,
    ToolError,
)
from callsheet.tools.mcp.connection import NotDelivered, StartFailed
from callsheet.tools.mcp.transports import (
    FAILED,
    NOT_DELIVERED,
    HttpLink,
    Link,
    PipeLink,
    is_undelivered,
)

from .config import McpServer
from .process import ServerProcess

_MOST_PAGES = 1000
_NO_HANDSHAKE = (types.METHOD_NOT_FOUND, types.UNSUPPORTED_PROTOCOL_VERSION)
_ANSWER: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)


def link_to(server: McpServer, process: ServerProcess | None) -> Link:
    """Return the link to a server: a child's pipes, or HTTP."""
    return HttpLink(server) if process is None else PipeLink(process)


class McpClient:
    """The MCP protocol with one server, over one link."""

    def __init__(self, server: McpServer, link: Link, session: ClientSession) -> None:
        self._server = server
        self._link = link
        self._session = session

    @classmethod
    @asynccontextmanager
    async def over(
        cls, server: McpServer, link: Link, roots: Sequence[Path], on_change: Callable[[], None]
    ) -> AsyncGenerator[McpClient]:
        """Yield a client that uses a link. The same task must enter and leave the context."""

        async def list_roots(context: ClientRequestContext) -> types.ListRootsResult:  # noqa: ARG001
            return types.ListRootsResult(
                roots=[types.Root(uri=FileUrl(root.as_uri()), name=root.name) for root in roots]
            )

        async def on_message(message: object) -> None:
            if isinstance(message, types.ToolListChangedNotification):
                on_change()

        async with (
            link.streams() as (read, write),
            ClientSession(
                read,
                write,
                list_roots_callback=list_roots,
                message_handler=on_message,
                client_info=types.Implementation(name="callsheet", version=_own_version()),
            ) as session,
        ):
            yield cls(server, link, session)

    async def greet(self) -> list[types.Tool]:
        """Perform the handshake, and return the tools."""
        with self._as_start_failures():
            await self._hello()
        return await self.list_tools()

    async def _hello(self) -> None:
        # The older handshake first: every server knows it, or refuses it in a known way. Some servers end
        # at once if the newer one is the first that they read.
        try:
            await self._session.initialize()
        except MCPError as exc:
            if exc.code not in _NO_HANDSHAKE or self._link.over.done():
                raise
            await self._session.discover()

    async def list_tools(self) -> list[types.Tool]:
        """Request all tools, page by page."""
        tools: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            with self._as_start_failures():
                page = await self._page(cursor)
            tools += page.tools
            if not page.next_cursor or page.next_cursor == cursor:
                break
            cursor = page.next_cursor
        return tools

    async def _page(self, cursor: str | None) -> types.ListToolsResult:
        params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
        try:
            return await self._session.list_tools(params=params)
        except MCPError as exc:
            if exc.code == types.METHOD_NOT_FOUND and cursor is None:
                return types.ListToolsResult(tools=[])
            raise

    @contextmanager
    def _as_start_failures(self) -> Generator[None]:
        try:
            yield
        except MCPError as exc:
            if self._link.over.done():
                raise StartFailed(self._link.over.result()) from None
            own = exc.code in (NOT_DELIVERED, FAILED)
            raise StartFailed(exc.message if own else f"answered: {exc.message}") from None
        except ValidationError as exc:
            raise StartFailed(f"does not speak MCP as it should: {_brief(exc)}") from None
        except RuntimeError as exc:  # a version that the SDK does not know
            raise StartFailed(f"can't be spoken with: {exc}") from None

    async def call(
        self, tool: str, arguments: dict[str, Any], on_progress: ProgressFnT
    ) -> types.CallToolResult:
        """Call a tool, once. A cancellation is sent to the server."""
        _check(arguments)
        params = types.CallToolRequestParams(name=tool, arguments=arguments)
        try:
            answer = await self._session.send_request(
                types.CallToolRequest(params=params), _ANSWER, progress_callback=on_progress
            )
        except MCPError as exc:
            raise self._tool_error(exc) from None
        except ValidationError as exc:
            raise ExecutionFailed(
                f"{self._server} gave a result that is not as MCP has it: {_brief(exc)}"
            ) from None
        if isinstance(answer, types.InputRequiredResult):
            raise ExecutionFailed(f"{self._server} asks for more input, which can't be given here")
        return answer

    def _tool_error(self, exc: MCPError) -> Exception:
        if is_undelivered(exc.code, exc.error.data):
            return NotDelivered(exc.message)
        message = exc.message or "an error without a message"
        if exc.code == types.CONNECTION_CLOSED:
            message = f"the connection was lost ({message})"
        return _ERRORS.get(exc.code, ExecutionFailed)(
            f"{self._server}: {message}", mcp_code=exc.code
        )


_ERRORS: dict[int, Callable[..., ToolError]] = {
    types.INVALID_PARAMS: InvalidArguments,
    types.METHOD_NOT_FOUND: NotFound,
    types.REQUEST_TIMEOUT: TimedOut,
    types.CONNECTION_CLOSED: IOFailed,
    FAILED: IOFailed,
}


def _check(arguments: dict[str, Any]) -> None:
    """Raise if the arguments can't be encoded: over HTTP, that would end the connection for all calls."""
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as exc:
        raise InvalidArguments(f"arguments: they can't be sent as JSON: {exc}") from None


def _brief(exc: ValidationError) -> str:
    """Return the first error."""
    first = exc.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _own_version() -> str:
    try:
        return version("callsheet")
    except PackageNotFoundError:
        return "0"
