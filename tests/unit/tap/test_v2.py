"""The tap between a client and an agent that both speak ACP v2: what its drafts have that nobody knows yet."""

from __future__ import annotations

from tests.support.tap_harness import Tapped, updates

STARTED = {
    "sessionUpdate": "tool_call_update",
    "toolCallId": "c1",
    "title": "ls",
    "kind": "execute",
    "status": "in_progress",
    "rawInput": {"command": "ls"},
}


def update(**told: object) -> dict[str, object]:
    params = {"sessionId": "s1", "update": {"sessionUpdate": "tool_call_update", **told}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def test_fields_that_nobody_knows_are_passed_on_and_taken_back() -> None:
    tap = Tapped(2).agent(update(**STARTED, capabilities={"cancel": {}}, odd=1))
    (opened,) = updates(tap.heard())
    assert (opened["capabilities"], opened["odd"]) == ({"cancel": {}}, 1)
    tap.agent(update(toolCallId="c1", status="completed", rawOutput="ok", capabilities=None))
    (ended,) = updates(tap.heard())
    assert ended["capabilities"] is None
    assert "odd" not in ended
