"""Pydantic AI: a capability that reports the tool calls of the runs it is given to.

    agent = Agent(model, tools=[…], capabilities=[report_calls(session)])

It wraps the execution of each tool, so that timeouts, retries and failures that the framework turns into
answers for the model are reported as failures. Tools that require approval are asked about in the editor.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from copy import copy
from importlib import import_module
from typing import TYPE_CHECKING, Any

from callsheet.adapters.framework import derived, harmless, require
from callsheet.adapters.handler import AgentHandler
from callsheet.adapters.reporter import Reporter
from callsheet.adapters.results import shown_text
from callsheet.runtime.session import RuntimeSession

if TYPE_CHECKING:
    from callsheet.agent.handler import Prompt, StopReason, Turn

VERSIONS = ("pydantic-ai-slim", "2.0", "3")


def report_calls(session: RuntimeSession | Reporter, *, streaming: bool = False) -> Any:
    """Return a capability for `Agent(capabilities=[…])` or `agent.run(capabilities=[…])`.

    Args:
        session: Where calls are reported.
        streaming: Whether calls are announced while the model writes their arguments. The framework then
            asks the model to stream, also in `agent.run`.
    """
    require(*VERSIONS)
    reporter = session if isinstance(session, Reporter) else Reporter(session, VERSIONS[0])
    return _made(StreamedCapability if streaming else ReportingCapability)(reporter)


def _made(mixin: type[ReportingCapability]) -> type[Any]:
    return derived(mixin, VERSIONS, "pydantic_ai.capabilities", "AbstractCapability")


class ReportingCapability:
    """Reports what is run. The framework's `AbstractCapability` is added to it."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter: Reporter = reporter
        self._keys: dict[Any, str] = {}

    async def for_run(self, ctx: Any) -> Any:
        """Return a capability of the run's own: sub-agents may run at the same time."""
        own = copy(self)
        own._keys = {}
        return own

    async def wrap_run(self, ctx: Any, *, handler: Any) -> Any:
        """Run. Calls that it no longer comes to have ended with it."""
        try:
            return await handler()
        except BaseException as exc:
            self.reporter.abandon(self._keys.values(), exc)
            raise

    async def wrap_tool_validate(self, ctx: Any, *, call: Any, args: Any, **given: Any) -> Any:
        """Announce the call. If its arguments are no good, it has failed."""
        self._report(self.reporter.open, call, getattr(call, "tool_name", "tool"), args)
        return await self._guarded(call, given["handler"](args))

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, args: Any, **given: Any) -> Any:
        """Run the tool."""
        self._report(self.reporter.start, call, getattr(call, "tool_name", "tool"), args)
        with self.reporter.running(getattr(call, "tool_call_id", "")):
            result = await self._guarded(call, given["handler"](args))
        self._report(self.reporter.end, call, _returned(result))
        return result

    async def _guarded(self, call: Any, work: Awaitable[Any]) -> Any:
        try:
            return await work
        except BaseException as exc:
            # What waits for approval, or is run by somebody else, is not over yet.
            if type(exc).__name__ not in ("ApprovalRequired", "CallDeferred"):
                self._report(self.reporter.end, call, None, _cause(exc))
            raise

    @harmless
    def _report(self, change: Callable[..., None], call: Any, *given: Any) -> None:
        self._keys[call.tool_call_id] = call.tool_call_id
        change(call.tool_call_id, *given)

    @harmless
    async def handle_deferred_tool_calls(self, ctx: Any, *, requests: Any) -> Any:
        """Ask the client, if it can be asked."""
        if self.reporter.session.on_permission is None:
            return None
        denied: Any = import_module("pydantic_ai.tools").ToolDenied
        answers: dict[str, Any] = {}
        for part in requests.approvals:
            given = await self.reporter.approval(part.tool_call_id, part.tool_name, part.args)
            answers[part.tool_call_id] = given.is_allowed or denied(message=given.message)
        return requests.build_results(approvals=answers) if answers else None


