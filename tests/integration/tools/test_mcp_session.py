"""MCP servers of a session: started with it, ended with it, and their secrets known to its guard."""

from __future__ import annotations

import asyncio
import sys

import psutil

from callsheet import Session
from callsheet.testing import Recorder
from callsheet.tools.mcp import McpServer
from tests.support import SUPPORT

REAL = str(SUPPORT / "mcp_real.py")


def entry(name: str, *, secret: str = "") -> dict[str, object]:
    env = [{"name": "SHOP_TOKEN", "value": secret}] if secret else []
    return {"name": name, "command": sys.executable, "args": [REAL, "stdio"], "env": env}


async def test_a_session_starts_its_servers_and_ends_them(tmp_path):
    before = set(psutil.Process().children(recursive=True))
    broken = {"name": "gone", "command": "no-such-program", "args": [], "env": []}
    async with Session(cwd=tmp_path, mcp_servers=[entry("real"), broken]) as session:
        problems = await session.connected()
        assert len(problems) == 1
        assert "no-such-program" in problems[0]
        assert session.health.failed == 1
        assert any(name.startswith("mcp__real__") for name in session.tools.names())
        assert session.tools.get("read") is not None
    left = set(psutil.Process().children(recursive=True)) - before
    assert not left


async def test_run_waits_for_the_servers(tmp_path):
    async with Session(cwd=tmp_path, mcp_servers=[entry("real")]) as session:
        result = await session.run("mcp__real__nothing_like_it")
        assert "mcp__real__" in result.error


async def test_a_session_can_be_closed_while_its_servers_start(tmp_path):
    before = set(psutil.Process().children(recursive=True))
    async with Session(cwd=tmp_path, mcp_servers=[entry("real")]):
        await asyncio.sleep(0.02)
    assert not set(psutil.Process().children(recursive=True)) - before


async def test_the_secrets_that_a_server_is_given_are_not_shown(tmp_path):
    secret = "zq-plain-words-9431"
    recorder = Recorder()
    shop = McpServer.from_acp(entry("real", secret=secret))
    async with Session(cwd=tmp_path, mcp_servers=[shop], on_update=recorder) as session:
        async with session.call("think", {"thought": f"it is {secret}"}) as call:
            call.succeed("done")
    assert secret.encode() not in b"".join(recorder.lines)
