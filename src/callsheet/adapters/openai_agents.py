"""OpenAI Agents SDK: run hooks that report the tool calls of a run.

    hooks = report_calls(session)
    result = await Runner.run(agent, "…", hooks=hooks)
    while result.interruptions:  # tools that need approval, asked about in the editor
        result = await Runner.run(agent, await hooks.decided(result), hooks=hooks)

The SDK turns a tool's exception into an ordinary result, and shows it to no hook. So the function of a tool
is watched from its first start on: what it raises is what is reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from callsheet.adapters.framework import derived, harmless, require
from callsheet.adapters.handler import AgentHandler
from callsheet.adapters.reporter import Reporter
from callsheet.adapters.results import shown_text
from callsheet.runtime.session import RuntimeSession

if TYPE_CHECKING:
    from callsheet.agent.handler import Prompt, StopReason, Turn

VERSIONS = ("openai-agents", "0.22", "0.25")
CATCHING_UP = 1.0  # seconds that a tool waits at most for the text before it to be sent


def report_calls(session: RuntimeSession | Reporter) -> Any:
    """Return hooks for `Runner.run(hooks=…)`, and for `agent.as_tool(hooks=…)` of sub-agents."""
    require(*VERSIONS)
    reporter = session if isinstance(session, Reporter) else Reporter(session, VERSIONS[0])
    return derived(CallHooks, VERSIONS, "agents", "RunHooks")(reporter)


class CallHooks:
    """Reports what is run. The SDK's `RunHooks` is added to it."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter: Reporter = reporter
        self._caught_up: asyncio.Event = asyncio.Event()
        self._caught_up.set()

    @harmless
    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Report that a tool runs."""
        key = getattr(context, "tool_call_id", None)
        if key is None:  # a tool of the SDK's own kinds, such as a shell, which has no call here
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._caught_up.wait(), CATCHING_UP)
        self.reporter.start(key, context.tool_name, context.tool_arguments)
        if hasattr(tool, "on_invoke_tool"):
            _watch(tool)
            _STARTED[context] = self.reporter, monotonic()

    @harmless
    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:
        """Report a result. That of a tool which has failed was reported before."""
        self.reporter.end(getattr(context, "tool_call_id", ""), result)

    async def decided(self, result: Any) -> Any:
        """Ask the client about what a run was interrupted for, and return the state to go on with."""
        state = result.to_state()
        for item in result.interruptions:
            key, args = str(item.call_id), item.arguments
            answer = await self.reporter.approval(key, item.tool_name, args, always=True)
            if answer.is_allowed:
                state.approve(item, always_approve=answer.always)
            else:
                state.reject(item, rejection_message=answer.message)
        return state

    async def follow(self, events: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Pass on `result.stream_events()`, and report calls while the model writes their arguments."""
        written: dict[Any, str] = {}
        try:
            async for event in events:
                self._add(event, written)
                yield event
        except BaseException as exc:
            self.reporter.abandon(written.values(), exc)
            raise

    @harmless
    def _add(self, event: Any, written: dict[Any, str]) -> None:
        data, item = (cast("Any", getattr(event, one, None)) for one in ("data", "item"))
        raw: Any = getattr(data, "item", None)
        match getattr(data, "type", None) or getattr(item, "type", None):
            case "response.output_item.added" if getattr(raw, "type", "") == "function_call":
                written[raw.id, data.output_index] = raw.call_id
                self.reporter.open(raw.call_id, raw.name)
            case "response.function_call_arguments.delta":
                key = written.get((data.item_id, data.output_index), "")
                self.reporter.arguments_piece(key, data.delta)
            case "response.output_item.done" if getattr(raw, "type", "") == "function_call":
                self.reporter.open(raw.call_id, raw.name, raw.arguments)
            case "tool_call_output_item":  # of one that was not run: a guardrail has refused it
                self.reporter.end(item.raw_item["call_id"], item.output, is_error=True)
            case "handoff_output_item":
                self.reporter.end(item.raw_item["call_id"], item.raw_item.get("output"))
            case _:
                pass

    async def spoken(self, events: Any, turn: Turn) -> None:
        """Send the text and the thoughts of a run that streams, and report its calls."""
        (caught_up := self._caught_up).clear()
        written: dict[Any, str] = {}
        async for event in events:
            match kind := getattr(getattr(event, "data", None), "type", None):
                case "response.created":
                    caught_up.clear()
                case "response.output_text.delta" | "response.refusal.delta":
                    await turn.say(event.data.delta)
                case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                    await turn.think(event.data.delta)
                case _:
                    await turn.flush()
                    self._add(event, written)
                    if kind == "response.completed":  # tools wait for this: text comes before them
                        caught_up.set()


