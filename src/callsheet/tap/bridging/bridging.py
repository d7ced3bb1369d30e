"""The bridge: who speaks which version, and what becomes of each message. Sans-IO, no clock.

`initialize` decides. The agent is asked for the version that we want it to speak, and its answer says which
one it does speak. If that is the client's, the bridge is idle, and everything passes as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Literal

from callsheet.acp.jsonrpc import InvalidParams, ProtocolError
from callsheet.observe.values import obj, rpc_id
from callsheet.report.json import JsonObject, JsonValue, is_object
from callsheet.runtime.ids import new_call_id

from . import greeting, making
from .direction import Direction
from .translated import Translated
from .v1_agent import V1Agent
from .v2_agent import V2Agent

Version = Literal[1, 2]

UNSUPPORTED = -32022
"""The error of an agent of v2 that does not speak the version that it is asked for."""


def _new_id() -> str:
    return "msg_" + new_call_id().removeprefix("call_")


class Bridging:
    """Stands between an agent of one version and a client of another, for one connection.

    `agent` and `client` are the versions that each is to be spoken to in. What comes of it stands in
    `agent_version` and `client_version` as soon as the agent has answered `initialize`.
    """

    def __init__(
        self, agent: Version, client: Version, new_id: Callable[[], str] = _new_id
    ) -> None:
        self.agent_version: Version = agent
        self.client_version: Version = client
        self.lost: Counter[str] = Counter()
        """What could not be said so far, by method or kind."""
        self._wanted: tuple[Version, Version] = agent, client
        self._new_id: Callable[[], str] = new_id
        self._greeting: JsonObject | None = None
        """The client's `initialize`, until it is answered."""
        self._direction: Direction = self._make()

    @property
    def is_idle(self) -> bool:
        """Whether both speak the same version, so that there is nothing to translate."""
        return self.agent_version == self.client_version

    # Messages

    def from_client(self, message: JsonObject) -> Translated:
        """Return what becomes of a message of the client, which is in the client's version."""
        if message.get("method") == "initialize" and "id" in message:
            return self._counted(self._greet(message))
        if self.is_idle:
            return Translated(to_agent=[message])
        return self._counted(self._direction.from_client(message))

    def from_agent(self, message: JsonObject) -> Translated:
        """Return what becomes of a message of the agent, which is in the agent's version.

        What is about tool calls, terminals and permission is not given here: see `permission_asked` and
        `call_told`.
        """
        if self._is_answer_to_greeting(message):
            return self._counted(self._greeted(message))
        if self.is_idle:
            return Translated(to_client=[message])
        return self._counted(self._direction.from_agent(message))

    # What the pipeline must tell, and may ask

    def permission_asked(self, session_id: str, request: JsonObject) -> Translated:
        """Take note of a `session/request_permission`, as the client gets it. Gives what goes before it."""
        if self.is_idle:
            return Translated()
        return self._direction.permission_asked(session_id, request)

    def call_told(self, session_id: str) -> None:
        """Take note that the client is told of a call for the first time: it parts messages."""
        if not self.is_idle:
            self._direction.call_told(session_id)

    def is_muted(self, session_id: str) -> bool:
        """Whether the client is not to be told of a session's calls now: a replay that it did not ask for."""
        return not self.is_idle and self._direction.is_muted(session_id)

    def agent_gone(self) -> Translated:
        """Return what the client is to be told when the agent has ended: answers that the bridge holds back."""
        return Translated() if self.is_idle else self._direction.agent_gone()

    # Greeting

    def _make(self) -> Direction:
        return V1Agent(self._new_id) if self.agent_version == 1 else V2Agent(self._new_id)

    def _greet(self, message: JsonObject) -> Translated:
        """Ask the agent for its version."""
        agent, client = self._wanted
        params = obj(message.get("params"))
        offered = params.get("protocolVersion")
        if (
            isinstance(offered, int) and agent != client
        ):  # what the client can't speak, it is not spoken to in
            client = 1 if offered <= 1 else 2
        self.agent_version, self.client_version = agent, client
        self._direction, self._greeting = self._make(), message
        if self.is_idle:
            return Translated(to_agent=[message])
        translate = greeting.client_for_v1 if agent == 1 else greeting.client_for_v2
        try:
            made = making.request(agent, message, "initialize", translate(params))
        except InvalidParams as error:
            self._greeting = None
            return Translated(to_client=[making.failure(message, error)])
        return Translated(to_agent=[made])

    def _is_answer_to_greeting(self, message: JsonObject) -> bool:
        return (
            self._greeting is not None
            and "method" not in message
            and rpc_id(message.get("id")) == rpc_id(self._greeting.get("id"))
        )

    def _greeted(self, message: JsonObject) -> Translated:
        """Learn from the agent's answer which version it speaks."""
        asked, self._greeting = obj(self._greeting), None
        if _supports(message, self.client_version) and not self.is_idle:
            self.agent_version, self._greeting = self.client_version, asked
            return Translated(to_agent=[asked])
        result = message.get("result")
        if is_object(result):
            self._settle(_version(result.get("protocolVersion"), self.agent_version))
        said = Translated()
        if self.is_idle or not is_object(result):
            said.to_client.append(message)
            return said
        try:
            told = self._direction.greeted(obj(asked.get("params")), result, said)
            said.to_client.append(making.answer(self.client_version, asked, told))
        except ProtocolError:
            said.to_client.append(message)
        return said

    def _settle(self, agent: Version) -> None:
        """Take the version that the agent speaks. A client that may speak a newer one speaks that too."""
        if self.is_idle and agent < self.client_version:
            self.client_version = agent
        if agent != self.agent_version:
            self.agent_version = agent
            self._direction = self._make()

    def _counted(self, said: Translated) -> Translated:
        if said.lost:
            self.lost.update(said.lost)
        return said


def _version(value: JsonValue, otherwise: Version) -> Version:
    if not isinstance(value, int):
        return otherwise
    return 1 if value <= 1 else 2


def _supports(message: JsonObject, version: Version) -> bool:
    """Whether an agent of v2 refuses the version that it was asked for, but speaks the client's."""
    error = obj(message.get("error"))
    return error.get("code") == UNSUPPORTED and version in (
        obj(error.get("data")).get("supported") or []
    )
