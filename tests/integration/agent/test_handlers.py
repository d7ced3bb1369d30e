"""Handlers: their mistakes never reach the client as broken ACP, their messages are redacted, and a client
cancels single calls, those that the executor runs and those that a handler runs itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest

from callsheet import Session
from callsheet.agent.agent import AgentSettings, AuthRequired
from callsheet.agent.handler import OwnCall, Turn
from callsheet.agent.handshake import CALLSHEET
from callsheet.history import History, store_at
from callsheet.telemetry.budget import parse_budget
from callsheet.tools.errors import Cancelled
from callsheet.tools.signature import BadTool
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
        (lambda turn: turn.report_usage(used="a"), "used: expected tokens, from 0 on, got 'a'"),
        (
            lambda turn: turn.report_usage(used=1, size=-1),
            "size: expected tokens, from 0 on, got -1",
        ),
        (lambda turn: turn.say(None), "say: expected text"),
        (fails, "ValueError: my model is down"),
        (
            lambda turn: turn.call("own").start(),
            "start: not announced yet; use `async with turn.call",
        ),
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


async def test_a_turn_that_is_not_async_is_named(tmp_path: Path) -> None:
    class Plain:
        def turn(self, prompt: Any, turn: Turn) -> None:
            pass

    async with play(handler=Plain) as client:
        session = await client.new_session(tmp_path)
        with pytest.raises(Refused, match=r"Plain.turn has to be async: `async def turn\("):
            await client.prompt(session, "go")


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
        await turn.report_usage(used=1, size=2)

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


# An agent of its own


@pytest.mark.parametrize(("kind", "other"), [("image", "audio"), ("audio", "image")])
@pytest.mark.parametrize("version", [1, 2])
async def test_an_agent_has_its_own_name_tools_and_prompts_with_media(
    tmp_path: Path, version: int, kind: str, other: str
) -> None:
    seen: list[Any] = []

    async def body(prompt: Any, turn: Turn) -> None:
        media = {"image": prompt.images, "audio": prompt.audio}
        seen.append((turn.tools.names(), media, prompt.text))

    options: Any = {
        "name": "my-agent",
        "title": "My Agent",
        "version": "7",
        "builtin_tools": ["read", "grep"],
        "prompt_capabilities": [kind],
        "auth_methods": [{"id": "login", "name": "Log in"}],
    }
    block = {"type": kind, "mimeType": f"{kind}/x", "data": "iVBORw0KGgo="}
    async with play(handler=doing(body), version=version, settings=options) as client:
        answer = next(m["result"] for m in client.received if "result" in m)
        session = await client.new_session(tmp_path)
        prompt = [{"type": "text", "text": "look"}, block]
        await client.request("session/prompt", {"sessionId": session, "prompt": prompt})
        await client.until(lambda: seen)
        wrong = [{**block, "type": other}]
        with pytest.raises(Refused, match=f"takes no {other}"):
            await client.request("session/prompt", {"sessionId": session, "prompt": wrong})
    info = answer["agentInfo" if version == 1 else "info"]
    assert info == {"name": "my-agent", "title": "My Agent", "version": "7"}
    assert answer["authMethods"][0]["name"] == "Log in"
    assert seen == [(["read", "grep"], {kind: (block,), other: ()}, "look")]


def test_an_agents_title_and_version_are_its_own_whatever_its_name() -> None:
    made = AgentSettings(handler=doing, title="My Agent")
    assert made.info == {**CALLSHEET, "title": "My Agent"}
    made = AgentSettings(handler=doing, name="mine", version="2")
    assert made.info == {"name": "mine", "title": "mine", "version": "2"}


@pytest.mark.parametrize("version", [1, 2])
async def test_a_handler_that_has_no_credentials_makes_the_client_authenticate(
    tmp_path: Path, version: int
) -> None:
    chosen: list[str] = []

    def make() -> Any:
        if not chosen:
            raise AuthRequired("log in first")
        return doing(lambda _, turn: turn.say("hello"))()

    def authenticate(method: str) -> None:
        if method == "broken":
            raise OSError("no browser")
        chosen.append(method)

    methods = [{"id": "login", "name": "Log in"}, {"id": "broken", "name": "Broken"}]
    options: Any = {"auth_methods": methods, "authenticate": authenticate}
    method = "authenticate" if version == 1 else "auth/login"
    async with play(handler=make, version=version, settings=options) as client:
        with pytest.raises(Refused, match=r"log in first \(-32000\)"):
            await client.new_session(tmp_path)
        for wrong, message in (
            ("other", "expected one of login, broken"),
            ("broken", "no browser"),
        ):
            with pytest.raises(Refused, match=message):
                await client.request(method, {"methodId": wrong})
        await client.request(method, {"methodId": "login"})
        session = await client.new_session(tmp_path)
        assert await client.prompt(session, "go") == "end_turn"


def test_a_builtin_tool_that_does_not_exist_is_named() -> None:
    with pytest.raises(BadTool, match="there is no built-in tool 'raed'; there are read, "):
        Session(builtin=["raed"])


# What is used

USED: Any = {"input_tokens": 100, "output_tokens": 20, "cached_read_tokens": 5, "model": "m"}


@pytest.mark.parametrize("version", [1, 2])
async def test_tokens_and_costs_of_a_turn_add_up_for_the_client_and_the_history(
    version: Literal[1, 2], tmp_path: Path
) -> None:
    async def turn(_: object, turn: Turn) -> None:
        await turn.report_usage(used=120, size=1000, cost=0.5, **USED)
        await turn.report_usage(used=240, cost=0.25, **USED)

    place = f"sqlite:///{tmp_path / 'h.sqlite'}"
    history = History(place)
    async with play(handler=doing(turn), version=version, history=history) as client:
        session = await client.new_session(tmp_path)
        for _ in range(2):
            assert await client.prompt(session, "go") == "end_turn"
        updates = client.updates_of("usage_update")
        ends = [one["result"] for one in client.received if "stopReason" in one.get("result", {})]
        ends += [one for one in client.updates_of("state_update") if one["state"] == "idle"]
    assert [one["cost"]["amount"] for one in updates] == [0.5, 0.75, 1.25, 1.5]
    assert [one["used"] for one in updates] == [120, 240, 120, 240]
    assert [one["usage"] for one in ends] == [
        {"totalTokens": 250, "inputTokens": 200, "outputTokens": 40, "cachedReadTokens": 10}
    ] * 2
    store = store_at(place)
    store.open(write=False)
    (used,) = store.used_by("model")
    store.close()
    assert (used.name, used.turns, used.input_tokens, used.total_tokens) == ("m", 2, 400, 500)
    assert [(one.amount, one.currency, one.estimated) for one in used.costs] == [(1.5, "USD", 0)]


@pytest.mark.parametrize("version", [1, 2])
async def test_a_turn_that_spends_the_budget_is_cancelled_and_further_ones_are_refused(
    version: Literal[1, 2], tmp_path: Path
) -> None:
    async def turn(_: object, turn: Turn) -> None:
        async with turn.call("work"):
            await turn.report_usage(cost=1.5)
            await turn.report_usage(cost=1)
            await asyncio.sleep(60)

    budget = parse_budget("2.00")
    async with play(handler=doing(turn), version=version, budget=budget, locale="en") as client:
        session = await client.new_session(tmp_path)
        assert await client.prompt(session, "go") == "cancelled"
        assert client.text() == (
            "_Stopped: this session has cost $2.50, and its budget is $2.00._\n\n"
        )
        assert client.call()["status"] in ("failed", "cancelled")
        with pytest.raises(Refused, match=r"its budget is \$2.00. Begin a new session") as refused:
            await client.prompt(session, "go")
        assert refused.value.code == -32001
        other = await client.new_session(tmp_path)
        assert await client.prompt(other, "go") == "cancelled"


async def test_a_budget_without_costs_is_said_not_to_hold_once(tmp_path: Path) -> None:
    async def turn(_: object, turn: Turn) -> None:
        await turn.report_usage(used=1, size=2)

    budget = parse_budget("2.00")
    async with play(handler=doing(turn), budget=budget, locale="en") as client:
        session = await client.new_session(tmp_path)
        for _ in range(2):
            assert await client.prompt(session, "go") == "end_turn"
        assert client.text().count("the budget of $2.00 can't be enforced") == 1


@pytest.mark.parametrize(
    ("reported", "message"),
    [
        ({"cost": float("nan")}, "cost: expected an amount, from 0 on, got nan"),
        ({"cost": 10**400}, "cost: expected an amount"),
        ({"cost": True}, "cost: expected an amount"),
        ({"cost": "2"}, "cost: expected an amount"),
        ({"output_tokens": -1}, "output_tokens: expected tokens, from 0 on, got -1"),
        ({"input_tokens": 10**400}, "input_tokens: expected tokens"),
        ({"model": ""}, "model: expected a name"),
        ({"cost": 1, "currency": ""}, "currency: expected a name such as USD"),
        ({"tokens": 5}, "report_usage has no tokens: expected used, size, input_tokens"),
    ],
)
async def test_amounts_that_can_not_be_are_the_handlers_mistake(
    reported: Any, message: str, tmp_path: Path
) -> None:
    handler = doing(lambda _, turn: turn.report_usage(**reported))
    async with play(handler=handler) as client:
        session = await client.new_session(tmp_path)
        with pytest.raises(Refused) as error:
            await client.prompt(session, "go")
        assert message in str(error.value)
        assert client.updates_of("usage_update") == []
