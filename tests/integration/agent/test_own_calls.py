"""A client cancels single calls, those that the executor runs and those that a handler runs itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from callsheet import Session
from callsheet.agent.handler import OwnCall, Turn
from callsheet.tools.errors import Cancelled
from tests.support.agent_client import Client, Refused, doing, play

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
        assert client.said() == "went on"
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
        client.cancel(session)
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
        client.cancel(session)
        assert await running == "cancelled"
        assert TOKEN not in str(client.received)
