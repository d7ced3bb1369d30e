"""The official Python SDK as the client of a real agent: it answers as it is told, and folds by itself."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import acp
from acp.contrib.session_state import SessionAccumulator, ToolCallView
from acp.schema import ClientCapabilities, Implementation

from tests.live.dialects.steps import PROMPT
from tests.live.stage import PATIENCE, Stage


class Player:
    """A client that answers every question in the same way, and keeps what it is told."""

    def __init__(self) -> None:
        self.answer: str = "allow_once"
        self.asked: list[Any] = []
        """The calls that permission was asked for."""
        self.accumulator: SessionAccumulator = SessionAccumulator()
        self.agent: Any = None
        self.session: str = ""

    def on_connect(self, agent: Any) -> None:
        """Get the agent's side."""
        self.agent = agent

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """Hear of something."""
        told = acp.schema.SessionNotification(session_id=session_id, update=update)
        self.accumulator.apply(told)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> acp.RequestPermissionResponse:
        """Answer."""
        self.asked.append(tool_call)
        chosen = next(option.option_id for option in options if option.kind == self.answer)
        outcome = {"outcome": "selected", "optionId": chosen}
        return acp.RequestPermissionResponse.model_validate({"outcome": outcome})

    @property
    def calls(self) -> list[ToolCallView]:
        """The calls as the SDK has folded them."""
        return list(self.accumulator.snapshot().tool_calls.values())

    async def prompt(self) -> str:
        """Have a turn, and give why it stopped."""
        blocks = [acp.text_block(PROMPT)]
        answer = await self.agent.prompt(session_id=self.session, prompt=blocks)
        return str(answer.stop_reason)

    async def cancel_when(self, running: Callable[[], object]) -> str:
        """Have a turn, and cancel it when something runs."""
        turn = asyncio.ensure_future(self.prompt())
        until = time.monotonic() + PATIENCE
        while not running():
            assert not turn.done()
            assert time.monotonic() < until
            await asyncio.sleep(0.02)
        await self.agent.cancel(session_id=self.session)
        return await turn


@asynccontextmanager
async def playing(stage: Stage) -> AsyncIterator[Player]:
    """Have a client with a session."""
    player = Player()
    async with acp.spawn_agent_process(
        player, *stage.command, env=stage.environment, cwd=stage.project
    ) as (agent, process):
        stage.pid = process.pid
        await agent.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(),
            client_info=Implementation(name="callsheet-tests", version="1"),
        )
        session = await agent.new_session(cwd=str(stage.project), mcp_servers=[])
        player.session = session.session_id
        yield player
        if stage.agent.stays:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
