"""A server over its whole life: its tools as it tells them, and a new connection when the old one ended.

No call is sent twice. Only one that the server can't have got is sent again, over a new connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callsheet.tools.errors import IOFailed

from .config import McpServer
from .connection import Connection
from .faults import Lost, NotDelivered, ServerFault, StartFailed

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import CallToolResult, Tool


class Server:
    """One server. `tools` are the ones that it has told of last."""

    def __init__(
        self, config: McpServer, cwd: str, roots: Sequence[Path], on_change: Callable[[], None]
    ) -> None:
        self.config = config
        self.tools: Sequence[Tool] = ()
        self.problem: str | None = None
        self._cwd = cwd
        self._roots = roots
        self._on_change = on_change
        self._connection: Connection | None = None
        self._connections: list[Connection] = []
        self._is_stale = False
        self._refreshing: asyncio.Task[None] | None = None
        self._is_closed = False

    async def start(self) -> None:
        """Start it. What goes wrong is in `problem`."""
        try:
            await self._connected()
        except StartFailed as exc:
            self.problem = f"{self.config} {exc}"

    async def call(
        self, tool: str, arguments: dict[str, Any], on_progress: ProgressFnT
    ) -> CallToolResult:
        """Call a tool. If the server has gone, it is started first. Raises a `ToolError`."""
        try:
            connection = await self._connected()
            try:
                return await connection.call(tool, arguments, on_progress)
            except NotDelivered as exc:
                connection.lose(str(exc))
                connection = await self._connected()
                return await connection.call(tool, arguments, on_progress)
        except Lost as exc:
            raise IOFailed(
                f"The call of {tool!r} was lost, since {self.config} {exc}", mcp_server_lost=True
            ) from None
        except ServerFault as exc:
            raise IOFailed(f"{self.config} {exc}", mcp_server_lost=True) from None

    async def _connected(self) -> Connection:
        """Return a connection that can be used. Everybody who needs a new one waits for the same."""
        if self._is_closed:
            raise StartFailed("was closed with its session")
        connection = self._connection
        if connection is None or connection.is_over:
            connection = Connection(self.config, self._cwd, self._roots, self._refresh_soon)
            self._connection = connection
            self._connections = [old for old in self._connections if not old.is_gone]
            self._connections.append(connection)
        self._take(await connection.ready())
        self.problem = None
        return connection

    async def close(self) -> None:
        """End the server. Nothing of it is left."""
        self._is_closed = True
        if self._refreshing is not None:
            self._refreshing.cancel()
        await asyncio.gather(*[connection.close() for connection in self._connections])

    # The tools

    def _take(self, tools: Sequence[Tool]) -> None:
        if list(tools) != list(self.tools):
            self.tools = tools
            self._on_change()

    def _refresh_soon(self) -> None:
        """Ask for the tools again. However often they change meanwhile, one at a time is asked."""
        self._is_stale = True
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh())

    async def _refresh(self) -> None:
        while self._is_stale and self._connection is not None:
            self._is_stale = False
            try:
                self._take(await self._connection.list_tools())
            except ServerFault as exc:
                self.problem = f"{self.config} did not tell its tools again: it {exc}"
