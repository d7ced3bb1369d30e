"""A server over its whole life, and each of its connections, from the handshake to the end.

A `ServerConnection` is never repaired: `Server` makes another one when a call needs it. The SDK's contexts
must be left by the task that entered them, so each connection has a task that owns them, and calls are made
from other tasks. Every call ends when its connection does.

No call is sent twice. Only one that the server can't have received is sent again, over a new connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from callsheet.report.errors import CallsheetError
from callsheet.tools.errors import IOFailed
from callsheet.tools.mcp.config import McpServer
from callsheet.tools.mcp.process import ServerProcess

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import CallToolResult, Tool

    from callsheet.tools.mcp.client import McpClient
    from callsheet.tools.mcp.transports import Link


class ServerFault(CallsheetError):
    """A server has failed. The message continues its name: "exited with code 1"."""


class StartFailed(ServerFault):
    """A server could not be started, or violates the protocol."""


class Lost(ServerFault):
    """A server was lost during a request, which it may have received."""


class NotDelivered(ServerFault):
    """A server was lost before it received the request, which may be sent again."""


INSTALL = "pip install 'callsheet[mcp]'"


async def prepare() -> None:
    """Import the modules that need the SDK in advance, so that importing them later takes no time.

    Raises:
        StartFailed: The SDK can't be imported.
    """
    await asyncio.to_thread(_import)


def _import() -> None:
    try:
        import_module(".client", __package__)
    except ImportError as exc:
        try:
            found = version("mcp")
        except PackageNotFoundError:
            raise StartFailed(f"needs the package mcp, which is not installed: {INSTALL}") from None
        raise StartFailed(
            f"needs the package mcp from version 2 on; {found} is installed and can't be used ({exc}): "
            f"{INSTALL}"
        ) from None


ABANDON = 0.5
"""Seconds to wait for a cancellation to be sent to a server."""

LAST_WORDS = 0.2
"""Seconds in which a response that arrived just before the end is still accepted."""


class ServerConnection:
    """A connection. Creating one starts to connect; `ready` waits for it."""

    def __init__(
        self,
        server: McpServer,
        cwd: str,
        roots: Sequence[Path],
        on_change: Callable[[], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        self._server = server
        self._cwd = server.cwd or cwd
        self._roots = roots
        self._on_change = on_change
        self._ready: asyncio.Future[Sequence[Tool]] = loop.create_future()
        self._end: asyncio.Future[str] = loop.create_future()
        self._client: McpClient | None = None
        self._link: Link | None = None
        self._process: ServerProcess | None = None
        self._strays: set[asyncio.Task[Any]] = set()
        # Not in the context of the call that happens to need the connection: it outlives the call.
        self._owner = asyncio.create_task(
            self._own(), name=f"callsheet {server}", context=Context()
        )
        self._owner.add_done_callback(lambda _: self._fail("was closed"))  # if it never began

    @property
    def is_over(self) -> bool:
        """Whether the connection can no longer be used."""
        if self._end.done() or self._owner.done():
            return True
        return self._process is not None and self._process.has_exited

    @property
    def is_gone(self) -> bool:
        """Whether the connection is completely cleaned up."""
        return self._owner.done() and not self._strays

    async def ready(self) -> Sequence[Tool]:
        """Wait for the handshake, and return the server's tools. Raise `StartFailed` if it fails."""
        return await asyncio.shield(self._ready)

    async def list_tools(self) -> Sequence[Tool]:
        """Request the tools again."""
        return [] if self._client is None else await self._client.list_tools()

    async def call(
        self, tool: str, arguments: dict[str, Any], on_progress: ProgressFnT
    ) -> CallToolResult:
        """Call a tool, once.

        Raises:
            ToolError: The call failed.
            Lost: The connection ended during the call.
            NotDelivered: The server did not receive the request.
        """
        if self._client is None or self.is_over:
            raise NotDelivered(self.why)
        asking = asyncio.create_task(self._client.call(tool, arguments, on_progress))
        asking.add_done_callback(_retrieve)
        try:
            await asyncio.wait({asking, self._end}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                await asyncio.wait({asking}, timeout=LAST_WORDS)
            self._note_end()
            if self._end.done() and (not asking.done() or isinstance(asking.exception(), IOFailed)):
                raise Lost(self.why)
            return asking.result()
        finally:
            if not asking.done():
                await self._abandon(asking)

    async def _abandon(self, asking: asyncio.Task[Any]) -> None:
        """Cancel a request at the server, and wait at most `ABANDON` seconds for that."""
        self._strays.add(asking)
        asking.add_done_callback(self._strays.discard)
        asking.cancel()
        await asyncio.wait({asking}, timeout=ABANDON)

    def lose(self, why: str) -> None:
        """Mark the connection as ended, which ends all its calls."""
        if not self._end.done():
            self._end.set_result(why)

    def _note_end(self) -> None:
        """Mark the connection as ended if its link has ended."""
        if self._link is not None and self._link.over.done():
            self.lose(self._link.over.result())

    async def close(self) -> None:
        """End the connection, and wait until it is cleaned up."""
        self.lose("was closed")
        if not self._ready.done():
            self._owner.cancel()
        await asyncio.wait({self._owner, *self._strays})

    @property
    def why(self) -> str:
        """Why the connection ended, and the last that the server wrote to stderr."""
        why = self._end.result() if self._end.done() else "is not connected"
        tail = self._link.tail if self._link is not None else ""
        return f"{why}. The last that it wrote:\n{tail}" if tail else why

    # What the owner does

    async def _own(self) -> None:
        try:
            async with asyncio.timeout(self._server.start_timeout) as deadline:
                try:
                    self._process = await self._start()
                    await prepare()
                    await self._speak(deadline)
                except BaseException as exc:
                    self._fail(self._why_not(exc, timed_out=deadline.expired()))
                    raise
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - `_fail` has reported it
            pass
        finally:
            self.lose("was closed")
            if self._process is not None:
                await self._process.close()

    async def _start(self) -> ServerProcess | None:
        if self._server.command is None:
            return None
        try:
            return await ServerProcess.start(
                self._server.command, self._server.args, self._server.env, self._cwd
            )
        except NotADirectoryError as exc:
            raise StartFailed(f"can't be started: {exc}") from None
        except FileNotFoundError:
            raise StartFailed(
                f"can't be started: there is no program {self._server.command!r}"
            ) from None
        except OSError as exc:
            raise StartFailed(f"can't be started: {exc.strerror or exc}") from None

    async def _speak(self, deadline: asyncio.Timeout) -> None:
        from callsheet.tools.mcp.client import McpClient, link_to

        link = self._link = link_to(self._server, self._process)
        link.over.add_done_callback(lambda _: self._note_end())
        async with McpClient.over(self._server, link, self._roots, self._on_change) as client:
            tools = await client.greet()
            deadline.reschedule(None)
            self._client = client
            self._ready.set_result(tools)
            await asyncio.shield(self._end)

    def _fail(self, why: str) -> None:
        """Report a failure to all who wait, before the cleanup."""
        self.lose(why)
        if not self._ready.done():
            self._ready.set_exception(StartFailed(self.why))
            self._ready.exception()  # retrieved, also if nobody waits

    def _why_not(self, exc: BaseException, *, timed_out: bool) -> str:
        exc = _innermost(exc)
        if timed_out:
            return f"did not start within {self._server.start_timeout:g} seconds"
        if isinstance(exc, ServerFault):
            return str(exc)
        if isinstance(exc, asyncio.CancelledError):
            return "was closed"
        return f"can't be spoken with: {str(exc).strip() or type(exc).__name__}"


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Retrieve a task's exception, so that asyncio does not log it if nobody waits any more."""
    if not task.cancelled():
        task.exception()


def _innermost(exc: BaseException) -> BaseException:
    """Return the first exception inside groups, because the SDK's task groups wrap exceptions."""
    if isinstance(exc, BaseExceptionGroup):
        return _innermost(cast("BaseExceptionGroup[BaseException]", exc).exceptions[0])
    return exc


class Server:
    """One server, over all its connections. `tools` are those that it listed last."""

    def __init__(
        self, config: McpServer, cwd: str, roots: Sequence[Path], on_change: Callable[[], None]
    ) -> None:
        self.config = config
        self.tools: Sequence[Tool] = ()
        self.problem: str | None = None
        self._cwd = cwd
        self._roots = roots
        self._on_change = on_change
        self._connection: ServerConnection | None = None
        self._connections: list[ServerConnection] = []
        self._is_stale = False
        self._refreshing: asyncio.Task[None] | None = None
        self._is_closed = False

    async def start(self) -> None:
        """Start the server. If that fails, store the reason in `problem`."""
        try:
            await self._connected()
        except StartFailed as exc:
            self.problem = f"{self.config} {exc}"

    async def call(
        self, tool: str, arguments: dict[str, Any], on_progress: ProgressFnT
    ) -> CallToolResult:
        """Call a tool. Start the server first if it is not connected.

        Raises:
            ToolError: The call failed, or the server can't be started or was lost.
        """
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

    async def _connected(self) -> ServerConnection:
        """Return a usable connection. All callers that need a new one wait for the same one."""
        if self._is_closed:
            raise StartFailed("was closed with its session")
        connection = self._connection
        if connection is None or connection.is_over:
            connection = ServerConnection(self.config, self._cwd, self._roots, self._refresh_soon)
            self._connection = connection
            self._connections = [old for old in self._connections if not old.is_gone]
            self._connections.append(connection)
        self._take(await connection.ready())
        self.problem = None
        return connection

    async def close(self) -> None:
        """End the server and all its connections."""
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
        """Schedule a request for the tools. Only one runs at a time, however often they change."""
        self._is_stale = True
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh())

    async def _refresh(self) -> None:
        while self._is_stale and self._connection is not None:
            self._is_stale = False
            try:
                self._take(await self._connection.list_tools())
            except ServerFault as exc:
                self.problem = f"{self.config} did not list its tools again: it {exc}"