_STARTED: WeakKeyDictionary[Any, tuple[Reporter, float]] = WeakKeyDictionary()


class _WatchedFunction:
    """The function of a tool. Calls are known by their contexts: who reports them, and when they began."""

    def __init__(self, function: Any, tool: Any) -> None:
        self._function: Any = function
        self._tool: Any = tool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)  # the SDK's marks

    async def __call__(self, context: Any, arguments: str) -> Any:
        if (started := _STARTED.get(context)) is None:
            return await self._function(context, arguments)
        (reporter, began), key = started, context.tool_call_id
        try:
            with reporter.running(key):
                return await self._function(context, arguments)
        except BaseException as exc:
            limit = getattr(self._tool, "timeout_seconds", None)
            is_cancel = isinstance(exc, asyncio.CancelledError)
            late = is_cancel and limit and monotonic() - began >= limit
            reporter.end(key, exc=TimeoutError(f"timed out after {limit:g} s") if late else exc)
            raise


def _watch(tool: Any) -> None:
    """Watch the function of a tool. The SDK's invoker, which handles failures, stays around it."""
    owner, name, inside = tool, "on_invoke_tool", "_invoke_tool_impl"
    if type(tool.on_invoke_tool) is not _WatchedFunction and hasattr(tool.on_invoke_tool, inside):
        owner, name = tool.on_invoke_tool, inside
    function = getattr(owner, name)
    if not isinstance(function, _WatchedFunction):
        setattr(owner, name, _WatchedFunction(function, tool))


class OpenAiHandler(AgentHandler):
    """Runs an agent for each prompt, and keeps its items."""

    async def turn(self, prompt: Prompt, turn: Turn) -> StopReason | None:
        """Run the agent, until nothing has to be decided."""
        agents: Any = import_module("agents")
        content: list[Any] = [{"type": "input_text", "text": prompt.text}]
        urls = [f"data:{one['mimeType']};base64,{one['data']}" for one in prompt.images]
        content += [{"type": "input_image", "image_url": url} for url in urls]
        given: Any = [*self.messages, {"role": "user", "content": content}]
        with Reporter(turn.session) as reporter:
            hooks = report_calls(reporter)
            while True:
                result = agents.Runner.run_streamed(self.agent, given, hooks=hooks)
                try:
                    await hooks.spoken(result.stream_events(), turn)
                except agents.MaxTurnsExceeded as exc:
                    await turn.say(str(exc))
                    return "max_turn_requests"
                finally:
                    result.cancel()  # it runs in a task of its own, which may go on after a failure
                if not result.interruptions:
                    break
                given = await hooks.decided(result)
        self.messages = result.to_input_list()
        if not isinstance(result.final_output, str):  # text was sent as it came
            await turn.say(shown_text(result.final_output))
        all_, now = result.context_wrapper.usage, result.raw_responses[-1].usage
        given = all_.input_tokens, all_.input_tokens_details.cached_tokens
        output = all_.output_tokens, all_.output_tokens_details.reasoning_tokens
        model = getattr(self.agent.model, "model", self.agent.model)
        await self.report_usage(turn, given, output, used=now.total_tokens, model=model)
        return None
