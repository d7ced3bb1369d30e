"""Turns of an agent of v1, told to a client of v2 by the state of the session.

v1: the answer to the prompt ends the turn. v2: the prompt is answered at once, and `state_update` says when
work begins, when it waits for the user, and when and why it ends. v2 also lets a client prompt while a turn
runs; an agent of v1 is given that prompt when its turn has ended.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from callsheet.acp.jsonrpc import InvalidRequest, ProtocolError
from callsheet.observe.values import obj, rpc_id, text
from callsheet.report.json import JsonObject, JsonValue, is_object

from . import content, making
from .direction import Direction
from .making import Cancelled, as_text
from .translated import Asked, Sessions, Translated

MANY = 256
"""Prompts that may wait for the end of a turn."""


class Turn(Struct):
    """A turn that runs."""

    request: JsonValue
    """The id of its prompt."""
    text: str
    """What the user has said."""


class Session(Struct):
    """What is known of a session of an agent of v1."""

    cwd: str = ""
    is_open: bool = False
    is_muted: bool = False
    """Whether the agent tells again what the client does not want to hear again."""
    options: list[JsonObject] = field(default_factory=list[JsonObject])
    """The agent's options, in v2's words."""
    modes: JsonObject | None = None
    """The agent's modes, in v1's words."""
    commands: list[JsonObject] | None = None
    turn: Turn | None = None
    held: list[JsonObject] = field(default_factory=list[JsonObject])
    """Prompts that wait for the end of the turn."""
    speaking: tuple[str, str] | None = None
    """The kind and the id of the message that the agent is saying."""
    questions: set[JsonValue] = field(default_factory=set[JsonValue])
    """The ids of what the user is asked now."""
    closing: JsonObject | None = None
    """A request to close it that waits for the end of the turn."""


class V1Turns(Direction):
    """Turns, and the state of sessions."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        super().__init__(new_id)
        self.sessions: Sessions[Session] = Sessions(Session)
        self.calls |= {
            "session/prompt": self._prompt,
            "session/cancel": self._cancel,
            "$/cancel_request": self._take_back,
        }
        self.answers |= {"session/prompt": self._turn_over}

    def state(self, session_id: str, **more: JsonValue) -> JsonObject:
        """Return the `state_update` that says how a session is now."""
        session = self.sessions[session_id]
        state = "idle" if session.turn is None else "running"
        if session.turn is not None and session.questions:
            state = "requires_action"
        return self.update(session_id, {**more, "sessionUpdate": "state_update", "state": state})

    # Prompts

    def _prompt(self, message: JsonObject, params: JsonObject, said: Translated) -> None:
        session_id = as_text(params.get("sessionId"), "sessionId")
        blocks = content.prompt_for_v1(params.get("prompt"))
        making.fit(1, "session/prompt", {**params, "prompt": blocks})
        making.fit(2, "session/prompt", params)  # the client is told what it has said
        session = self.sessions[session_id]
        if session.turn is None:
            self._begin(session_id, message, said)
        elif len(session.held) < MANY:
            session.held.append(message)
        else:
            raise InvalidRequest("a turn is running, and too many prompts wait for its end")

    def _begin(self, session_id: str, message: JsonObject, said: Translated) -> None:
        """Let a turn begin, and tell the client what an agent of v2 would tell it."""
        params = obj(message.get("params"))
        given: list[JsonObject] = params["prompt"]
        blocks = content.prompt_for_v1(given)
        same = all(new is old for new, old in zip(blocks, given, strict=True))
        if same:
            self.pass_on(message, said)
        else:
            self.ask(message, "session/prompt", {**params, "prompt": blocks}, said)
        session, key = self.sessions[session_id], self.new_id()
        session.turn = Turn(message.get("id"), content.text_of(blocks))
        session.speaking = None
        heard = {"sessionUpdate": "user_message", "messageId": key, "content": given}
        said.to_client.append(self.answer(message, {"messageId": key}))
        said.to_client.append(self.update(session_id, heard))
        said.to_client.append(self.state(session_id))

    def is_echo(self, session: Session, block: JsonObject) -> bool:
        """Whether an agent only repeats what the user has just said, and the client was told."""
        said = text(block.get("text"))
        return session.turn is not None and said is not None and said in session.turn.text

    # The end of a turn

    def _turn_over(self, message: JsonObject, asked: Asked, said: Translated) -> None:
        session = self.sessions[asked.session]
        if session.turn is None or rpc_id(session.turn.request) != rpc_id(message.get("id")):
            return  # its session was closed, and the client was told
        ended = self._ended(asked.session, _end_of(message))
        said.to_client.append(ended)
        self._go_on(asked.session, said)

    def _ended(self, session_id: str, end: JsonObject) -> JsonObject:
        session = self.sessions[session_id]
        session.turn, session.speaking = None, None
        session.questions.clear()
        try:
            return self.state(session_id, **end)
        except ProtocolError:  # a reason that is no text; that the turn is over must be told
            return self.state(session_id, stopReason="end_turn")

    def _go_on(self, session_id: str, said: Translated) -> None:
        """Do what has waited for the end of the turn."""
        session = self.sessions[session_id]
        if session.closing is not None:
            self._drop_held(session, said)
            said.to_client.append(self.answer(session.closing, {}))
            self.sessions.pop(session_id)
        elif session.held:
            self._begin(session_id, session.held.pop(0), said)

    # Cancelling and closing

    def _cancel(self, message: JsonObject, params: JsonObject, said: Translated) -> None:
        session = self.sessions.get(text(params.get("sessionId")) or "")
        if session is not None:
            self._drop_held(session, said)
        said.to_agent.append(message)

    def _drop_held(self, session: Session, said: Translated) -> None:
        for held in session.held:
            error = Cancelled("the turn before it was cancelled")
            said.to_client.append(making.failure(held, error))
        session.held.clear()

    def _take_back(self, message: JsonObject, params: JsonObject, said: Translated) -> None:
        """Let a client take back a request. To an agent of v1, taking back a prompt would end the turn."""
        key = rpc_id(params.get("requestId"))
        for session in self.sessions.values():
            if session.turn is not None and rpc_id(session.turn.request) == key:
                return  # it was answered long ago
            for held in session.held:
                if rpc_id(held.get("id")) == key:
                    session.held.remove(held)
                    said.to_client.append(making.failure(held, Cancelled("session/prompt")))
                    return
        said.to_agent.append(message)

    def close_after_turn(self, session_id: str, message: JsonObject, said: Translated) -> None:
        """Close a session of an agent that can't, when its turn has ended."""
        session = self.sessions[session_id]
        self._drop_held(session, said)
        session.closing = message
        params = making.fit(1, "session/cancel", {"sessionId": session_id})
        said.to_agent.append({"jsonrpc": "2.0", "method": "session/cancel", "params": params})

    def end_session(self, session_id: str, said: Translated) -> None:
        """End what is open in a session that the agent has closed, and forget it."""
        session = self.sessions.get(session_id)
        if session is not None:
            self._drop_held(session, said)
            if session.turn is not None:
                said.to_client.append(self._ended(session_id, {"stopReason": "cancelled"}))
        self.sessions.pop(session_id)

    def agent_gone(self) -> Translated:
        """End every turn, and let go of what is held."""
        said = Translated()
        error = ProtocolError("the agent has ended")
        for session_id, session in self.sessions.items():
            said.to_client += [making.failure(held, error) for held in session.held]
            session.held.clear()
            if session.turn is not None:
                end = {"stopReason": "error", "error": error.to_error()}
                said.to_client.append(self._ended(session_id, end))
            self._go_on(session_id, said)
        return said

    # What the user is asked

    def ask_client(self, message: JsonObject, params: JsonObject, said: Translated) -> None:
        """Ask the client something, and tell by the state that work waits for it."""
        made = making.request(self.client, message, str(message["method"]), params)
        session_id = text(params.get("sessionId")) or ""
        self.questions.add(message, session=session_id)
        if session_id:
            self.question_open(session_id, message, said)
        said.to_client.append(message if params is message.get("params") else made)

    def question_open(self, session_id: str, message: JsonObject, said: Translated) -> None:
        """Note that the user is asked."""
        session = self.sessions[session_id]
        session.questions.add(rpc_id(message.get("id")))
        if session.turn is not None and len(session.questions) == 1:
            said.to_client.append(self.state(session_id))

    def question_over(self, asked: Asked, said: Translated) -> None:
        """Note that the user has answered."""
        session = self.sessions.get(asked.session)
        key = rpc_id(asked.message.get("id"))
        if session is None or key not in session.questions:
            return
        session.questions.discard(key)
        if session.turn is not None and not session.questions:
            said.to_client.append(self.state(asked.session))


def _end_of(message: JsonObject) -> JsonObject:
    """Return how a turn ended, in v2's words."""
    result = message.get("result")
    if is_object(result):
        return result
    error = obj(message.get("error"))
    if error.get("code") == Cancelled.code:
        return {"stopReason": "cancelled"}
    return {"stopReason": "error", "error": error} if error else {"stopReason": "end_turn"}
