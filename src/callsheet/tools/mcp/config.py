"""The configuration of an MCP server: how it is started, or its URL. Nothing is started here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field
from msgspec.structs import force_setattr

from callsheet.redaction.known_values import secrets_of_mcp
from callsheet.report.errors import CallsheetError

START_TIMEOUT = 30.0
"""Seconds that a server may take to start. Some are downloaded on their first start."""


STATELESS = "2026-07-28"
"""The version of MCP that has no handshake: each request says who sends it."""


class InvalidServer(CallsheetError, ValueError):
    """The configuration of an MCP server can't be used."""


class ServerFault(CallsheetError):
    """A server can't be started, violates the protocol, or was lost. The message continues its name."""


class NotDelivered(ServerFault):
    """A server was lost before it received the request, which may be sent again."""


class McpServer(Struct, frozen=True):
    """The configuration of an MCP server that provides tools.

    - `McpServer("files", command="npx", args=["-y", "…"])` is started as a child process, and used over its
      stdin and stdout. Its environment has `PATH`, `HOME` and the like, and `env`; not everything.
    - `McpServer("docs", url="https://…", headers={"Authorization": "Bearer …"})` is already running, and is
      used over streamable HTTP.

    `timeout` is the number of seconds that a call may take, `start_timeout` that the start may take. If a
    server is `trusted`, tools that it declares read-only need no permission.

    Raises:
        InvalidServer: The configuration is inconsistent, such as both a command and a URL.
    """

    name: str
    command: str | None = None
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout: float | None = None
    start_timeout: float = START_TIMEOUT
    trusted: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidServer(
                f"MCP server: its name is text that is not empty, got {self.name!r}"
            )
        if isinstance(self.args, str):
            raise InvalidServer(f"{self}: args is a list of texts, one for each argument")
        force_setattr(self, "args", tuple(map(str, self.args)))
        for name in ("env", "headers"):
            try:
                texts = msgspec.convert(getattr(self, name), dict[str, str])
            except msgspec.ValidationError:
                raise InvalidServer(f"{self}: {name}: expected names and texts") from None
            force_setattr(self, name, texts)
        if self.cwd is not None:
            force_setattr(self, "cwd", str(self.cwd))
        if problem := self._problem():
            raise InvalidServer(f"{self}: {problem}")

    def _problem(self) -> str:
        if (self.command is None) == (self.url is None):
            return "give either a command or a url"
        if self.url is not None:
            if not _is_web(self.url):
                return "its url starts with http:// or https:// and names a host"
            has_more = self.args or self.env or self.cwd
            return "args, env and cwd are for servers with a command" if has_more else ""
        if not isinstance(self.command, str) or not self.command.strip():
            return f"its command is a program to start, got {self.command!r}"
        if self.headers:
            return "headers are for servers with a url; this one has a command"
        texts = (self.command, self.cwd or "", *self.args, *self.env, *self.env.values())
        has_nul = any("\0" in text for text in texts)
        return "a command, its args, env and cwd can't have a NUL character" if has_nul else ""

    def __str__(self) -> str:
        return f"MCP server {self.name!r}"

    def __rich_repr__(self) -> Any:
        """Return what to show. `env` and `headers` are left out, because they may hold secrets."""
        yield "name", self.name
        yield ("command", self.command) if self.url is None else ("url", self.url)

    def __repr__(self) -> str:
        return f"McpServer({', '.join(f'{key}={value!r}' for key, value in self.__rich_repr__())})"

    def secrets(self) -> dict[str, str]:
        """Return the values in `env` and `headers` that look secret, for a guard to redact."""
        return secrets_of_mcp([{"env": dict(self.env), "headers": dict(self.headers)}])

    @classmethod
    def from_acp(cls, entry: Mapping[str, Any], **more: Any) -> Self:
        """Return the configuration for an entry of ACP's `mcpServers`.

        Args:
            entry: The entry.
            more: Further fields of `McpServer`.

        Raises:
            InvalidServer: The entry is malformed, or its transport is not supported.
        """
        try:
            given = msgspec.convert(dict(entry), _Entry)
        except (msgspec.ValidationError, TypeError, ValueError) as exc:
            raise InvalidServer(f"an entry of mcpServers is not as ACP has it: {exc}") from None
        if given.type == "http":
            return cls(given.name, url=given.url or "", headers=_pairs(given.headers), **more)
        if given.type == "stdio":
            env = _pairs(given.env)
            return cls(given.name, command=given.command or "", args=given.args, env=env, **more)
        raise InvalidServer(
            f"MCP server {given.name!r}: the transport {given.type!r} is not spoken here; use stdio, or "
            "streamable HTTP (type http)"
        )


def _is_web(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except (ValueError, AttributeError, TypeError):
        return False


class _Pair(Struct):
    name: str
    value: str


class _Entry(Struct):
    name: str
    type: str = "stdio"
    command: str | None = None
    args: list[str] = []
    env: list[_Pair] = []
    url: str | None = None
    headers: list[_Pair] = []


def _pairs(pairs: Sequence[_Pair]) -> dict[str, str]:
    return {pair.name: pair.value for pair in pairs}
