"""Handlers, which decide what the agent does, and `Turn`, which they do it with.

A handler is a class with one method. The agent creates one for each session, and calls it for each prompt. A
handler that asks a model looks like this:

    class MyHandler:
        async def turn(self, prompt, turn):
            answer = await my_model(prompt.text, tools=turn.tools)
            await turn.say(answer.text)
            for wanted in answer.tool_calls:
                result = await turn.run(wanted.name, wanted.arguments, alias=wanted.id)
                ...pass result.for_model() to the model, and ask it again

The agent does the rest: it reports every call, asks for permission, cancels, and answers the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, TypeAlias, Unpack, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from callsheet.report.errors import InvalidValue
from callsheet.report.json import JsonObject, check_text
from callsheet.runtime.options import Links
from callsheet.tools.errors import Cancelled
from callsheet.tools.executor import AT_ONCE, Asked
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Call, Session
from callsheet.tools.tool import Registry

if TYPE_CHECKING:
    from callsheet.agent.conversation import Conversation
    from callsheet.agent.history import Entry
    from callsheet.agent.turn_usage import Reported
    from callsheet.tools.tool import Tool


StopReason: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal"]
REASONS: tuple[StopReason, ...] = get_args(StopReason)


class Prompt(Struct, frozen=True):
    """What the user has sent: ACP's blocks of content."""

    blocks: tuple[JsonObject, ...]

    @property
    def text(self) -> str:
        """All text, and the addresses of what was attached."""
        parts: list[str] = []
        for block in self.blocks:
            if block.get("type") == "text" and isinstance(block.get("text"), str):
                parts.append(block["text"])
            elif block.get("type") == "resource_link" and isinstance(block.get("uri"), str):
                parts.append(block["uri"])
        return "\n".join(parts)

    @property
    def images(self) -> tuple[JsonObject, ...]:
        """ACP's blocks of images: `{"type": "image", "mimeType": …, "data": …}` with base64 data."""
        return tuple(block for block in self.blocks if block.get("type") == "image")

    @property
    def audio(self) -> tuple[JsonObject, ...]:
        """ACP's blocks of audio, like those of images."""
        return tuple(block for block in self.blocks if block.get("type") == "audio")


class Command(Struct, frozen=True):
    """A slash command that the client offers while the user types."""

    name: str
    description: str
    hint: str | None = None


class Handler(Protocol):
    """Decide what is done in a turn. The agent creates one handler per session."""

    def commands(self, tools: Sequence[Tool]) -> Sequence[Command]:
        """Return the slash commands to offer to the user. This method is optional."""
        ...

    async def turn(self, prompt: Prompt, turn: Turn) -> StopReason | None:
        """Do what the user asks for.

        Args:
            prompt: The user's message.
            turn: What to send messages and run tools with.

        Returns:
            Why the turn stopped. None means that it is done.
        """
        ...


class OwnCall:
    """The scope of a call that a handler runs itself: `async with turn.call(…) as call`.

    If the client cancels just this call, the handler's task is cancelled inside the scope, and that becomes
    `Cancelled` at the scope's end, so that the turn goes on. A cancel of the whole turn passes through.
    """

    def __init__(self, call: Call, open_calls: dict[str, OwnCall]) -> None:
        self._call: Call = call
        self._open: dict[str, OwnCall] = open_calls
        self._task: asyncio.Task[Any] | None = None
        self._before: int = 0
        self._is_cancelled: bool = False

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name}: not announced yet; use `async with turn.call(…) as call`")

    async def __aenter__(self) -> Call:
        """Announce the call."""
        call = await self._call.__aenter__()
        self._task = asyncio.current_task()
        self._before = self._task.cancelling() if self._task else 0
        self._open[call.id] = self
        return call

    def cancel(self) -> None:
        """Stop what runs in the scope."""
        if self._task is not None and not self._is_cancelled:
            self._is_cancelled = True
            self._task.cancel()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """End the call, if it has not ended."""
        self._open.pop(self._call.id, None)
        if self._task is None or not self._is_cancelled:
            return await self._call.__aexit__(kind, exc, trace)
        if not isinstance(exc, asyncio.CancelledError):
            # The scope ended before the cancel reached it; take the cancel here, not at the next await.
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        is_ours = self._task.uncancel() <= self._before
        done = await self._call.__aexit__(kind, exc, trace)
        if is_ours and isinstance(exc, asyncio.CancelledError):
            raise Cancelled(self._call.session.phrase("cancelled")) from exc
        return done


