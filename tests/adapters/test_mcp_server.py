"""Tools of an MCP server, of mcp 1 and of mcp 2, called by a real client and reported as they run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from callsheet import Session
from callsheet.adapters.framework import UnknownFramework
from callsheet.adapters.mcp_server import report_tools
from callsheet.testing import Recording, assert_every_call_ended, fold
from tests.adapters.typescript import hold_fold
from tests.clients import scenes

pytest.importorskip("mcp", reason="mcp is not installed")

try:
    from mcp.server.mcpserver import Context, Image, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
except ImportError:  # mcp 1
    from mcp.server.fastmcp import Context, Image
    from mcp.server.fastmcp import FastMCP as MCPServer
    from mcp.server.fastmcp.exceptions import ToolError
from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool, ToolAnnotations

PIXEL = b"\x89PNG\r\n\x1a\n"


def made_server() -> Any:
    server: Any = MCPServer("real", log_level="CRITICAL")

    @server.tool(annotations=ToolAnnotations(readOnlyHint=True))
    def read_note(path: str) -> str:
        return f"the note of {path}"

    @server.tool()
    def totals(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    @server.tool()
    def picture() -> Image:
        return Image(data=PIXEL, format="png")

    @server.tool()
    async def steps(ctx: Context) -> str:
        for done in (1, 2):
            await ctx.report_progress(done, 2, f"step {done}")
        return "done"

    @server.tool()
    def crash() -> str:
        raise RuntimeError("the disk is full")

    @server.tool()
    def refuse() -> str:
        raise ToolError("no such user")

    @server.tool()
    def swallow() -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text="it failed")], isError=True)

    @server.tool()
    async def slow() -> str:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(30)
        return "never"

    @server.tool()
    async def wait() -> str:
        await asyncio.sleep(30)
        return "never"

    @server.tool()
    def delete_all(what: str) -> str:
        return f"deleted {what}"

    return server


@asynccontextmanager
async def connected(server: Any) -> AsyncIterator[Any]:
    try:
        from mcp import Client
    except ImportError:  # mcp 1
        from mcp.shared.memory import create_connected_server_and_client_session

        async with create_connected_server_and_client_session(server) as client:
            yield client
    else:
        async with Client(server) as client:
            yield client


@asynccontextmanager
async def reported(**options: Any) -> AsyncIterator[tuple[Any, Any, Recording]]:
    """A client of a server that is reported, its session, and the recording, which has no findings."""
    recording = Recording()
    server = made_server()
    async with Session("sess_1", on_update=recording.agent, strict=True, **options) as session:
        approve = lambda name, _: name == "delete_all"  # noqa: E731
        report_tools(server, session, approve=approve)
        async with connected(server) as client:
            yield client, session, recording
        await session.flush()
    assert_every_call_ended(recording)
    assert recording.check() == []


def call_of(recording: Recording, name: str) -> Any:
    (found,) = [one for one in fold(recording) if one.name == name]
    return found


async def test_a_result_is_reported_as_text_and_as_data():
    async with reported() as (client, _, recording):
        await client.call_tool("read_note", {"path": "/tmp/a.md"})
        await client.call_tool("totals", {"a": 1, "b": 2})
        await client.call_tool("picture", {})
    note = call_of(recording, "read_note")
    assert (note.status, note.kind, note.raw_input) == ("completed", "read", {"path": "/tmp/a.md"})
    assert [one.text for one in note.content] == ["the note of /tmp/a.md"]
    assert call_of(recording, "totals").raw_output == {"sum": 3}
    assert [type(one).__name__ for one in call_of(recording, "picture").content] == ["ImageContent"]


async def test_progress_is_reported_and_still_sent():
    seen = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total, message))

    async with reported() as (client, _, recording):
        await client.call_tool("steps", {}, progress_callback=progress)
    assert seen == [(1, 2, "step 1"), (2, 2, "step 2")]
    assert call_of(recording, "steps").notes["progress"]["message"] == "step 2"


@pytest.mark.parametrize(
    ("name", "reason", "text"),
    [
        ("crash", "exception", "the disk is full"),
        ("refuse", "exception", "no such user"),
        ("swallow", "tool_error", "it failed"),
        ("slow", "timeout", ""),
        ("fetch_it", "exception", "fetch_it"),
    ],
)
async def test_a_failure_is_reported_as_one(name: str, reason: str, text: str):
    async with reported() as (client, _, recording):
        result = await client.call_tool(name, {})
        assert result.model_dump(by_alias=True)["isError"]
    call = call_of(recording, name)
    assert (call.status, call.notes["reason"]) == ("failed", reason)
    assert text in json.dumps([str(one) for one in call.content])


async def cancelled_recording() -> Recording:
    async with reported() as (client, session, recording):
        call = asyncio.ensure_future(client.call_tool("wait", {}))
        while not session.reports:
            await asyncio.sleep(0.005)
        call.cancel()
        await asyncio.wait(
            [call]
        )  # a client of mcp 1 does not tell the server; its disconnection does
    return recording


async def test_a_call_that_the_client_cancels_is_reported_as_cancelled():
    recording = await cancelled_recording()
    assert call_of(recording, "wait").notes["reason"] == "cancelled"


async def test_three_calls_at_once_are_three_calls():
    async with reported() as (client, _, recording):
        names = ("/tmp/a", "/tmp/b", "/tmp/c")
        await asyncio.gather(*(client.call_tool("read_note", {"path": one}) for one in names))
    assert sorted(one.raw_input["path"] for one in fold(recording)) == [*names]


async def test_a_tool_that_calls_a_tool_is_its_parent():
    async with reported() as (_, session, recording):
        outer: Any = MCPServer("outer", log_level="CRITICAL")

        @outer.tool()
        async def delegate() -> str:
            inner = made_server()
            report_tools(inner, session)
            async with connected(inner) as nested:
                await nested.call_tool("totals", {"a": 1, "b": 1})
            return "done"

        report_tools(outer, session)
        async with connected(outer) as other:
            await other.call_tool("delegate", {})
    parent, child = call_of(recording, "delegate"), call_of(recording, "totals")
    assert child.notes["parentId"] == parent.tool_call_id


@scenes.needs_node("@agentclientprotocol/sdk")
async def test_a_client_on_the_typescript_sdk_sees_the_same_calls(tmp_path: Path):
    async with reported(on_permission=lambda _: "reject_once") as (client, _, recording):
        alone = ("steps", "picture", "crash", "refuse", "swallow", "slow")
        for name in alone:
            await client.call_tool(name, {})
        await client.call_tool("delete_all", {"what": "users"})
        numbers = [{"a": one, "b": 1} for one in range(3)]
        await asyncio.gather(*(client.call_tool("totals", one) for one in numbers))
    recordings = [recording, await cancelled_recording()]
    assert await hold_fold(recordings, tmp_path) == {"completed", "failed"}


@pytest.mark.parametrize("answer", ["allow_once", "reject_once"])
async def test_an_approval_is_asked_for_before_the_tool_runs(answer: str):
    asked = []

    def on_permission(question: Any) -> str:
        asked.append(question.report.raw_input)
        return answer

    async with reported(on_permission=on_permission) as (client, _, recording):
        result = await client.call_tool("delete_all", {"what": "users"})
        is_error = result.model_dump(by_alias=True)["isError"]
    call = call_of(recording, "delete_all")
    assert asked == [{"what": "users"}]
    assert bool(is_error) is (answer != "allow_once")
    assert call.status == ("failed" if is_error else "completed")
    assert call.notes.get("reason") == ("denied" if is_error else None)


async def test_a_low_level_server_is_reported():
    from mcp.server.lowlevel import Server

    recording = Recording()
    done = CallToolResult(content=[TextContent(type="text", text="written")])
    tool = Tool(name="write_note", inputSchema={"type": "object"})
    try:

        async def list_tools(ctx: Any, params: Any) -> ListToolsResult:
            return ListToolsResult(tools=[tool])

        async def call_tool(ctx: Any, params: Any) -> CallToolResult:
            await ctx.session.report_progress(1, 1)
            return done

        server: Any = Server("low", on_list_tools=list_tools, on_call_tool=call_tool)
    except TypeError:  # mcp 1
        server = Server("low")

        @server.list_tools()
        async def tools() -> list[Tool]:
            return [tool]

        @server.call_tool()
        async def call(name: str, arguments: dict[str, Any]) -> CallToolResult:
            return done

    async with Session("sess_1", on_update=recording.agent, strict=True) as session:
        report_tools(server, session)
        async with connected(server) as client:
            await client.list_tools()
            await client.call_tool("write_note", {"path": "/tmp/a.md"})
    report = call_of(recording, "write_note")
    assert (report.status, report.title) == ("completed", "Writing to /tmp/a.md")
    assert recording.check() == []


async def test_a_server_of_the_package_fastmcp_is_reported():
    fastmcp = pytest.importorskip("fastmcp", reason="fastmcp is not installed; make adapters")
    server = fastmcp.FastMCP("other")

    @server.tool
    async def totals(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    @server.tool
    def crash() -> str:
        raise RuntimeError("the disk is full")

    recording = Recording()
    async with Session("sess_1", on_update=recording.agent, strict=True) as session:
        report_tools(server, session)
        async with fastmcp.Client(server) as client:
            await client.call_tool("totals", {"a": 1, "b": 2})
            await client.call_tool("crash", {}, raise_on_error=False)
    done, failed = call_of(recording, "totals"), call_of(recording, "crash")
    assert (done.status, done.raw_output) == ("completed", {"sum": 3})
    assert (failed.status, failed.notes["reason"]) == ("failed", "tool_error")
    assert recording.check() == []


async def test_what_is_no_server_is_an_error(monkeypatch: pytest.MonkeyPatch):
    async with Session("sess_1") as session:
        with monkeypatch.context() as patch:
            patch.setattr(metadata, "version", lambda _: "0.9")
            with pytest.raises(UnknownFramework, match=r"mcp 0.9 is too old; .* mcp>=1.23,<3"):
                report_tools(made_server(), session)
        with pytest.raises(TypeError, match="expected an MCPServer"):
            report_tools(object(), session)


async def test_requests_of_a_newer_version_break_no_run():
    pytest.importorskip("mcp.server.mcpserver", reason="mcp 1 has no middleware")
    server = made_server()

    async def call_next(ctx: Any) -> str:
        return "done"

    async with Session("sess_1") as session:
        report_tools(server, session)
        middleware = server._lowlevel_server.middleware[-1]
        for method in ("tools/list", "tools/call"):
            assert (
                await middleware(SimpleNamespace(method=method, params=None), call_next) == "done"
            )
        assert session.health.degraded
