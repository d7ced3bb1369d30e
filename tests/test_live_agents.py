"""The tap in front of real agents, which talk to a model that plays a script: `make live`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callsheet.testing.traffic import Recording, Source

from .live import stage as fronts
from .live.agents import AGENTS
from .live.scenes import SCENES, SECRETS, Outcome
from .live.stage import Stage, staged
from .processes import linux, new_token

pytestmark = [
    linux,
    pytest.mark.skipif(
        not os.environ.get("CALLSHEET_LIVE"),
        reason="`make live` installs real agents and runs this",
    ),
]

FRONTS = (fronts.TAP, fronts.BOTH)
ENDED = ("completed", "failed")


@pytest.fixture(params=FRONTS, ids=lambda front: front.name)
def front(request: pytest.FixtureRequest) -> fronts.Front:
    return request.param


@pytest.fixture(params=AGENTS)
def stage(request: pytest.FixtureRequest, front: fronts.Front, tmp_path: Path) -> Iterator[Stage]:
    agent = AGENTS[request.param]
    if not agent.is_installed and os.environ.get("CI") != "true":
        pytest.skip(f"{agent.package} {agent.version} could not be installed here")
    with staged(agent, front, tmp_path, new_token()) as made:
        yield made


async def play(stage: Stage, scene: str) -> Outcome:
    """Play a scene. Whatever it was, no process is left, and the model was asked nothing odd."""
    try:
        outcome = await SCENES[scene](stage)
    finally:
        stage.end()
    assert outcome.left == []
    assert [one for one in stage.model.strayed if "Error" in one] == []
    return outcome


def errors(source: Source) -> list[str]:
    found = Recording.of(source).check()
    return [f"{one.rule}: {one.message}" for one in found if one.severity == "error"]


def hold(stage: Stage, outcome: Outcome) -> None:
    """What the client saw, and what was recorded of it, is free of errors, and every call has ended."""
    assert outcome.client is not None
    assert errors(outcome.client) == []
    assert errors(stage.seen) == []
    assert [status for status in outcome.statuses if status not in ENDED] == []


def reasons(outcome: Outcome) -> list[Any]:
    metas = [call.get("_meta", {}).get("callsheet", {}) for call in outcome.calls.values()]
    return [meta.get("reason") for meta in metas]


async def test_good_turn_is_told_completely(stage: Stage) -> None:
    outcome = await play(stage, "works")

    assert outcome.stop == "end_turn"
    assert (stage.project / "numbers.txt").read_text() == "one\nzwei\nthree\n"
    assert (stage.project / "made").read_text() == "fine\n"
    hold(stage, outcome)
    assert outcome.statuses == ["completed", "completed", "completed", "failed"]
    read, edit, good, bad = outcome.calls.values()
    for call in (read, edit, good, bad):
        assert call["name"]
        assert call["rawInput"]
    assert [call["kind"] for call in (read, edit, good, bad)] == [
        "read",
        "edit",
        "execute",
        "execute",
    ]
    for call in (read, edit):
        assert [one["path"] for one in call["locations"]] == [str(stage.project / "numbers.txt")]
    (diff,) = [one for one in edit["content"] if one["type"] == "diff"]
    assert "zwei" in diff["newText"]
    assert "fine" in str(good["content"])
    assert "so far" in str(bad["content"])


async def test_nobody_approves_blind(stage: Stage) -> None:
    outcome = await play(stage, "works")

    assert outcome.permissions
    for request in outcome.permissions:
        asked = request["toolCall"]
        assert asked["rawInput"]
        assert asked["title"]
        assert asked["kind"] in ("edit", "execute")
        assert asked["toolCallId"] in outcome.calls


async def test_calls_of_one_step_are_kept_apart(stage: Stage) -> None:
    outcome = await play(stage, "together")

    assert outcome.stop == "end_turn"
    hold(stage, outcome)
    assert outcome.statuses == ["completed"] * 3
    assert len({call["title"] for call in outcome.calls.values()}) == 3


async def test_denied_call_ends_failed(stage: Stage) -> None:
    outcome = await play(stage, "denied")

    assert not (stage.project / "made").exists()
    hold(stage, outcome)
    assert outcome.statuses == ["failed"]
    assert reasons(outcome) == ["denied"]


async def test_secrets_do_not_reach_the_client_or_the_recording(stage: Stage) -> None:
    outcome = await play(stage, "secrets")

    assert outcome.stop == "end_turn"
    hold(stage, outcome)
    assert outcome.client is not None
    seen = b"".join(outcome.client.lines) + stage.seen.read_bytes()
    assert [name for name, secret in SECRETS.items() if secret.encode() in seen] == []
    if stage.said != stage.seen:
        said = stage.said.read_bytes()
        assert all(secret.encode() in said for secret in SECRETS.values())


async def test_call_that_runs_is_ended_by_a_cancel(stage: Stage) -> None:
    outcome = await play(stage, "cancelled")

    assert outcome.stop == "cancelled"
    hold(stage, outcome)
    assert outcome.statuses == ["failed"]
    assert reasons(outcome) == ["cancelled"]


async def test_call_that_waits_for_permission_is_ended_by_a_cancel(stage: Stage) -> None:
    outcome = await play(stage, "cancelled_when_asked")

    assert outcome.stop == "cancelled"
    assert not (stage.project / "made").exists()
    hold(stage, outcome)
    assert outcome.statuses == ["failed"]
    assert reasons(outcome) == ["cancelled"]


async def test_call_is_ended_when_the_agent_is_killed(stage: Stage) -> None:
    outcome = await play(stage, "agent_killed")

    assert outcome.client is not None
    assert outcome.client.exit_code == 137
    hold(stage, outcome)
    assert outcome.statuses == ["failed"]


async def test_nothing_is_left_when_the_client_closes(stage: Stage) -> None:
    outcome = await play(stage, "client_closes")

    hold(stage, outcome)
    assert outcome.statuses == ["failed"]


async def test_nothing_is_left_when_the_client_is_killed(stage: Stage) -> None:
    await play(stage, "client_killed")

    assert errors(stage.seen) == []
