"""Made conversations over the bridge. What goes in and what comes out is held against the official schemas."""

from __future__ import annotations

from itertools import count
from typing import Any, Literal

from callsheet.tap.bridging import Bridging, Translated
from tests.support import schemas

Message = dict[str, Any]
V1, V2 = 1, 2
INFO = {"name": "x", "version": "1"}

TEXT = {"type": "text", "text": "hello"}
ASK_V1 = {
    "sessionId": "s",
    "toolCall": {"toolCallId": "c", "title": "x", "rawInput": {}},
    "options": [{"optionId": "o", "name": "Yes", "kind": "allow_once"}],
}
MODES = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}],
}


class Talk:
    """A client and an agent, played by the test, with the bridge between them."""

    def __init__(self, agent: Literal[1, 2], client: Literal[1, 2]) -> None:
        ids = count(1)
        self.bridging: Bridging = Bridging(agent, client, lambda: f"made-{next(ids)}")
        self._ids = count(1)
        self._asked: dict[str, dict[Any, str]] = {"client": {}, "agent": {}}
        self._sent: dict[str, dict[Any, str]] = {"client": {}, "agent": {}}
        self.last: Any = None
        """The id of the last request."""

    # Saying something

    def client(self, method: str, params: Any = None, *, odd: bool = False) -> Translated:
        """Let the client ask."""
        return self._ask("client", method, params, odd)

    def agent(self, method: str, params: Any = None, *, odd: bool = False) -> Translated:
        """Let the agent ask."""
        return self._ask("agent", method, params, odd)

    def tell(self, update: Message, session: str = "s", *, odd: bool = False) -> list[Message]:
        """Let the agent send an update. Gives the updates that the client gets."""
        params = {"sessionId": session, "update": update}
        said = self.notify("agent", "session/update", params, odd=odd)
        assert said.to_agent == []
        return [one["params"]["update"] for one in said.to_client if "params" in one]

    def notify(self, who: str, method: str, params: Any, *, odd: bool = False) -> Translated:
        if not odd:
            self._check(self._version(who), method, params)
        return self._hear(who, {"jsonrpc": "2.0", "method": method, "params": params})

    def answer(
        self, who: str, result: Any = None, key: Any = None, *, error: Any = None, odd: bool = False
    ) -> Translated:
        """Let one side answer what it was asked; what it was asked last, unless told otherwise."""
        key = self.last if key is None else key
        if error is not None:
            return self._hear(who, {"jsonrpc": "2.0", "id": key, "error": error})
        other = "agent" if who == "client" else "client"
        if not odd:
            self._check(self._version(who), self._sent[other][key], result, answer=True)
        return self._hear(who, {"jsonrpc": "2.0", "id": key, "result": result})

    def _ask(self, who: str, method: str, params: Any, odd: bool) -> Translated:
        self.last = next(self._ids) if who == "client" else f"q{next(self._ids)}"
        if not odd and method != "initialize":
            self._check(self._version(who), method, params)
        self._asked[who][self.last] = method
        return self._hear(
            who, {"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}
        )

    def _hear(self, who: str, message: Message) -> Translated:
        hear = self.bridging.from_client if who == "client" else self.bridging.from_agent
        said = hear(message)
        self.hold(said, message)
        return said

    # Holding what is made

    def hold(self, said: Translated, came: Message | None = None) -> Translated:
        """Hold every message that was made against the schema of the side that it goes to."""
        for who, messages in (("agent", said.to_agent), ("client", said.to_client)):
            for message in messages:
                if message is not came:
                    self._hold(who, message)
                if "method" in message and "id" in message:
                    other = "client" if who == "agent" else "agent"
                    self._sent[other][message["id"]] = message["method"]
        return said

    def _hold(self, to: str, message: Message) -> None:
        version = self._version(to)
        assert message["jsonrpc"] == "2.0"
        if "method" in message:
            self._check(version, message["method"], message["params"])
        elif "error" in message:
            schemas.check(version, "Error", message["error"])
        else:
            self._check(version, self._asked[to][message["id"]], message["result"], answer=True)

    def _version(self, who: str) -> int:
        return self.bridging.client_version if who == "client" else self.bridging.agent_version

    @staticmethod
    def _check(version: int, method: str, value: Any, answer: bool = False) -> None:
        if not method.startswith("_"):
            schemas.check(version, schemas.name_of(version, method, answer), value)


def v1_agent(modes: bool = False, **capabilities: Any) -> Talk:
    """Return a client of v2 that has greeted an agent of v1, and opened the session `s`."""
    talk = Talk(1, 2)
    talk.client("initialize", {"protocolVersion": 2, "info": INFO, "capabilities": {}})
    talk.answer("agent", {"protocolVersion": 1, "agentCapabilities": capabilities})
    talk.client("session/new", {"cwd": "/code"})
    talk.answer("agent", {"sessionId": "s"} | ({"modes": MODES} if modes else {}))
    return talk


def v2_agent(client: Message | None = None, **opened: Any) -> Talk:
    """Return a client of v1 that has greeted an agent of v2, and opened the session `s`."""
    talk = Talk(2, 1)
    talk.client("initialize", {"protocolVersion": 1, "clientCapabilities": client or {}})
    talk.answer("agent", {"protocolVersion": 2, "info": INFO, "capabilities": {"session": {}}})
    talk.client("session/new", {"cwd": "/code", "mcpServers": []})
    talk.answer("agent", {"sessionId": "s", **opened})
    return talk


def prompt(talk: Talk, text: str = "hello") -> Translated:
    """Let the client say something."""
    return talk.client(
        "session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": text}]}
    )


def updates(said: Translated) -> list[Message]:
    """Return the updates that a client gets."""
    return [one["params"]["update"] for one in said.to_client if "update" in one.get("params", {})]


def states(said: Translated) -> list[Any]:
    """Return the states that a client of v2 is told."""
    return [
        (one["state"], one["stopReason"]) if "stopReason" in one else one["state"]
        for one in updates(said)
        if one["sessionUpdate"] == "state_update"
    ]
