"""The same agent as `sdk_agent`, on callsheet: a mind that reads a small file as often as the prompt says."""

from __future__ import annotations

from collections.abc import Sequence

from callsheet.agent.agent import AgentSettings
from callsheet.agent.brain import Command, Prompt, StopReason
from callsheet.agent.serve import serve
from callsheet.agent.turn import Turn


class ReadingBrain:
    """Reads a file, many times."""

    def commands(self, tools: Sequence[object]) -> Sequence[Command]:  # noqa: ARG002
        """Offer none."""
        return []

    async def turn(self, prompt: Prompt, turn: Turn) -> StopReason | None:
        """Read the file as often as the prompt says."""
        for _ in range(int(prompt.text)):
            await turn.run("read", {"path": "small.txt"})
        return None


if __name__ == "__main__":
    raise SystemExit(serve(AgentSettings(brain=ReadingBrain)))
