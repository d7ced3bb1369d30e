"""LangGraph: serve a graph, such as one of LangChain's `create_agent`. `langchain` reports its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from callsheet.adapters.base import Reporter, derived, require
from callsheet.adapters.langchain import ReportingCallbacks, report_calls
from callsheet.report.json import JsonObject

if TYPE_CHECKING:
    from callsheet.agent.handler import Prompt, StopReason, Turn

VERSIONS = ("langgraph", "1.0", "2")


def handler(agent: Any, context_window: int | None) -> Callable[[], Any]:
    """Return what makes a handler that runs a graph with `messages` for each prompt."""
    require(*VERSIONS)
    return lambda: _GraphHandler(agent, context_window)


class _GraphHandler:
    def __init__(self, agent: Any, context_window: int | None) -> None:
        self._agent: Any = agent
        self._window: int | None = context_window
        self._messages: list[Any] = []

    async def turn(self, prompt: Prompt, turn: Turn) -> StopReason | None:
        """Run the graph, until nothing has to be decided."""
        media = [
            {"type": one["type"], "base64": one["data"], "mime_type": one["mimeType"]}
            for one in (*prompt.images, *prompt.audio)
        ]
        content = [{"type": "text", "text": prompt.text}, *media] if media else prompt.text
        given: Any = {"messages": [*self._messages, {"role": "user", "content": content}]}
        result: Any = {}
        with Reporter(turn.session) as reporter:
            reports = report_calls(reporter)
            speech = derived(SpeakingCallbacks, "langchain_core.callbacks", "AsyncCallbackHandler")(
                turn, reports
            )
            config: JsonObject = {
                "callbacks": [reports, speech],
                "configurable": {"thread_id": turn.session.session_id},
            }
            while given is not None:
                # The mode "messages" makes models stream; their text is sent by the handler, in order.
                modes = ["messages", "values"]
                async for mode, data in self._agent.astream(given, config, stream_mode=modes):
                    result = {**result, **data} if mode == "values" else result
                given = await reports.decided(result)
                result.pop("__interrupt__", None)
        if not getattr(self._agent, "checkpointer", None):  # else the graph remembers them
            self._messages = result["messages"]
        used = getattr(result["messages"][-1], "usage_metadata", None)
        if self._window and used:
            await turn.report_usage(used=used["total_tokens"], size=self._window)
        return None


class SpeakingCallbacks:
    """Sends a model's text and thoughts. LangChain's `AsyncCallbackHandler` is added to it."""

    def __init__(self, turn: Turn, reports: ReportingCallbacks) -> None:
        self._turn: Turn = turn
        self._reports: ReportingCallbacks = reports
        self._streamed: set[Any] = set()

    async def on_llm_new_token(
        self, token: Any, *, run_id: Any, chunk: Any = None, **rest: Any
    ) -> None:
        """Send a piece."""
        self._streamed.add(run_id)
        await self._say(getattr(getattr(chunk, "message", None), "content", token), run_id)

    async def on_llm_end(self, response: Any, *, run_id: Any, **rest: Any) -> None:
        """Send what did not stream, before any tool is run."""
        if run_id not in self._streamed:
            await self._say(response.generations[0][0].message.content, run_id)
        await self._turn.flush()

    async def _say(self, content: Any, run_id: Any) -> None:
        if self._reports.is_in_tool(run_id):  # a sub-agent's words are its tool's result
            return
        for block in [content] if isinstance(content, str) else content:
            text = block if isinstance(block, str) else block.get("text")
            thought = (
                None if isinstance(block, str) else block.get("reasoning") or block.get("thinking")
            )
            if text:
                await self._turn.say(text)
            if thought:
                await self._turn.think(thought)
