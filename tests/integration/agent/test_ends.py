"""How the agent ends: whatever the client or the system does, no child and no call is left."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import sys
import termios
import time
from pathlib import Path

import pytest

from callsheet.testing import assert_every_call_ended
from tests.support.processes import linux, new_token, with_token
from tests.support.raw_agent import RawAgent, raw_agent
from tests.support.sizes import FULL

pytestmark = linux

MUCH = "!yes 0123456789012345678901234567890123456789 | head -c 3000000; sleep 60"


def running(agent: RawAgent, text: str = "!echo on; sleep {token}; echo off") -> tuple[str, int]:
    """Begin a turn with a command, and wait until the command runs."""
    agent.initialize()
    session, token = agent.new_session(), new_token()
    key = agent.prompt(session, text.format(token=token))
    agent.until(lambda: with_token(f"sleep\0{token}\0"))
    return session, key


def test_the_end_of_stdin_in_a_command_ends_it_its_call_and_its_turn(tmp_path: Path):
    with raw_agent(tmp_path, "--permission", "allow") as agent:
        _, key = running(agent)
        agent.close_stdin()
        assert agent.wait() == 0
        assert agent.answer(key)["result"] == {"stopReason": "cancelled"}
        assert_every_call_ended(agent.lines)
        assert agent.leaves_nothing()
        assert not agent.stderr


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"] if FULL else ["SIGTERM", "SIGINT"])
def test_a_signal_in_a_command_ends_everything_and_is_the_exit_code(tmp_path: Path, name: str):
    with raw_agent(tmp_path, "--permission", "allow") as agent:
        _, key = running(agent)
        agent.process.send_signal(getattr(signal, name))
        assert agent.wait() == 128 + getattr(signal, name)
        assert agent.answer(key)["result"] == {"stopReason": "cancelled"}
        assert_every_call_ended(agent.lines)
        assert agent.leaves_nothing()
        assert not agent.stderr


def test_many_signals_at_once_are_one(tmp_path: Path):
    with raw_agent(tmp_path, "--permission", "allow") as agent:
        running(agent)
        for name in ("SIGTERM", "SIGHUP", "SIGTERM", "SIGINT", "SIGTERM"):
            agent.process.send_signal(getattr(signal, name))
        assert agent.wait() > 128
        assert_every_call_ended(agent.lines)
        assert agent.leaves_nothing()


def test_a_signal_without_any_session_ends_it(tmp_path: Path):
    with raw_agent(tmp_path) as agent:
        agent.initialize()
        agent.process.terminate()
        assert agent.wait() == 128 + signal.SIGTERM


def test_a_client_that_closes_both_ends_leaves_nothing(tmp_path: Path):
    with raw_agent(tmp_path, "--permission", "allow", reading=False) as agent:
        begin_unread(agent, "!sleep 60")
        agent.close_stdin()
        agent.close_stdout()
        assert agent.wait() == 0
        assert agent.leaves_nothing()


def test_a_client_that_only_closes_its_reading_end_is_gone(tmp_path: Path):
    with raw_agent(tmp_path, "--permission", "allow", reading=False) as agent:
        begin_unread(agent, "!while sleep 0.1; do echo on; done")
        agent.close_stdout()
        assert agent.wait() == 0
        assert agent.leaves_nothing()


@pytest.mark.parametrize("end", ["stdin", "SIGTERM"])
def test_a_client_that_does_not_read_does_not_hold_up_the_end(tmp_path: Path, end: str):
    with raw_agent(tmp_path, "--permission", "allow", reading=False) as agent:
        begin_unread(agent, MUCH)
        fill(agent)
        begun = time.monotonic()
        if end == "stdin":
            agent.close_stdin()
            assert agent.wait() == 0
        else:
            agent.process.terminate()
            assert agent.wait() == 128 + signal.SIGTERM
        assert time.monotonic() - begun < 6
        assert agent.leaves_nothing()


def test_a_client_that_stops_reading_for_a_while_misses_nothing_that_counts(tmp_path: Path):
    with raw_agent(tmp_path, "--permission", "allow", reading=False) as agent:
        begin_unread(agent, MUCH.replace("60", "0.1"), turns=1)
        fill(agent)
        time.sleep(0.5)
        agent.read()
        assert agent.answer("p0")["result"] == {"stopReason": "end_turn"}
        assert_every_call_ended(agent.lines)
        assert agent.is_alive()


def test_a_client_that_stops_reading_and_then_goes_leaves_nothing(tmp_path: Path):
    with raw_agent(tmp_path, "--permission", "allow", reading=False) as agent:
        begin_unread(agent, MUCH)
        fill(agent)
        agent.close_stdout()
        assert agent.wait() == 0
        assert agent.leaves_nothing()


def test_a_flood_from_a_client_that_does_not_read_is_not_piled_up(tmp_path: Path):
    with raw_agent(tmp_path, reading=False) as agent:
        agent.send({"id": "i", "method": "initialize", "params": {"protocolVersion": 1}})
        pipe = agent.process.stdin.fileno()
        os.set_blocking(pipe, False)
        sent, until = 0, time.monotonic() + 3
        while time.monotonic() < until:
            try:
                sent += os.write(pipe, b"?\n" * 10_000)
            except BlockingIOError:
                time.sleep(0.05)
        assert sent < 8_000_000, "it reads on from a client that reads nothing"
        assert agent.rss_mb() < 150
        agent.process.terminate()
        assert agent.wait() == 128 + signal.SIGTERM


def test_half_a_line_and_the_end_is_an_error_and_an_end(tmp_path: Path):
    with raw_agent(tmp_path) as agent:
        agent.initialize()
        agent.send_bytes(b'{"jsonrpc":"2.0","id":7,"meth')
        agent.close_stdin()
        assert agent.wait() == 0
        assert agent.answer(None)["error"]["code"] == -32700


def test_what_was_asked_before_the_end_is_answered(tmp_path: Path):
    with raw_agent(tmp_path) as agent:
        agent.send(
            {"id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
            {"id": 2, "method": "session/new", "params": {"cwd": str(tmp_path), "mcpServers": []}},
            {"id": 3, "method": "session/list"},
        )
        agent.close_stdin()
        assert agent.wait() == 0
        assert [m["id"] for m in agent.messages if "result" in m] == [1, 2, 3]


STUBBORN = """
import asyncio
from callsheet.agent import agent
from callsheet.agent.agent import AgentSettings, serve

