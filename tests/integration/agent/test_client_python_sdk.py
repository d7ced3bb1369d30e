"""The official Python SDK as a client of the agent, in ACP v1."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from pathlib import Path
from typing import Any

import acp
import pytest
from acp.connection import StreamDirection, StreamEvent
from acp.contrib.session_state import SessionAccumulator, ToolCallView
from acp.schema import ClientCapabilities, Implementation

from tests.clients import scenes
from tests.clients.scenes import Seen


class Player:
    """A client that answers and cancels as the scene says, and folds with the SDK's own accumulator."""

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {"lines": [], "sent": [], "permissions": [], "scenes": []}
        self.scene: dict[str, Any] = {}
        self.accumulator = SessionAccumulator()
        self.metas: dict[str, dict[str, Any]] = {}
        self._agent: Any = None

    def on_connect(self, agent: Any) -> None:
        self._agent = agent

    def observe(self, event: StreamEvent) -> None:
        if event.direction is StreamDirection.INCOMING:
            self.seen["lines"].append(json.dumps(event.message))
        else:
            self.seen["sent"].append(event.message)

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.accumulator.apply(acp.schema.SessionNotification(session_id=session_id, update=update))
        if update.session_update in ("tool_call", "tool_call_update"):
            self.metas.setdefault(update.tool_call_id, {}).update(update.field_meta or {})
            if update.status == "in_progress" and self.scene.get("cancel"):
                await self._agent.cancel(session_id=session_id)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> acp.RequestPermissionResponse:
        known = self.accumulator.snapshot().tool_calls.get(tool_call.tool_call_id)
        asked = {
            "scene": self.scene["name"],
            "toolCall": {**_plain(tool_call), "name": tool_call.field_meta["tool_name"]},
            "options": [_plain(option) for option in options],
            "known": None if known is None else _folded(known, self.metas[known.tool_call_id]),
        }
        self.seen["permissions"].append(asked)
        if self.scene.get("answer") == "cancel":
            await self._agent.cancel(session_id=session_id)
            outcome: Any = {"outcome": "cancelled"}
        else:
            kind = self.scene.get("answer", "allow_once")
            (chosen,) = [option.option_id for option in options if option.kind == kind]
            outcome = {"outcome": "selected", "optionId": chosen}
        return acp.RequestPermissionResponse.model_validate({"outcome": outcome})

    def calls(self) -> dict[str, dict[str, Any]]:
        views = self.accumulator.snapshot().tool_calls
        return {key: _folded(view, self.metas[key]) for key, view in views.items()}


def _plain(model: Any) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _folded(view: ToolCallView, meta: dict[str, Any]) -> dict[str, Any]:
    told = {
        "title": view.title,
        "name": meta["tool_name"],  # the SDK drops `name`
        "kind": view.kind,
        "status": view.status,
        "content": [_plain(item) for item in view.content] if view.content else None,
        "locations": [_plain(place) for place in view.locations] if view.locations else None,
        "rawInput": view.raw_input,
        "rawOutput": view.raw_output,
        "_meta": meta,
    }
    return {key: value for key, value in told.items() if value is not None}


async def play(place: Path) -> Seen:
    player = Player()
    command = scenes.recorded(scenes.agent_command(), place)
    async with acp.spawn_agent_process(
        player, *command, env=os.environ, cwd=place, observers=[player.observe]
    ) as (agent, process):
        await agent.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(),
            client_info=Implementation(name="callsheet-tests", version="1"),
        )
        session = await agent.new_session(cwd=str(place), mcp_servers=[])
        for scene in scenes.scenes(1):
            player.scene = scene
            prompt = [acp.text_block(scene["prompt"])]
            answer = await agent.prompt(session_id=session.session_id, prompt=prompt)
            player.seen["scenes"].append(
                {
                    "name": scene["name"],
                    "stopReason": answer.stop_reason,
                    "lines": len(player.seen["lines"]),
                }
            )
        await agent.set_session_mode(session_id=session.session_id, mode_id="read_only")
        await agent.list_sessions()
        await agent.close_session(session_id=session.session_id)
    player.seen |= {"calls": player.calls(), "exit": process.returncode}
    return Seen(1, place, player.seen)


async def test_every_scene_is_played_and_every_message_holds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        seen = await asyncio.wait_for(play(scenes.furnish(tmp_path / "place")), scenes.PATIENCE)
    complaints = [text for text in caplog.messages if "$/cancel_request" not in text]
    assert (
        complaints == []
    )  # the SDK doesn't know that questions can be withdrawn, logs it, and goes on
    assert seen.data["exit"] == 0
    scenes.hold(seen)
