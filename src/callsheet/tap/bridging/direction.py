"""What both directions of the bridge share: who has asked what, and who translates it.

Whatever comes is looked up in the table. What is refused there is refused here; what is translated goes to
the direction's own handler. If a handler finds that something is not as the schema says, a request is
answered with that, and anything else passes as it came.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

from callsheet.acp.jsonrpc import InvalidParams, InvalidRequest, ProtocolError, UnknownMethod
from callsheet.observe.values import obj, text
from callsheet.report.json import JsonObject, is_object

from . import making
from .table import OTHER_UPDATES, Row, Table
from .translated import Asked, Requests, Translated

Call = Callable[[JsonObject, JsonObject, Translated], None]
"""Translates a request or a notification: the message, its params."""
Reply = Callable[[JsonObject, Asked, Translated], None]
"""Translates an answer: the message, and what was asked."""
News = Callable[[str, JsonObject, Translated], list[JsonObject]]
"""Translates an update of a session. Gives the updates that it becomes; itself if it passes."""


class Direction(ABC):
    """A client of one version in front of an agent of the other."""

    agent: Literal[1, 2]
    client: Literal[1, 2]
    table: Table

    def __init__(self, new_id: Callable[[], str]) -> None:
        self.new_id: Callable[[], str] = new_id
        self.asked: Requests = Requests()
        """What the client has asked."""
        self.questions: Requests = Requests()
        """What the agent has asked."""
        self.calls: dict[str, Call] = {}
        """Of the client, by method."""
        self.answers: dict[str, Reply] = {}
        """Of the agent, by the method of the client."""
        self.requests: dict[str, Call] = {}
        """Of the agent, by method."""
        self.replies: dict[str, Reply] = {}
        """Of the client, by the method of the agent."""
        self.updates: dict[str, News] = {}
        """Of the agent, by kind."""

    # What comes

    def from_client(self, message: JsonObject) -> Translated:
        """Take a message of the client."""
        said = Translated()
        try:
            self._hear_client(message, said)
        except ProtocolError as error:
            if not _is_request(message):
                return Translated(to_agent=[message])
            said = _refusal(message, said)
            said.to_client.append(making.failure(message, error))
        return said

    def from_agent(self, message: JsonObject) -> Translated:
        """Take a message of the agent."""
        said = Translated()
        try:
            self._hear_agent(message, said)
        except ProtocolError as error:
            if not _is_request(message):
                return Translated(to_client=[message], lost={"malformed": 1})
            said = _refusal(message, said)
            said.to_agent.append(making.failure(message, error))
        return said

    def _hear_client(self, message: JsonObject, said: Translated) -> None:
        method = text(message.get("method"))
        if method is None:
            asked = self.questions.pop(message.get("id"))
            reply = None if asked is None else self.replies.get(asked.sent)
            if asked is None or reply is None:
                said.to_agent.append(message)
            else:
                reply(message, asked, said)
            return
        _check(message, self.table.client.get(method), InvalidParams)
        handler = self.calls.get(method)
        if handler is not None:
            handler(message, obj(message.get("params")), said)
        else:
            self.pass_on(message, said)

    def _hear_agent(self, message: JsonObject, said: Translated) -> None:
        method = text(message.get("method"))
        if method is None:
            asked = self.asked.pop(message.get("id"))
            answer = None if asked is None else self.answers.get(str(asked.message.get("method")))
            if asked is None or answer is None:
                said.to_client.append(message)
            else:
                answer(message, asked, said)
        elif method == "session/update":
            self.hear_update(message, said)
        else:
            _check(message, self.table.agent.get(method), UnknownMethod)
            handler = self.requests.get(method)
            if handler is not None:
                handler(message, obj(message.get("params")), said)
            else:
                said.to_client.append(message)

    def hear_update(self, message: JsonObject, said: Translated) -> None:
        """Take a `session/update` of the agent."""
        params = obj(message.get("params"))
        session_id, update = text(params.get("sessionId")), params.get("update")
        kind = text(update.get("sessionUpdate")) if is_object(update) else None
        if session_id is None or kind is None or not is_object(update):
            said.to_client.append(message)
            return
        row = self.table.updates.get(kind, OTHER_UPDATES[self.agent])
        handler = self.updates.get(kind)
        if row.deed == "left out":
            said.lose(kind)
        elif handler is None:
            said.to_client.append(message)
        else:
            for one in handler(session_id, update, said):
                same = one is update
                said.to_client.append(message if same else self.update(session_id, one, message))

    # What is sent

    def pass_on(self, message: JsonObject, said: Translated) -> None:
        """Send a message of the client on as it is."""
        self.send(message, said, str(message.get("method")), like=message)

    def ask(
        self, message: JsonObject, method: str, params: JsonObject, said: Translated
    ) -> JsonObject:
        """Send a request of the client on, in other words."""
        made = making.request(self.agent, message, method, params)
        self.send(made, said, method, like=message)
        return made

    def send(self, made: JsonObject, said: Translated, method: str, like: JsonObject) -> None:
        """Send what was made of a message of the client."""
        if _is_request(like):
            session = text(obj(like.get("params")).get("sessionId")) or ""
            self.asked.add(like, method, session)
        said.to_agent.append(made)

    def answer(self, asked: JsonObject, result: JsonObject) -> JsonObject:
        """Return the answer to a request of the client."""
        return making.answer(self.client, asked, result)

    def update(
        self, session_id: str, told: JsonObject, like: JsonObject | None = None
    ) -> JsonObject:
        """Return an update for the client."""
        return making.update(self.client, session_id, told, like)

    # What the pipeline tells

    @abstractmethod
    def greeted(self, params: JsonObject, result: JsonObject, said: Translated) -> JsonObject:
        """Take the client's `initialize` and the agent's answer. Gives the answer for the client."""

    @abstractmethod
    def permission_asked(self, session_id: str, message: JsonObject) -> Translated:
        """Take note that the client is asked for permission."""

    @abstractmethod
    def call_told(self, session_id: str) -> None:
        """Take note that the client is told of a call."""

    @abstractmethod
    def is_muted(self, session_id: str) -> bool:
        """Whether what the agent tells of a session now is not to be shown."""

    @abstractmethod
    def agent_gone(self) -> Translated:
        """Return what is to be said when the agent has ended: what the bridge holds must not wait for ever."""


def _is_request(message: JsonObject) -> bool:
    return "id" in message and "method" in message


def _check(message: JsonObject, row: Row | None, refusal: type[ProtocolError]) -> None:
    """Raise what is to be answered, if a request is not to be passed on."""
    if row is not None and row.deed == "refused":
        raise refusal(row.words)
    if _is_request(message) and message["id"] is None:
        raise InvalidRequest("id: ACP v2 knows no requests without one")


def _refusal(message: JsonObject, said: Translated) -> Translated:
    refused = Translated(lost=said.lost)
    refused.lose(str(message.get("method")))
    return refused
