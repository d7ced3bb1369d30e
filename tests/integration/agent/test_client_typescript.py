"""The official TypeScript SDK as a client of the agent, in ACP v1 and in the draft of v2."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from callsheet.testing import assert_every_call_ended
from tests.clients import scenes
from tests.clients.scenes import Seen

pytestmark = scenes.needs_node("@agentclientprotocol/sdk")


def play(version: int, place: Path, **more: Any) -> Seen:
    """Let the client play, and give what it has seen. It must have had nothing to complain of."""
    spec = {
        "command": scenes.agent_command(version),
        "cwd": str(place),
        "scenes": scenes.scenes(version),
        "patience": scenes.PATIENCE,
        **more,
    }
    spec["command"] = scenes.recorded(spec["command"], place)
    client = subprocess.run(
        ["node", scenes.FOLDER / f"sdk_v{version}.mjs"],
        input=json.dumps(spec),
        capture_output=True,
        text=True,
        timeout=scenes.PATIENCE + 20,
        check=False,
    )
    assert (client.returncode, client.stderr) == (0, "")
    return Seen(version, place, json.loads(client.stdout))


CLIENTS = {
    "v1": (1, {}),
    "v1 with terminals as Zed has them": (1, {"_meta": {"terminal_output": True}}),
    "v2": (2, {}),
}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Seen]]]:
    """All scenes with each client, side by side."""
    with ThreadPoolExecutor() as pool:
        playing: dict[str, Future[Seen]] = {}
        for name, (version, capabilities) in CLIENTS.items():
            place = scenes.furnish(tmp_path_factory.mktemp("typescript") / "place")
            playing[name] = pool.submit(play, version, place, capabilities=capabilities)
        yield playing


@pytest.fixture(scope="module", params=CLIENTS)
def seen(request: pytest.FixtureRequest, played: dict[str, Future[Seen]]) -> Seen:
    version, capabilities = CLIENTS[request.param]
    seen = played[request.param].result()
    assert bool(seen.data["terminals"]) is (version == 2 or "_meta" in capabilities)
    return seen


def test_every_scene_is_played_and_every_message_holds(seen: Seen) -> None:
    assert len(seen.data["scenes"]) == len(scenes.scenes(seen.version)), seen.lines[-3:]
    scenes.hold(seen)


def test_output_is_in_a_terminal_where_the_client_shows_terminals(seen: Seen) -> None:
    (item,) = seen.call_of(scenes.RUN)["content"]
    if not seen.data["terminals"]:
        assert (seen.version, item["type"]) == (1, "content")
        return
    terminal = seen.data["terminals"][item["terminalId"]]
    assert seen.text_in(item) == "first\nsecond\n"
    assert terminal["cwd"] == str(seen.place)
    ended = (
        terminal["exit"]["exit_code"] if seen.version == 1 else terminal["exitStatus"]["exitCode"]
    )
    assert ended == 0


def test_the_sdk_understands_all_that_it_is_sent(seen: Seen) -> None:
    assert seen.data["lost"] == []


def test_the_agent_ends_with_its_client(seen: Seen) -> None:
    assert seen.data["exit"] == 0


def test_a_client_is_served_in_its_own_version(tmp_path: Path) -> None:
    read = [one for one in scenes.scenes(1) if one["name"] == scenes.READ]
    seen = play(1, scenes.furnish(tmp_path / "place"), scenes=read, command=scenes.agent_command(2))
    assert seen.data["initialized"]["protocolVersion"] == 1
    assert seen.call_of(scenes.READ)["status"] == "completed"


@pytest.mark.parametrize("version", [1, 2])
def test_a_session_that_is_closed_in_its_turn_ends_it_first(version: int, tmp_path: Path) -> None:
    sleeps = [{"name": "sleeps", "prompt": "!sleep 60", "cancel": "session"}]
    seen = play(version, scenes.furnish(tmp_path / "place"), scenes=sleeps)
    assert seen.stop_reasons() == {"sleeps": "cancelled"}
    (key,) = [m["id"] for m in seen.data["sent"] if m.get("method") == "session/close"]
    closed = next(i for i, m in enumerate(seen.messages) if m.get("id") == key and "result" in m)
    assert_every_call_ended(seen.lines[:closed])
    after = [m["method"] for m in seen.messages[closed + 1 :] if "method" in m]
    assert after == []
    if version == 2:
        assert '"idle"' in seen.lines[closed - 1]
