"""What a client's requests must carry. What is missing or of another type is named, and nothing is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callsheet.acp.jsonrpc import InvalidParams
from callsheet.report.json import JsonObject, JsonValue, is_list, is_object

_NAMES: dict[type, str] = {str: "text", int: "a whole number", list: "a list", dict: "an object"}

_SESSION: dict[str, type] = {"sessionId": str}
REQUIRED: dict[str, dict[str, type]] = {
    "initialize": {"protocolVersion": int},
    "authenticate": {"methodId": str},
    "auth/login": {"methodId": str},
    "session/new": {"cwd": str, "mcpServers": list},
    "session/load": {**_SESSION, "cwd": str, "mcpServers": list},
    "session/resume": {**_SESSION, "cwd": str},
    "session/delete": _SESSION,
    "session/close": _SESSION,
    "session/set_mode": {**_SESSION, "modeId": str},
    "session/set_config_option": {**_SESSION, "configId": str},
    "session/prompt": {**_SESSION, "prompt": list},
    "tool_call/cancel": {**_SESSION, "toolCallId": str},
    "terminal/cancel": {**_SESSION, "terminalId": str},
}
"""By method, as the schemas have it."""

OPTIONAL: dict[str, dict[str, type]] = {
    "initialize": {"clientCapabilities": dict, "clientInfo": dict, "capabilities": dict},
    "session/new": {"additionalDirectories": list},
    "session/load": {"additionalDirectories": list},
    "session/resume": {"additionalDirectories": list, "mcpServers": list},
    "session/list": {"cwd": str, "cursor": str},
}

BLOCKS: dict[str, dict[str, type]] = {
    "text": {"text": str},
    "image": {"data": str, "mimeType": str},
    "audio": {"data": str, "mimeType": str},
    "resource_link": {"name": str, "uri": str},
    "resource": {"resource": dict},
}
"""What each block of content must have."""

_NOTHING: dict[str, type] = {}


def check(method: str, params: JsonObject, version: int) -> None:
    """Raise `InvalidParams` if a request lacks something, or has something of another type."""
    optional = OPTIONAL.get(method, _NOTHING)
    required = REQUIRED.get(method, _NOTHING)
    if version == 2 and "mcpServers" in required:  # v2 has made it optional
        required = {name: kind for name, kind in required.items() if name != "mcpServers"}
        optional = {**optional, "mcpServers": list}
    _hold(params, required)
    _hold({name: value for name, value in params.items() if value is not None}, optional, False)
    for name in ("mcpServers", "additionalDirectories"):
        _hold_each(params.get(name) or [], name, dict if name == "mcpServers" else str)
    if method == "session/prompt":
        for number, block in enumerate(params["prompt"]):
            _check_block(block, f"prompt[{number}]", version)


def _hold(
    given: Mapping[str, Any], fields: dict[str, type], must: bool = True, where: str = ""
) -> None:
    for name, kind in fields.items():
        value = given.get(name)
        if name not in given and not must:
            continue
        if not isinstance(value, kind) or isinstance(value, bool):
            got = "it is missing" if name not in given else f"got {_shown(value)}"
            raise InvalidParams(f"{where}{name}: expected {_NAMES[kind]}, {got}")


def _hold_each(items: JsonValue, name: str, kind: type) -> None:
    for number, item in enumerate(items if is_list(items) else []):
        if not isinstance(item, kind):
            raise InvalidParams(f"{name}[{number}]: expected {_NAMES[kind]}, got {_shown(item)}")


def _check_block(block: JsonValue, where: str, version: int) -> None:
    if not is_object(block):
        raise InvalidParams(f"{where}: expected a content block, got {_shown(block)}")
    kind = block.get("type")
    fields = BLOCKS.get(kind) if isinstance(kind, str) else None
    if fields is not None:
        _hold(block, fields, where=f"{where}.")
    elif version == 1 or not isinstance(kind, str):  # v2 lets blocks of unknown types pass
        known = ", ".join(BLOCKS)
        raise InvalidParams(f"{where}.type: expected one of {known}, got {_shown(kind)}")
    if kind in ("image", "audio"):
        raise InvalidParams(f"{where}: this agent takes no {kind}, as it has said in initialize")
    if kind == "resource":
        _check_resource(block["resource"], f"{where}.resource")


def _check_resource(resource: JsonObject, where: str) -> None:
    _hold(resource, {"uri": str}, where=f"{where}.")
    if not isinstance(resource.get("text"), str) and not isinstance(resource.get("blob"), str):
        raise InvalidParams(f"{where}: expected a text or a blob, which are text")


def _shown(value: JsonValue) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "…"
