"""A client of v1 in front of an agent of v2: sessions, options, what the agent says and asks.

The turns are in `v2_turns.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from callsheet.acp.blocks import as_list, as_object
from callsheet.acp.jsonrpc import InvalidParams
from callsheet.observe.values import obj, text
from callsheet.report.json import JsonObject, JsonValue, is_object

from . import commands, content, elicitation, greeting, making, options, servers
from .making import as_text
from .table import V2_AGENT, Table
from .translated import Asked, Translated
from .v2_turns import Session, V2Turns

_CHUNKS = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")
_WHOLE = ("user_message", "agent_message", "agent_thought")
_OPTIONAL = {
    "notice": "notices",
    "compaction_update": "compaction",
    "compaction_summary_chunk": "compaction",
}
"""Updates that a client of v1 wants only if it has said so, and how it says so."""


class V2Agent(V2Turns):
    """Lets a client of v1 use an agent of v2."""

    agent: Literal[1, 2] = 2
    client: Literal[1, 2] = 1
    table: Table = V2_AGENT

    def __init__(self, new_id: Callable[[], str]) -> None:
        super().__init__(new_id)
        self._wants: JsonObject = {}
        self._opening: int = 0
        self.calls |= {
            "authenticate": self._renamed("auth/login"),
            "logout": self._renamed("auth/logout"),
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
        }
        self.answers |= {
            "session/new": self._opened,
            "session/load": self._opened,
            "session/resume": self._opened,
            "session/close": self._closed,
            "session/delete": self._closed,
            "session/set_mode": self._option_set,
            "session/set_config_option": self._option_set,
        }
        self.requests |= {"elicitation/create": self._elicit}
        self.updates |= dict.fromkeys(_CHUNKS, self._chunk)
        self.updates |= dict.fromkeys(_WHOLE, self._whole)
        self.updates |= dict.fromkeys(_OPTIONAL, self._optional)
        self.updates |= {
            "plan_update": lambda key, told, said: self.sessions[key].plans.for_v1(told, said),
            "available_commands_update": self._commands_told,
            "config_option_update": self._options_told,
        }

    # Greeting

    def greeted(self, params: JsonObject, result: JsonObject, said: Translated) -> JsonObject:
        """Take note of what the client wants, and tell it what the agent can."""
        self._wants = obj(obj(params.get("clientCapabilities")).get("session"))
        return greeting.agent_for_v1(result, said)

    def _renamed(self, method: str) -> Callable[[JsonObject, JsonObject, Translated], None]:
        def call(message: JsonObject, params: JsonObject, said: Translated) -> None:
            self.ask(message, method, params, said)

        return call

    # Sessions

    def _new(self, message: JsonObject, params: JsonObject, said: Translated) -> None:
        told = {**params, "mcpServers": servers.for_v2(params.get("mcpServers"))}
        self.ask(message, "session/new", told, said)
        self._opening += 1

    def _load(self, message: JsonObject, params: JsonObject, said: Translated) -> None:
        told = {**params, "mcpServers": servers.for_v2(params.get("mcpServers"))}
        self.ask(message, "session/resume", {**told, "replayFrom": {"type": "start"}}, said)
        session_id = str(params["sessionId"])
        prompts = self.sessions[session_id].prompts
        self.sessions.pop(session_id)  # the client begins anew with it
        session = self.sessions[session_id]
        session.is_loading, session.prompts = True, prompts

    def _resume(self, message: JsonObject, params: JsonObject, said: Translated) -> None:
        told = {**params, "mcpServers": servers.for_v2(params.get("mcpServers"))}
        self.ask(message, "session/resume", told, said)

    def _opened(self, message: JsonObject, asked: Asked, said: Translated) -> None:
        """Tell the client of a session, then what it must not hear before."""
        if asked.sent == "session/new":
            self._opening -= 1
        elif asked.session:
            self.sessions[asked.session].is_loading = False
        result = message.get("result")
        if is_object(result):
            session_id = asked.session or as_text(result.get("sessionId"), "sessionId")
            self._tell_opened(session_id, asked, result, said)
        else:
            said.to_client.append(message)
        if not self._opening:
            self._tell_waiting(said)

    def _tell_opened(
        self, session_id: str, asked: Asked, result: JsonObject, said: Translated
    ) -> None:
        session = self.sessions[session_id]
        session.is_open = True
        session.options = options.read(result.get("configOptions"))
        told = {k: v for k, v in result.items() if k not in ("configOptions", "availableCommands")}
        told["configOptions"] = self._options_of(session, said)
        modes = options.modes_of(session.options)
        if modes is not None:
            told["modes"] = modes
            session.mode = modes["currentModeId"]
        said.to_client.append(self.answer(asked.message, told))
        if result.get("availableCommands"):
            kind = "available_commands_update"
            listed = commands.for_v1(result["availableCommands"], said)
            update = {"sessionUpdate": kind, "availableCommands": listed}
            said.to_client.append(self.update(session_id, update))

    def _tell_waiting(self, said: Translated) -> None:
        for session in self.sessions.values():
            waiting, session.waiting = session.waiting, []
            for message in waiting:
                said.add(self.from_agent(message))

    def hear_update(self, message: JsonObject, said: Translated) -> None:
        """Take an update; hold it back if the client does not know of the session yet."""
        session_id = text(obj(message.get("params")).get("sessionId"))
        if self._opening and session_id is not None:
            session = self.sessions[session_id]
            if not session.is_open and not session.is_loading:
                session.waiting.append(message)
                return
        super().hear_update(message, said)

    def _closed(self, message: JsonObject, asked: Asked, said: Translated) -> None:
        if "error" not in message:
            self.end_session(asked.session, said)
        said.to_client.append(message)

    # Options and modes

    def _options_of(self, session: Session, said: Translated) -> list[JsonObject]:
        booleans = obj(self._wants.get("configOptions")).get("boolean") is not None
        return options.for_v1(session.options, said, booleans=booleans)

    def _set_mode(self, message: JsonObject, params: JsonObject, said: Translated) -> None:
        session = self.sessions[as_text(params.get("sessionId"), "sessionId")]
        option = options.mode_option(session.options)
        if option is None:
            raise InvalidParams("modeId: this agent has no modes")
        rest = {name: value for name, value in params.items() if name != "modeId"}
        chosen = {"configId": option["configId"], "type": "id", "value": params.get("modeId")}
        self.ask(message, "session/set_config_option", {**rest, **chosen}, said)

    def _set_option(self, message: JsonObject, params: JsonObject, said: Translated) -> None:
        session = self.sessions[as_text(params.get("sessionId"), "sessionId")]
        told = options.value_for_v2(params, session.options)
        self.ask(message, "session/set_config_option", told, said)

    def _option_set(self, message: JsonObject, asked: Asked, said: Translated) -> None:
        """Answer the one, and tell the other by an update: clients show either modes or options."""
        result = message.get("result")
        if not is_object(result):
            said.to_client.append(message)
            return
        session, rest = self.sessions[asked.session], dict(result)
        session.options = options.read(rest.pop("configOptions", None))
        told = self._options_of(session, said)
        if asked.message.get("method") == "session/set_mode":
            session.mode = obj(asked.message.get("params")).get("modeId")
            update = {"sessionUpdate": "config_option_update", "configOptions": told}
            news = [update]
            said.to_client.append(self.answer(asked.message, rest))
        else:
            news = self._mode_news(session)
            said.to_client.append(self.answer(asked.message, {**rest, "configOptions": told}))
        said.to_client += [self.update(asked.session, one) for one in news]

    def _mode_news(self, session: Session) -> list[JsonObject]:
        """Return the update that tells the mode, if the client believes it to be another."""
        modes = options.modes_of(session.options)
        if modes is None or modes["currentModeId"] == session.mode:
            return []
        session.mode = modes["currentModeId"]
        return [{"sessionUpdate": "current_mode_update", "currentModeId": session.mode}]

    def _options_told(
        self, session_id: str, update: JsonObject, said: Translated
    ) -> list[JsonObject]:
        session = self.sessions[session_id]
        session.options = options.read(update.get("configOptions"))
        told = {**update, "configOptions": self._options_of(session, said)}
        return [told, *self._mode_news(session)]

    # What the agent says

    def _chunk(self, session_id: str, update: JsonObject, said: Translated) -> list[JsonObject]:
        session, given = self.sessions[session_id], update.get("content")
        key = as_text(update.get("messageId"), "messageId")
        if update["sessionUpdate"] == "user_message_chunk" and self.is_echo(session, key):
            return []
        block = self._block(given, said)
        shown = session.shown.grow(key, as_object(given, "content"))
        if block is given and shown == key:
            return [update]
        return [{**update, "messageId": shown, "content": block}]

    def _whole(self, session_id: str, update: JsonObject, said: Translated) -> list[JsonObject]:
        """Return the chunks of a message that are new."""
        session, kind = self.sessions[session_id], str(update["sessionUpdate"])
        key = as_text(update.get("messageId"), "messageId")
        if kind == "user_message" and self.is_echo(session, key):
            return []
        if "content" not in update:
            return []  # nothing is said of what the user sees
        blocks = [as_object(one, "content") for one in as_list(update["content"] or [], "content")]
        found = session.shown.rest(key, blocks)
        if found is None:
            said.lose(f"{kind} that was replaced")
            found = self.new_id(), blocks
            session.shown.replace(key, *found)
        shown, news = found
        rest = {name: value for name, value in update.items() if name != "content"}
        told = {**rest, "sessionUpdate": f"{kind}_chunk", "messageId": shown}
        return [{**told, "content": self._block(one, said)} for one in news]

    def _block(self, value: JsonValue, said: Translated) -> JsonObject:
        block = content.for_v1(value)
        if block is not None:
            return block
        said.lose(f"content of type {value['type']}")
        return content.named(value)

    def _optional(self, session_id: str, update: JsonObject, said: Translated) -> list[JsonObject]:  # noqa: ARG002
        """Pass on what the client has asked for, with content that it knows."""
        kind = str(update["sessionUpdate"])
        if self._wants.get(_OPTIONAL[kind]) is None:
            said.lose(kind)
            return []
        if update.get("summary"):
            summary = [self._block(one, said) for one in as_list(update["summary"], "summary")]
            return [{**update, "summary": summary}]
        if "content" in update:
            return [{**update, "content": self._block(update["content"], said)}]
        return [update]

    def _commands_told(
        self,
        session_id: str,  # noqa: ARG002
        update: JsonObject,
        said: Translated,
    ) -> list[JsonObject]:
        told = commands.for_v1(update.get("availableCommands"), said)
        return [{**update, "availableCommands": told}]

    # What the agent asks

    def _elicit(self, message: JsonObject, params: JsonObject, said: Translated) -> None:
        told = elicitation.form_for_v1(params, said)
        made = making.request(self.client, message, "elicitation/create", told)
        said.to_client.append(message if told is params else made)

    def permission_asked(self, session_id: str, message: JsonObject) -> Translated:  # noqa: ARG002
        """Nothing is to be told: to a client of v1, the question says it all."""
        return Translated()

    def call_told(self, session_id: str) -> None:
        """Nothing is to be noted: every message of v2 has an id."""

    def is_muted(self, session_id: str) -> bool:  # noqa: ARG002
        """Whether something is not to be shown: v2 tells nothing again that nobody wants."""
        return False
