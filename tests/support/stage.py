"""Where a mind is tried without a client: real sessions and tools, and a record of what it says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from callsheet.agent.brain import Brain, Prompt
from callsheet.agent.turn import Turn
from callsheet.tools.session import Session


class Stage:
    """Stands for a conversation, and keeps what is said in it."""

    def __init__(self, cwd: Path, brain: Any, **options: Any) -> None:
        self.session: Session = Session("stage", cwd=cwd, **{"strict": True, **options})
        self.brain: Brain = brain
        self.turns: int = 0
        self.said: list[str] = []
        self.thought: list[str] = []
        self.plans: list[list[str]] = []
        self.plan_lines: list[str] = []
        self.updates: list[Any] = []

    async def prompt(self, *blocks: str | dict[str, Any]) -> Any:
        """Play a turn. Gives why it stopped."""
        self.turns += 1
        self.said, self.thought, self.plans = [], [], []
        made = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
        turn = Turn(cast("Any", self))
        return await self.brain.turn(Prompt(tuple(made)), turn)

    async def say(self, kind: str, text: str) -> None:
        (self.said if kind == "agent_message_chunk" else self.thought).append(text)

    async def finish_saying(self) -> None:
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
