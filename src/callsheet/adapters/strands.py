"""Strands Agents: hooks that report the tool calls of an agent, and of the agents that are its tools.

    agent = Agent(tools=[…], hooks=[report_calls(session)])

Hooks see what a tool raised though the model is given a result; middleware sees what the model writes, and
that a tool was cancelled. Interrupts that ask about a call are answered by the client, if it can be asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

from callsheet.adapters.argument_stream import whole_arguments
from callsheet.adapters.framework import harmless, imported, require
from callsheet.adapters.handler import AgentHandler, speak
from callsheet.adapters.reporter import Reporter
from callsheet.report.status import Reason
from callsheet.runtime.session import RuntimeSession

if TYPE_CHECKING:
    from callsheet.agent.handler import Prompt, StopReason, Turn

VERSIONS = ("strands-agents", "1.62", "2")  # the first that has middleware

_STOPS: dict[str, StopReason] = {
    **dict.fromkeys(("max_tokens", "limit_output_tokens", "limit_total_tokens"), "max_tokens"),
    **dict.fromkeys(("content_filtered", "guardrail_intervened"), "refusal"),
    "limit_turns": "max_turn_requests",
}


def report_calls(session: RuntimeSession) -> AgentHooks:
    """Return hooks for `Agent(hooks=[…])`, which report calls to a session."""
    require(*VERSIONS)
    return AgentHooks(Reporter(session, VERSIONS[0]))


class AgentHooks:
    """Reports the calls of the agents that it is given to: a `HookProvider`."""

    def __init__(self, reporter: Reporter | None) -> None:
        self.reporter: Any = reporter
        self.lock: asyncio.Lock = asyncio.Lock()  # an agent runs once at a time
        self.messages: list[Any] = []
        self._agents: WeakSet[Any] = WeakSet()
        self._owners: dict[str, Any] = {}
        self._refused: set[str] = set()

    def register_hooks(self, registry: Any, **_: Any) -> None:
        """Add the callbacks, as the framework asks for."""
        names = "BeforeInvocation", "BeforeToolCall", "AfterToolCall", "AfterInvocation"
        callbacks = self._begin, self._open, self._end, self._finish
        for name, callback in zip(names, callbacks, strict=True):
            registry.add_callback(imported(VERSIONS, "strands.hooks", f"{name}Event"), callback)

    @harmless
    def _begin(self, event: Any) -> None:
        if event.agent not in self._agents:
            self._agents.add(event.agent)
            stages: Any = import_module("strands.middleware")
            event.agent.add_middleware(stages.InvokeModelStage, self._follow_model)
            event.agent.add_middleware(stages.ExecuteToolStage, self._follow_tool)

    async def _follow_model(self, context: Any, proceed: Any) -> AsyncIterator[Any]:
        key = ""
        async for event in proceed(context):
            key = await self._piece(context, event, key) or key
            yield event

    @harmless
    async def _piece(self, context: Any, event: Any, key: str) -> str | None:
        """Report what the model has written of the call `key` or of another, or what its tool has yielded."""
        if isinstance(data := event.get("tool_stream_event", {}).get("data"), str):
            self.reporter.progress(key, message=data)
        chunk: Any = event.get("event") or {}
        start: Any = chunk.get("contentBlockStart", {}).get("start", {}).get("toolUse")
        delta: Any = chunk.get("contentBlockDelta", {}).get("delta", {}).get("toolUse")
        if start:
            await self._announce(context.agent, start["toolUseId"], start["name"])
        elif delta:
            self.reporter.arguments_piece(key, delta.get("input") or "")
        return start["toolUseId"] if start else None

    async def _announce(self, agent: Any, key: str, name: str, arguments: Any = None) -> None:
        await self.reporter.flush()
        self._owners[key] = agent
        self.reporter.open(key, name, arguments)

    @harmless
    async def _open(self, event: Any) -> None:
        use, tool = event.tool_use, event.selected_tool
        if use["toolUseId"] not in self._refused:
            await self._announce(event.agent, use["toolUseId"], use["name"], use["input"])
        if getattr(tool, "tool_type", "") == "agent" and tool.agent not in self._agents:
            tool.agent.hooks.add_hook(self)

    async def _follow_tool(self, context: Any, proceed: Any) -> AsyncIterator[Any]:
        key, reporter = self._start(context), self.reporter
        try:
            with reporter.running(key):
                async for event in proceed(context):
                    await self._piece(context, event, key)
                    yield event
        except (asyncio.CancelledError, GeneratorExit) as exc:
            reporter.end(key, exc=exc)
            raise

    @harmless
    def _start(self, context: Any) -> Any:
        use = context.tool_use
        if (key := use["toolUseId"]) not in self._refused:
            self.reporter.start(key, use["name"], use["input"])
        return key

    @harmless
    def _end(self, event: Any) -> None:
        if event.retry:  # it runs again
            return
        key = event.tool_use["toolUseId"]
        self._owners.pop(key, None)
        self._refused.discard(key)
        if event.result.get("cancelled") is True:
            self.reporter.end(key, exc=asyncio.CancelledError())
        elif event.cancel_message is not None:  # a hook has refused it
            self.reporter.end(key, event.result, is_error=True, reason=Reason.DENIED)
        else:
            self.reporter.end(key, _plain(event.result), event.exception)

    @harmless
    async def _finish(self, event: Any) -> None:
        """Answer the interrupts of a run; without any, end what was left open."""
        interrupts: Any = getattr(event.result, "interrupts", None)
        if not interrupts:
            for key in [key for key, agent in self._owners.items() if agent is event.agent]:
                del self._owners[key]
                self.reporter.end(key, exc=asyncio.CancelledError())
        elif self.reporter.session.on_permission is not None:
            answers = [await self._answer(one) for one in interrupts]
            event.resume = None if None in answers else answers

    async def _answer(self, interrupt: Any) -> Any:
        """Ask the client what an interrupt asks. None, if it is not about a call that is known."""
        key = next((key for key in self.reporter.calls if f":{key}:" in interrupt.id), None)
        if key is None:
            return None
        approval = await self.reporter.approval(key, "", self.reporter.find(key).whole_input)
        self._refused |= set() if approval.is_allowed else {key}
        response = {"interruptId": interrupt.id, "response": "y" if approval.is_allowed else "n"}
        return {"interruptResponse": response}


def _plain(result: Any) -> Any:
    """Return a tool's result. Data, which the framework makes JSON text of, is data again."""
    blocks: Any = result.get("content") or []
    if len(blocks) != 1 or result.get("status") == "error":
        return result
    data = whole_arguments(blocks[0].get("text") or "-")
    return blocks[0].get("json", result) if isinstance(data, str) else data


