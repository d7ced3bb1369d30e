"""A real MCP server, made with the official SDK: `python mcp_real.py stdio`, or `http PORT [json]`."""

from __future__ import annotations

import os
import sys
from base64 import b64encode
from pathlib import Path

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

server = MCPServer("real", log_level="ERROR")
PIXEL = b64encode(b"\x89PNG not really").decode()


@server.tool(annotations=ToolAnnotations(title="Sum", read_only_hint=True, open_world_hint=False))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(title="Burn it down", annotations=ToolAnnotations(destructive_hint=True))
def burn(what: str) -> str:
    return f"burnt {what}"


@server.tool()
def everything(directory: str) -> CallToolResult:
    inside, outside = Path(directory, "a b.py").as_uri(), Path("/etc/hostname").as_uri()
    user = Annotations(audience=["user"], priority=0.5)
    return CallToolResult(
        content=[
            TextContent(text="some text"),
            TextContent(text="for people only", annotations=user),
            ImageContent(data=PIXEL, mime_type="image/png", annotations=user),
            AudioContent(data=PIXEL, mime_type="audio/wav"),
            ResourceLink(uri=f"{inside}#L12", name="a b.py", description="the file", size=7),
            ResourceLink(uri=outside, name="hostname"),
            EmbeddedResource(resource=TextResourceContents(uri="note://1", text="a note")),
            EmbeddedResource(
                resource=BlobResourceContents(
                    uri="blob://1", blob=PIXEL, mime_type="application/x-thing"
                )
            ),
            ImageContent(data="%%%", mime_type="image/png"),
        ]
    )


@server.tool()
async def count(to: int, ctx: Context) -> str:
    for n in range(1, to + 1):
        await ctx.report_progress(n, to, f"at {n}")
        await anyio.sleep(0.02)
    return "counted"


@server.tool()
def fail() -> str:
    raise ToolError("it is broken")


@server.tool()
async def slow(mark: str) -> str:
    """Leaves a mark when it starts, and another if it is cancelled."""
    Path(mark).write_text("started")
    try:
        await anyio.sleep(60)
    except BaseException:
        Path(mark).write_text("cancelled")
        raise
    return "slept"


@server.tool(structured_output=False)
def big(size: int) -> str:
    return "x" * size


@server.tool()
def say_pid() -> str:
    return str(os.getpid())


@server.tool()
def noise() -> str:
    os.write(1, b'this is no message\n{"neither": "is this"}\n\xff\xfe\n')
    os.write(2, b"complaint on stderr\n")
    return "quiet again"


@server.tool()
def die(runs: str) -> str:
    """Counts in a file how often it was run."""
    with Path(runs).open("a") as file:
        file.write("x")
    os.write(2, b"my last words\n")
    os._exit(3)


@server.tool()
async def see_roots(ctx: Context) -> str:
    return " ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


@server.tool()
async def ask(ctx: Context) -> str:
    try:
        await ctx.session.elicit_form("Your name?", {"type": "object", "properties": {}})
    except Exception as exc:  # noqa: BLE001
        return f"no: {exc}"
    return "yes"


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    server.add_tool(lambda: "new here", name=name)
    await ctx.session.send_tool_list_changed()
    return "grown"


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run()
    else:
        server.run("streamable-http", port=int(sys.argv[2]), json_response="json" in sys.argv[3:])
