"""ACP v1 and v2 on the agent's side: checks of params, responses, and the form of updates.

`AcpV1` implements v1 and what both have in common; `AcpV2` overrides what the draft of v2 does differently.
Above all, v1 answers `session/prompt` when the turn has ended; v2 answers at once, and updates of the
session's state report the end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from callsheet.acp.jsonrpc import UNENCODABLE, InvalidParams, ProtocolError, UnknownMethod
from callsheet.report.json import JsonObject
from callsheet.runtime.rpc import Answer

if TYPE_CHECKING:
    from callsheet.agent.conversation import Conversation
    from callsheet.agent.handler import Command
    from callsheet.history.rows import StoredSession
    from callsheet.tools.permissions import Mode

# Params

_MOST_SHOWN = 3
"""Problems of one request that are named in the error."""


def check_params(
    method: str, params: JsonObject, version: int, takes: Collection[str] = ()
) -> None:
    """Check params against the official schema, which is loaded here, after `initialize` was answered.

    Args:
        method: The method.
        params: Its params.
        version: The version of ACP that is spoken.
        takes: The blocks that prompts may have beside text: `image`, `audio`.

    Raises:
        UnknownMethod: This version of ACP has no such method.
        InvalidParams: The params are not as the schema has them, or contain what this agent can't read.
    """
    if method == "session/new" and params == {"cwd": str(params.get("cwd")), "mcpServers": []}:
        return  # as nearly all are, and an editor waits for its first session
    from callsheet.acp.schemas import breaches, definition
    from callsheet.tools.arguments import place

    found = definition(version, (method, False))
    if found is None:
        raise UnknownMethod(method)
    if not found.is_valid(params):
        shown = breaches(version, found.name, params)[:_MOST_SHOWN]
        texts = [
            f"{where}: {one.words}" if (where := place(one.path)) else one.words for one in shown
        ]
        raise InvalidParams("; ".join(texts))
    for number, block in enumerate(params["prompt"] if method == "session/prompt" else ()):
        if block["type"] in ("image", "audio") and block["type"] not in takes:
            raise InvalidParams(
                f"prompt[{number}]: this agent takes no {block['type']}, as it has said in initialize"
            )


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

    def opened(self, conversation: Conversation) -> JsonObject:
        """Return the answer to `session/new`. The commands follow in an update."""
        modes = _mode_choices("id", conversation.session.phrase)
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

    async def prompt(
        self, conversation: Conversation, blocks: Sequence[JsonObject], meta: JsonObject | None
    ) -> Answer:
        """Answer `session/prompt` when the turn has ended."""
        conversation.begin()
        try:
            key = conversation.new_id("msg")
            reason = await conversation.prompt(key, blocks, meta)
            return Answer({"stopReason": reason, **conversation.usage.at_end()})
        except Exception as exc:
            raise ProtocolError(conversation.safe_message(exc)) from exc

    async def asking(self, conversation: Conversation, begins: bool) -> None:
        """Report that the user is being asked, or no longer is. Do nothing: in v1, the request is enough."""


class AcpV2(AcpV1):
    """The draft of ACP v2."""

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

    async def prompt(
        self, conversation: Conversation, blocks: Sequence[JsonObject], meta: JsonObject | None
    ) -> Answer:
        """Answer `session/prompt` at once. An update of the session's state reports the end of the turn."""
        conversation.begin()
        key = conversation.new_id("msg")

        def then() -> None:
            conversation.agent.spawn(self._turn(conversation, key, blocks, meta))

        return Answer({"messageId": key}, then)

    async def _turn(
        self,
        conversation: Conversation,
        key: str,
        blocks: Sequence[JsonObject],
        meta: JsonObject | None,
    ) -> None:
        message: JsonObject = {"messageId": key, "content": list(blocks)}
        with suppress(*UNENCODABLE):  # the client has the message itself
            await conversation.update({"sessionUpdate": "user_message", **message})
        await self._state(conversation, {"state": "running"})
        end: JsonObject = {"stopReason": "error"}
        try:
            reason = await conversation.prompt(key, blocks, meta)
            end = {"stopReason": reason, **conversation.usage.at_end()}
        except Exception as exc:  # noqa: BLE001 - a turn always ends
            end["error"] = {"code": -32603, "message": conversation.safe_message(exc)}
        finally:
            await self._state(conversation, {"state": "idle", **end})

    async def asking(self, conversation: Conversation, begins: bool) -> None:
        """Report that the user is being asked, or no longer is."""
        await self._state(conversation, {"state": "requires_action" if begins else "running"})

    async def _state(self, conversation: Conversation, state: JsonObject) -> None:
        await conversation.update({"sessionUpdate": "state_update", **state})