class StrandsHandler(AgentHandler):
    """Runs an agent for each prompt. Its sessions take turns."""

    def __init__(self, agent: Any, window: int | None, hooks: AgentHooks) -> None:
        super().__init__(agent, window or getattr(agent.model, "context_window_limit", None))
        self.messages: list[Any] = list(hooks.messages)
        self._hooks: AgentHooks = hooks

    @classmethod
    def factory(cls, agent: Any, window: int | None) -> Callable[[], Self]:
        """Return what makes handlers of one agent, whose sessions take turns."""
        agent.callback_handler = dict  # the default one prints; this one takes anything
        agent.hooks.add_hook(hooks := AgentHooks(None))
        hooks.messages = list(agent.messages)
        return lambda: cls(agent, window, hooks)

    async def turn(self, prompt: Prompt, turn: Turn) -> StopReason | None:
        """Run the agent, which can run once at a time and has the messages of one session."""
        agent, result = self.agent, None
        media = [(mime.partition("/")[2], {"bytes": data}) for data, mime in self.media(prompt)]
        images = [{"image": {"format": kind, "source": data}} for kind, data in media]
        async with self._hooks.lock:
            with Reporter(turn.session, None, turn.flush) as self._hooks.reporter:
                agent.messages = list(self.messages)
                async for event in agent.stream_async([{"text": prompt.text}, *images]):
                    await speak(turn, event.get("data"), event.get("reasoningText"))
                    result = event.get("result", result)
            self.messages = agent.messages
        if result is None:
            return None
        metrics, model = result.metrics, agent.model.get_config().get("model_id")
        used, now = metrics.agent_invocations[-1].usage, metrics.latest_context_size
        cached = [used.get(f"cache{kind}InputTokens", 0) for kind in ("Read", "Write")]
        given = (used["inputTokens"] + sum(cached), *cached)
        await self.report_usage(turn, given, (used["outputTokens"],), used=now, model=model)
        return _STOPS.get(result.stop_reason)
