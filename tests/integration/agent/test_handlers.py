"""What a handler gets wrong is reported to its author, and never reaches the client as broken ACP."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from callsheet.testing import AgentClient, AgentError
from tests.support import schemas

HANDLER = """
from callsheet.agent.agent import AgentSettings, serve

class Failing:
    async def turn(self, prompt, turn):
        BODY

raise SystemExit(serve(AgentSettings(handler=Failing)))
"""


def agent(body: str) -> list[str]:
    return [sys.executable, "-c", HANDLER.replace("BODY", body)]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "return 'finished'",
            "the handler returned 'finished'; a turn ends by end_turn, max_tokens",
        ),
        ("return 'cancelled'", "the handler returned 'cancelled'"),
        (
            "await turn.plan([{'content': 'x', 'status': 'donne'}])",
            "status: expected one of pending",
        ),
        ("await turn.plan([{'priority': 'low'}])", "plan: content: expected text"),
        ("await turn.usage('a', 1)", "used: expected tokens, from 0 on, got 'a'"),
        ("await turn.usage(1, -1)", "size: expected tokens, from 0 on, got -1"),
        ("await turn.say(None)", "say: expected text"),
        ("raise ValueError('my model is down')", "ValueError: my model is down"),
    ],
)
async def test_a_handlers_mistake_is_reported_and_the_agent_goes_on(
    body: str, said: str, tmp_path: Path
):
    async with AgentClient(agent(body)) as client:
        session = await client.new_session(str(tmp_path))
        for _ in range(2):
            with pytest.raises(AgentError) as error:
                await client.prompt(session, "go")
            assert said in str(error.value)
            assert error.value.error["code"] == -32603
    assert client.exit_code == 0
    if "raise" in body:
        assert "Traceback" in client.errors
        assert "in turn" in client.errors


async def test_steps_of_a_plan_may_be_text_alone(tmp_path: Path):
    async with AgentClient(agent("await turn.plan(['look', {'content': 'do'}])")) as client:
        session = await client.new_session(str(tmp_path))
        assert await client.prompt(session, "go") == "end_turn"
    (plan,) = [update for update in client.updates if update["sessionUpdate"] == "plan"]
    schemas.check(1, "SessionNotification", {"sessionId": session, "update": plan})
    assert [entry["content"] for entry in plan["entries"]] == ["look", "do"]


SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3cD4"


async def test_a_secret_that_is_said_in_pieces_is_not_shown(tmp_path: Path):
    body = (
        f"[await turn.say(p) for p in ('my token is ', '{SECRET[:9]}', '{SECRET[9:20]}', "
        f"'{SECRET[20:]}', ' – über alles')]"
    )
    async with AgentClient(agent(body)) as client:
        session = await client.new_session(str(tmp_path))
        assert await client.prompt(session, "go") == "end_turn"
        said = client.said(session)
    assert SECRET[:12] not in said
    assert said.startswith("my token is [redacted:")
    assert said.endswith(" – über alles")


async def test_what_is_said_comes_before_what_is_done_next_and_after_a_pause(tmp_path: Path):
    body = (
        "await turn.say('token='); await turn.run('think', {'thought': 'x'}); "
        "await turn.say('ghp'); import asyncio; await asyncio.sleep(0.4); await turn.usage(1, 2)"
    )
    async with AgentClient(agent(body)) as client:
        session = await client.new_session(str(tmp_path))
        await client.prompt(session, "go")
    kinds = [update["sessionUpdate"] for update in client.updates]
    kinds = [kind for kind in kinds if kind != "available_commands_update"]
    assert kinds[:2] == ["agent_message_chunk", "tool_call"]
    assert kinds[-2:] == ["agent_message_chunk", "usage_update"]
