"""One turn, as a mind sees it: what it can say, and the tools that it can run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from callsheet.report.errors import InvalidValue
from callsheet.report.json import JsonObject, check_text
from callsheet.runtime.session import Links
from callsheet.tools.executor import AT_ONCE, Asked
from callsheet.tools.registry import Registry
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Session

from .own_calls import OwnCall

if TYPE_CHECKING:
    from .conversation import Conversation
    from .past import Entry

PRIORITIES = ("medium", "high", "low")
STATUSES = ("pending", "in_progress", "completed")


class Turn:
    """What a mind can do until its turn ends."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation: Conversation = conversation
        self.number: int = conversation.turns

    @property
    def session(self) -> Session:
        """The session, for what is not here."""
        return self._conversation.session

    @property
    def tools(self) -> Registry:
        """The tools that there are."""
        return self.session.tools

    def past(self) -> AsyncIterator[Entry]:
        """Return what was said and done in this session before this turn: `async for one in turn.past()`.

        `StoredMessage`s and `StoredCall`s of `callsheet.history`. Without a history, there are none.
        """
        return self._conversation.past()

    async def say(self, text: str) -> None:
        """Say something to the user. It is shown at once, and pieces make up one message."""
        await self._conversation.say("agent_message_chunk", check_text(text, "say"))

    async def think(self, text: str) -> None:
        """Show a thought."""
        await self._conversation.say("agent_thought_chunk", check_text(text, "think"))

    async def plan(self, entries: Sequence[JsonObject | str]) -> None:
        """Show the plan: `{"content": "…", "priority": "medium", "status": "pending"}`, each time whole.

        Text alone is a step of medium priority that is still to be done.
        """
        await self._conversation.plan([_entry(entry) for entry in entries])

    async def usage(self, used: int, size: int) -> None:
        """Tell how much of the model's window is used, in tokens."""
        for name, value in (("used", used), ("size", size)):
            if type(value) is not int or value < 0:
                raise InvalidValue(f"usage: {name}: expected tokens, from 0 on, got {value!r}")
        await self._conversation.update(
            {"sessionUpdate": "usage_update", "used": used, "size": size}
        )

    async def run(
        self, name: str, arguments: JsonObject | None = None, **links: Unpack[Links]
    ) -> ToolResult:
        """Run a tool, reported and asked about as it should be."""
        await self._conversation.finish_saying()
        return await self.session.run(name, arguments, **links)

    async def run_all(self, calls: Iterable[Asked], *, at_once: int = AT_ONCE) -> list[ToolResult]:
        """Run tools in parallel, and give their results in that order."""
        await self._conversation.finish_saying()
        return await self.session.run_all(calls, at_once=at_once)

    def call(self, name: str, input: Any = None, **options: Any) -> OwnCall:  # noqa: A002
        """Report a call of a tool that you run yourself: `async with turn.call(…) as call`.

        If the client cancels it, what runs inside is stopped, and `Cancelled` is raised at its end.
        """
        return self._conversation.own_calls.scope(self.session.call(name, input, **options))


def _entry(given: JsonObject | str) -> JsonObject:
    """Return a step of a plan, whole, as ACP has it."""
    entry: JsonObject = {"content": given} if isinstance(given, str) else dict(given)
    check_text(entry.get("content"), "plan: content")
    for name, known in (("priority", PRIORITIES), ("status", STATUSES)):
        value = entry.setdefault(name, known[0])
        if value not in known:
            raise InvalidValue(f"plan: {name}: expected one of {', '.join(known)}, got {value!r}")
    return entry
