"""The surfaces of ACP v1 and v2, as far as they differ: what is answered, and how updates look."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from callsheet.acp.jsonrpc import UNTOLD, ProtocolError
from callsheet.report.json import JsonObject

from .brain import Command
from .modes import mode_state
from .rpc import Answer

if TYPE_CHECKING:
    from callsheet.history.rows import StoredSession

    from .conversation import Conversation


class Surface(Protocol):
    """How one version says what the agent has to say."""

    version: int

    def initialized(self, info: JsonObject, keeps: bool) -> JsonObject:
        """Answer `initialize`. `keeps` says that there is a history."""
        ...

    def opened(self, conversation: Conversation) -> JsonObject:
        """Answer `session/new`."""
        ...

    async def resumed(self, conversation: Conversation) -> None:
        """Tell how things are, before the answer to `session/load` or `session/resume`."""
        ...

    def listed(self, session: StoredSession) -> JsonObject:
        """Return a session as `session/list` has it."""
        ...

    def commands(self, commands: Sequence[Command]) -> JsonObject:
        """Tell the slash commands."""
        ...

    def plan(self, entries: list[JsonObject]) -> JsonObject:
        """Tell the plan."""
        ...

    async def prompt(self, conversation: Conversation, blocks: Sequence[JsonObject]) -> Answer:
        """Answer `session/prompt`."""
        ...

    async def asking(self, conversation: Conversation, begins: bool) -> None:
        """Tell that the user is asked something, or no longer is."""
        ...


class V1:
    """ACP v1."""

    version: int = 1

    def initialized(self, info: JsonObject, keeps: bool) -> JsonObject:
        """Answer `initialize`."""
        session: JsonObject = {"close": {}, "additionalDirectories": {}, "list": {}, "resume": {}}
        if keeps:
            session["delete"] = {}
        return {
            "protocolVersion": 1,
            "agentInfo": info,
            "authMethods": [],
            "agentCapabilities": {
                "loadSession": keeps,
                "promptCapabilities": {"image": False, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": False},
                "sessionCapabilities": session,
            },
        }

    def opened(self, conversation: Conversation) -> JsonObject:
        """Answer `session/new`. The commands are told by an update."""
        phrase = conversation.session.desk.phrase
        return {
            "sessionId": conversation.session_id,
            "modes": mode_state(conversation.mode, phrase),
            "configOptions": conversation.options(),
        }

    async def resumed(self, conversation: Conversation) -> None:
        """Nothing is to be told: v1 has no states."""

    def listed(self, session: StoredSession) -> JsonObject:
        """Return a session as `session/list` has it."""
        return _listed(session)

    def commands(self, commands: Sequence[Command]) -> JsonObject:
        """Tell the slash commands."""
        told = [
            {"name": one.name, "description": one.description}
            | ({} if one.hint is None else {"input": {"hint": one.hint}})
            for one in commands
        ]
        return {"sessionUpdate": "available_commands_update", "availableCommands": told}

    def plan(self, entries: list[JsonObject]) -> JsonObject:
        """Tell the plan."""
        return {"sessionUpdate": "plan", "entries": entries}

    async def prompt(self, conversation: Conversation, blocks: Sequence[JsonObject]) -> Answer:
        """Answer `session/prompt`: when the turn has ended."""
        conversation.begin()
        try:
            key = conversation.new_id("msg")
            return Answer({"stopReason": await conversation.prompt(key, blocks)})
        except Exception as exc:
            raise ProtocolError(conversation.told(exc)) from exc

    async def asking(self, conversation: Conversation, begins: bool) -> None:
        """The request for permission says it all."""


class V2:
    """The draft of ACP v2."""

    version: int = 2

    def initialized(self, info: JsonObject, keeps: bool) -> JsonObject:
        """Answer `initialize`."""
        session: JsonObject = {
            "prompt": {"embeddedContext": {}},
            "mcp": {"stdio": {}, "http": {}},
            "additionalDirectories": {},
        }
        if keeps:
            session["delete"] = {}
        return {"protocolVersion": 2, "info": info, "capabilities": {"session": session}}

    def opened(self, conversation: Conversation) -> JsonObject:
        """Answer `session/new`."""
        return {
            "sessionId": conversation.session_id,
            "configOptions": conversation.options(),
            "availableCommands": self._told(conversation.commands()),
        }

    async def resumed(self, conversation: Conversation) -> None:
        """Tell the state of the session."""
        state = "running" if conversation.is_busy else "idle"
        await self._state(conversation, {"state": state})

    def listed(self, session: StoredSession) -> JsonObject:
        """Return a session as `session/list` has it."""
        return _listed(session)

    def commands(self, commands: Sequence[Command]) -> JsonObject:
        """Tell the slash commands."""
        told = self._told(commands)
        return {"sessionUpdate": "available_commands_update", "availableCommands": told}

    def plan(self, entries: list[JsonObject]) -> JsonObject:
        """Tell the plan."""
        plan: JsonObject = {"type": "items", "planId": "plan", "entries": entries}
        return {"sessionUpdate": "plan_update", "plan": plan}

    async def prompt(self, conversation: Conversation, blocks: Sequence[JsonObject]) -> Answer:
        """Answer `session/prompt`: at once. The state of the session tells of the turn."""
        conversation.begin()
        key = conversation.new_id("msg")

        def then() -> None:
            conversation.spawn(self._turn(conversation, key, blocks))

        return Answer({"messageId": key}, then)

    async def _turn(
        self, conversation: Conversation, key: str, blocks: Sequence[JsonObject]
    ) -> None:
        said: JsonObject = {"messageId": key, "content": list(blocks)}
        with suppress(*UNTOLD):  # the client knows what it has said
            await conversation.update({"sessionUpdate": "user_message", **said})
        await self._state(conversation, {"state": "running"})
        end: JsonObject = {"stopReason": "error"}
        try:
            end = {"stopReason": await conversation.prompt(key, blocks)}
        except Exception as exc:  # noqa: BLE001 - a turn always ends
            end["error"] = {"code": -32603, "message": conversation.told(exc)}
        finally:
            await self._state(conversation, {"state": "idle", **end})

    async def asking(self, conversation: Conversation, begins: bool) -> None:
        """Tell by the state that the user is asked something, or no longer is."""
        await self._state(conversation, {"state": "requires_action" if begins else "running"})

    async def _state(self, conversation: Conversation, state: JsonObject) -> None:
        await conversation.update({"sessionUpdate": "state_update", **state})

    def _told(self, commands: Sequence[Command]) -> list[JsonObject]:
        return [
            {"type": "command", "name": one.name, "description": one.description}
            | ({} if one.hint is None else {"input": {"type": "text", "hint": one.hint}})
            for one in commands
        ]


def _listed(session: StoredSession) -> JsonObject:
    when = datetime.fromtimestamp(session.updated_at, UTC).isoformat(timespec="milliseconds")
    told: JsonObject = {
        "sessionId": session.session_id,
        "cwd": session.cwd,
        "updatedAt": when.replace("+00:00", "Z"),
    }
    directories = session.info.get("additionalDirectories")
    if directories:
        told["additionalDirectories"] = directories
    return told | ({"title": session.title} if session.title else {})
