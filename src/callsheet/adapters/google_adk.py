"""Google's Agent Development Kit: a plugin that reports the tool calls of a runner and of its agents' agents.

    runner = InMemoryRunner(agent, plugins=[report_calls(session)])

The plugin is called before and after each tool, and when one raises or is cancelled. Tools that require
confirmation are asked about in the editor, if the session's client can be asked; a result that has an `error`
is a failure, which is how ADK and its tools tell a model of one.
"""

from __future__ import annotations

import json
from contextlib import aclosing
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from callsheet.adapters.framework import derived, harmless, imported, require
from callsheet.adapters.handler import AgentHandler
from callsheet.adapters.reporter import Reporter
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
    return derived(CallPlugin, VERSIONS, "google.adk.plugins.base_plugin", "BasePlugin")(reporter)


class CallPlugin:
    """Reports the calls of the runners that it is given to. The framework's `BasePlugin` is added to it."""

    def __init__(self, reporter: Reporter | None) -> None:
        super().__init__(name="callsheet")  # pyright: ignore[reportCallIssue]
        self.reporter: Any = reporter
        self._written: dict[str, tuple[str, list[Any]]] = {}

    @harmless
    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> None:
        """Report that a tool runs, after the client was asked about it if need be."""
        key, reporter = tool_context.function_call_id, self.reporter
        self._written.pop(key, None)
        await reporter.flush()
        if await self._needs_answer(tool, tool_args, tool_context):
            approval = await reporter.approval(key, tool.name, tool_args)
            answer: Any = import_module("google.adk.tools.tool_confirmation").ToolConfirmation
            tool_context.tool_confirmation = answer(confirmed=approval.is_allowed)
            if not approval.is_allowed:
                return
        reporter.start(key, tool.name, tool_args)
        reporter.runs_here(key)  # each tool has a task of its own

    async def _needs_answer(self, tool: Any, tool_args: Any, tool_context: Any) -> bool:
        check: Any = getattr(tool, "check_require_confirmation", None)
        is_answered = tool_context.tool_confirmation is not None
        if check is None or is_answered or self.reporter.session.on_permission is None:
            return False
        return await check(tool_args, tool_context) is True

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
        """Report what a model writes, and calls whose end another plugin has kept from this one."""
        for call in event.get_function_calls() if event.partial else ():
            await self.reporter.flush()
            self._write(call)
        waiting = event.actions.requested_tool_confirmations or ()
        for answer in event.get_function_responses():
            if answer.id not in waiting:
                self._end(answer.id, answer.response)

    def _write(self, call: Any) -> None:
        """Report the arguments that are complete. ADK has them in pieces, each with its place."""
        if call.id not in self._written:
            self.reporter.open(call.id, call.name)
        place, pieces = self._written.get(call.id, ("", list[Any]()))
        for part in call.partial_args or ():
            if part.json_path != place:
                if (name := place.removeprefix("$.")).isidentifier():
                    value: Any = "".join(pieces) if isinstance(pieces[0], str) else pieces[0]
                    text = f"{json.dumps(name)}: {json.dumps(value)}, "
                    self.reporter.arguments_piece(call.id, text)
                place, pieces = part.json_path, list[Any]()
            values = part.string_value, part.number_value, part.bool_value
            pieces.append(next((one for one in values if one is not None), None))
        self._written[call.id] = place, pieces

    @harmless
    async def on_run_error_callback(self, *, error: Exception, **rest: Any) -> None:
        """End calls that a model did not write to their end."""
        self.reporter.abandon(self._written, error)

    def _end(self, key: str, result: Any, error: BaseException | None = None) -> None:
        says = result if is_object(result) else {}
        failed = bool(says.get("error")) or says.get("status") == "error"
        self.reporter.end(key, _plain(result), error, is_error=failed)


def _plain(result: Any) -> Any:
    """Return what a tool has returned, without the framework's envelopes."""
    if is_object(result) and result.keys() == {"result"}:
        return _plain(result["result"])
    if isinstance(result, list):
        return [_plain(one) for one in cast("list[Any]", result)]
    return getattr(result, "inline_data", None) or getattr(result, "text", None) or result


class AdkHandler(AgentHandler):
    """Runs an agent for each prompt, in an ADK session of its own."""

    def __init__(self, agent: Any, window: int | None) -> None:
        super().__init__(agent, window)
        self._plugin: Any = _made(None)
        make_app = imported(VERSIONS, "google.adk.apps", "App")
        app = make_app(name="callsheet_app", root_agent=agent, plugins=[self._plugin])
        self._runner: Any = imported(VERSIONS, "google.adk.runners", "InMemoryRunner")(app=app)
        self._runner.auto_create_session = True

    async def turn(self, prompt: Prompt, turn: Turn) -> StopReason | None:
        """Run the agent."""
        config: Any = import_module("google.adk.agents.run_config")
        limit: Any = import_module("google.adk.agents.invocation_context")
        speech, stop = _AdkSpeech(turn), None
        with Reporter(turn.session, None, turn.flush) as reporter:
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
                        await speech.say(event)
                        stop = getattr(event.finish_reason, "name", stop)
                        if event.usage_metadata is not None and not event.partial:
                            await self._report(turn, event.usage_metadata, event.model_version)
            except limit.LlmCallsLimitExceededError as exc:
                await turn.say(str(exc))
                return "max_turn_requests"
        return _STOPS.get(stop)

    async def _report(self, turn: Turn, used: Any, model: Any) -> None:
        given = used.prompt_token_count, used.cached_content_token_count
        thoughts = used.thoughts_token_count or 0
        output = (used.candidates_token_count or 0) + thoughts, thoughts
        await self.report_usage(turn, given, output, used=used.total_token_count, model=model)


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
    media = AgentHandler.media(prompt)
    parts = [types.Part.from_bytes(data=data, mime_type=mime) for data, mime in media]
    parts.insert(0, types.Part(text=prompt.text))
    return types.Content(role="user", parts=parts)
