"""In which order things are said: what belongs to a turn comes before its answer, and nothing waits for another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callsheet.testing import assert_every_call_ended
from tests.support.processes import linux
from tests.support.raw_agent import RawAgent, local_agent, raw_agent

pytestmark = linux

CANCELLED = -32800
ALLOW = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}


def place(agent: RawAgent, **wanted: Any) -> int:
    """Return the place of the first message that has these fields."""
    for number, message in enumerate(agent.messages):
        if all(message.get(key) == value for key, value in wanted.items()):
            return number
    raise AssertionError(f"no message has {wanted}")


def asked(agent: RawAgent, count: int = 1) -> list[dict[str, Any]]:
    """Wait until permission was asked for so many times, and give the requests."""

    def requests() -> list[dict[str, Any]]:
        found = [m for m in agent.messages if m.get("method") == "session/request_permission"]
        return found if len(found) >= count else []

    return agent.until(requests)


def idle_by(agent: RawAgent) -> str | None:
    """Return why the last turn stopped, when v2's state has told that."""
    return next((u["stopReason"] for u in agent.updates()[-1:] if u.get("state") == "idle"), None)


def of_session(agent: RawAgent, session: str) -> list[int]:
    """Return the places of what was said of a session."""
    return [
        number
        for number, message in enumerate(agent.messages)
        if message.get("params", {}).get("sessionId") == session
    ]


@pytest.mark.parametrize("version", [1, 2])
def test_no_update_of_a_session_precedes_the_response_to_session_new(tmp_path: Path, version: int):
    with local_agent(tmp_path, protocol=version) as agent:
        agent.initialize(version)
        params = {"cwd": str(tmp_path), "mcpServers": []}
        keys = [f"n{number}" for number in range(20)]
        agent.send(*({"id": key, "method": "session/new", "params": params} for key in keys))
        for key in keys:
            session = agent.answer(key)["result"]["sessionId"]
            agent.until(lambda session=session: of_session(agent, session))
            assert min(of_session(agent, session)) > place(agent, id=key)


def test_everything_of_a_turn_comes_before_its_answer(tmp_path: Path):
    with local_agent(tmp_path, permission="allow") as agent:
        agent.initialize()
        session = agent.new_session()
        key = agent.prompt(session, "!seq 20000\n!echo two\n!exit 3")
        assert agent.answer(key)["result"] == {"stopReason": "end_turn"}
        assert len(assert_every_call_ended(agent.lines)) == 3
        assert agent.is_alive()  # answered after whatever else would have come
        assert max(of_session(agent, session)) < place(agent, id=key)


@pytest.mark.parametrize("version", [1, 2])
def test_after_a_cancel_every_call_is_closed_and_then_the_turn_is(tmp_path: Path, version: int):
    with local_agent(tmp_path, permission="allow", protocol=version) as agent:
        agent.initialize(version)
        session = agent.new_session()
        key = agent.prompt(session, "!echo on; sleep 61; echo off")
        agent.until(lambda: any(u.get("status") == "in_progress" for u in agent.updates()))
        cancel = {"method": "session/cancel", "params": {"sessionId": session}}
        agent.send(cancel, cancel, cancel)
        if version == 1:
            assert agent.answer(key)["result"] == {"stopReason": "cancelled"}
            assert max(of_session(agent, session)) < place(agent, id=key)
        else:
            agent.until(lambda: idle_by(agent))
            assert agent.updates()[-1]["stopReason"] == "cancelled"
        assert_every_call_ended(agent.lines)
        assert agent.is_alive()


@pytest.mark.parametrize("version", [1, 2])
def test_a_cancel_right_behind_its_prompt_is_not_lost(tmp_path: Path, version: int):
    with local_agent(tmp_path, permission="allow", protocol=version) as agent:
        agent.initialize(version)
        session = agent.new_session()
        block = {"type": "text", "text": "!sleep 61"}
        prompt = {"sessionId": session, "prompt": [block]}
        agent.send(
            {"id": "p", "method": "session/prompt", "params": prompt},
            {"method": "session/cancel", "params": {"sessionId": session}},
        )
        if version == 1:
            assert agent.answer("p", 5)["result"] == {"stopReason": "cancelled"}
        else:
            agent.until(lambda: idle_by(agent) == "cancelled", 5)
        assert_every_call_ended(agent.lines, at_least=0)


@pytest.mark.parametrize("version", [1, 2])
def test_of_two_prompts_at_once_the_second_is_refused(tmp_path: Path, version: int):
    with local_agent(tmp_path, permission="allow", protocol=version) as agent:
        agent.initialize(version)
        session = agent.new_session()
        block = {"type": "text", "text": "!sleep 0.5; echo done"}
        prompt = {"sessionId": session, "prompt": [block]}
        agent.send(
            {"id": "p1", "method": "session/prompt", "params": prompt},
            {"id": "p2", "method": "session/prompt", "params": prompt},
        )
        error = agent.answer("p2")["error"]
        assert (error["code"], "running" in error["message"]) == (-32600, True)
        assert "result" in agent.answer("p1")
        if version == 2:
            agent.until(lambda: idle_by(agent))
        assert len(assert_every_call_ended(agent.lines)) == 1


def test_waiting_for_permission_blocks_nobody_else(tmp_path: Path):
    with local_agent(tmp_path) as agent:
        agent.initialize()
        first, second = agent.new_session(), agent.new_session()
        waiting = agent.prompt(first, "!echo first")
        [request] = asked(agent)
        assert "result" in agent.ask("session/list")
        assert "error" in agent.answer(agent.prompt(first, "once more"))
        other = agent.prompt(second, "!echo second")
        _, later = asked(agent, 2)
        agent.send({"id": later["id"], "result": ALLOW})
        assert agent.answer(other)["result"] == {"stopReason": "end_turn"}
        assert not agent.answers(waiting)
        agent.send({"id": request["id"], "result": ALLOW})
        assert agent.answer(waiting)["result"] == {"stopReason": "end_turn"}
        assert len(assert_every_call_ended(agent.lines)) == 2


