from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import AsyncIterator, Sequence
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

pytest.importorskip("strands", reason="strands-agents is not installed; make adapters")

from strands import Agent, tool
from strands.models import Model
from strands.vended_interventions.hitl import HumanInTheLoop

from callsheet.adapters.strands import report_calls

IDS = itertools.count()


class Scripted(Model):
    """A model that plays the steps."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps

    @property
    def context_window_limit(self) -> int:
        return 1000

    def update_config(self, **_: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: list[Any], *_: Any, **__: Any) -> AsyncIterator[Any]:
        step = self._steps[sum(one["role"] == "assistant" for one in messages) % len(self._steps)]
        step = looked(messages) if step == LOOK else step
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(step, str):
            for word in step.split(" "):
                yield {"contentBlockDelta": {"delta": {"text": word + " "}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}
        else:
            for name, args in step:
                use = {"toolUseId": f"call_{next(IDS)}", "name": name}
                yield {"contentBlockStart": {"start": {"toolUse": use}}}
                for char in typed(args):
                    yield {"contentBlockDelta": {"delta": {"toolUse": {"input": char}}}}
                yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "tool_use"}}
        usage = {"inputTokens": 90, "outputTokens": 10, "totalTokens": 100}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


@tool
def picture(path: str) -> dict[str, Any]:
    """Draw a picture."""
    image = {"format": "png", "source": {"bytes": base64.b64decode(DOT)}}
    return {"status": "success", "content": [{"image": image}]}


@tool(name="doze")
async def timed(path: str) -> str:
    """Take longer than its timeout."""
    async with asyncio.timeout(0.05):
        return await doze(path)


@tool
async def count(path: str) -> Any:
    """Count, and say how far it is."""
    yield "one"
    yield "two"
    yield "three lines"


def make_agent(steps: Sequence[Step], **options: Any) -> Any:
    inner = Agent(
        Scripted([[("read_note", {"path": "b.txt"})], "read"]),
        name="inner",
        tools=[tool(read_note)],
        callback_handler=None,
    )
    tools = [*map(tool, (*PLAIN, remove_note)), picture, timed, count, inner.as_tool(name="ask")]

    @tool
    async def delegate(path: str) -> str:
        """Let another agent do it."""
        helper = Agent(
            Scripted([[("read_note", {"path": path})], "read"]),
            tools=[tool(read_note)],
            callback_handler=None,
            **options,
        )
        return str(await helper.invoke_async("read it"))

    return Agent(
        Scripted(steps),
        name="notes",
        tools=[*tools, delegate],
        interventions=[HumanInTheLoop(allowed_tools=["*", "!remove_note"])],
        **options,
    )


class TestStrands(AdapterSuite):
    uses: ClassVar[list[tuple[str, str]]] = [
        ("strands.hooks", "AfterInvocationEvent"),
        ("strands.middleware", "InvokeModelStage"),
    ]

    async def run(self, session: Session, steps: Sequence[Step], *, stream: bool) -> Any:
        agent = make_agent(steps, hooks=[report_calls(session)])
        agent.callback_handler = lambda **_: None
        return await agent.invoke_async("go")

    async def test_an_agent_that_is_a_tool_is_reported_without_hooks_of_its_own(self) -> None:
        async with self.stage([("ask", {"input": "read it"})], "done") as stage:
            assert stage.call("read_note").notes["parentId"] == stage.call("ask").tool_call_id

    async def test_what_a_tool_yields_is_its_progress(self) -> None:
        async with self.stage([("count", {"path": "a"})], "done") as stage:
            call = stage.call("count")
            assert call.notes["progress"]["message"] == "three lines"
            assert [item.text for item in call.content] == ["three lines"]

    async def test_an_unknown_tool_has_failed(self) -> None:
        async with self.stage([("nothing", {"a": 1})], "done") as stage:
            assert stage.call("nothing").status == "failed"

    async def test_objects_that_a_newer_version_may_bring_break_no_run(self) -> None:
        callbacks: list[Any] = []
        registry = SimpleNamespace(add_callback=lambda _, callback: callbacks.append(callback))
        async with Stage().session as session:
            report_calls(session).register_hooks(registry)
            for callback in callbacks:
                done = callback(object())
                if asyncio.iscoroutine(done):
                    await done
            assert session.health.degraded == len(callbacks)
