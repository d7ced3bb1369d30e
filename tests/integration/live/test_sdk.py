"""The official Python SDK as the client, the tap, and real agents behind it: `make live`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import stage as fronts
from tests.live.agents import AGENTS
from tests.live.held import errors, marks, set_stage
from tests.live.sdk import playing
from tests.live.stage import PATIENCE, Stage
from tests.support.processes import new_token, with_token

pytestmark = marks


@pytest.fixture(params=AGENTS)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    yield from set_stage(request.param, fronts.TAP, tmp_path)


async def test_official_client_follows_three_turns(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    agent, token = stage.agent, new_token()
    file = stage.project / "numbers.txt"
    file.write_text("one\ntwo\nthree\n")
    with caplog.at_level(logging.WARNING):
        async with asyncio.timeout(2 * PATIENCE), playing(stage) as player:
            stage.plays(agent.read(file), agent.edit(file, "two", "zwei"))
            stage.plays(agent.shell("echo so far; exit 3"))
            assert await player.prompt() == "end_turn"
            stage.model.forget()
            player.answer = "reject_once"
            stage.plays(agent.shell("echo no > made"))
            await player.prompt()
            stage.model.forget()
            player.answer = "allow_once"
            stage.plays(agent.shell(f"echo so far; sleep {token}"))
            assert await player.cancel_when(lambda: with_token(token)) == "cancelled"

    assert file.read_text() == "one\nzwei\nthree\n"
    assert not (stage.project / "made").exists()
    assert [call.status for call in player.calls] == [
        "completed",
        "completed",
        "failed",
        "failed",
        "failed",
    ]
    assert all(call.title and call.kind and call.raw_input for call in player.calls)
    assert all(call.raw_input for call in player.asked)
    assert [text for text in caplog.messages if "$/cancel_request" not in text] == []
    assert errors(stage.seen) == []
