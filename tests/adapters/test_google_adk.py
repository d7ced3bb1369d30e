from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import AsyncIterator, Iterator, Sequence
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
    looked,
    read_note,
    remove_note,
    typed,
)
from tests.adapters.kit import doze as sleep_long

pytest.importorskip("google.adk", reason="google-adk is not installed; make adapters")

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import AgentTool, FunctionTool
from google.genai import types

from callsheet.adapters.google_adk import report_calls

# AgentTool gives plugins to its runner in a way that ADK itself has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")

IDS = itertools.count()


class Scripted(BaseLlm):
    """A model that plays the steps."""

    steps: Any = ()

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncIterator[LlmResponse]:
        done = sum(one.role == "model" for one in llm_request.contents)
        step = self.steps[done % len(self.steps)]
        step = looked(llm_request.contents) if step == LOOK else step
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=90, candidates_token_count=10, total_token_count=100
        )
        if isinstance(step, str):
            if stream:
                for word in step.split(" "):
                    part = types.Part(text=word + " ")
                    yield LlmResponse(
                        content=types.Content(role="model", parts=[part]), partial=True
                    )
            parts = [types.Part(text=step)]
        else:
            calls = [types.FunctionCall(id=f"c{next(IDS)}", name=n, args=a) for n, a in step]
            for call in calls if stream else ():
                for piece in pieces_of(call):
                    yield LlmResponse(
                        content=types.Content(role="model", parts=[piece]), partial=True
                    )
            parts = [types.Part(function_call=call) for call in calls]
        content = types.Content(role="model", parts=parts)
        yield LlmResponse(content=content, usage_metadata=usage)


def pieces_of(call: Any) -> Iterator[Any]:
    """Return a call as a model writes it."""
    for name, value in call.args.items():
        for char in (one for one in typed(value) if one != '"'):
            piece = types.PartialArg(json_path=f"$.{name}", string_value=char)
            made = types.FunctionCall(
                id=call.id, name=call.name, partial_args=[piece], will_continue=True
            )
            yield types.Part(function_call=made)


def picture(path: str) -> Any:
    """Draw a picture."""
    return types.Part.from_bytes(data=base64.b64decode(DOT), mime_type="image/png")


async def doze(path: str) -> str:
    """Take longer than its timeout."""
    async with asyncio.timeout(0.05):
        return await sleep_long(path)


def swallow(path: str) -> dict[str, str]:
    """Fail as the documentation of ADK recommends it."""
    return {"status": "error", "error_message": "no such note"}


def make_agent(steps: Sequence[Step]) -> Any:
    inner = LlmAgent(
        name="delegate",
        model=Scripted(model="scripted", steps=[[("read_note", {"path": "b.txt"})], "read"]),
        tools=[read_note],
    )
    tools = [
        *PLAIN,
        doze,
        picture,
        swallow,
        FunctionTool(remove_note, require_confirmation=True),
        AgentTool(inner),
    ]
    return LlmAgent(name="notes", model=Scripted(model="scripted", steps=steps), tools=tools)


class TestGoogleAdk(AdapterSuite):
    uses: ClassVar[list[tuple[str, str]]] = [("google.adk.plugins.base_plugin", "BasePlugin")]

    async def run(self, session: Session, steps: Sequence[Step], *, stream: bool) -> Any:
        app = App(name="notes", root_agent=make_agent(steps), plugins=[report_calls(session)])
        runner = InMemoryRunner(app=app)
        runner.auto_create_session = True
        config = RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
        message = types.Content(role="user", parts=[types.Part(text="go")])
        events = runner.run_async(
            user_id="user", session_id="one", new_message=message, run_config=config
        )
        return [event async for event in events]

    async def test_a_result_that_says_so_is_a_failure(self) -> None:
        async with self.stage([("swallow", {"path": "a"})], "done") as stage:
            assert stage.call("swallow").status == "failed"

    async def test_an_unknown_tool_has_failed(self) -> None:
        async with self.stage([("nothing", {"a": 1})], "done") as stage:
            assert stage.call("nothing").status == "failed"

    async def test_objects_that_a_newer_version_may_bring_break_no_run(self) -> None:
        given: Any = {"tool": object(), "tool_args": {}, "tool_context": object()}
        async with Stage().session as session:
            plugin = report_calls(session)
            assert await plugin.before_tool_callback(**given) is None
            assert await plugin.after_tool_callback(**given, result={}) is None
            assert await plugin.on_tool_error_callback(**given, error=ValueError()) is None
            assert await plugin.on_event_callback(invocation_context=None, event=object()) is None
            assert session.health.degraded == 4
