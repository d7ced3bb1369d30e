"""Handlers: their mistakes never reach the client as broken ACP, their messages are redacted, and a client
cancels single calls, those that the executor runs and those that a handler runs itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from callsheet import Session
from callsheet.agent.handler import OwnCall, Turn
from callsheet.tools.errors import Cancelled
from tests.support import schemas
from tests.support.agent_client import Client, Refused, doing, play

Body = Any


async def finished(turn: Turn) -> Any:
    return "finished"


async def cancelled(turn: Turn) -> Any:
    return "cancelled"


async def fails(turn: Turn) -> Any:
    raise ValueError("my model is down")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (finished, "the handler returned 'finished'; a turn ends by end_turn, max_tokens"),
        (cancelled, "the handler returned 'cancelled'"),
        (
            lambda turn: turn.plan([{"content": "x", "status": "donne"}]),
            "plan: Invalid enum value 'donne'",
        ),
        (
            lambda turn: turn.plan([{"priority": "low"}]),
            "plan: Object missing required field `content`",
        ),
        (lambda turn: turn.usage("a", 1), "used: expected tokens, from 0 on, got 'a'"),
        (lambda turn: turn.usage(1, -1), "size: expected tokens, from 0 on, got -1"),
        (lambda turn: turn.say(None), "say: expected text"),
        (fails, "ValueError: my model is down"),
    ],
)
async def test_a_handlers_mistake_is_reported_and_the_agent_goes_on(
    body: Body, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with play(handler=doing(lambda _, turn: body(turn))) as client:
        session = await client.new_session(tmp_path)
        for _ in range(2):
            with pytest.raises(Refused, match="-32603") as error:
                await client.prompt(session, "go")
            assert message in str(error.value)
    if body is fails:
        errors = capsys.readouterr().err
        assert "Traceback" in errors
        assert "in fails" in errors


@pytest.mark.parametrize("version", [1, 2])
async def test_steps_of_a_plan_may_be_text_alone(tmp_path: Path, version: int) -> None:
    entries: list[Any] = ["look", {"content": "do"}]
    handler = doing(lambda _, turn: turn.plan(entries))
    async with play(handler=handler, version=version) as client:
        session = await client.new_session(tmp_path)
        assert await client.prompt(session, "go") == "end_turn"
        (plan,) = client.updates_of("plan" if version == 1 else "plan_update")
    schemas.check_update(version, plan)
    plan = plan if version == 1 else plan["plan"]
    assert [entry["content"] for entry in plan["entries"]] == ["look", "do"]


SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3cD4"


async def test_a_secret_that_is_sent_in_pieces_is_not_shown(tmp_path: Path) -> None:
    async def turn(_: object, turn: Turn) -> None:
        for piece in ("my token is ", SECRET[:9], SECRET[9:20], SECRET[20:], " – über alles"):
            await turn.say(piece)

    async with play(handler=doing(turn)) as client:
        session = await client.new_session(tmp_path)
        assert await client.prompt(session, "go") == "end_turn"
        text = client.text()
    assert SECRET[:12] not in text
    assert text.startswith("my token is [redacted:")
    assert text.endswith(" – über alles")


async def test_a_message_comes_before_what_is_done_next_and_after_a_pause(tmp_path: Path) -> None:
    async def turn(_: object, turn: Turn) -> None:
        await turn.say("token=")
        await turn.run("think", {"thought": "x"})
        await turn.say("ghp")
        await asyncio.sleep(0.4)
        await turn.usage(1, 2)

    async with play(handler=doing(turn)) as client:
        session = await client.new_session(tmp_path)
        await client.prompt(session, "go")
        kinds = [update["sessionUpdate"] for update in client.updates_of()]
    kinds = [kind for kind in kinds if kind != "available_commands_update"]
    assert kinds[:2] == ["agent_message_chunk", "tool_call"]
    assert kinds[-2:] == ["agent_message_chunk", "usage_update"]


# Single calls

TOKEN = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"


async def sleep_in_a_call(turn: Turn) -> None:
    async with turn.call("think_hard", {"about": "it"}) as call:
        call.start()
        await asyncio.sleep(60)


async def running_call(client: Client) -> str:
    def found() -> list[str]:
        return [key for key, call in client.calls.items() if call["status"] == "in_progress"]

    return (await client.until(found))[0]


async def test_a_call_that_a_handler_runs_is_stopped_alone(tmp_path: Path) -> None:
    seen: list[BaseException] = []

    async def turn(_: object, turn: Turn) -> None:
        try:
            await sleep_in_a_call(turn)
        except Cancelled as exc:
            seen.append(exc)
        await turn.say("went on")

    async with play(handler=doing(turn), version=2) as client:
        session = await client.new_session(tmp_path)
        prompting = client.start_prompt(session)
        key = await running_call(client)
        assert client.calls[key]["capabilities"] == {"cancel": {}}
        await client.request("tool_call/cancel", {"sessionId": session, "toolCallId": key})
        assert await prompting == "end_turn"
        assert (client.calls[key]["status"], client.calls[key]["capabilities"]) == (
            "cancelled",
            None,
        )
        assert client.text() == "went on"
        with pytest.raises(Refused, match="-32602"):
            await client.request("tool_call/cancel", {"sessionId": session, "toolCallId": key})
    assert len(seen) == 1


async def test_a_cancel_that_comes_too_late_does_not_hit_what_comes_next() -> None:
    calls: dict[str, OwnCall] = {}
    async with Session("s") as session:
        async with OwnCall(session.call("quick", {"about": "it"}), calls) as call:
            calls[call.id].cancel()  # raised at the next wait, and there is none in here
            call.succeed("done")
        await asyncio.sleep(0)
        assert calls == {}
        assert call.report.status == "completed"


async def test_the_end_of_the_turn_beats_the_end_of_a_call(tmp_path: Path) -> None:
    async def turn(_: object, turn: Turn) -> None:
        await sleep_in_a_call(turn)

    async with play(handler=doing(turn), version=2) as client:
        session = await client.new_session(tmp_path)
        prompting = client.start_prompt(session)
        key = await running_call(client)
        client.send_cancel(session)
        assert await prompting == "cancelled"
        assert client.calls[key]["status"] == "cancelled"


@pytest.mark.parametrize("version", [1, 2])
async def test_a_handler_that_fails_because_it_was_cancelled_is_cancelled(
    tmp_path: Path, version: int
) -> None:
    begun = asyncio.Event()

    async def turn(_: object, turn: Turn) -> None:
        await turn.plan([{"content": TOKEN, "priority": "low", "status": "pending"}])
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as exc:  # as libraries of models do
            raise RuntimeError("the request was aborted") from exc

    async with play(handler=doing(turn), version=version) as client:
        session = await client.new_session(tmp_path)
        running = client.start_prompt(session)
        await begun.wait()
        client.send_cancel(session)
        assert await running == "cancelled"
        assert TOKEN not in str(client.received)
