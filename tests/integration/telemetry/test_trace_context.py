"""A client's trace context: odd ones are met in silence, and MCP servers are given it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from callsheet.testing import AgentClient
from tests.integration.telemetry.conftest import Environment
from tests.integration.telemetry.test_spans import CALLSHEET, META, SPAN, TRACE, prompt
from tests.support.otlp_receiver import OtlpReceiver

SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    method, result = message.get("method"), {}
    if "id" not in message:
        continue
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "echo", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "meta", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        text = json.dumps(message["params"].get("_meta", {}))
        result = {"content": [{"type": "text", "text": text}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@pytest.mark.parametrize(
    "meta",
    [
        {"tracestate": "no state!!"},
        {"tracestate": "a=1,,,=,x=é"},
        {"tracestate": ",".join(f"k{number}=v" for number in range(40))},
        {"tracestate": ["a=1"]},
        {"baggage": "k=v;;;=,,%%%,é=1"},
        {"baggage": "a" * 8000},
        {"baggage": "a" * 100_000},
    ],
    ids=lambda meta: str(meta)[:30],
)
async def test_what_else_a_client_sends_with_it_may_be_anything(
    receiver: OtlpReceiver, environment: Environment, tmp_path: Path, meta: Any
) -> None:
    async with AgentClient([*CALLSHEET, "agent"], env=environment(receiver.url)) as client:
        session = await client.new_session(str(tmp_path))
        await prompt(client, session, "/list", {**META, "tracestate": "", **meta})
        await asyncio.to_thread(receiver.wait, 2)
    assert client.errors == ""
    assert receiver.one("execute_tool list").trace_id == TRACE
    assert receiver.agents()[0].parent_id == SPAN


async def ask_server(env: dict[str, str], place: Path, meta: Any) -> dict[str, Any]:
    """Return the `_meta` that an MCP server gets with a call."""
    script = place / "server.py"
    script.write_text(SERVER)
    server = {"name": "echo", "command": sys.executable, "args": [str(script)], "env": []}
    async with AgentClient([*CALLSHEET, "agent", "--permission", "allow"], env=env) as client:
        session = await client.new_session(str(place), mcpServers=[server])
        await prompt(client, session, "/mcp__echo__meta", meta)
        updates = client.updates
    texts = [
        item["content"]["text"]
        for update in updates
        for item in update.get("content", ())
        if update.get("status") == "completed"
    ]
    return json.loads(texts[-1])


async def test_an_mcp_server_is_asked_as_a_part_of_the_calls_span(
    receiver: OtlpReceiver, environment: Environment, tmp_path: Path
) -> None:
    given = await ask_server(environment(receiver.url), tmp_path, META)
    span = receiver.one("execute_tool mcp__echo__meta")
    assert given["traceparent"] == f"00-{TRACE}-{span.span_id}-01"
    assert (given["tracestate"], given["baggage"]) == (META["tracestate"], META["baggage"])


async def test_without_spans_of_ours_the_clients_trace_is_passed_on_as_it_came(
    environment: Environment, tmp_path: Path
) -> None:
    env = environment("")
    assert META.items() <= (await ask_server(env, tmp_path, META)).items()
    assert "traceparent" not in await ask_server(env, tmp_path, None)
    assert "traceparent" not in await ask_server(env, tmp_path, {"traceparent": "00-odd"})