class PlanEntry(Struct, forbid_unknown_fields=True):
    """An entry of a plan."""

    content: str
    priority: Literal["high", "medium", "low"] = "medium"
    status: Literal["pending", "in_progress", "completed"] = "pending"
    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)


class Turn:
    """Send messages and plans, and run tools, on behalf of a handler until its turn ends."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation: Conversation = conversation
        self.number: int = conversation.turns

    @property
    def session(self) -> Session:
        """The session, for what `Turn` does not offer."""
        return self._conversation.session

    @property
    def tools(self) -> Registry:
        """The tools that can be run."""
        return self.session.tools

    def past(self) -> AsyncIterator[Entry]:
        """Return the messages and calls of this session before this turn: `async for one in turn.past()`.

        Returns:
            `StoredMessage`s and `StoredCall`s of `callsheet.history`, in order; none without a history.
        """
        return self._conversation.past()

    async def say(self, text: str) -> None:
        """Send a chunk of a message to the user. Text that may be part of a secret is withheld briefly."""
        await self._conversation.messages.write("agent_message_chunk", check_text(text, "say"))

    async def think(self, text: str) -> None:
        """Send a chunk of a thought."""
        await self._conversation.messages.write("agent_thought_chunk", check_text(text, "think"))

    async def flush(self) -> None:
        """Send text that is withheld, so that it comes before a call that you report yourself."""
        await self._conversation.messages.flush()

    async def plan(self, entries: Sequence[JsonObject | str]) -> None:
        """Send the plan. It replaces the one that was sent before.

        Args:
            entries: `{"content": "…", "priority": "medium", "status": "pending"}`; a plain string is an entry
                of medium priority that is pending.

        Raises:
            InvalidValue: An entry has no content, an unknown priority or status, or another field.
        """
        plan = [{"content": one} if isinstance(one, str) else one for one in entries]
        try:
            checked = msgspec.convert(plan, list[PlanEntry])
        except msgspec.ValidationError as exc:
            raise InvalidValue(f"plan: {exc}") from None
        for entry in checked:
            check_text(entry.content, "plan: content")
        await self._conversation.plan(msgspec.to_builtins(checked))

    async def report_usage(self, **reported: Unpack[Reported]) -> None:
        """Report what a request to a model has used: to the client, the history, and the agent's budget.

        Call it after each request: the tokens and costs of a turn add up. If that spends the budget of the
        session, the turn is cancelled.

        Args:
            reported: `used` and `size`, the tokens in the model's context now and of the whole context;
                `input_tokens`, `output_tokens`, `cached_read_tokens`, `cached_write_tokens` and
                `thought_tokens`, each kind counted apart; `model`; `cost` and its `currency`, by default USD.
                What is not known is left out.

        Raises:
            InvalidValue: A field is unknown, or its value can't be.
        """
        await self._conversation.report_usage(**reported)

    async def run(
        self, name: str, arguments: JsonObject | None = None, **links: Unpack[Links]
    ) -> ToolResult:
        """Run a tool, with its announcement, approval, timeout and report.

        Args:
            name: The tool's name.
            arguments: The tool's arguments.
            links: `alias`, `parent`, `depends_on`, `batch`, `meta` and `custom`, as in `Session.call`.

        Returns:
            The result. A failing tool, bad arguments and a denial are failed results, not exceptions.
        """
        await self._conversation.messages.flush()
        return await self.session.run(name, arguments, **links)

    async def run_all(self, calls: Iterable[Asked], *, at_once: int = AT_ONCE) -> list[ToolResult]:
        """Run tools in parallel.

        Args:
            calls: Names and arguments: `[("read", {"path": "a"}), …]`.
            at_once: How many run at the same time.

        Returns:
            The results, in the order of `calls`.
        """
        await self._conversation.messages.flush()
        return await self.session.run_all(calls, at_once=at_once)

    def call(self, name: str, input: Any = None, **options: Any) -> OwnCall:  # noqa: A002
        """Report a call of a tool that the handler runs itself: `async with turn.call(…) as call`.

        Args:
            name: The tool's name.
            input: The call's raw input.
            options: As in `Session.call`.

        Raises:
            Cancelled: The client has cancelled this call. Raised at the end of the scope, whose body was
                cancelled.
        """
        return OwnCall(self.session.call(name, input, **options), self._conversation.own_calls)
