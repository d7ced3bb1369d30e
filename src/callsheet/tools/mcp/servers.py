"""The MCP servers of a session, started concurrently, and their tools' names: `mcp__SERVER__TOOL`.

No call is sent twice. Only one that the server can't have received is sent again, over a new connection.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from callsheet.report.json import JsonObject
from callsheet.report.patterns import lazy
from callsheet.tools.errors import IOFailed
from callsheet.tools.mcp.config import InvalidServer, McpServer, NotDelivered, ServerFault
from callsheet.tools.mcp.connection import DeclaredTool, OnProgress, ServerConnection
from callsheet.tools.mcp.tool_adapter import make_tool

if TYPE_CHECKING:
    from callsheet.tools.tool import Registry, Tool
    from callsheet.tools.workspace import Workspace


LONGEST = 64
"""Maximum length of a tool's name, as set by the strictest model provider."""

Pair: TypeAlias = tuple[str, str]
"""A server's name and a tool's, as the server lists it."""

_STRANGE = lazy(r"[^A-Za-z0-9_-]")


def plain_name(server: str, tool: str) -> str:
    """Return the name of a tool before conflicts with other tools are resolved."""
    head = re.sub(r"__+", "_", _STRANGE.sub("_", server)).strip("_") or "server"
    name = f"mcp__{head}__{_STRANGE.sub('_', tool)}"
    return name if len(name) <= LONGEST else _marked(name, (server, tool))


def name_tools(pairs: Iterable[Pair], known: Mapping[Pair, str]) -> dict[Pair, str]:
    """Return a unique name for every tool.

    Tools in `known` retain their names. Tools whose names need no change come next, so that a tool whose
    changed name collides with one of them is the one that is marked.
    """
    wanted = list(dict.fromkeys(pairs))
    names = {pair: known[pair] for pair in wanted if pair in known}
    taken = set(names.values())
    new = [pair for pair in wanted if pair not in names]
    for pair in sorted(new, key=lambda pair: plain_name(*pair) != f"mcp__{pair[0]}__{pair[1]}"):
        name = plain_name(*pair)
        if name in taken:
            name = _marked(name, pair)
        names[pair] = name
        taken.add(name)
    return {pair: names[pair] for pair in wanted}


def _marked(name: str, pair: Pair) -> str:
    """Shorten a name and append a mark derived from the pair, so that it is the same every time."""
    raw = "\0".join(pair).encode("utf-8", "surrogatepass")
    return f"{name[: LONGEST - 9]}_{sha256(raw).hexdigest()[:8]}"


class Server:
    """One server, over all its connections. `tools` are those that it listed last."""

    def __init__(
        self, config: McpServer, cwd: str, roots: Sequence[Path], on_change: Callable[[], None]
    ) -> None:
        self.config = config
        self.tools: Sequence[DeclaredTool] = ()
        self.problem: str | None = None
        self._cwd = cwd
        self._roots = roots
        self._on_change = on_change
        self._connections: list[ServerConnection] = []
        self._is_stale = False
        self._refreshing: asyncio.Task[None] | None = None
        self._is_closed = False

    async def start(self) -> None:
        """Start the server. If that fails, store the reason in `problem`."""
        try:
            await self._connected()
        except ServerFault as exc:
            self.problem = f"{self.config} {exc}"

    async def call(
        self, tool: str, arguments: JsonObject, on_progress: OnProgress, meta: JsonObject
    ) -> object:
        """Call a tool, and return the server's result. Start the server first if it is not connected.

        Raises:
            ToolError: The call failed, or the server can't be started or was lost.
        """
        try:
            connection = await self._connected()
            try:
                return await connection.call(tool, arguments, on_progress, meta)
            except NotDelivered as exc:
                connection.lose(str(exc))
                connection = await self._connected()
                return await connection.call(tool, arguments, on_progress, meta)
        except ServerFault as exc:
            raise IOFailed(f"{self.config} {exc}", mcp_server_lost=True) from None

    async def _connected(self) -> ServerConnection:
        """Return a usable connection. All callers that need a new one wait for the same one."""
        if self._is_closed:
            raise ServerFault("was closed with its session")
        if not self._connections or self._connections[-1].is_over:
            made = ServerConnection(self.config, self._cwd, self._roots, self._refresh_soon)
            self._connections = [old for old in self._connections if not old.is_gone] + [made]
        connection = self._connections[-1]
        self._take(await connection.ready())
        self.problem = None
        return connection

    async def close(self) -> None:
        """End the server and all its connections."""
        self._is_closed = True
        if self._refreshing is not None:
            self._refreshing.cancel()
        await asyncio.gather(*[connection.close() for connection in self._connections])

    def _take(self, tools: Sequence[DeclaredTool]) -> None:
        if list(tools) != list(self.tools):
            self.tools = tools
            self._on_change()

    def _refresh_soon(self) -> None:
        """Schedule a request for the tools. Only one runs at a time, however often they change."""
        self._is_stale = True
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh())

    async def _refresh(self) -> None:
        while self._is_stale:
            self._is_stale = False
            try:
                self._take(await self._connections[-1].list_tools())
            except ServerFault as exc:
                self.problem = f"{self.config} did not list its tools again: it {exc}"


