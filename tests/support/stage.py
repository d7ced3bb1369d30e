"""Where a handler is tried without a client: real sessions and tools, and a record of its messages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from callsheet.agent.handler import Handler, Prompt, Turn
from callsheet.tools.session import Session


class Stage:
    """Stands in for a conversation, and records its messages."""

    def __init__(self, cwd: Path, handler: Any, **options: Any) -> None:
        self.session: Session = Session("stage", cwd=cwd, **{"strict": True, **options})
        self.handler: Handler = handler
        self.turns: int = 0
        self.said: list[str] = []
        self.thought: list[str] = []
        self.plans: list[list[str]] = []
        self.plan_lines: list[str] = []
        self.updates: list[Any] = []

    async def prompt(self, *blocks: str | dict[str, Any]) -> Any:
        """Play a turn. Return why it stopped."""
        self.turns += 1
        self.said, self.thought, self.plans = [], [], []
        made = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
        turn = Turn(cast("Any", self))
        return await self.handler.turn(Prompt(tuple(made)), turn)

    @property
    def messages(self) -> Stage:
        """The stream of messages, which is this stage."""
        return self

    async def write(self, kind: str, text: str) -> None:
        (self.said if kind == "agent_message_chunk" else self.thought).append(text)

    async def flush(self) -> None:
        """Nothing waits here."""

    async def plan(self, entries: Sequence[Any]) -> None:
        self.plans.append([one["status"] for one in entries])
        self.plan_lines = [one["content"] for one in entries]

    async def update(self, update: Any) -> None:
        self.updates.append(update)

    @property
    def words(self) -> str:
        """All that was said in the last turn."""
        return "".join(self.said)

    @property
    def calls(self) -> list[tuple[str, Any]]:
        """The names and arguments of all calls so far."""
        return [(report.name, report.raw_input) for report in self.session.reports]
