"""A proxy that only passes on, on the official Python SDK: an agent to the editor, an editor to the agent.

Started as a program: `python bench/sdk_proxy.py AGENT…`. What one side asks or tells by a method of the
SDK's, the other is asked or told by the same method.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import acp


class PassOn:
    """Passes on every method to the other side."""

    def __init__(self) -> None:
        self.other: Any = None
        self.connected: Callable[[Any], None] = lambda _: None

    def on_connect(self, conn: Any) -> None:
        """Hear who is at this side."""
        self.connected(conn)

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """Pass on an update."""
        await self.other.session_update(session_id, update, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        async def forward(*args: Any, **kwargs: Any) -> Any:
            return await getattr(self.other, name)(*args, **kwargs)

        return forward


async def main() -> None:
    """Stand between."""
    editor_side, agent_side = PassOn(), PassOn()
    editor_side.connected = lambda editor: setattr(agent_side, "other", editor)
    program, *arguments = sys.argv[1:]
    async with acp.spawn_agent_process(agent_side, program, *arguments) as (agent, _):  # pyright: ignore[reportArgumentType]
        editor_side.other = agent
        await acp.run_agent(editor_side)  # pyright: ignore[reportArgumentType]


if __name__ == "__main__":
    asyncio.run(main())
