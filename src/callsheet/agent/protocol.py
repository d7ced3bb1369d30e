"""ACP v1 and v2 on the agent's side: required params, responses, and the form of updates.

`AcpV1` implements v1 and what both have in common; `AcpV2` overrides what the draft of v2 does differently.
Above all, v1 answers `session/prompt` when the turn has ended; v2 answers at once, and updates of the
session's state report the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from callsheet.acp.jsonrpc import UNENCODABLE, InvalidParams, ProtocolError
from callsheet.agent.rpc import Answer
from callsheet.report.json import JsonObject, JsonValue, is_list, is_object

if TYPE_CHECKING:
    from callsheet.agent.conversation import Conversation
    from callsheet.agent.handler import Command
    from callsheet.history.rows import StoredSession
    from callsheet.tools.permissions import Mode

# Params

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


def check_params(method: str, params: JsonObject, version: int) -> None:
    """Raise `InvalidParams` if a request lacks something, or has something of another type."""
    optional = OPTIONAL.get(method, _NOTHING)
    required = REQUIRED.get(method, _NOTHING)
    if version == 2 and "mcpServers" in required:  # v2 has made it optional
        required = {name: kind for name, kind in required.items() if name != "mcpServers"}
        optional = {**optional, "mcpServers": list}
    _check_fields(params, required)
    present = {name: value for name, value in params.items() if value is not None}
    _check_fields(present, {name: kind for name, kind in optional.items() if name in present})
    for name, kind in (("mcpServers", dict), ("additionalDirectories", str)):
        items = params.get(name)
        for number, item in enumerate(items if is_list(items) else []):
            if not isinstance(item, kind):
                got = _shown(item)
                raise InvalidParams(f"{name}[{number}]: expected {_NAMES[kind]}, got {got}")
    if method == "session/prompt":
        for number, block in enumerate(params["prompt"]):
            _check_block(block, f"prompt[{number}]", version)


def _check_fields(given: Mapping[str, Any], fields: dict[str, type], where: str = "") -> None:
    for name, kind in fields.items():
        value = given.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            got = "it is missing" if name not in given else f"got {_shown(value)}"
            raise InvalidParams(f"{where}{name}: expected {_NAMES[kind]}, {got}")


def _check_block(block: JsonValue, where: str, version: int) -> None:
    if not is_object(block):
        raise InvalidParams(f"{where}: expected a content block, got {_shown(block)}")
    kind = block.get("type")
    fields = BLOCKS.get(kind) if isinstance(kind, str) else None
    if fields is not None:
        _check_fields(block, fields, f"{where}.")
    elif version == 1 or not isinstance(kind, str):  # v2 lets blocks of unknown types pass
        known = ", ".join(BLOCKS)
        raise InvalidParams(f"{where}.type: expected one of {known}, got {_shown(kind)}")
    if kind in ("image", "audio"):
        raise InvalidParams(f"{where}: this agent takes no {kind}, as it has said in initialize")
    if kind == "resource":
        resource = block["resource"]
        _check_fields(resource, {"uri": str}, f"{where}.resource.")
        if not any(isinstance(resource.get(name), str) for name in ("text", "blob")):
            raise InvalidParams(f"{where}.resource: expected a text or a blob, which are text")


def _shown(value: JsonValue) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "…"


# Modes: what the agent may do without asking, as the user chooses it

MODES: dict[str, Mode] = {"ask": "ask", "edits": "edits", "all": "allow", "read_only": "deny"}
"""ACP's ids of the modes, and what each means to a session."""

OPTION = "permission"
"""The id of the config option for the same choice."""


def mode_id(mode: Mode) -> str:
    """Return the id of a mode."""
    return next(key for key, value in MODES.items() if value == mode)


def config_options(current: str, phrase: Callable[..., str], version: int) -> list[JsonObject]:
    """Return ACP's `configOptions`."""
    return [
        {
            "id" if version == 1 else "configId": OPTION,
            "name": phrase("mode"),
            "category": "mode",
            "type": "select",
            "currentValue": current,
            "options": _mode_choices("value", phrase),
        }
    ]


def _mode_choices(key: str, phrase: Callable[..., str]) -> list[Any]:
    """Return the modes in the user's language, with their ids under `key`."""
    return [
        {key: mode, "name": phrase(f"mode_{mode}"), "description": phrase(f"mode_{mode}_means")}
        for mode in MODES
    ]


# The versions


