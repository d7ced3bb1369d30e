"""The tap in front of real agents, which talk to a model that plays a script: `make live`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callsheet.testing.recordings import updates_in
from tests.live import stage as fronts
from tests.live.agents import AGENTS
from tests.live.held import ENDED, errors, hold, marks, play, reasons, set_stage, shown
from tests.live.scenes import LINES, SECRETS, fold
from tests.live.stage import Stage

pytestmark = marks


@pytest.fixture(params=AGENTS)
def agent(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def stage(agent: str, tmp_path: Path) -> Iterator[Stage]:
    """The tap alone in front of an agent."""
    yield from set_stage(agent, fronts.TAP, tmp_path)


@pytest.fixture
def recorded_stage(agent: str, tmp_path: Path) -> Iterator[Stage]:
    """The tap in front of a recorder in front of an agent: it shows what the agent has said."""
    yield from set_stage(agent, fronts.BOTH, tmp_path)


# Good turns


async def test_a_good_turn_is_reported_completely(recorded_stage: Stage) -> None:
    stage = recorded_stage
    outcome = await play(stage, "works")

    assert outcome.stop == "end_turn"
    assert (stage.project / "numbers.txt").read_text() == "one\nzwei\nthree\n"
    assert (stage.project / "made").read_text() == "fine\n"
    hold(stage, outcome)
    assert outcome.statuses == ["completed", "completed", "completed", "failed"]
    calls = read, edit, good, bad = list(outcome.calls.values())
    assert all(call["name"] and call["rawInput"] for call in calls)
    assert [call["kind"] for call in calls] == ["read", "edit", "execute", "execute"]
    for call in (read, edit):
        assert [one["path"] for one in call["locations"]] == [str(stage.project / "numbers.txt")]
    (diff,) = [one for one in edit["content"] if one["type"] == "diff"]
    assert "zwei" in diff["newText"]
    if stage.agent.shows_output:
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


async def test_client_with_files_and_terminals_does_the_work(stage: Stage) -> None:
    outcome = await play(stage, "works_with_abilities")

    assert outcome.stop == "end_turn"
    assert (stage.project / "numbers.txt").read_text() == "one\nzwei\nthree\n"
    assert (stage.project / "made").read_text() == "fine\n"
    hold(stage, outcome)
    assert outcome.statuses == ["completed", "completed", "completed", "failed"]


async def test_calls_of_one_step_are_distinguished(stage: Stage) -> None:
    outcome = await play(stage, "together")

    assert outcome.stop == "end_turn"
    hold(stage, outcome)
    assert outcome.statuses == ["completed"] * 3
    assert len({call["title"] for call in outcome.calls.values()}) == 3


async def test_id_that_a_model_uses_again_is_another_call(stage: Stage) -> None:
    outcome = await play(stage, "same_ids")

    hold(stage, outcome)
    assert outcome.statuses == ["completed"] * 2
    first, second = outcome.calls.values()
    assert "first" in str(first["rawInput"])
    assert "second" in str(second["rawInput"])


async def test_long_output_costs_a_constant_times_its_bytes(recorded_stage: Stage) -> None:
    outcome = await play(recorded_stage, "long_command")

    assert outcome.stop == "end_turn"
    hold(recorded_stage, outcome)
    seen, said = (size_of_calls(path) for path in (recorded_stage.seen, recorded_stage.said))
    assert seen < 12 * LINES * 65
    assert seen < said + 5_000
    (call,) = outcome.calls.values()
    # One of them loses lines now and then, or forgets to say that a command has ended.
    if call["status"] == "completed":
        assert lines_of(call) == lines_of(folded(recorded_stage.said)[call["toolCallId"]])


async def test_edit_of_a_large_file_is_shown_and_done(recorded_stage: Stage) -> None:
    stage = recorded_stage
    outcome = await play(stage, "large_file")

    assert outcome.stop == "end_turn"
    assert f"line 77 {'z' * 50}\n" in (stage.project / "large.txt").read_text()
    hold(stage, outcome)
    (call,) = outcome.calls.values()
    assert "zzzz" in str([one for one in call["content"] if one["type"] == "diff"])
    assert size_of_calls(stage.seen) < size_of_calls(stage.said) + 5_000


async def test_session_that_is_loaded_again_shows_its_calls(agent: str, stage: Stage) -> None:
    if not stage.agent.loads:
        pytest.skip(f"{agent} does not find its sessions again")
    outcome = await play(stage, "loaded")

    hold(stage, outcome)
    before = outcome.before
    assert before is not None
    assert outcome.statuses == before.statuses == ["completed", "completed", "failed"]
    for live, again in zip(before.calls.values(), outcome.calls.values(), strict=True):
        assert again["rawInput"]
        if agent != "codex":  # which calls a command by what it does, when it tells it again
            assert again["kind"] == live["kind"]
        places = [one["path"] for one in again.get("locations", ())]
        assert all(Path(place).is_relative_to(stage.project) for place in places)
        assert results(again), f"nothing is shown of {again['title']}"


# Denials, cancels


async def test_denied_call_ends_failed(stage: Stage) -> None:
    outcome = await play(stage, "denied")

    assert not (stage.project / "made").exists()
    hold(stage, outcome)
    assert outcome.statuses == ["failed"]
    assert reasons(outcome) == ["denied"]


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


# Secrets


async def test_secrets_are_shown_and_recorded_nowhere(recorded_stage: Stage) -> None:
    stage = recorded_stage
    outcome = await play(stage, "secrets")

    assert outcome.stop == "end_turn"
    assert all(
        secret in (stage.project / "settings.ini").read_text() for secret in SECRETS.values()
    )
    hold(stage, outcome)
    seen = shown(outcome) + stage.seen.read_bytes()
    assert [name for name, secret in SECRETS.items() if secret.encode() in seen] == []
    said = stage.said.read_bytes()
    assert all(secret.encode() in said for secret in SECRETS.values())


# Ends that nobody wanted


async def test_call_is_ended_when_the_agent_is_killed(stage: Stage) -> None:
    outcome = await play(stage, "agent_killed")

    assert outcome.client is not None
    assert outcome.client.exit_code == 137
    hold(stage, outcome)
    assert outcome.statuses == ["failed"]


async def test_nothing_is_left_when_the_tap_is_killed(stage: Stage) -> None:
    await play(stage, "front_killed")


async def test_nothing_is_left_when_the_client_closes(stage: Stage) -> None:
    outcome = await play(stage, "client_closes")

    hold(stage, outcome)
    assert outcome.statuses == ["failed"]


async def test_nothing_is_left_when_the_client_is_killed(stage: Stage) -> None:
    await play(stage, "client_killed")

    assert errors(stage.seen) == []
    assert recorded_statuses(stage.seen) == ["failed"]


async def test_nothing_is_left_of_a_row_of_programs(recorded_stage: Stage) -> None:
    await play(recorded_stage, "client_killed")


def folded(path: Path) -> dict[str, dict[str, Any]]:
    """Return the calls of a recording, each as its updates make it."""
    return fold(update for update in updates_in(path) if "toolCallId" in update)


def recorded_statuses(path: Path) -> list[str]:
    return [str(call.get("status")) for call in folded(path).values()]


def lines_of(call: dict[str, Any]) -> int:
    """Count the lines of the long command that are shown."""
    return str(call.get("content")).count(" " + "x" * 60)


def size_of_calls(path: Path) -> int:
    """Return the bytes that an agent has said of calls."""
    lines = path.read_bytes().splitlines()
    words = (b'"tool_call', b'"session/request_permission"')
    return sum(len(line) for line in lines if any(word in line for word in words))


def results(call: dict[str, Any]) -> bool:
    """Whether a client can see what came of a call."""
    assert call["status"] in ENDED
    return bool(call.get("content") or call.get("rawOutput"))
