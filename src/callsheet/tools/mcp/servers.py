"""The MCP servers of a session, started side by side, and the names of their tools: `mcp__SERVER__TOOL`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from callsheet.tools.mcp.config import InvalidServer, McpServer
from callsheet.tools.mcp.connection import Server

if TYPE_CHECKING:
    from callsheet.tools.tool import Registry, Tool
    from callsheet.tools.workspace import Workspace


LONGEST = 64
"""Characters that a tool's name may have, for the strictest of the models' makers."""

Pair: TypeAlias = tuple[str, str]
"""A server's name and a tool's, as the server lists it."""

_STRANGE = re.compile(r"[^A-Za-z0-9_-]")


def plain_name(server: str, tool: str) -> str:
    """Return the name of a tool, if nobody else has it."""
    head = re.sub(r"__+", "_", _STRANGE.sub("_", server)).strip("_") or "server"
    name = f"mcp__{head}__{_STRANGE.sub('_', tool)}"
    return name if len(name) <= LONGEST else _marked(name, (server, tool))


def name_tools(pairs: Iterable[Pair], known: Mapping[Pair, str]) -> dict[Pair, str]:
    """Return every tool a name of its own.

    Tools that have one keep it. Those whose name needs no change come first, so that the ones that
    only look like them after the change are the ones that are marked.
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
    """Shorten a name and mark it by what it stands for, so that it is the same every time."""
    raw = "\0".join(pair).encode("utf-8", "surrogatepass")
    return f"{name[: LONGEST - 9]}_{sha256(raw).hexdigest()[:8]}"


class McpServers:
    """The MCP servers of a session.

    Entering this starts them, side by side, and does not wait; `tools` does. A server that can't be
    started brings no tools; why is in `problems`. Leaving this ends them all, and nothing is left.

    `servers` may be entries of ACP's `mcpServers`. `on_change` is called when the tools have changed
    since they were asked for: then `register` them, or ask again.
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
        """Return each a name of its own, also if two are called the same."""
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
        """Wait until every server has started or failed, and return the tools."""
        if self._starting:
            await asyncio.wait(self._starting)
        self._has_listed = True
        return self._made()

    def register(self, registry: Registry) -> None:
        """Put the tools that there are now into a registry, and take out those that have gone."""
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
        self._wrong = []
        if not listed:
            return []
        from callsheet.tools.mcp.tool_adapter import (
            make_tool,  # after a server was there, so the SDK is
        )

        made = [
            make_tool(server, self._names[label, tool.name], tool) for label, server, tool in listed
        ]
        self._wrong = [one.problem for one in made if one.problem]
        return [one.tool for one in made]

    @property
    def problems(self) -> list[str]:
        """What is wrong, a sentence each: servers that did not start, schemas that can't be used."""
        now = [server.problem for server in self._servers.values() if server.problem]
        return [*self._invalid, *now, *self._wrong]

    def secrets(self) -> dict[str, str]:
        """Return what looks secret in what the servers are given, for a guard to know of."""
        found: dict[str, str] = {}
        for server in self._servers.values():
            found |= server.config.secrets()
        return found

    async def close(self) -> None:
        """End all servers, side by side. This is done to its end, also if it is cancelled."""
        closing = asyncio.gather(*[server.close() for server in self._servers.values()])
        await asyncio.shield(closing)
        for task in self._starting:
            task.cancel()

    def _changed(self) -> None:
        if self._has_listed and self._on_change is not None:
            self._on_change()
