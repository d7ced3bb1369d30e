"""The same agent as `sdk_agent`, on callsheet: a handler that reads a small file as often as the prompt says.

The prompt is how often, and with which tool: `read_small`, which does what the other agent does, or `read`,
the built-in one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from callsheet import tool
from callsheet.agent.agent import AgentSettings, serve
from callsheet.agent.handler import Command, Prompt, StopReason, Turn


@tool(kind="read", read_only=True, title="Reading {path}")
async def read_small(path: Path) -> str:
    """Read a small file.

    Args:
        path: The file.
    """
    return await asyncio.to_thread(path.read_text, encoding="utf-8")


class ReadingHandler:
    """Reads a file, many times."""

    def commands(self, tools: Sequence[object]) -> Sequence[Command]:  # noqa: ARG002
        """Offer none."""
        return []

    async def turn(self, prompt: Prompt, turn: Turn) -> StopReason | None:
        """Read the file as often as the prompt says."""
        times, name = prompt.text.split()
        for _ in range(int(times)):
            result = await turn.run(name, {"path": "small.txt"})
            if not result.success:
                return "refusal"
        return None


if __name__ == "__main__":
    raise SystemExit(serve(AgentSettings(handler=ReadingHandler, tools=[read_small])))
