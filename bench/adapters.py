"""What an adapter adds to a framework's tool call: the same run with and without reports to a client.

Each framework that is installed plays a scripted model, which asks for all calls at once; an MCP server is
called by its own client in memory. CPU time of the whole process, in rounds that take turns. The fastest
round counts, because the frameworks' own work is larger than ours, and so is its noise. They do not all fit
into one environment: `python -m bench.adapters` measures those of the one that runs it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from importlib import import_module
from typing import Any, TypeAlias

from callsheet import Session

from .table import Claim, Subject, show, show_claims

ROUNDS = 15
CALLS = 60
LIMIT = 60.0
"""Microseconds of CPU that a report may add to a call."""

IDS = itertools.count()
Run: TypeAlias = Callable[[], Awaitable[object]]
"""Makes `CALLS` calls."""


async def read_note(path: str) -> str:
    """Read a note. Frameworks run a plain function in a thread, whose hand-over would drown the rest."""
    return f"the note {path}"


async def mcp_server(session: Session | None, stack: AsyncExitStack) -> Run:
    """Call an MCP server in memory."""
    from mcp import Client
    from mcp.server.mcpserver import MCPServer

    from callsheet.adapters.mcp_server import report_tools

    server = MCPServer("bench", log_level="ERROR")
    server.tool()(read_note)
    if session is not None:
        report_tools(server, session)
    client = await stack.enter_async_context(Client(server))

    async def run() -> None:
        for _ in range(CALLS):
            await client.call_tool("read_note", {"path": "a.txt"})

    return run


async def pydantic_ai(session: Session | None, _: AsyncExitStack) -> Run:
    """Run an agent of Pydantic AI."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from callsheet.adapters.pydantic_ai import report_calls

    def play(messages: list[Any], _: Any) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse([TextPart("done")])
        calls = [ToolCallPart("read_note", {"path": "a.txt"}) for _ in range(CALLS)]
        return ModelResponse(calls)

    agent = Agent(FunctionModel(play), tools=[read_note])
    reports = [] if session is None else [report_calls(session)]
    return lambda: agent.run("go", capabilities=reports)


async def openai_agents(session: Session | None, _: AsyncExitStack) -> Run:
    """Run an agent of the OpenAI Agents SDK."""
    from agents import Agent, Runner, function_tool, set_tracing_disabled
    from agents.testing import ScriptedModel, assistant_message, function_call

    from callsheet.adapters.openai_agents import report_calls

    set_tracing_disabled(True)
    hooks, tools = None if session is None else report_calls(session), [function_tool(read_note)]

    async def run() -> None:
        keys = [f"call_{next(IDS)}" for _ in range(CALLS)]
        calls = [function_call("read_note", {"path": "a.txt"}, call_id=key) for key in keys]
        agent = Agent(
            "bench", model=ScriptedModel([calls, [assistant_message("done")]]), tools=tools
        )
        await Runner.run(agent, "go", hooks=hooks)

    return run


async def langchain(session: Session | None, _: AsyncExitStack) -> Run:
    """Run tools of LangChain as its graphs do: by their calls, one after the other."""
    from langchain_core.tools import StructuredTool

    from callsheet.adapters.langchain import report_calls

    tool: Any = StructuredTool.from_function(coroutine=read_note)
    config: Any = {} if session is None else {"callbacks": [report_calls(session)]}

    async def run() -> None:
        for _ in range(CALLS):
            call = {"name": "read_note", "args": {"path": "a.txt"}, "id": f"call_{next(IDS)}"}
            await tool.ainvoke({**call, "type": "tool_call"}, config)

    return run


async def strands(session: Session | None, _: AsyncExitStack) -> Run:
    """Run an agent of Strands."""
    from strands import Agent, tool
    from strands.models import Model

    from callsheet.adapters.strands import report_calls

    class Scripted(Model):
        def update_config(self, **_: Any) -> None: ...

        def get_config(self) -> dict[str, Any]:
            return {}

        def structured_output(self, *_: Any, **__: Any) -> Any: ...

        async def stream(self, messages: list[Any], *_: Any, **__: Any) -> AsyncIterator[Any]:
            is_first = "text" in messages[-1]["content"][0]
            yield {"messageStart": {"role": "assistant"}}
            for _call in range(CALLS) if is_first else ():
                use = {"toolUseId": f"call_{next(IDS)}", "name": "read_note"}
                arguments = {"toolUse": {"input": json.dumps({"path": "a.txt"})}}
                yield {"contentBlockStart": {"start": {"toolUse": use}}}
                yield {"contentBlockDelta": {"delta": arguments}}
                yield {"contentBlockStop": {}}
            if not is_first:
                yield {"contentBlockDelta": {"delta": {"text": "done"}}}
                yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "tool_use" if is_first else "end_turn"}}

    hooks = [] if session is None else [report_calls(session)]
    agent = Agent(Scripted(), tools=[tool(read_note)], hooks=hooks, callback_handler=None)

    async def run() -> None:
        agent.messages = []
        await agent.invoke_async("go")

    return run


