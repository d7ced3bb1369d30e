from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from callsheet import Session
from tests.adapters.kit import (
    DOT,
    LOOK,
    PLAIN,
    AdapterSuite,
    Stage,
    Step,
    doze,
    looked,
    read_note,
    remove_note,
    typed,
)

pytest.importorskip("agents", reason="openai-agents is not installed; make adapters")

from agents import (
    Agent,
    FunctionTool,
    Runner,
    ToolOutputImage,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

from callsheet.adapters.openai_agents import report_calls

set_tracing_disabled(True)
_keys = count()


class TypingModel(ScriptedModel):
    """A model that writes arguments character by character."""

    async def stream_response(self, *given: Any, **more: Any) -> AsyncIterator[Any]:
        async for event in super().stream_response(*given, **more):
            if event.type == "response.function_call_arguments.delta":
                for char in typed(json.loads(event.delta)):
                    yield event.model_copy(update={"delta": char})
                    await asyncio.sleep(0)
            else:
                yield event


async def stream_of(*events: Any) -> AsyncIterator[Any]:
    for event in events:
        yield event


def scripted(steps: Sequence[Step]) -> ScriptedModel:
    """Return a model that plays the steps."""
    return TypingModel([scripted_step(step) for step in (*steps, *steps)])


def scripted_step(step: Step) -> Any:
    if step == LOOK:
        return ModelStep.respond(lambda call: [assistant_message(looked(call.input))])
    if isinstance(step, str):
        return ModelStep(
            [assistant_message(step)], Usage(input_tokens=90, output_tokens=10, total_tokens=100)
        )
    return [function_call(name, args, call_id=f"call_{next(_keys)}") for name, args in step]


def picture(path: str) -> ToolOutputImage:
    """Draw a picture."""
    return ToolOutputImage(image_url=f"data:image/png;base64,{DOT}")


def make_agent(steps: Sequence[Step]) -> Any:
    tools = [
        *[function_tool(one) for one in (*PLAIN, picture)],
        function_tool(doze, timeout=0.05),
        function_tool(remove_note, needs_approval=True),
    ]
    return Agent(name="notes", model=scripted(steps), tools=tools)


def reader() -> Any:
    """Return an agent that reads a note, in any number of runs at the same time."""

    def respond(call: Any) -> Any:
        is_read = "function_call_output" in repr(call.input)
        return [assistant_message("read")] if is_read else scripted_step(steps[0])

    steps: list[Any] = [[("read_note", {"path": "b.txt"})]]
    model = ScriptedModel([ModelStep.respond(respond) for _ in range(6)])
    return Agent(name="reader", model=model, tools=[function_tool(read_note)])


class TestOpenAiAgents(AdapterSuite):
    uses: ClassVar[list[tuple[str, str]]] = [("agents", "RunHooks")]
    delegated: ClassVar[dict[str, Any]] = {"input": "b.txt"}

    async def run(self, session: Session, steps: Sequence[Step], *, stream: bool) -> Any:
        agent, hooks = make_agent(steps), report_calls(session)
        agent.tools.append(reader().as_tool("delegate", "Read a note.", hooks=hooks))
        inner = scripted([[("remove_note", {"path": "b.txt"})], "removed"])
        careful = Agent(
            name="careful", model=inner, tools=[function_tool(remove_note, needs_approval=True)]
        )
        agent.tools.append(careful.as_tool("careful", "Remove a note.", hooks=hooks))
        if stream:
            streamed = Runner.run_streamed(agent, "go", hooks=hooks)
            async for _ in hooks.follow(streamed.stream_events()):
                pass
            return streamed.final_output
        result = await Runner.run(agent, "go", hooks=hooks)
        while result.interruptions:
            result = await Runner.run(agent, await hooks.decided(result), hooks=hooks)
        return result.final_output

    async def test_a_sub_agent_that_asks_is_asked_about_by_its_own_call(self) -> None:
        steps: list[Step] = [[("careful", {"input": "b.txt"})], "done"]
        async with self.stage(*steps, answer="allow_once") as stage:
            (asked,) = stage.asked
            inner, outer = stage.call("remove_note"), stage.call("careful")
            assert asked["toolCall"]["toolCallId"] == inner.tool_call_id
            assert (inner.status, outer.status) == ("completed", "completed")

    async def test_a_failure_of_a_tool_without_the_sdks_invoker_is_reported(self) -> None:
        async def invoke(context: Any, arguments: str) -> str:
            raise ValueError("broken")

        class Suite(TestOpenAiAgents):
            async def run(self, session: Session, steps: Sequence[Step], *, stream: bool) -> Any:
                bare = FunctionTool(
                    "bare",
                    "Break.",
                    {"type": "object", "properties": {}},
                    invoke,
                    strict_json_schema=False,
                )
                agent = Agent(name="notes", model=scripted(steps), tools=[bare])
                return await Runner.run(agent, "go", hooks=report_calls(session))

        async with Suite().stage([("bare", {})], "done") as stage:
            assert stage.call("bare").status == "failed"

    async def test_objects_that_a_newer_version_may_bring_break_no_run(self) -> None:
        class Context:
            tool_call_id = "call_1"

        async with Stage().session as session:
            hooks: Any = report_calls(session)
            await hooks.on_tool_start(Context(), None, object())
            await hooks.on_tool_end(Context(), None, object(), "done")
            odd = SimpleNamespace(item=SimpleNamespace(type="tool_call_output_item"))
            assert [one async for one in hooks.follow(stream_of(odd))] == [odd]
            assert session.health.degraded == 2
