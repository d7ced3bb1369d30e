"""`AgentClient`: with callsheet's own agent, and with agents that misbehave."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from callsheet.report.errors import InvalidValue
from callsheet.testing import AgentClient, AgentError, AgentGone, assert_every_call_ended
from tests.support import SUPPORT, schemas

AGENT = [sys.executable, "-m", "callsheet", "agent"]

HELLO = """
import json, sys
def read(): return json.loads(sys.stdin.readline())
def say(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
say(id=read()["id"], result={"protocolVersion": 1})
"""
"""The beginning of an agent that does what a test wants."""


def agent(code: str) -> list[str]:
    return [sys.executable, "-c", HELLO + code]


@pytest.mark.parametrize("protocol", [1, 2])
async def test_a_turn_with_permission_and_its_calls(
    protocol: Literal[1, 2], tmp_path: Path
) -> None:
    asked: list[dict[str, Any]] = []

    def decide(params: dict[str, Any]) -> str:
        asked.append(params)
        return "allow_once" if len(asked) == 1 else "reject_once"

    command = [*AGENT, "--protocol", str(protocol)]
    async with AgentClient(command, protocol=protocol, on_permission=decide) as client:
        assert client.version == protocol
        session = await client.new_session(str(tmp_path))
        assert await client.prompt(session, "!echo hi") == "end_turn"
        assert await client.prompt(session, "!echo ho") == "end_turn"
        done, denied = client.fold(session)
        assert (done.status.value, denied.reason) == ("completed", "denied")
        assert client.fold("another session") is not None
        assert list(client.fold("another session")) == []
        assert "echo ho" in client.text(session)
    assert client.exit_code == 0
    assert client.errors == ""
    assert len(assert_every_call_ended(client.lines)) == 2
    assert [frame.way for frame in client.recording.frames][:4] == ["out", "in", "out", "in"]
    assert [frame.at for frame in client.recording.frames] == sorted(
        frame.at for frame in client.recording.frames
    )
    for update in client.updates:
        note = {"sessionId": session, "update": update}
        name = "SessionNotification" if protocol == 1 else "UpdateSessionNotification"
        schemas.check(protocol, name, note)


@pytest.mark.parametrize("protocol", [1, 2])
async def test_a_cancel_answers_what_waits_for_the_user(
    protocol: Literal[1, 2], tmp_path: Path
) -> None:
    waits = asyncio.Event()

    async def decide(params: dict[str, Any]) -> str:
        waits.set()
        await asyncio.sleep(60)
        return "allow_once"

    command = [*AGENT, "--protocol", str(protocol)]
    async with AgentClient(command, protocol=protocol, on_permission=decide) as client:
        session = await client.new_session(str(tmp_path))
        turn = asyncio.ensure_future(client.prompt(session, "!echo never"))
        await waits.wait()
        await client.cancel(session)
        assert await turn == "cancelled"
        (call,) = client.fold(session)
    assert call.status.value == "cancelled"
    assert any(
        b'"outcome":"cancelled"' in f.line for f in client.recording.frames if f.way == "out"
    )


async def test_an_error_of_the_agent_is_raised() -> None:
    async with AgentClient(AGENT) as client:
        with pytest.raises(AgentError, match=r"session/new: .*cwd.*\(-32602\)") as raised:
            await client.new_session("not absolute")
        assert raised.value.error["code"] == -32602


async def test_a_program_that_is_missing_is_named() -> None:
    with pytest.raises(AgentGone, match="/no/such/agent: No such file"):
        async with AgentClient(["/no/such/agent"]):
            pass


async def test_the_error_of_an_agent_that_ended_quotes_its_stderr() -> None:
    code = "read(); sys.exit('no memory')"
    async with AgentClient(agent(code)) as client:
        with pytest.raises(AgentGone, match="ended with 1; its stderr: no memory"):
            await client.new_session("/")
        with pytest.raises(AgentGone):
            await client.new_session("/")
    assert client.exit_code == 1


async def test_an_agent_that_does_not_answer_is_waited_for_only_so_long() -> None:
    async with AgentClient(agent("read(); read()")) as client:
        client.timeout = 0.2  # after its start, which takes its time
        with pytest.raises(TimeoutError, match=r"session/new: nothing for 0\.2 s"):
            await client.new_session("/")


async def test_an_agent_that_ignores_the_end_of_its_stdin_is_ended() -> None:
    stubborn = "import time, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    client = AgentClient(agent(stubborn))
    await client.__aenter__()
    assert await client.close(patience=0.2) == -9


async def test_methods_that_are_served_and_those_that_are_not() -> None:
    code = """
key = read()["id"]
say(id=1, method="fs/read_text_file", params={"path": "/a"}); one = read()
say(id=2, method="terminal/create", params={}); two = read()
say(id=3, method="fs/write_text_file", params={}); three = read()
say(id=key, result={"sessionId": json.dumps([one, two, three])})
"""

    async def read_file(params: dict[str, Any]) -> dict[str, Any]:
        return {"content": f"what is in {params['path']}"}

    def write_file(params: dict[str, Any]) -> None:
        raise OSError("the disk is full")

    serve = {"fs/read_text_file": read_file, "fs/write_text_file": write_file}
    async with AgentClient(agent(code), serve=serve) as client:
        answers = await client.new_session("/")
    assert '"result": {"content": "what is in /a"}' in answers
    assert '"code": -32601' in answers
    assert "the disk is full" in answers


async def test_a_request_that_the_agent_cancels_is_answered() -> None:
    code = """
key = read()["id"]
say(id=7, method="fs/read_text_file", params={})
say(method="$/cancel_request", params={"requestId": 7})
say(id=key, result={"sessionId": json.dumps(read())})
"""

    async def never(params: dict[str, Any]) -> None:
        await asyncio.sleep(60)

    async with AgentClient(agent(code), serve={"fs/read_text_file": never}) as client:
        assert '"code": -32800' in await client.new_session("/")


async def test_nobody_to_decide_means_cancelled() -> None:
    code = """
key = read()["id"]
options = [{"optionId": "a", "name": "Yes", "kind": "allow_once"}]
say(id=7, method="session/request_permission", params={"options": options})
say(id=key, result={"sessionId": json.dumps(read()["result"])})
"""
    async with AgentClient(agent(code), on_permission=None) as client:
        assert await client.new_session("/") == '{"outcome": {"outcome": "cancelled"}}'
    async with AgentClient(agent(code), on_permission=lambda _: "a") as client:
        assert '"optionId": "a"' in await client.new_session("/")
    with pytest.raises(InvalidValue, match="'nonsense': expected one of allow_once, allow_always"):
        AgentClient(agent(code), on_permission="nonsense")


async def test_lines_that_are_no_messages_are_recorded_and_ignored() -> None:
    code = """
key = read()["id"]
print("a line for debugging")
say(id=99, result={}); say(method="nothing/known")
say(id=key, result={"sessionId": "s"})
"""
    async with AgentClient(agent(code)) as client:
        assert await client.new_session("/") == "s"
    assert b"a line for debugging\n" in client.lines


async def test_a_watcher_that_fails_stops_whoever_waits() -> None:
    def watch(line: bytes) -> None:
        if b"sessionId" in line:
            raise BrokenPipeError

    async with AgentClient(AGENT, on_line=watch) as client:
        with pytest.raises(BrokenPipeError):
            await client.new_session("/")
    assert client.exit_code == 0


async def test_several_questions_are_one_state_and_a_living_session_can_be_gone_on_with(
    tmp_path: Path,
) -> None:
    handler = str(SUPPORT / "parallel_palette.py:ParallelPalette")
    command = [*AGENT, "--protocol", "2", "--handler", handler]
    waiting: list[asyncio.Future[str]] = []

    async def decide(params: dict[str, Any]) -> str:
        waiting.append(asyncio.get_running_loop().create_future())
        if len(waiting) == 2:
            for number, one in enumerate(waiting):
                asyncio.get_running_loop().call_later(0.05 * number, one.set_result, "allow_once")
        return await waiting[-1] if len(waiting) == 1 else await waiting[1]

    async with AgentClient(command, protocol=2, on_permission=decide) as client:
        session = await client.new_session(str(tmp_path))
        await client.prompt(session, "/parallel\n!echo one > a\n!echo two > b")
        states = [u["state"] for u in client.updates if u["sessionUpdate"] == "state_update"]
        assert states == ["running", "requires_action", "running", "idle"]
        resumed = await client.request(
            "session/resume", {"sessionId": session, "cwd": str(tmp_path)}
        )
        schemas.check(2, "ResumeSessionResponse", resumed)
        with pytest.raises(AgentError, match="no session"):
            await client.request("session/resume", {"sessionId": "gone", "cwd": str(tmp_path)})


async def test_a_cancel_does_not_take_back_what_the_client_does_for_the_agent(
    tmp_path: Path,
) -> None:
    done: list[str] = []
    over = asyncio.Event()

    async def create(_: dict[str, Any]) -> dict[str, Any]:
        done.append("create")
        await client.cancel(session)
        await asyncio.sleep(0.1)
        return {"terminalId": "late"}

    def kill(_: dict[str, Any]) -> dict[str, Any]:
        done.append("kill")
        return {}

    def release(_: dict[str, Any]) -> dict[str, Any]:
        done.append("release")
        over.set()
        return {}

    serve = {"terminal/create": create, "terminal/kill": kill, "terminal/release": release}
    async with AgentClient(AGENT, capabilities={"terminal": True}, serve=serve) as client:
        session = await client.new_session(str(tmp_path))
        assert await client.prompt(session, "!sleep 60") == "cancelled"
        await asyncio.wait_for(over.wait(), 10)
    assert done == ["create", "kill", "release"]
