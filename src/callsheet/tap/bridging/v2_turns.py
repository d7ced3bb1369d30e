"""Turns of an agent of v2, for a client of v1: the answer to the prompt is held back until the work is over.

v2 answers a prompt when it has taken it in, and says `idle` when no work is left. v1 has one answer, last.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from callsheet.acp.jsonrpc import ProtocolError
from callsheet.observe.values import obj, rpc_id, text
from callsheet.report.json import JsonObject, JsonValue

from . import content, making
from .direction import Direction
from .making import Cancelled, as_text
from .messages import Shown
from .plans import Plans
from .translated import Asked, Key, Sessions, Translated

REASONS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
"""Why a turn may end in v1."""

MANY = 64
"""Prompts whose echo may still come."""


class Prompt(Struct):
    """A prompt that the client waits for."""

    message: JsonObject
    is_accepted: bool = False
    is_begun: bool = False
    """Whether work began after it was sent."""
    end: JsonObject | None = None
    """The idle state that came before it was accepted."""


class Session(Struct):
    """What is known of a session of an agent of v2."""

    is_open: bool = False
    """Whether the client knows of it."""
    is_loading: bool = False
    """Whether the agent tells again what was said."""
    waiting: list[JsonObject] = field(default_factory=list[JsonObject])
    """Updates that came before the client knew of the session."""
    prompts: dict[Key, Prompt] = field(default_factory=dict[Key, Prompt])
    echoes: dict[str, None] = field(default_factory=dict[str, None])
    """Ids of messages in which the agent repeats prompts."""
    options: list[JsonObject] = field(default_factory=list[JsonObject])
    """The agent's options, in v2's words."""
    mode: JsonValue = None
    """The mode, as the client was told."""
    plans: Plans = field(default_factory=Plans)
    shown: Shown = field(default_factory=Shown)


class V2Turns(Direction):
    """Turns, and the state of sessions."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        super().__init__(new_id)
        self.sessions: Sessions[Session] = Sessions(Session)
        self.calls |= {"session/prompt": self._prompt, "$/cancel_request": self._take_back}
        self.answers |= {"session/prompt": self._accepted}
        self.updates |= {"state_update": self._state}

    def _prompt(self, message: JsonObject, params: JsonObject, said: Translated) -> None:
        session = self.sessions[as_text(params.get("sessionId"), "sessionId")]
        blocks = content.prompt_for_v2(params.get("prompt"))
        if all(new is old for new, old in zip(blocks, params["prompt"], strict=True)):
            self.pass_on(message, said)
        else:
            self.ask(message, "session/prompt", {**params, "prompt": blocks}, said)
        session.prompts[rpc_id(message.get("id"))] = Prompt(message)

    def _accepted(self, message: JsonObject, asked: Asked, said: Translated) -> None:
        session = self.sessions[asked.session]
        prompt = session.prompts.get(rpc_id(message.get("id")))
        if prompt is None:
            return  # its session was closed, and the client was told
        if "error" in message:
            del session.prompts[rpc_id(message.get("id"))]
            cancelled = obj(message["error"]).get("code") == Cancelled.code
            end = self.answer(asked.message, {"stopReason": "cancelled"}) if cancelled else message
            said.to_client.append(end)
            return
        prompt.is_accepted = True
        self._expect_echo(session, text(obj(message.get("result")).get("messageId")))
        if prompt.end is not None:
            self._end(session, prompt, prompt.end, said)

    # The state of a session

    def _state(self, session_id: str, update: JsonObject, said: Translated) -> list[JsonObject]:
        session, state = self.sessions[session_id], update.get("state")
        if state == "idle":
            for prompt in list(session.prompts.values()):
                if prompt.is_accepted:
                    self._end(session, prompt, update, said)
                elif prompt.is_begun:
                    prompt.end = update
            return []
        for prompt in session.prompts.values():
            prompt.is_begun, prompt.end = True, None
        if not session.prompts or state not in ("running", "requires_action"):
            said.lose("state_update")
        return []

    def _end(self, session: Session, prompt: Prompt, update: JsonObject, said: Translated) -> None:
        """Answer a prompt, now that the work is over."""
        session.prompts.pop(rpc_id(prompt.message.get("id")), None)
        reason = update.get("stopReason")
        if reason == "error":
            error = obj(update.get("error")) or ProtocolError("the agent failed").to_error()
            key = prompt.message.get("id")
            said.to_client.append({"jsonrpc": "2.0", "id": key, "error": error})
            return
        if reason is not None and reason not in REASONS:
            said.lose(f"stop reason {reason}")
        told: JsonObject = {"stopReason": reason if reason in REASONS else "end_turn"}
        if isinstance(update.get("_meta"), dict):
            told["_meta"] = update["_meta"]
        said.to_client.append(self.answer(prompt.message, told))

    # What the agent repeats

    def _expect_echo(self, session: Session, key: str | None) -> None:
        if key is None:
            return
        session.echoes[key] = None
        if len(session.echoes) > MANY:
            del session.echoes[next(iter(session.echoes))]

    def is_echo(self, session: Session, key: str) -> bool:
        """Whether a message of the user is a prompt that the client has just sent."""
        if session.is_loading:
            return False
        if key in session.echoes:
            return True
        awaited = any(not prompt.is_accepted for prompt in session.prompts.values())
        if awaited:  # the echo may come before the answer
            self._expect_echo(session, key)
        return awaited

    # Cancelling and closing

    def _take_back(self, message: JsonObject, params: JsonObject, said: Translated) -> None:
        """Let a client take back a request. To take back a prompt that was accepted is to cancel the turn."""
        key = rpc_id(params.get("requestId"))
        for session_id, session in self.sessions.items():
            prompt = session.prompts.get(key)
            if prompt is not None and prompt.is_accepted:
                told = making.fit(2, "session/cancel", {"sessionId": session_id})
                said.to_agent.append({"jsonrpc": "2.0", "method": "session/cancel", "params": told})
                return
        said.to_agent.append(message)

    def end_session(self, session_id: str, said: Translated) -> None:
        """Answer what is open in a session that the agent has closed, and forget it."""
        session = self.sessions.get(session_id)
        if session is not None:
            for prompt in session.prompts.values():
                said.to_client.append(self.answer(prompt.message, {"stopReason": "cancelled"}))
        self.sessions.pop(session_id)

    def agent_gone(self) -> Translated:
        """Answer every prompt whose answer is held back."""
        said = Translated()
        for session in self.sessions.values():
            for prompt in session.prompts.values():
                error = ProtocolError("the agent has ended")
                said.to_client.append(making.failure(prompt.message, error))
            session.prompts.clear()
        return said
