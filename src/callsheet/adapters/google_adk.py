"""Google's Agent Development Kit: a plugin that reports the tool calls of a runner and of its agents' agents.

    runner = InMemoryRunner(agent, plugins=[report_calls(session)])

The plugin is called before and after each tool, and when one raises or is cancelled. Tools that require
confirmation are asked about in the editor, if the session's client can be asked; a result that has an `error`
is a failure, which is how ADK and its tools tell a model of one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from callsheet.adapters.base import Reporter, derived, harmless, prompt_media, require
from callsheet.report.json import is_object
from callsheet.runtime.session import RuntimeSession

if TYPE_CHECKING:
    from callsheet.agent.handler import Prompt, StopReason, Turn

VERSIONS = ("google-adk", "2.13", "3")  # from there on, cancelled tools are told of

_REFUSALS = ("SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII")
_STOPS: dict[Any, StopReason] = {"MAX_TOKENS": "max_tokens", **dict.fromkeys(_REFUSALS, "refusal")}


def report_calls(session: RuntimeSession) -> Any:
    """Return a plugin for `Runner(plugins=[…])` or `App(plugins=[…])`, which reports calls to a session."""
    require(*VERSIONS)
    return _made(Reporter(session, VERSIONS[0]))


def _made(reporter: Reporter | None) -> Any:
    plugin = derived(CallPlugin, "google.adk.plugins.base_plugin", "BasePlugin")(name="callsheet")
    plugin.reporter = reporter
    return plugin


class CallPlugin:
    """Reports the calls of the runners that it is given to. The framework's `BasePlugin` is added to it."""

    reporter: Any = None
    before_call: Any = None

    @harmless
    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> None:
        """Report that a tool runs, after the client was asked about it if need be."""
        key, reporter = tool_context.function_call_id, self.reporter
        if self.before_call is not None:
            await self.before_call()
        if await self._needs_answer(tool, tool_args, tool_context):
            approval = await reporter.approval(key, tool.name, tool_args)
            answer: Any = import_module("google.adk.tools.tool_confirmation").ToolConfirmation
            tool_context.tool_confirmation = answer(confirmed=approval.is_allowed)
            if not approval.is_allowed:
                return
        reporter.start(key, tool.name, tool_args)
        reporter.runs_here(key)  # each tool has a task of its own

    async def _needs_answer(self, tool: Any, tool_args: Any, tool_context: Any) -> bool:
        if (
            tool_context.tool_confirmation is not None
            or self.reporter.session.on_permission is None
        ):
            return False
        check: Any = getattr(tool, "check_require_confirmation", None)
        return check is not None and await check(tool_args, tool_context) is True

    @harmless
    async def after_tool_callback(
        self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any
    ) -> None:
        """Report the end of a tool, unless it waits for a confirmation that comes later."""
        key = tool_context.function_call_id
        if key not in (tool_context.actions.requested_tool_confirmations or ()):
            self._end(key, result)

    @harmless
    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: Any, tool_context: Any, error: BaseException
    ) -> None:
        """Report that a tool has raised, was cancelled, or does not exist."""
        self._end(tool_context.function_call_id, None, error)

    @harmless
    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> None:
        """End calls whose end another plugin has kept from this one."""
        waiting = event.actions.requested_tool_confirmations or ()
        for answer in event.get_function_responses():
            if answer.id not in waiting:
                self._end(answer.id, answer.response)

    def _end(self, key: str, result: Any, error: BaseException | None = None) -> None:
        if key in self.reporter.calls:
            self.reporter.runs_here(None)
        failed = is_object(result) and (
            bool(result.get("error")) or result.get("status") == "error"
        )
        self.reporter.end(key, _plain(result), error, is_error=failed)


def _plain(result: Any) -> Any:
    """Return what a tool has returned, without the framework's envelopes."""
    if is_object(result) and result.keys() == {"result"}:
        return _plain(result["result"])
    if isinstance(result, list):
        return [_plain(one) for one in cast("list[Any]", result)]
    return getattr(result, "inline_data", None) or getattr(result, "text", None) or result


def handler(agent: Any, context_window: int | None) -> Callable[[], Any]:
    """Return what makes a handler that runs an agent for each prompt, with an ADK session of its own."""
    require(*VERSIONS)
    return lambda: _AdkHandler(agent, context_window)


class _AdkHandler:
    def __init__(self, agent: Any, context_window: int | None) -> None:
        app: Any = import_module("google.adk.apps").App
        runners: Any = import_module("google.adk.runners")
        self._plugin: Any = _made(None)
        self._window: int | None = context_window
        self._runner: Any = runners.InMemoryRunner(
            app=app(name="callsheet_app", root_agent=agent, plugins=[self._plugin])
        )
        self._runner.auto_create_session = True

    async def turn(self, prompt: Prompt, turn: Turn) -> StopReason | None:
        """Run the agent."""
        config: Any = import_module("google.adk.agents.run_config")
        limit: Any = import_module("google.adk.agents.invocation_context")
        self._plugin.before_call = turn.flush
        run, used = _AdkSpeech(turn), 0
        stop: StopReason | None = None
        with Reporter(turn.session) as reporter:
            self._plugin.reporter = reporter
            events = self._runner.run_async(
                user_id="user",
                session_id=turn.session.session_id,
                new_message=_content(prompt),
                run_config=config.RunConfig(streaming_mode=config.StreamingMode.SSE),
            )
            try:
                async with aclosing(events):
                    async for event in events:
                        await run.say(event)
                        if event.finish_reason is not None:
                            stop = _STOPS.get(event.finish_reason.name)
                        used = getattr(event.usage_metadata, "total_token_count", None) or used
            except limit.LlmCallsLimitExceededError as exc:
                await turn.say(str(exc))
                return "max_turn_requests"
        if used and self._window:
            await turn.report_usage(used=used, size=self._window)
        return stop


class _AdkSpeech:
    """The text of events. What was sent in pieces comes again as a whole, and is not sent again."""

    def __init__(self, turn: Turn) -> None:
        self._turn: Turn = turn
        self._has_pieces: bool = False

    async def say(self, event: Any) -> None:
        parts: Any = event.content.parts if event.content is not None else None
        if event.partial or not self._has_pieces:
            for part in parts or ():
                if part.text:
                    await (self._turn.think if part.thought else self._turn.say)(part.text)
        self._has_pieces = bool(event.partial)


def _content(prompt: Prompt) -> Any:
    types: Any = import_module("google.genai.types")
    media = prompt_media(prompt)
    parts = [types.Part.from_bytes(data=data, mime_type=mime) for data, mime in media]
    parts.insert(0, types.Part(text=prompt.text))
    return types.Content(role="user", parts=parts)
