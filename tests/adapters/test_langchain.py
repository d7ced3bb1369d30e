from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, ClassVar

import pytest

from callsheet import Session
from tests.adapters import kit
from tests.adapters.kit import (
    DOT,
    LOOK,
    PLAIN,
    AdapterSuite,
    Step,
    looked,
    read_note,
    remove_note,
    typed,
)

pytest.importorskip("langchain", reason="langchain is not installed; make adapters")

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.callbacks import adispatch_custom_event
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import StructuredTool, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver

from callsheet.adapters.langchain import report_calls

_keys = count()
USAGE: Any = {"input_tokens": 90, "output_tokens": 10, "total_tokens": 100}


class ScriptedModel(BaseChatModel):
    """A model that plays the steps, whole or streamed."""

    steps: list[Any]
    thread: str = ""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        step = self.steps[sum(one.type == "ai" for one in messages) % len(self.steps)]
        if isinstance(step, str):
            said = AIMessage(looked(messages) if step == LOOK else step, usage_metadata=USAGE)
            return ChatResult(generations=[ChatGeneration(message=said)])
        calls = [{"name": name, "args": args, "id": f"call_{next(_keys)}"} for name, args in step]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=calls))])

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[Any]:
        message: Any = self._generate(messages).generations[0].message
        for index, call in enumerate(message.tool_calls):
            part: Any = {"name": call["name"], "id": call["id"], "index": index}
            for char in typed(call["args"]):
                chunk = AIMessageChunk("", tool_call_chunks=[{**part, "args": char}])
                yield ChatGenerationChunk(message=chunk)
                part = {"name": None, "id": None, "index": index}
        for word in message.content.split():
            yield ChatGenerationChunk(message=AIMessageChunk(word + " "))
        yield ChatGenerationChunk(message=AIMessageChunk("", usage_metadata=message.usage_metadata))


@tool
async def doze(path: str) -> str:
    """Take longer than its timeout."""
    async with asyncio.timeout(0.05):
        return await kit.doze(path)


@tool
def picture(path: str) -> Any:
    """Draw a picture."""
    return [{"type": "image", "base64": DOT, "mime_type": "image/png"}]


@tool
async def delegate(path: str) -> str:
    """Let another agent read it."""
    inner = create_agent(
        ScriptedModel(steps=[[("read_note", {"path": path})], "read"]), [read_note]
    )
    return (await inner.ainvoke({"messages": [("user", "read it")]}))["messages"][-1].content


@tool
async def careful(path: str) -> str:
    """Let an agent remove it that has to ask."""
    inner = create_agent(
        ScriptedModel(steps=[[("remove_note", {"path": path})], "removed"]),
        [remove_note],
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"remove_note": True})],
    )
    return (await inner.ainvoke({"messages": [("user", "remove it")]}))["messages"][-1].content


@tool
async def count(path: str) -> str:
    """Count, and say how far it is."""
    await adispatch_custom_event("counting", "begun")
    await adispatch_custom_event("counting", {"progress": 2, "total": 2, "message": "almost"})
    return "counted"


def stubborn(path: str) -> str:
    """Fail, with an error that LangChain makes a message of."""
    raise ToolException(f"not {path}")


def make_agent(steps: Sequence[Step]) -> Any:
    handled = StructuredTool.from_function(stubborn, handle_tool_error=True)
    tools = [
        *[
            one
            if one.__name__ not in ("hang", "meet")
            else StructuredTool.from_function(coroutine=one)
            for one in PLAIN
        ]
    ]
    return create_agent(
        ScriptedModel(steps=list(steps)),
        [*tools, remove_note, doze, picture, delegate, careful, count, handled],
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"remove_note": True})],
        checkpointer=InMemorySaver(),
        name="notes",
    )


class TestLangChain(AdapterSuite):
    uses: ClassVar[list[tuple[str, str]]] = [("langchain_core.callbacks", "BaseCallbackHandler")]

    async def run(self, session: Session, steps: Sequence[Step], *, stream: bool) -> Any:
        agent, reports = make_agent(steps), report_calls(session)
        config: Any = {"callbacks": [reports], "configurable": {"thread_id": "1"}}
        given: Any = {"messages": [("user", "go")]}
        result: Any = {}
        while given is not None:
            if stream:
                async for mode, data in agent.astream(
                    given, config, stream_mode=["messages", "values"]
                ):
                    result = data if mode == "values" else result
            else:
                result = await agent.ainvoke(given, config)
            given = await reports.decided(result)
        return result["messages"][-1].content

    async def test_what_a_tool_dispatches_is_its_progress(self) -> None:
        async with self.stage([("count", {"path": "a"})], "done") as stage:
            progress = stage.call("count").notes["progress"]
            assert progress == {"done": 2, "total": 2, "message": "almost"}

    async def test_an_error_that_is_made_a_message_is_a_failure(self) -> None:
        async with self.stage([("stubborn", {"path": "a"})], "done") as stage:
            assert (stage.call("stubborn").status, stage.result) == ("failed", "done")

    async def test_a_sub_agent_that_asks_is_asked_about_by_its_own_call(self) -> None:
        steps: list[Step] = [[("careful", {"path": "a"})], "done"]
        for stream in (False, True):
            async with self.stage(*steps, answer="allow_once", stream=stream) as stage:
                (asked,) = stage.asked
                inner, outer = stage.call("remove_note"), stage.call("careful")
                assert asked["toolCall"]["toolCallId"] == inner.tool_call_id
                assert (inner.status, outer.status) == ("completed", "completed")

    async def test_a_streamed_call_of_an_unknown_tool_ends(self) -> None:
        async with self.stage(
            [("nothing", {"a": "some", "b": "more"})], "done", stream=True
        ) as stage:
            assert stage.call("nothing").status == "failed"

    async def test_a_run_that_is_not_async_is_reported(self) -> None:
        stage = kit.Stage()
        async with stage.session as session:
            agent = make_agent([[("read_note", {"path": "a"})], "done"])
            config: Any = {"callbacks": [report_calls(session)], "configurable": {"thread_id": "1"}}
            await asyncio.to_thread(agent.invoke, {"messages": [("user", "go")]}, config)
        stage.check()
        assert stage.call("read_note").status == "completed"
