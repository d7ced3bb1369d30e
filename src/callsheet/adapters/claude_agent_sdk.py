"""The Claude Agent SDK: reports the tool calls in the messages of a client or a query.

    reports = report_calls(session)
    options = ClaudeAgentOptions(can_use_tool=reports.can_use_tool)
    async for message in reports.follow(query(prompt=…, options=options)):

With `include_partial_messages=True`, messages have the arguments as they are written, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from callsheet.adapters.framework import require
from callsheet.adapters.handler import AgentHandler, speak
from callsheet.adapters.reporter import Reporter
from callsheet.report.json import JsonObject, is_object
from callsheet.report.status import Reason
from callsheet.runtime.health import safely
from callsheet.runtime.session import RuntimeSession

if TYPE_CHECKING:
    from callsheet.agent.handler import Prompt, StopReason, Turn

VERSIONS = ("claude-agent-sdk", "0.2.120", "0.3")

_STOPS: dict[Any, StopReason] = {"max_tokens": "max_tokens", "refusal": "refusal"}
_STOPS["error_max_turns"] = "max_turn_requests"


def report_calls(session: RuntimeSession) -> MessageReports:
    """Return what reports the calls in messages to a session, and asks its client for approvals."""
    require(*VERSIONS)
    return MessageReports(Reporter(session, VERSIONS[0]))


class MessageReports:
    """Reports the calls of one conversation with Claude."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter: Reporter = reporter
        self.session: RuntimeSession = reporter.session
        self._written: dict[tuple[str | None, int], str] = {}
        self._asked: dict[str, bool | None] = {}  # the answers; None while they are awaited

    async def follow(self, messages: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Pass messages on, and report their calls. Those that are left at the end have ended."""
        try:
            async for message in messages:
                self.add(message)
                yield message
        except BaseException as exc:
            self.reporter.close(exc)
            raise
        self.reporter.close()

    @safely
    def add(self, message: Any) -> None:
        """Report what a message has: calls, results, arguments, progress."""
        kind, parent = type(message).__name__, getattr(message, "parent_tool_use_id", None)
        if kind in ("AssistantMessage", "UserMessage"):
            for block in () if isinstance(message.content, str) else message.content:
                self._add_block(block, parent, getattr(message, "tool_use_result", None))
        elif kind == "StreamEvent":
            self._add_piece(message.event, parent)
        elif kind == "TaskProgressMessage" and message.tool_use_id:
            self.reporter.progress(message.tool_use_id, message=message.description)
        elif kind == "ResultMessage":
            aborted = str(getattr(message, "terminal_reason", "")).startswith("aborted")
            self.reporter.close(asyncio.CancelledError() if aborted else None)

    def _add_block(self, block: Any, parent: str | None, data: Any) -> None:
        reporter, key = self.reporter, getattr(block, "tool_use_id", None)
        if key is not None and hasattr(block, "content"):
            if self._asked.pop(key, True):  # a call that was refused has ended
                result, ending = _result(block, data)
                reporter.end(key, result, **ending)
        elif hasattr(block, "input"):
            if self._asked.get(block.id, True):
                reporter.start(block.id, block.name, block.input, parent=parent)
            elif block.id in reporter.calls:
                reporter.open(block.id, block.name, block.input)

    def _add_piece(self, event: Any, parent: str | None) -> None:
        """Report what the model has written of a call."""
        block: JsonObject = event.get("content_block") or {}
        delta: JsonObject = event.get("delta") or {}
        place = (parent, event.get("index", 0))
        if event.get("type") == "content_block_start" and "tool_use" in block.get("type", ""):
            self._written[place] = block["id"]
            if block["id"] not in self._asked:
                self.reporter.open(block["id"], block["name"], parent=parent)
        elif delta.get("type") == "input_json_delta" and place in self._written:
            self.reporter.arguments_piece(self._written[place], delta.get("partial_json", ""))

    async def can_use_tool(self, name: str, arguments: dict[str, Any], context: Any) -> Any:
        """Ask the client, and return its answer as the SDK's `PermissionResult`."""
        sdk: Any = import_module("claude_agent_sdk")
        key, always = context.tool_use_id, bool(context.suggestions)
        self._asked[key] = None
        approval = await self.reporter.approval(key, name, arguments, always=always)
        self._asked[key] = approval.is_allowed
        if not approval.is_allowed:
            return sdk.PermissionResultDeny(message=approval.message)
        self.reporter.start(key, name, arguments)
        updates = context.suggestions if approval.always else None
        return sdk.PermissionResultAllow(updated_permissions=updates)


def _result(block: Any, data: Any) -> tuple[JsonObject, JsonObject]:
    """Return the result of a call, with its structured data, and how it ended."""
    content: Any = block.content
    if is_object(content):  # of a tool that the API runs
        return content, {"is_error": str(content.get("type")).endswith("_error")}
    if not isinstance(content, list):
        content = [{"type": "text", "text": content}] if content else []
    answer: JsonObject = {"content": content, "isError": block.is_error is True}
    if not block.is_error:
        return (answer | {"structuredContent": data} if is_object(data) else answer), {}
    late = "timed out after" in str(cast("list[Any]", content))
    return answer, {"is_error": True, "reason": Reason.TIMEOUT if late else Reason.TOOL_ERROR}


class ClaudeHandler(AgentHandler):
    """Asks Claude Code, by `ClaudeAgentOptions` or a client's."""

    async def turn(self, prompt: Prompt, turn: Turn) -> StopReason | None:
        """Start Claude Code, which resumes its own session, and pass on what it does."""
        with Reporter(turn.session) as reporter:
            reports, own = MessageReports(reporter), getattr(self.agent, "options", self.agent)
            options = replace(
                own,
                cwd=own.cwd or turn.session.cwd,
                can_use_tool=own.can_use_tool or reports.can_use_tool,
                include_partial_messages=True,
            )
            result, speech = None, _ClaudeSpeech(turn)
            async with import_module("claude_agent_sdk").ClaudeSDKClient(options) as client:
                await client.query(_messages(prompt))
                async for message in client.receive_response():
                    await speech.say(message)
                    reports.add(message)
                    result = message if hasattr(message, "num_turns") else result
        if result is None:
            return None
        self.agent = replace(own, resume=result.session_id)
        models: dict[str, Any] = result.model_usage or {}
        windows = [one.get("contextWindow", 0) for one in models.values()]
        self.window = self.window or max(windows, default=0) or None
        used: Any = result.usage or {}
        cached = used.get("cache_read_input_tokens", 0), used.get("cache_creation_input_tokens", 0)
        given = (used.get("input_tokens", 0) + sum(cached), *cached)
        about = {"used": speech.used or None, "model": next(iter(models), None)}
        cost, output = result.total_cost_usd, (used.get("output_tokens"),)
        await self.report_usage(turn, given, output, cost=cost, **about)
        if result.is_error and result.result:
            await turn.say(result.result)
        return _STOPS.get(result.subtype) or _STOPS.get(result.stop_reason)


class _ClaudeSpeech:
    """Sends the text and the thoughts of the main conversation, in pieces where there are pieces."""

    def __init__(self, turn: Turn) -> None:
        self.used: int = 0
        self._turn: Turn = turn
        self._has_pieces: bool = False

    async def say(self, message: Any) -> None:
        """Send what a message says; before its calls are reported."""
        if getattr(message, "parent_tool_use_id", None) is not None:
            return
        delta: Any = getattr(message, "event", {}).get("delta") or {}
        blocks: Any = getattr(message, "content", ()) if hasattr(message, "model") else ()
        pieces: list[Any] = [(delta.get("text"), delta.get("thinking"))]
        self._has_pieces = self._has_pieces or any(pieces[0])
        if not self._has_pieces:
            pieces = [(getattr(b, "text", ""), getattr(b, "thinking", "")) for b in blocks]
        for text, thought in pieces:
            await speak(self._turn, text, thought)
        if hasattr(message, "model"):
            usage: Any = message.usage or {}
            self.used = sum(v for k, v in usage.items() if k.endswith("_tokens")) or self.used
            self._has_pieces = False
            await self._turn.flush()


async def _messages(prompt: Prompt) -> AsyncIterator[dict[str, Any]]:
    content: list[Any] = [{"type": "text", "text": prompt.text}]
    for block in prompt.images:
        source = {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}
        content.append({"type": "image", "source": source})
    yield {"type": "user", "message": {"role": "user", "content": content}}
