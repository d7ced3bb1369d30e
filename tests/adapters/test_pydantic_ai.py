from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Sequence
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
    text,
    typed,
)

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed; make adapters")

from pydantic_ai import (
    Agent,
    BinaryContent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    Tool,
)
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from callsheet.adapters.pydantic_ai import report_calls


def scripted(steps: Sequence[Step]) -> FunctionModel:
    """Return a model that plays the steps, whole or streamed."""

    def played(messages: list[Any]) -> Step:
        step = steps[sum(isinstance(one, ModelResponse) for one in messages) % len(steps)]
        return looked(messages) if step == LOOK else step

    def whole(messages: list[Any], info: Any) -> ModelResponse:
        step = played(messages)
        if isinstance(step, str):
            return ModelResponse([TextPart(step)])
        return ModelResponse([ToolCallPart(name, args) for name, args in step])

    async def stream(messages: list[Any], info: Any) -> AsyncIterator[Any]:
        step = played(messages)
        if isinstance(step, str):
            for word in step.split(" "):
                yield word + " "
            return
        for index, (name, args) in enumerate(step):
            yield {index: DeltaToolCall(name, tool_call_id=f"call_{len(messages)}_{index}")}
            for char in typed(args):
                yield {index: DeltaToolCall(json_args=char)}

    return FunctionModel(whole, stream_function=stream)


def picture(path: str) -> BinaryContent:
    """Draw a picture."""
    return BinaryContent(base64.b64decode(DOT), media_type="image/png")


def stubborn(path: str) -> str:
    """Ask the model to try again."""
    raise ModelRetry(f"not {path}")


def chained(path: str) -> str:
    """Fail because of something else."""
    raise ValueError(f"not {path}") from KeyError("why")


def make_agent(steps: Sequence[Step]) -> Any:
    tools = [
        *PLAIN,
        Tool(doze, timeout=0.05),
        Tool(remove_note, requires_approval=True),
        picture,
        stubborn,
        chained,
    ]
    return Agent(scripted(steps), name="notes", tools=tools, retries=0)


class TestPydanticAi(AdapterSuite):
    uses: ClassVar[list[tuple[str, str]]] = [("pydantic_ai.capabilities", "AbstractCapability")]

    async def run(self, session: Session, steps: Sequence[Step], *, stream: bool) -> Any:
        agent, reports = make_agent(steps), report_calls(session, streaming=stream)
        inner = Agent(scripted([[("read_note", {"path": "b.txt"})], "read"]), tools=[read_note])

        @agent.tool_plain
        async def delegate(path: str) -> str:
            return (await inner.run("read it", capabilities=[reports])).output

        return (await agent.run("go", capabilities=[reports])).output

    async def test_a_retry_that_the_model_is_asked_for_is_a_failure(self) -> None:
        async with self.stage([("stubborn", {"path": "a"})], "done") as stage:
            assert stage.call("stubborn").status == "failed"

    async def test_an_exception_is_reported_itself_not_its_cause(self) -> None:
        async with self.stage([("chained", {"path": "a"})], "done") as stage:
            assert text(stage.call("chained")) == "ValueError: not a"

    async def test_approvals_stay_the_authors_where_nobody_can_be_asked(self) -> None:
        async with Session("sess_1") as session:
            agent = Agent(
                scripted([[("remove_note", {"path": "a"})], "done"]),
                tools=[Tool(remove_note, requires_approval=True)],
                output_type=[str, DeferredToolRequests],
                capabilities=[report_calls(session)],
            )
            asked = await agent.run("go")
            assert isinstance(asked.output, DeferredToolRequests)
            (key,) = (one.tool_call_id for one in asked.output.approvals)
            results = DeferredToolResults(approvals={key: True})
            past = asked.all_messages()
            await agent.run(message_history=past, deferred_tool_results=results)
            (call,) = session.reports
            assert call.status == "completed"

    async def test_arguments_that_do_not_fit_are_a_failure(self) -> None:
        async with self.stage([("read_note", {"wrong": 1})], "done") as stage:
            assert stage.call("read_note").status == "failed"

    async def test_a_streamed_call_of_an_unknown_tool_ends(self) -> None:
        async with self.stage([("nothing", {"a": 1})], "done", stream=True) as stage:
            assert stage.call("nothing").status == "failed"

    async def test_objects_that_a_newer_version_may_bring_break_no_run(self) -> None:
        async def run_tool(args: Any) -> str:
            return "ran"

        async with Stage().session as session:
            reports: Any = report_calls(session, streaming=True)
            given: Any = {"call": object(), "args": {}, "handler": run_tool, "more": 1}
            assert await reports.wrap_tool_validate(None, **given) == "ran"
            assert await reports.wrap_tool_execute(None, **given) == "ran"
            await reports.report(None, object())
            assert session.health.degraded == 4