class AcpV1:
    """ACP v1."""

    def initialized(self, info: JsonObject, has_history: bool) -> JsonObject:
        """Return the answer to `initialize`."""
        session: JsonObject = {"close": {}, "additionalDirectories": {}, "list": {}, "resume": {}}
        if has_history:
            session["delete"] = {}
        return {
            "protocolVersion": 1,
            "agentInfo": info,
            "authMethods": [],
            "agentCapabilities": {
                "loadSession": has_history,
                "promptCapabilities": {"image": False, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": False},
                "sessionCapabilities": session,
            },
        }

    def opened(self, conversation: Conversation) -> JsonObject:
        """Return the answer to `session/new`. The commands follow in an update."""
        modes = _mode_choices("id", conversation.session.desk.phrase)
        return {
            "sessionId": conversation.session_id,
            "modes": {"currentModeId": conversation.mode, "availableModes": modes},
            "configOptions": conversation.options(),
        }

    async def resumed(self, conversation: Conversation) -> None:
        """Send the state before the answer to `session/load` or `session/resume`; v1 has no states."""

    def listed(self, session: StoredSession) -> JsonObject:
        """Return a stored session as `session/list` has it."""
        when = datetime.fromtimestamp(session.updated_at, UTC).isoformat(timespec="milliseconds")
        listed: JsonObject = {
            "sessionId": session.session_id,
            "cwd": session.cwd,
            "updatedAt": when.replace("+00:00", "Z"),
        }
        directories = session.info.get("additionalDirectories")
        if directories:
            listed["additionalDirectories"] = directories
        return listed | ({"title": session.title} if session.title else {})

    def commands(self, commands: Sequence[Command]) -> list[JsonObject]:
        """Return the slash commands as ACP has them."""
        return [
            {"name": one.name, "description": one.description}
            | ({} if one.hint is None else {"input": {"hint": one.hint}})
            for one in commands
        ]

    def plan(self, entries: list[JsonObject]) -> JsonObject:
        """Return the update that shows the plan."""
        return {"sessionUpdate": "plan", "entries": entries}

    async def prompt(self, conversation: Conversation, blocks: Sequence[JsonObject]) -> Answer:
        """Answer `session/prompt` when the turn has ended."""
        conversation.begin()
        try:
            key = conversation.new_id("msg")
            return Answer({"stopReason": await conversation.prompt(key, blocks)})
        except Exception as exc:
            raise ProtocolError(conversation.safe_message(exc)) from exc

    async def asking(self, conversation: Conversation, begins: bool) -> None:
        """Report that the user is being asked, or no longer is. Do nothing: in v1, the request is enough."""


class AcpV2(AcpV1):
    """The draft of ACP v2."""

    def initialized(self, info: JsonObject, has_history: bool) -> JsonObject:
        """Return the answer to `initialize`."""
        session: JsonObject = {
            "prompt": {"embeddedContext": {}},
            "mcp": {"stdio": {}, "http": {}},
            "additionalDirectories": {},
        }
        if has_history:
            session["delete"] = {}
        return {"protocolVersion": 2, "info": info, "capabilities": {"session": session}}

    def opened(self, conversation: Conversation) -> JsonObject:
        """Return the answer to `session/new`."""
        return {
            "sessionId": conversation.session_id,
            "configOptions": conversation.options(),
            "availableCommands": self.commands(conversation.commands()),
        }

    async def resumed(self, conversation: Conversation) -> None:
        """Send the state of the session."""
        await self._state(conversation, {"state": "running" if conversation.is_busy else "idle"})

    def commands(self, commands: Sequence[Command]) -> list[JsonObject]:
        """Return the slash commands as ACP has them."""
        return [
            {"type": "command", "name": one.name, "description": one.description}
            | ({} if one.hint is None else {"input": {"type": "text", "hint": one.hint}})
            for one in commands
        ]

    def plan(self, entries: list[JsonObject]) -> JsonObject:
        """Return the update that shows the plan."""
        plan: JsonObject = {"type": "items", "planId": "plan", "entries": entries}
        return {"sessionUpdate": "plan_update", "plan": plan}

    async def prompt(self, conversation: Conversation, blocks: Sequence[JsonObject]) -> Answer:
        """Answer `session/prompt` at once. An update of the session's state reports the end of the turn."""
        conversation.begin()
        key = conversation.new_id("msg")

        def then() -> None:
            conversation.spawn(self._turn(conversation, key, blocks))

        return Answer({"messageId": key}, then)

    async def _turn(
        self, conversation: Conversation, key: str, blocks: Sequence[JsonObject]
    ) -> None:
        message: JsonObject = {"messageId": key, "content": list(blocks)}
        with suppress(*UNENCODABLE):  # the client has the message itself
            await conversation.update({"sessionUpdate": "user_message", **message})
        await self._state(conversation, {"state": "running"})
        end: JsonObject = {"stopReason": "error"}
        try:
            end = {"stopReason": await conversation.prompt(key, blocks)}
        except Exception as exc:  # noqa: BLE001 - a turn always ends
            end["error"] = {"code": -32603, "message": conversation.safe_message(exc)}
        finally:
            await self._state(conversation, {"state": "idle", **end})

    async def asking(self, conversation: Conversation, begins: bool) -> None:
        """Report that the user is being asked, or no longer is."""
        await self._state(conversation, {"state": "requires_action" if begins else "running"})

    async def _state(self, conversation: Conversation, state: JsonObject) -> None:
        await conversation.update({"sessionUpdate": "state_update", **state})
