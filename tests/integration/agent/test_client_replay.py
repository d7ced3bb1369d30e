"""Replay equals live: a second client that loads the session folds to what the first one saw.

The judge is the official TypeScript SDK: `session/load` in v1, `session/resume` from the start in v2.
"""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest

from tests.clients import scenes
from tests.clients.scenes import Seen
from tests.integration.agent.test_client_typescript import CLIENTS, play
from tests.support import schemas

pytestmark = scenes.needs_node("@agentclientprotocol/sdk")


@pytest.fixture(scope="module", params=CLIENTS)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Seen, Seen]:
    """Return what a client saw live, and what another, with an agent of its own, sees of that session."""
    version, capabilities = CLIENTS[request.param]
    folder = tmp_path_factory.mktemp("replay")
    place = scenes.furnish(folder / "place")
    kept = ["--history", f"sqlite:///{folder}/history.sqlite"]
    told: dict[str, Any] = {
        "capabilities": capabilities,
        "command": [*scenes.agent_command(version), *kept],
    }
    live = play(version, place, **told)
    session = live.data["session"]["sessionId"]
    again = play(version, place, **told, load=session, scenes=[])
    return live, again


def test_calls_are_the_same_byte_for_byte(both: tuple[Seen, Seen]) -> None:
    live, again = both
    assert len(live.calls) >= len(scenes.scenes(live.version))
    assert list(again.calls) == list(live.calls), "and in the same order"
    for key, call in live.calls.items():
        assert _bytes(again.calls[key]) == _bytes(call)


def test_a_replay_has_no_findings(both: tuple[Seen, Seen]) -> None:
    scenes.hold_recordings(both[0].place, at_least=2)


def test_terminals_are_the_same_byte_for_byte(both: tuple[Seen, Seen]) -> None:
    live, again = both
    shown = live.data["terminals"]
    named = [
        item["terminalId"]
        for call in live.calls.values()
        for item in call.get("content", ())
        if item["type"] == "terminal"
    ]
    # One that a denied call was announced with was never used, and no call shows it any more.
    assert {key: _whole(one) for key, one in again.data["terminals"].items()} == {
        key: _whole(shown[key]) for key in named
    }


def test_a_replay_has_the_same_messages(both: tuple[Seen, Seen]) -> None:
    live, again = both
    said = {k: m for k, m in live.data["messages"].items() if m["kind"] != "user"}
    told = {k: m for k, m in again.data["messages"].items() if m["kind"] != "user"}
    assert told == said
    users = [m["text"] for m in again.data["messages"].values() if m["kind"] == "user"]
    assert users == [scene["prompt"] for scene in scenes.scenes(live.version)]
    assert again.data.get("plan") == live.data.get("plan")


def test_a_replay_precedes_the_response_in_few_valid_messages(
    both: tuple[Seen, Seen],
) -> None:
    live, again = both
    before = again.messages[: again.data["told"]]
    calls = [m["params"]["update"].get("toolCallId") for m in before if m.get("method")]
    assert set(filter(None, calls)) == set(live.calls)
    for message in again.messages:
        if message.get("method") == "session/update":
            schemas.check_update(again.version, message["params"]["update"])
    if live.version == 1 and not again.data["terminals"]:
        assert len([key for key in calls if key]) == len(live.calls), "each call is told once"


def test_the_sdk_understands_the_replay(both: tuple[Seen, Seen]) -> None:
    _, again = both
    assert again.data["lost"] == []
    assert again.data["exit"] == 0


def _bytes(call: dict[str, Any]) -> str:
    return json.dumps(call, sort_keys=True, ensure_ascii=False)


def _whole(terminal: dict[str, Any]) -> dict[str, Any]:
    """Return a terminal with its output in one piece: how it was cut is the envelope's business."""
    data = b"".join(b64decode(piece) for piece in terminal["bytes"])
    return {**terminal, "bytes": data}
