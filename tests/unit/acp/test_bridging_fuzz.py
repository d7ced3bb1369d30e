"""Whatever either side sends, the bridge lives; what it sends is valid, or exactly what came."""

from __future__ import annotations

import random
from copy import deepcopy
from functools import cache
from typing import Any

import pytest

from callsheet.tap.bridging import Bridging
from tests.support import schemas
from tests.support.bridging import ASK_V1, INFO, MODES, TEXT
from tests.support.sizes import sized
from tests.unit.acp.test_bridging_v2_agent import MODE, NEWS, SWITCH

ODD: list[Any] = [None, 3, -1, 1.5, True, "", "s", "idle", "error", [], {}, [{}], {"type": "text"}]
PLAN = [{"content": "x", "priority": "low", "status": "cancelled"}]
COMMAND = {
    "type": "command",
    "name": "go",
    "description": "Go.",
    "input": {"type": "text", "hint": "h"},
}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "format": "_x"}}}

CLIENT: list[tuple[str, Any]] = [
    (
        "initialize",
        {"protocolVersion": 2, "info": INFO, "capabilities": {"elicitation": {"form": {}}}},
    ),
    ("initialize", {"protocolVersion": 1, "clientCapabilities": {"session": {"notices": {}}}}),
    (
        "session/new",
        {"cwd": "/code", "mcpServers": [{"type": "stdio", "name": "a", "command": "/a"}]},
    ),
    ("session/load", {"sessionId": "s", "cwd": "/code", "mcpServers": []}),
    ("session/resume", {"sessionId": "s", "cwd": "/code", "replayFrom": {"type": "start"}}),
    ("session/resume", {"sessionId": "s", "cwd": "/code"}),
    ("session/prompt", {"sessionId": "s", "prompt": [TEXT]}),
    ("session/cancel", {"sessionId": "s"}),
    ("session/close", {"sessionId": "s"}),
    ("session/list", {}),
    ("session/set_mode", {"sessionId": "s", "modeId": "code"}),
    (
        "session/set_config_option",
        {"sessionId": "s", "configId": "how", "type": "id", "value": "ask"},
    ),
    ("authenticate", {"methodId": "x"}),
    ("auth/login", {"methodId": "x"}),
    ("tool_call/cancel", {"sessionId": "s", "toolCallId": "c"}),
    ("$/cancel_request", {"requestId": 2}),
]
UPDATES: list[Any] = [
    {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": TEXT},
    {"sessionUpdate": "user_message_chunk", "content": TEXT},
    {"sessionUpdate": "agent_message", "messageId": "m", "content": [TEXT, TEXT]},
    {"sessionUpdate": "user_message", "messageId": "u", "content": [TEXT]},
    {"sessionUpdate": "state_update", "state": "running"},
    {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn", "error": {}},
    {"sessionUpdate": "plan", "entries": PLAN},
    {"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": PLAN}},
    {"sessionUpdate": "available_commands_update", "availableCommands": [COMMAND]},
    {"sessionUpdate": "current_mode_update", "currentModeId": "code"},
    {"sessionUpdate": "config_option_update", "configOptions": [MODE, SWITCH, {**MODE, "id": "x"}]},
    *NEWS,
]
RESULTS: list[Any] = [
    {
        "protocolVersion": 1,
        "agentCapabilities": {"loadSession": True},
        "authMethods": [{"id": "x", "name": "X"}],
    },
    {"protocolVersion": 2, "info": INFO, "capabilities": {"session": {"prompt": {"image": {}}}}},
    {"sessionId": "s", "modes": MODES, "configOptions": [MODE]},
    {"sessionId": "s", "configOptions": [MODE, SWITCH], "availableCommands": [COMMAND]},
    {"stopReason": "end_turn"},
    {"messageId": "u"},
    {},
    {"outcome": {"outcome": "selected", "optionId": "o"}},
    {"action": "accept", "content": {"a": "b"}},
]
AGENT: list[tuple[str, Any]] = [
    (
        "elicitation/create",
        {"message": "m", "mode": "form", "sessionId": "s", "requestedSchema": SCHEMA},
    ),
    ("fs/read_text_file", {"sessionId": "s", "path": "/x"}),
    *[("session/update", {"sessionId": "s", "update": update}) for update in UPDATES],
]


class Fuzz:
    """One conversation of nonsense."""

    def __init__(self, agent: Any, seed: int) -> None:
        self.random = random.Random(seed)
        self.bridging = Bridging(agent, 3 - agent, lambda: f"made-{self.random.random()}")
        self.asked: dict[str, set[str]] = {"client": set(), "agent": set()}
        self.came: list[Any] = []
        self.made = 0

    def step(self) -> None:
        who = self.random.choice(("client", "agent"))
        message = self._message(CLIENT if who == "client" else AGENT)
        if "method" in message:
            self.asked[who].add(str(message["method"]))
        before = deepcopy(message)
        self.came.append(message)
        hear = self.bridging.from_client if who == "client" else self.bridging.from_agent
        said = hear(message)
        if self.random.random() < 0.05:
            asked = {"id": self.random.randrange(4), "params": ASK_V1}
            said.to_client += self.bridging.permission_asked("s", asked).to_client
            self.asked["agent"].add("session/request_permission")
        assert message == before, "what came is not changed"
        for to, messages in (("agent", said.to_agent), ("client", said.to_client)):
            for one in messages:
                if not any(one is other for other in self.came):  # some are held back for a while
                    self.made += 1
                    self._hold(to, one)

    def _message(self, calls: list[tuple[str, Any]]) -> dict[str, Any]:
        key = self.random.randrange(4)
        if self.random.random() < 0.4:
            result = deepcopy(self.random.choice(RESULTS))
            message = {"jsonrpc": "2.0", "id": key, "result": result}
        else:
            method, params = self.random.choice(calls)
            message = {"jsonrpc": "2.0", "id": key, "method": method, "params": deepcopy(params)}
            if method in ("session/update", "session/cancel", "$/cancel_request"):
                del message["id"]
        for _ in range(self.random.choice((0, 0, 1, 1, 2))):
            self._spoil(message)
        return message

    def _spoil(self, value: Any) -> None:
        """Change something somewhere, but the method: that would be another message."""
        while True:
            keys = (
                [key for key in value if key != "method"]
                if isinstance(value, dict)
                else range(len(value))
            )
            if not keys:
                return
            key = self.random.choice(list(keys))
            if isinstance(value[key], (dict, list)) and self.random.random() < 0.7:
                value = value[key]
                continue
            if isinstance(value, dict) and self.random.random() < 0.4:
                del value[key]
            else:
                value[key] = deepcopy(self.random.choice(ODD))
            return

    def _hold(self, to: str, message: dict[str, Any]) -> None:
        version = self.bridging.client_version if to == "client" else self.bridging.agent_version
        if "method" in message:
            name = schemas.name_of(version, message["method"])
            schemas.check(version, name, message["params"])
        elif "result" in message:
            names = [
                schemas.name_of(version, method, answer=True)
                for method in self.asked[to]
                if _is_known(version, method)
            ]
            assert any(
                schemas.validator(version, name).is_valid(message["result"]) for name in names
            )


@cache
def _is_known(version: int, method: str) -> bool:
    try:
        schemas.name_of(version, method, answer=True)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("agent", [1, 2])
def test_nonsense_makes_nothing_that_is_not_valid(agent: int) -> None:
    made = 0
    for seed in range(sized(2000, 40)):
        fuzz = Fuzz(agent, seed)
        for _ in range(100):
            fuzz.step()
        fuzz.bridging.agent_gone()
        made += fuzz.made
    assert made > 500