class Stubborn:
    def commands(self, tools):
        return []
    async def turn(self, prompt, turn):
        while True:
            try:
                await turn.say("no")
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass

agent.LAST = 0.5
raise SystemExit(serve(AgentSettings(handler=Stubborn)))
"""


def test_a_handler_that_does_not_stop_ends_with_the_process(tmp_path: Path):
    with raw_agent(tmp_path, command=(sys.executable, "-c", STUBBORN)) as agent:
        agent.initialize()
        agent.prompt(agent.new_session(), "hello")
        agent.until(lambda: agent.updates("agent_message_chunk"))
        agent.process.terminate()
        assert agent.wait() == 128 + signal.SIGTERM


def begin_unread(agent: RawAgent, text: str, turns: int = 4) -> None:
    """Begin turns of as many sessions, read just what must be read, and no more."""
    assert agent.process.stdout is not None
    fcntl.fcntl(agent.process.stdout, fcntl.F_SETPIPE_SZ, 4096)
    lines = iter(agent.process.stdout.readline, b"")
    agent.send({"id": "i", "method": "initialize", "params": {"protocolVersion": 1}})
    next(lines)
    for number in range(turns):
        params = {"cwd": str(agent.cwd), "mcpServers": []}
        agent.send({"id": "n", "method": "session/new", "params": params})
        session = next(line for line in lines if b'"id":"n"' in line)
        key = session.split(b'"sessionId":"')[1].split(b'"')[0].decode()
        prompt = {"sessionId": key, "prompt": [{"type": "text", "text": text}]}
        agent.send({"id": f"p{number}", "method": "session/prompt", "params": prompt})
    next(line for line in lines if b'"in_progress"' in line)


def fill(agent: RawAgent) -> None:
    """Wait until the agent's pipe takes nothing more."""
    assert agent.process.stdout is not None
    seen, until = [0, -1, -2], time.monotonic() + 10
    while len(set(seen[-4:])) > 1 or not seen[-1]:
        assert time.monotonic() < until, f"the pipe is not full: {seen}"
        seen.append(_unread(agent.process.stdout.fileno()))
        time.sleep(0.15)


def _unread(fd: int) -> int:
    return struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))[0]