async def google_adk(session: Session | None, _: AsyncExitStack) -> Run:
    """Run an agent of ADK."""
    from google.adk.agents import LlmAgent
    from google.adk.apps import App
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    from callsheet.adapters.google_adk import report_calls

    class Scripted(BaseLlm):
        async def generate_content_async(
            self,
            llm_request: Any,
            stream: bool = False,  # noqa: ARG002 - the framework's signature
        ) -> AsyncIterator[Any]:
            parts = [types.Part(text="done")]
            if len(llm_request.contents) == 1:
                given = {"name": "read_note", "args": {"path": "a.txt"}}
                calls = [types.FunctionCall(id=f"call_{next(IDS)}", **given) for _ in range(CALLS)]
                parts = [types.Part(function_call=call) for call in calls]
            yield LlmResponse(content=types.Content(role="model", parts=parts))

    plugins = [] if session is None else [report_calls(session)]
    agent = LlmAgent(name="bench", model=Scripted(model="scripted"), tools=[read_note])
    runner = InMemoryRunner(app=App(name="bench", root_agent=agent, plugins=plugins))
    runner.auto_create_session = True
    message = types.Content(role="user", parts=[types.Part(text="go")])

    async def run() -> None:
        key = f"session_{next(IDS)}"
        async for _ in runner.run_async(user_id="me", session_id=key, new_message=message):
            pass

    return run


async def claude_agent_sdk(session: Session | None, _: AsyncExitStack) -> Run:
    """Read the messages of Claude Code: what the SDK does with its lines, without the process."""
    parse = import_module("claude_agent_sdk._internal.message_parser").parse_message

    from callsheet.adapters.claude_agent_sdk import report_calls

    reports = None if session is None else report_calls(session)

    async def messages() -> AsyncIterator[Any]:
        for _ in range(CALLS):
            key = f"toolu_{next(IDS)}"
            use = {"type": "tool_use", "id": key, "name": "read_note", "input": {"path": "a.txt"}}
            said = {"role": "assistant", "content": [use], "model": "scripted"}
            yield parse(json.loads(json.dumps({"type": "assistant", "message": said})))
            result = {"type": "tool_result", "tool_use_id": key, "content": "the note a.txt"}
            back = {"role": "user", "content": [result]}
            yield parse(json.loads(json.dumps({"type": "user", "message": back})))

    async def run() -> None:
        async for _ in messages() if reports is None else reports.follow(messages()):
            await asyncio.sleep(0)

    return run


FRAMEWORKS: dict[str, Callable[[Session | None, AsyncExitStack], Awaitable[Run]]] = {
    one.__name__: one
    for one in (
        mcp_server,
        pydantic_ai,
        openai_agents,
        langchain,
        strands,
        google_adk,
        claude_agent_sdk,
    )
}


def measure() -> Subject:
    """Time the frameworks that are installed."""
    logging.disable(logging.WARNING)
    notes = [
        f"{ROUNDS} rounds of {CALLS} calls each, in turns; CPU time of the whole process, fastest round"
    ]
    rows: list[list[str]] = []
    claims: list[Claim] = []
    kept: dict[str, object] = {}
    for name, make in FRAMEWORKS.items():
        try:
            bare, reported = asyncio.run(_measure(make))
        except ImportError as error:
            notes.append(f"{name} is left out: {error}")
            continue
        added = min(reported) - min(bare)
        rows.append([name, *(f"{one:,.1f} µs" for one in (min(bare), min(reported), added))])
        claims.append(Claim(f"a call of {name}, reported: added", added, LIMIT, unit=" µs"))
        kept[name] = {"bare_us": round(min(bare), 1), "added_us": round(added, 1)}
    head = ["", "a call, bare", "reported", "added"]
    return Subject("A framework's tool call, reported", head, rows, claims, notes, kept)


async def _measure(
    make: Callable[[Session | None, AsyncExitStack], Awaitable[Run]],
) -> tuple[list[float], list[float]]:
    """Return the microseconds of CPU that a call took in each round: bare, and reported."""
    lines: list[bytes] = []
    async with Session("s", on_update=lines.append) as session, AsyncExitStack() as stack:
        runs = [await make(None, stack), await make(session, stack)]
        took: tuple[list[float], list[float]] = ([], [])
        for round_ in range(ROUNDS + 1):
            for run, figures in zip(runs, took, strict=True):
                begun = time.process_time()
                await run()
                await session.flush()
                if round_:  # the first one warms up
                    figures.append((time.process_time() - begun) / CALLS * 1e6)
        # Without these, something would be measured that reports nothing.
        assert len(lines) >= 2 * CALLS * (ROUNDS + 1), len(lines)
    return took


if __name__ == "__main__":
    found = measure()
    show(found)
    show_claims([found])