class StreamedCapability(ReportingCapability):
    """Reports calls while a model writes their arguments, too."""

    async def wrap_run_event_stream(self, ctx: Any, *, stream: Any) -> AsyncIterator[Any]:
        """Let the events through, after each was reported."""
        async for event in stream:
            await self.report(ctx, event)
            yield event

    @harmless
    async def report(self, ctx: Any, event: Any) -> None:
        """Report what the model writes, and the end of calls that are not run: those of unknown tools."""
        part: Any = getattr(event, "part", None)
        match event.event_kind, getattr(part, "part_kind", None):
            case "part_start", "tool-call":
                self._keys[event.index] = part.tool_call_id
                self._report(self.reporter.open, part, part.tool_name)
                self.reporter.arguments_piece(part.tool_call_id, part.args)
            case "part_delta", _ if event.delta.part_delta_kind == "tool_call":
                key = self._keys.get(event.index, "")
                self.reporter.arguments_piece(key, event.delta.args_delta)
            case "part_end", "tool-call":
                self.reporter.open(part.tool_call_id, part.tool_name, part.args or {})
            case "function_tool_result", "tool-return":
                is_error = part.outcome != "success"
                self.reporter.end(part.tool_call_id, part.content, is_error=is_error)
            case _:
                pass


def _cause(exc: BaseException) -> BaseException:
    """Return what a tool raised, of what the framework made of it: a timeout is a retry for it."""
    is_made = type(exc).__module__.startswith("pydantic_ai")
    cause = (exc.__cause__ if is_made else None) or exc
    return cause.__context__ if isinstance(cause.__context__, TimeoutError) else cause


def _returned(result: Any) -> Any:
    """Return what a tool has returned, without the framework's envelope."""
    if type(result).__name__ != "ToolReturn":
        return result
    data = result.return_value
    return {"content": result.content, "structuredContent": data} if result.content else data


class PydanticHandler(AgentHandler):
    """Runs an agent for each prompt, and keeps its messages."""

    async def turn(self, prompt: Prompt, turn: Turn) -> StopReason | None:
        """Run the agent."""
        with Reporter(turn.session) as reporter:
            capability = _made(SpokenCapability)(reporter, turn)
            try:
                result = await self.agent.run(
                    _content(prompt), message_history=self.messages, capabilities=[capability]
                )
            except import_module("pydantic_ai").UsageLimitExceeded as exc:
                await turn.say(str(exc))
                return "max_turn_requests"
        self.messages = result.all_messages()
        if not isinstance(result.output, str):  # text was sent as it came
            await turn.say(shown_text(result.output))
        self.window = self.window or getattr(self.agent.model, "context_window", None)
        used, last, model = result.usage, result.response.usage, result.response.model_name
        given = used.input_tokens, used.cache_read_tokens, used.cache_write_tokens
        now = last.input_tokens + last.output_tokens
        await self.report_usage(turn, given, (used.output_tokens,), used=now, model=model)
        return None


class SpokenCapability(StreamedCapability):
    """Sends the model's text and thoughts, too."""

    def __init__(self, reporter: Reporter, turn: Turn) -> None:
        super().__init__(reporter)
        self._turn: Turn = turn

    async def report(self, ctx: Any, event: Any) -> None:
        """Send text, and report all else."""
        piece = getattr(event, "part", None) or getattr(event, "delta", None)
        kind = getattr(piece, "part_kind", None) or getattr(piece, "part_delta_kind", None)
        if event.event_kind in ("part_start", "part_delta") and kind in ("text", "thinking"):
            if text := getattr(piece, "content", None) or getattr(piece, "content_delta", None):
                await (self._turn.say if kind == "text" else self._turn.think)(text)
            return
        await self._turn.flush()
        await super().report(ctx, event)


def _content(prompt: Prompt) -> Any:
    binary: Any = import_module("pydantic_ai").BinaryContent
    media = [binary(data, media_type=mime) for data, mime in AgentHandler.media(prompt)]
    return [prompt.text, *media] if media else prompt.text
