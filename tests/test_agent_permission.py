"""Asking the client: what is shown, what is remembered, and that only a clear yes is a yes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callsheet.agent.turn import Turn

from .agent_client import choose, doing, play


def running(*calls: tuple[str, dict[str, Any]]) -> Any:
    """Make a mind that runs tools one after another, in each turn."""

    async def turn(_: object, turn: Turn) -> None:
        for name, arguments in calls:
            await turn.run(name, arguments)

    return doing(turn)


@pytest.mark.parametrize("version", [1, 2])
async def test_request_carries_the_call_under_its_id(tmp_path: Path, version: int) -> None:
    async with play(brain=running(("bash", {"command": "echo hi"})), version=version) as client:
        client.on["session/request_permission"] = choose("allow_once")
        session = await client.new_session(tmp_path)
        assert await client.prompt(session) == "end_turn"
        (asked,) = client.asked("session/request_permission")
        call = asked["toolCall"] if version == 1 else asked["subject"]["toolCall"]
        assert call["toolCallId"] == client.call()["toolCallId"]
        assert call["rawInput"] == {"command": "echo hi"}
        assert client.call()["status"] == "completed"
