"""The agent that `agent_start` and `agent_turn` compare with, written on the official Python SDK.

Started as a program (`python bench/sdk_agent.py`). In a turn it reads a small file as often as the prompt
says, and reports each read as the SDK's examples do: by its helpers, three updates, each awaited.
"""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import acp
from acp.interfaces import Client
from acp.schema import AgentCapabilities, Implementation, ToolCallLocation

_number = count()


class ReadingAgent:
    """Reads a file, many times."""

    _client: Client
    _cwd: Path

    def on_connect(self, conn: Client) -> None:
        """Keep the client."""
        self._client = conn

    async def initialize(self, protocol_version: int, **_kwargs: Any) -> acp.InitializeResponse:
        """Say hello."""
        return acp.InitializeResponse(
            protocol_version=min(protocol_version, acp.PROTOCOL_VERSION),
            agent_capabilities=AgentCapabilities(),
            agent_info=Implementation(name="bench", title="Bench", version="1"),
        )

    async def new_session(self, cwd: str, **_kwargs: Any) -> acp.NewSessionResponse:
        """Begin a session."""
        self._cwd = Path(cwd)
        return acp.NewSessionResponse(session_id="sess_1")

    async def prompt(
        self, session_id: str, prompt: list[Any], **_kwargs: Any
    ) -> acp.PromptResponse:
        """Read the file as often as the prompt says."""
        for _ in range(int(prompt[0].text)):
            await self._read(session_id, "small.txt")
        return acp.PromptResponse(stop_reason="end_turn")

    async def _read(self, session_id: str, name: str) -> None:
        key, path = f"call_{next(_number):026d}", self._cwd / name
        opened = acp.start_tool_call(
            key,
            f"Reading {name}",
            kind="read",
            status="pending",
            locations=[ToolCallLocation(path=str(path))],
            raw_input={"path": name},
        )
        await self._client.session_update(session_id, opened)
        begun = acp.update_tool_call(key, status="in_progress")
        await self._client.session_update(session_id, begun)
        text = await asyncio.to_thread(path.read_text, encoding="utf-8")
        ended = acp.update_tool_call(
            key,
            status="completed",
            content=[acp.tool_content(acp.text_block(text))],
            raw_output={"success": True, "output": text},
        )
        await self._client.session_update(session_id, ended)


if __name__ == "__main__":
    asyncio.run(acp.run_agent(ReadingAgent()))  # pyright: ignore[reportArgumentType]
