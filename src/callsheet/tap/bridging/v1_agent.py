"""A client of v2 in front of an agent of v1: sessions, options, what the agent says and asks.

The turns are in `v1_turns.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from callsheet.acp.jsonrpc import InvalidParams, UnknownMethod
from callsheet.observe.values import obj, text
from callsheet.report.json import JsonObject, is_object

from . import commands, content, elicitation, greeting, making, options, plans, servers
from .making import UnknownSession, as_text
from .table import V1_AGENT, Table
from .translated import Asked, Translated
from .v1_turns import Session, V1Turns

_SPOKEN = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")
_TIMELINE = (*_SPOKEN, "plan", "notice", "compaction_update", "compaction_summary_chunk")
"""What is part of the conversation; a client that wants no replay is not told it."""


class V1Agent(V1Turns):
    """Lets a client of v2 use an agent of v1."""

    agent: Literal[1, 2] = 1
    client: Literal[1, 2] = 2
    table: Table = V1_AGENT

    def __init__(self, new_id: Callable[[], str]) -> None:
        super().__init__(new_id)
        self._capabilities: JsonObject = {}
        self.calls |= {
            "auth/login": self._log_in,
            "auth/logout": self._log_out,
            "session/new": self._new,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/close": self._close,
            "session/set_config_option": self._set_option,
        }
        self.answers |= {
            "session/new": self._opened,
            "session/resume": self._resumed,
            "session/close": self._closed,
            "session/delete": self._closed,
            "session/set_config_option": self._option_set,
        }
        self.requests |= {"elicitation/create": self._elicit}
        self.replies |= {
            "elicitation/create": self._elicited,
            "session/request_permission": self._decided,
        }
        self.updates |= dict.fromkeys(_SPOKEN, self._chunk)
        self.updates |= {
            "plan": lambda _, update, __: [plans.for_v2(update)],
            "available_commands_update": self._commands_told,
            "current_mode_update": self._mode_told,
            "config_option_update": self._options_told,
        }

    # Greeting

    def greeted(self, params: JsonObject, result: JsonObject, said: Translated) -> JsonObject:  # noqa: ARG002
        """Take note of what the agent can, and tell the client."""
        self._capabilities = obj(result.get("agentCapabilities"))
        return greeting.agent_for_v2(result)

    def _can(self, what: str) -> bool:
        offered = obj(self._capabilities.get("sessionCapabilities"))
        return offered.get(what) is not None

    @property
    def _can_load(self) -> bool:
        return self._capabilities.get("loadSession") is True

    def _log_in(self, message: JsonObject, params: JsonObject, said: Translated) -> None:
        self.ask(message, "authenticate", params, said)

    def _log_out(self, message: JsonObject, params: JsonObject, said: Translated) -> None:
        if obj(self._capabilities.get("auth")).get("logout") is None:
            raise UnknownMethod("the agent speaks ACP v1, and does not offer to log out")
        self.ask(message, "logout", params, said)

    # Sessions

    def _new(self, message: JsonObject, params: JsonObject, said: Translated) -> None:
        told = {**params, "mcpServers": servers.for_v1(params.get("mcpServers"))}
        self.ask(message, "session/new", told, said)

    def _opened(self, message: JsonObject, asked: Asked, said: Translated) -> None:
        result = message.get("result")
        if not is_object(result):
            said.to_client.append(message)
            return
        session = self.sessions[as_text(result.get("sessionId"), "sessionId")]
        told = self._settings(session, asked, result, said)
        answer = {**_rest(result), **told}
        said.to_client.append(self.answer(asked.message, answer))

    def _settings(
        self, session: Session, asked: Asked, result: JsonObject, said: Translated
    ) -> JsonObject:
        """Take note of how a session is, and give what v2 wants to know of it."""
        session.cwd = text(obj(asked.message.get("params")).get("cwd")) or session.cwd
        session.is_open = True
        session.options = options.for_v2(result.get("configOptions"), said)
        session.modes = result.get("modes") if is_object(result.get("modes")) else None
        told: JsonObject = {"configOptions": self._all_options(session)}
        if session.commands is not None:
            told["availableCommands"] = session.commands
        return told

    def _resume(self, message: JsonObject, params: JsonObject, said: Translated) -> None:
        session_id = as_text(params.get("sessionId"), "sessionId")
        session = self.sessions.get(session_id)
        told = {name: value for name, value in params.items() if name != "replayFrom"}
        told["mcpServers"] = servers.for_v1(params.get("mcpServers"))
        if params.get("replayFrom") is not None:
            self._check_cursor(params["replayFrom"])
            self.ask(message, "session/load", told, said)
            self.sessions[session_id].speaking = None
        elif self._can("resume"):
            self.ask(message, "session/resume", told, said)
        elif session is not None and session.is_open:
            said.to_client.append(self.state(session_id))
            said.to_client.append(self.answer(message, self._known(session)))
        elif self._can_load:
            self.ask(message, "session/load", told, said)
            self.sessions[session_id].is_muted = True
        else:
            raise UnknownSession("the agent keeps no sessions", data={"sessionId": session_id})

    def _check_cursor(self, start: object) -> None:
        if not is_object(start) or start.get("type") != "start":
            raise InvalidParams('replayFrom: an agent of ACP v1 knows only {"type": "start"}')
        if not self._can_load:
            raise InvalidParams("replayFrom: this agent can't tell what was said before")

    def _known(self, session: Session) -> JsonObject:
        told: JsonObject = {"configOptions": self._all_options(session)}
        return told if session.commands is None else {**told, "availableCommands": session.commands}

    def _resumed(self, message: JsonObject, asked: Asked, said: Translated) -> None:
        session = self.sessions[asked.session]
        session.is_muted, session.speaking = False, None
        if "error" in message:
            said.to_client.append(message)
            return
        result = obj(message.get("result"))
        answer = {**_rest(result), **self._settings(session, asked, result, said)}
        said.to_client.append(self.state(asked.session))
        said.to_client.append(self.answer(asked.message, answer))

    def _list(self, message: JsonObject, params: JsonObject, said: Translated) -> None:
        if self._can("list"):
            self.pass_on(message, said)
            return
        cwd = params.get("cwd")
        found = [
            {"sessionId": key, "cwd": session.cwd}
            for key, session in self.sessions.items()
            if session.is_open and cwd in (None, session.cwd)
        ]
        said.to_client.append(self.answer(message, {"sessions": found}))

    def _close(self, message: JsonObject, params: JsonObject, said: Translated) -> None:
        session_id = as_text(params.get("sessionId"), "sessionId")
        session = self.sessions[session_id]
        if self._can("close"):
            self.pass_on(message, said)
        elif session.turn is None:
            said.to_client.append(self.answer(message, {}))
            self.sessions.pop(session_id)
        else:
            self.close_after_turn(session_id, message, said)

    def _closed(self, message: JsonObject, asked: Asked, said: Translated) -> None:
        if "error" not in message:
            self.end_session(asked.session, said)
        said.to_client.append(message)

    # Options and modes

    def _all_options(self, session: Session) -> list[JsonObject]:
        return options.with_modes(session.options, session.modes)

    def _set_option(self, message: JsonObject, params: JsonObject, said: Translated) -> None:
        session = self.sessions[as_text(params.get("sessionId"), "sessionId")]
        option = options.mode_option(self._all_options(session))
        is_made = option is not None and option not in session.options
        if option is not None and is_made and params.get("configId") == option["configId"]:
            told = {"sessionId": params["sessionId"], "modeId": params.get("value")}
            self.ask(message, "session/set_mode", told, said)
            return
        told = dict(params)
        if params.get("type") == "id":
            del told["type"]
        elif params.get("type") != "boolean":
            raise InvalidParams(f"type: an agent of ACP v1 takes no {params.get('type')!r}")
        self.ask(message, "session/set_config_option", told, said)

    def _option_set(self, message: JsonObject, asked: Asked, said: Translated) -> None:
        result = message.get("result")
        if not is_object(result):
            said.to_client.append(message)
            return
        session = self.sessions[asked.session]
        if asked.sent == "session/set_mode":
            chosen = obj(asked.message.get("params")).get("value")
            session.modes = {**(session.modes or {}), "currentModeId": chosen}
        else:
            session.options = options.for_v2(result.get("configOptions"), said)
        answer = {**_rest(result), "configOptions": self._all_options(session)}
        said.to_client.append(self.answer(asked.message, answer))

    def _mode_told(self, session_id: str, update: JsonObject, said: Translated) -> list[JsonObject]:
        session = self.sessions[session_id]
        mode = as_text(update.get("currentModeId"), "currentModeId")
        before = self._all_options(session)
        if session.modes is not None:
            session.modes = {**session.modes, "currentModeId": mode}
        option = options.mode_option(session.options)
        if option is not None and options.has_choice(option, mode):
            session.options = options.with_value(session.options, str(option["configId"]), mode)
        now = self._all_options(session)
        if now == before:
            known = options.mode_option(now)
            if known is None or known.get("currentValue") != mode:
                said.lose("current_mode_update")
            return []
        told = {name: value for name, value in update.items() if name != "currentModeId"}
        return [{**told, "sessionUpdate": "config_option_update", "configOptions": now}]

    def _options_told(
        self, session_id: str, update: JsonObject, said: Translated
    ) -> list[JsonObject]:
        session = self.sessions[session_id]
        session.options = options.for_v2(update.get("configOptions"), said)
        return [{**update, "configOptions": self._all_options(session)}]

    # What the agent says

    def hear_update(self, message: JsonObject, said: Translated) -> None:
        """Take an update, unless it is part of a replay that the client did not want."""
        params = obj(message.get("params"))
        session = self.sessions.get(text(params.get("sessionId")) or "")
        kind = obj(params.get("update")).get("sessionUpdate")
        if session is None or not session.is_muted or kind not in _TIMELINE:
            super().hear_update(message, said)

    def _chunk(self, session_id: str, update: JsonObject, said: Translated) -> list[JsonObject]:  # noqa: ARG002
        session, kind = self.sessions[session_id], str(update["sessionUpdate"])
        block = content.for_v2(update.get("content"))
        if kind == "user_message_chunk" and self.is_echo(session, block):
            return []
        key = text(update.get("messageId"))
        if key is None:
            same = session.speaking is not None and session.speaking[0] == kind
            key = session.speaking[1] if same and session.speaking else self.new_id()
        session.speaking = kind, key
        if block is update.get("content") and update.get("messageId") == key:
            return [update]
        return [{**update, "messageId": key, "content": block}]

    def _commands_told(
        self,
        session_id: str,
        update: JsonObject,
        said: Translated,  # noqa: ARG002
    ) -> list[JsonObject]:
        told = commands.for_v2(update.get("availableCommands"))
        self.sessions[session_id].commands = told
        return [{**update, "availableCommands": told}]

    # What the agent asks

    def _elicit(self, message: JsonObject, params: JsonObject, said: Translated) -> None:
        told = elicitation.form_for_v2(params)
        self.ask_client(message, told, said)

    def _elicited(self, message: JsonObject, asked: Asked, said: Translated) -> None:
        self._reply(message, asked, said, {"action": "cancel"})

    def _decided(self, message: JsonObject, asked: Asked, said: Translated) -> None:
        self._reply(message, asked, said, {"outcome": {"outcome": "cancelled"}})

    def _reply(
        self, message: JsonObject, asked: Asked, said: Translated, otherwise: JsonObject
    ) -> None:
        """Return the agent what the user answered. What it does not know must not count as a yes."""
        told = message
        if "error" not in message:
            try:
                making.fit(self.agent, asked.sent, message.get("result"), answer=True)
            except InvalidParams:
                said.lose(f"answer to {asked.sent}")
                told = {**message, "result": otherwise}
        said.to_agent.append(told)
        self.question_over(asked, said)

    def permission_asked(self, session_id: str, message: JsonObject) -> Translated:
        """Take note that the user is asked: the state of the session says so."""
        said = Translated()
        self.questions.add(message, "session/request_permission", session_id)
        self.question_open(session_id, message, said)
        return said

    def call_told(self, session_id: str) -> None:
        """Take note of a call: what is said after it is a message of its own."""
        self.sessions[session_id].speaking = None

    def is_muted(self, session_id: str) -> bool:
        """Whether the agent tells again what the client does not want to hear."""
        session = self.sessions.get(session_id)
        return session is not None and session.is_muted


def _rest(result: JsonObject) -> JsonObject:
    """Return what an answer says besides what v1 has for a session's settings."""
    return {k: v for k, v in result.items() if k not in ("modes", "configOptions")}