ODD_OUTCOMES: list[dict[str, Any]] = [
    {"result": None},
    {"result": {}},
    {"result": {"outcome": "selected"}},
    {"result": {"outcome": {"outcome": "selected"}}},
    {"result": {"outcome": {"outcome": "selected", "optionId": "sure"}}},
    {"result": {"outcome": {"outcome": "selected", "optionId": ["allow_once"]}}},
    {"result": {"outcome": {"outcome": "cancelled"}}},
    {"result": {"outcome": {"outcome": "yes"}}},
    {"error": {"code": 1, "message": "no"}},
    {"error": "no"},
    {"result": {}, "error": {"code": 1, "message": "no"}},
]


@pytest.mark.parametrize("answer", ODD_OUTCOMES, ids=repr)
def test_an_odd_answer_is_no_permission_and_ends_the_call(tmp_path: Path, answer: dict[str, Any]):
    with local_agent(tmp_path) as agent:
        agent.initialize()
        key = agent.prompt(agent.new_session(), "!touch made")
        agent.send({"id": asked(agent)[0]["id"], **answer})
        assert "result" in agent.answer(key, 5)
        assert not (tmp_path / "made").exists()
        [statuses] = assert_every_call_ended(agent.lines).values()
        assert statuses[-1] == "failed"


def test_a_prompt_that_is_cancelled_while_it_asks_ends_its_call_and_its_request(tmp_path: Path):
    with local_agent(tmp_path) as agent:
        agent.initialize()
        key = agent.prompt(agent.new_session(), "!touch made")
        [request] = asked(agent)
        for _ in range(3):
            agent.send({"method": "$/cancel_request", "params": {"requestId": key}})
        assert agent.answer(key)["error"]["code"] == CANCELLED
        assert_every_call_ended(agent.lines)
        back = place(agent, method="$/cancel_request")
        assert agent.messages[back]["params"] == {"requestId": request["id"]}
        agent.send({"id": request["id"], "result": ALLOW})
        assert agent.is_alive()
        assert not (tmp_path / "made").exists()


def test_a_prompt_that_is_cancelled_ends_its_command(tmp_path: Path):
    with local_agent(tmp_path, permission="allow") as agent:
        agent.initialize()
        session = agent.new_session()
        key = agent.prompt(session, "!echo on; sleep 61")
        agent.until(lambda: any(u.get("status") == "in_progress" for u in agent.updates()))
        agent.send({"method": "$/cancel_request", "params": {"requestId": key}})
        assert agent.answer(key)["error"]["code"] == CANCELLED
        assert_every_call_ended(agent.lines)
        assert agent.answer(agent.prompt(session, "again"))["result"] == {"stopReason": "end_turn"}


def test_a_request_that_is_cancelled_at_once_is_answered_once(tmp_path: Path):
    with local_agent(tmp_path, permission="allow") as agent:
        agent.initialize()
        session = agent.new_session()
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "!sleep 61"}]}
        for number in range(20):
            agent.send(
                {"id": f"t{number}", "method": "session/prompt", "params": prompt},
                {"method": "$/cancel_request", "params": {"requestId": f"t{number}"}},
            )
            assert agent.answer(f"t{number}", 5)["error"]["code"] == CANCELLED
        assert agent.is_alive()
        assert all(len(agent.answers(f"t{number}")) == 1 for number in range(20))
        assert_every_call_ended(agent.lines, at_least=0)


def test_closing_a_session_ends_its_turn_first(tmp_path: Path):
    with raw_agent(tmp_path, "--permission", "allow") as agent:
        agent.initialize()
        session = agent.new_session()
        key = agent.prompt(session, "!echo on; sleep 61")
        agent.until(lambda: any(u.get("status") == "in_progress" for u in agent.updates()))
        closing = agent.request("session/close", {"sessionId": session})
        assert agent.answer(closing)["result"] == {}
        assert agent.answer(key)["result"] == {"stopReason": "cancelled"}
        assert place(agent, id=key) < place(agent, id=closing)
        assert max(of_session(agent, session)) < place(agent, id=closing)
        assert_every_call_ended(agent.lines)
        agent.close_stdin()
        assert agent.wait() == 0
        assert agent.leaves_nothing()


class Echo:
    async def turn(self, prompt: Any, turn: Any) -> None:
        await turn.say(prompt.text)


def test_a_long_message_is_sent_in_pieces(tmp_path: Path):
    with local_agent(tmp_path, handler=Echo) as agent:
        agent.initialize()
        key = agent.prompt(agent.new_session(), "x" * 3_000_000)
        assert agent.answer(key)["result"] == {"stopReason": "end_turn"}
        said = [u["content"]["text"] for u in agent.updates("agent_message_chunk")]
        assert sum(map(len, said)) >= 3_000_000
        assert max(map(len, agent.lines)) < 1_000_000


def test_a_prompt_too_large_to_be_echoed_is_run_all_the_same(tmp_path: Path):
    with local_agent(tmp_path, protocol=2) as agent:
        agent.initialize(2)
        session = agent.new_session()
        blocks = [{"type": "text", "text": "hi"}, {"type": "odd", "text": "x" * 9_000_000}]
        answer = agent.ask("session/prompt", {"sessionId": session, "prompt": blocks})
        assert "result" in answer
        agent.until(lambda: idle_by(agent))
        assert agent.updates()[-1]["stopReason"] == "end_turn"
