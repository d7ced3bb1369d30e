"""LangGraph: serve a graph, such as one of LangChain's `create_agent`. `langchain` reports its calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from callsheet.adapters.framework import derived
from callsheet.adapters.handler import AgentHandler, speak
from callsheet.adapters.langchain import GRAPHS, ReportingCallbacks, report_calls
from callsheet.adapters.reporter import Reporter
from callsheet.report.json import JsonObject

if TYPE_CHECKING:
    from callsheet.agent.handler import Prompt, StopReason, Turn

VERSIONS = GRAPHS


class GraphHandler(AgentHandler):
    """Runs a graph with `messages` for each prompt."""

    async def turn(self, prompt: Prompt, turn: Turn) -> StopReason | None:
        """Run the graph, until nothing has to be decided."""
        media = [
            {"type": one["type"], "base64": one["data"], "mime_type": one["mimeType"]}
            for one in (*prompt.images, *prompt.audio)
        ]
        content = [{"type": "text", "text": prompt.text}, *media] if media else prompt.text
        given: Any = {"messages": [*self.messages, {"role": "user", "content": content}]}
        result: Any = {}
        with Reporter(turn.session) as reporter:
            reports = report_calls(reporter)
            speech = derived(
                SpeakingCallbacks, VERSIONS, "langchain_core.callbacks", "AsyncCallbackHandler"
            )(self, turn, reports)
            config: JsonObject = {
                "callbacks": [speech, reports],  # what is said comes first
                "configurable": {"thread_id": turn.session.session_id},
            }
            while given is not None:
                # The mode "messages" makes models stream; their text is sent by the handler, in order.
                modes = ["messages", "values"]
                async for mode, data in self.agent.astream(given, config, stream_mode=modes):
                    result = {**result, **data} if mode == "values" else result
                given = await reports.decided(result)
                result.pop("__interrupt__", None)
        if not getattr(self.agent, "checkpointer", None):  # else the graph remembers them
            self.messages = result["messages"]
        return None


class SpeakingCallbacks:
    """Sends a model's text and thoughts. LangChain's `AsyncCallbackHandler` is added to it."""

    run_inline: bool = True  # else the others would not wait for it

    def __init__(self, handler: AgentHandler, turn: Turn, reports: ReportingCallbacks) -> None:
        self._handler: AgentHandler = handler
        self._turn: Turn = turn
        self._reports: ReportingCallbacks = reports
        self._streamed: set[Any] = set()

    async def on_llm_new_token(
        self, token: Any, *, run_id: Any, chunk: Any = None, **rest: Any
    ) -> None:
        """Send a piece."""
        self._streamed.add(run_id)
        message = getattr(chunk, "message", None)
        await self._say(getattr(message, "content", token), run_id)
        if getattr(message, "tool_call_chunks", None):
            await self._turn.flush()

    async def on_llm_end(self, response: Any, *, run_id: Any, **rest: Any) -> None:
        """Send what did not stream, before any tool is run, and report what was used."""
        message = response.generations[0][0].message
        if run_id not in self._streamed:
            await self._say(message.content, run_id)
        await self._turn.flush()
        if used := message.usage_metadata:
            parts: Any = used.get("input_token_details") or {}
            made: Any = used.get("output_token_details") or {}
            given = used["input_tokens"], parts.get("cache_read"), parts.get("cache_creation")
            output = used["output_tokens"], made.get("reasoning")
            now = None if self._reports.is_in_tool(run_id) else used["total_tokens"]
            model = message.response_metadata.get("model_name")
            await self._handler.report_usage(self._turn, given, output, used=now, model=model)

    async def _say(self, content: Any, run_id: Any) -> None:
        if self._reports.is_in_tool(run_id):  # a sub-agent's words are its tool's result
            return
        for block in [content] if isinstance(content, str) else content:
            said: Any = {"text": block} if isinstance(block, str) else block
            thought = said.get("reasoning") or said.get("thinking")
            await speak(self._turn, said.get("text"), thought)