class McpServers:
    """The MCP servers of a session.

    Entering the context starts them concurrently, without waiting; `tools` waits. A server that can't be
    started provides no tools; `problems` explains why. Leaving the context ends all servers.

    Args:
        servers: The configurations, or entries of ACP's `mcpServers`.
        workspace: The session's directories.
        on_change: Called when the tools have changed since `tools` returned; call `register` or `tools`
            again then.
    """

    def __init__(
        self,
        servers: Iterable[McpServer | Mapping[str, Any]],
        workspace: Workspace,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        self._invalid: list[str] = []
        self._wrong: list[str] = []
        self._names: dict[Pair, str] = {}
        self._on_change = on_change
        self._starting: list[asyncio.Task[None]] = []
        self._has_listed = False
        self._registered: set[str] = set()
        self._servers = {
            label: Server(config, str(workspace.cwd), workspace.roots, self._changed)
            for label, config in self._labelled(servers)
        }

    def _labelled(
        self, servers: Iterable[McpServer | Mapping[str, Any]]
    ) -> Iterable[tuple[str, McpServer]]:
        """Yield each server with a unique label, even if two have the same name."""
        seen: dict[str, int] = {}
        for given in servers:
            try:
                config = given if isinstance(given, McpServer) else McpServer.from_acp(given)
            except InvalidServer as exc:
                self._invalid.append(str(exc))
                continue
            count = seen[config.name] = seen.get(config.name, 0) + 1
            yield (config.name if count == 1 else f"{config.name}_{count}"), config

    async def __aenter__(self) -> Self:
        self._starting = [asyncio.create_task(server.start()) for server in self._servers.values()]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def tools(self) -> list[Tool]:
        """Wait until every server has started or failed, and return their tools."""
        if self._starting:
            await asyncio.wait(self._starting)
        self._has_listed = True
        return self._made()

    def register(self, registry: Registry) -> None:
        """Add the current tools to a registry, and remove those that no longer exist."""
        tools = self._made()
        for name in self._registered.difference([tool.name for tool in tools]):
            registry.remove(name)
        self._registered = {registry.add(tool).name for tool in tools}

    def _made(self) -> list[Tool]:
        listed = [
            (label, server, tool)
            for label, server in self._servers.items()
            for tool in server.tools
        ]
        self._names |= name_tools([(label, tool.name) for label, _, tool in listed], self._names)
        made = [
            make_tool(server, self._names[label, one.name], one) for label, server, one in listed
        ]
        self._wrong = [problem for _, problem in made if problem]
        return [tool for tool, _ in made]

    @property
    def problems(self) -> list[str]:
        """A message for each problem: servers that did not start, schemas that can't be used."""
        now = [server.problem for server in self._servers.values() if server.problem]
        return [*self._invalid, *now, *self._wrong]

    def secrets(self) -> dict[str, str]:
        """Return the values in the servers' configurations that look secret, for a guard to redact."""
        found: dict[str, str] = {}
        for server in self._servers.values():
            found |= server.config.secrets()
        return found

    async def close(self) -> None:
        """End all servers concurrently. Cancelling this does not stop the servers from being ended."""
        closing = asyncio.gather(*[server.close() for server in self._servers.values()])
        await asyncio.shield(closing)
        for task in self._starting:
            task.cancel()

    def _changed(self) -> None:
        if self._has_listed and self._on_change is not None:
            self._on_change()
