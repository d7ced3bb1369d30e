from __future__ import annotations

import asyncio
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from callsheet.testing import AgentClient
from tests.adapters.kit import reason
from tests.adapters.typescript import hold_fold
from tests.clients import scenes
from tests.support import ROOT

pytest.importorskip("acp", reason="agent-client-protocol is not installed; make adapters")

from acp import PROTOCOL_VERSION, Client, spawn_agent_process
from acp.contrib.session_state import SessionAccumulator
from acp.schema import AllowedOutcome, RequestPermissionResponse, TextContentBlock

from callsheet.adapters.acp_sdk import connected_session, tool_name
from callsheet.adapters.framework import UnknownFramework

AGENT = [sys.executable, "-m", "tests.adapters.sdk_agent"]
ENDED = {
    "read_note": ("completed", None),
    "measure": ("completed", None),
    "meet": ("completed", None),
    "explode": ("failed", "exception"),
    "doze": ("failed", "timeout"),
}


@pytest.mark.parametrize("answer", ["allow_once", "reject_once"])
async def test_an_agent_of_the_sdk_reports_through_its_own_connection(answer: str) -> None:
    async with AgentClient(AGENT, cwd=str(ROOT), on_permission=answer) as client:
        session = await client.new_session("/tmp")
        assert await client.prompt(session, "everything") == "end_turn"
    calls = {one.name: one for one in client.fold()}
    removed = ("completed", None) if answer == "allow_once" else ("failed", "denied")
    ended = {name: (str(one.status), reason(one)) for name, one in calls.items()}
    assert ended == {**ENDED, "remove_note": removed}
    assert calls["measure"].notes["parentId"] == calls["read_note"].tool_call_id
    assert client.recording.check() == []


async def cancelled_turn() -> AgentClient:
    async with AgentClient(AGENT, cwd=str(ROOT)) as client:
        session = await client.new_session("/tmp")
        turn = asyncio.ensure_future(client.prompt(session, "hang"))
        while not any(one.get("status") == "in_progress" for one in client.updates):
            await asyncio.sleep(0.01)
        await client.cancel(session)
        assert await turn == "cancelled"
    return client


async def test_a_cancelled_turn_leaves_a_cancelled_call() -> None:
    client = await cancelled_turn()
    (call,) = client.fold()
    assert reason(call) == "cancelled"
    assert client.recording.check() == []


@scenes.needs_node("@agentclientprotocol/sdk")
async def test_a_client_on_the_typescript_sdk_sees_the_same_calls(tmp_path: Path) -> None:
    async with AgentClient(AGENT, cwd=str(ROOT)) as client:
        await client.prompt(await client.new_session("/tmp"), "everything")
    recordings = [client.lines, (await cancelled_turn()).lines]
    assert await hold_fold(recordings, tmp_path) == {"completed", "failed"}


class Editor(Client):
    """A client of the SDK, which folds what it gets as the SDK does."""

    def __init__(self) -> None:
        self.state = SessionAccumulator()
        self.names: set[str | None] = set()

    async def request_permission(
        self, options: Any, session_id: str, tool_call: Any, **kwargs: Any
    ) -> Any:
        return RequestPermissionResponse(
            outcome=AllowedOutcome(option_id="allow_once", outcome="selected")
        )

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        from acp.schema import SessionNotification

        self.state.apply(SessionNotification(session_id=session_id, update=update))
        if update.session_update == "tool_call":
            self.names.add(tool_name(update))


async def test_a_client_of_the_sdk_folds_them_to_the_same_calls_and_knows_their_names() -> None:
    editor = Editor()
    async with spawn_agent_process(editor, *AGENT, cwd=str(ROOT)) as (agent, _):
        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        session = await agent.new_session(cwd="/tmp", mcp_servers=[])
        await agent.prompt(
            session_id=session.session_id, prompt=[TextContentBlock(type="text", text="everything")]
        )
    assert editor.names == {*ENDED, "remove_note"}
    statuses = sorted(str(call.status) for call in editor.state.snapshot().tool_calls.values())
    assert statuses == ["completed"] * 6 + ["failed"] * 2


@pytest.mark.parametrize("version", ["0.11.1", "2.0.0"])
async def test_a_version_that_is_not_known(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: version)
    works = "agent-client-protocol>=0.12,<2"
    if version == "2.0.0":  # it may work
        with pytest.warns(RuntimeWarning, match=works):
            connected_session(None, "sess_1")
    else:
        with pytest.raises(UnknownFramework, match=works):
            connected_session(None, "sess_1")


async def test_a_connection_without_an_inside_gets_the_models() -> None:
    class Other:
        def __init__(self) -> None:
            self.updates: list[Any] = []

        async def session_update(self, session_id: str, update: Any) -> None:
            self.updates.append(update)

        async def request_permission(self, session_id: str, tool_call: Any, options: Any) -> Any:
            return RequestPermissionResponse(
                outcome=AllowedOutcome(option_id="allow_once", outcome="selected")
            )

    other = Other()
    async with connected_session(other, "sess_1") as session:
        async with session.call("read_note", {"path": "a"}) as call:
            await call.permission()
            call.succeed("fine")
    assert [other.updates[0].session_update, other.updates[-1].status] == ["tool_call", "completed"]
    assert tool_name(other.updates[0]) == "read_note"
