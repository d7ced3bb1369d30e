"""The default mind: it runs what the user types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from callsheet.agent.brain import Command, Prompt, StopReason
from callsheet.agent.turn import Turn


class Palette:
    """Slash commands for every tool."""

    def commands(self, tools: Sequence[Any]) -> Sequence[Command]:
        """One for each tool."""
        return [Command(one.name, one.description.partition("\n")[0]) for one in tools]

    async def turn(self, prompt: Prompt, turn: Turn) -> StopReason | None:
        """Run a line that starts with `!`."""
        for line in prompt.text.splitlines():
            if line.startswith("!"):
                await turn.run("bash", {"command": line[1:]})
            else:
                await turn.say(line)
        return None
