"""The MCP servers that a client gives an agent."""

from __future__ import annotations

from callsheet.acp.blocks import as_list, as_object
from callsheet.acp.jsonrpc import InvalidParams
from callsheet.report.json import JsonObject, JsonValue


def for_v1(value: JsonValue) -> list[JsonObject]:
    """Return servers of v2 for v1, which needs every list, and knows stdio by the lack of a type."""
    return [_for_v1(as_object(one, "mcpServers")) for one in as_list(value or [], "mcpServers")]


def _for_v1(server: JsonObject) -> JsonObject:
    kind = server.get("type")
    if kind == "stdio":
        told = {name: field for name, field in server.items() if name != "type"}
        return {**told, "args": server.get("args") or [], "env": server.get("env") or []}
    if kind in ("http", "sse"):
        return {**server, "headers": server.get("headers") or []}
    raise InvalidParams(f"mcpServers: an agent of ACP v1 takes no server of type {kind!r}")


def for_v2(value: JsonValue) -> list[JsonObject]:
    """Return servers of v1 for v2."""
    return [_for_v2(as_object(one, "mcpServers")) for one in as_list(value or [], "mcpServers")]


def _for_v2(server: JsonObject) -> JsonObject:
    kind = server.get("type")
    if kind == "http":
        return server
    if kind == "sse":
        raise InvalidParams(
            "mcpServers: an agent of ACP v2 takes no server by SSE; initialize has said so"
        )
    return {**server, "type": "stdio"}
