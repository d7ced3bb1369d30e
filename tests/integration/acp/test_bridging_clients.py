"""The official SDKs as clients of our own agent, each in another version of ACP, with the bridge between them.

A second client then loads the session that the first one has had.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.clients import scenes
from tests.clients.scenes import Seen
from tests.support import SUPPORT

pytestmark = scenes.needs_node("@agentclientprotocol/sdk")

RELAY = SUPPORT / "bridging_relay.py"
PLAYED = (scenes.READ, scenes.FAILED, scenes.DENIED, scenes.CANCELLED, scenes.WITHDRAWN)


class Stay:
    """A client of one version, and an agent of the other, which keeps what was said."""

    def __init__(self, client: int, folder: Path) -> None:
        self.client: int = client
        self.agent: int = 3 - client
        self.place: Path = scenes.furnish(folder / "place")
        self.counts: Path = folder / "lost.json"
        kept = ["--history", f"sqlite:///{folder}/history.sqlite"]
        versions = [str(self.agent), str(client), str(self.counts)]
        self.command: list[str] = [sys.executable, str(RELAY), *versions]
        self.command += [*scenes.agent_command(self.agent), *kept]
        self.live: Seen = self.play([one for one in scenes.scenes(client) if one["name"] in PLAYED])
        self.lost: dict[str, int] = json.loads(self.counts.read_text())
        self.again: Seen = self.play([], load=self.live.data["session"]["sessionId"])

    def play(self, played: list[dict[str, Any]], **more: Any) -> Seen:
        spec = {
            "command": self.command,
            "cwd": str(self.place),
            "scenes": played,
            "patience": scenes.PATIENCE,
            **more,
        }
        client = subprocess.run(
            ["node", scenes.FOLDER / f"sdk_v{self.client}.mjs"],
            input=json.dumps(spec),
            capture_output=True,
            text=True,
            timeout=scenes.PATIENCE + 20,
            check=False,
        )
        assert (client.returncode, client.stderr) == (0, "")
        return Seen(self.client, self.place, json.loads(client.stdout))


@pytest.fixture(scope="module")
def stays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Future[Stay]]]:
    """Both directions, side by side."""
    with ThreadPoolExecutor() as pool:
        folders = {client: tmp_path_factory.mktemp(f"bridging{client}") for client in (1, 2)}
        yield {client: pool.submit(Stay, client, folder) for client, folder in folders.items()}


@pytest.fixture(scope="module", params=[1, 2], ids=["client of v1", "client of v2"])
def stay(request: pytest.FixtureRequest, stays: dict[int, Future[Stay]]) -> Stay:
    return stays[request.param].result()


def test_a_client_is_served_in_its_own_version(stay: Stay) -> None:
    assert stay.live.data["initialized"]["protocolVersion"] == stay.client
    scenes.hold_traffic(stay.live)


def test_every_turn_ends_as_it_should(stay: Stay) -> None:
    reasons = dict.fromkeys(PLAYED, "end_turn")
    reasons |= dict.fromkeys((scenes.CANCELLED, scenes.WITHDRAWN), "cancelled")
    assert stay.live.stop_reasons() == reasons


def test_what_the_user_answers_reaches_the_agent(stay: Stay) -> None:
    assert stay.live.call_of(scenes.DENIED)["status"] == "failed"
    assert not (stay.place / "forbidden").exists()
    said = [one["text"] for one in stay.live.data["messages"].values() if one["kind"] == "agent"]
    assert [text for text in said if "Denied" in text]


def test_the_state_tells_a_client_of_v2_of_each_turn(stay: Stay) -> None:
    if stay.client == 1:
        assert "states" not in stay.live.data
        return
    asked = [["running"], ["requires_action"], ["running"]]
    ended = [["idle", "end_turn"]]
    states = stay.live.data["states"]
    assert states[:2] == [["running"], *ended]
    assert states[2:6] == [*asked, *ended]
    assert [state for state in states if state[0] == "idle"] == [
        ["idle", reason] for reason in stay.live.stop_reasons().values()
    ]


def test_options_are_chosen_and_sessions_listed_in_the_clients_words(stay: Stay) -> None:
    (listed,) = stay.live.data["listed"]["sessions"]
    assert listed["sessionId"] == stay.live.data["session"]["sessionId"]
    key = "id" if stay.client == 1 else "configId"
    assert stay.live.data["session"]["configOptions"][0][key] == "permission"
    if stay.client == 1:
        assert stay.live.data["session"]["modes"]["currentModeId"] == "ask"
    else:
        assert stay.live.data["options"]["configOptions"][0]["currentValue"] == "read_only"


def test_another_client_loads_the_same_session(stay: Stay) -> None:
    assert list(stay.again.calls) == list(stay.live.calls)
    for key, call in stay.live.calls.items():
        assert stay.again.calls[key]["status"] == call["status"]
        assert stay.again.calls[key]["title"] == call["title"]
    told = [one["text"] for one in stay.again.data["messages"].values() if one["kind"] == "user"]
    assert told == [one["prompt"] for one in scenes.scenes(1) if one["name"] in PLAYED]
    said = [{k: m for k, m in seen.data["messages"].items() if m["kind"] == "agent"}
            for seen in (stay.live, stay.again)]  # fmt: skip
    assert said[0] == said[1], "with the ids that they had"


def test_nothing_is_lost_and_nobody_hangs(stay: Stay) -> None:
    assert stay.lost == {}
    assert (stay.live.data["exit"], stay.again.data["exit"]) == (0, 0)
