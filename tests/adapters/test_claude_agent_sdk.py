from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from callsheet import Session
from tests.adapters.kit import AdapterSuite, Stage, Step
from tests.support import TESTS

pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed; make adapters")

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ToolUseBlock

from callsheet.adapters.claude_agent_sdk import report_calls


def make_options(steps: Sequence[Step], **options: Any) -> ClaudeAgentOptions:
    """Return options that start the scripted Claude Code."""
    cli = Path(tempfile.mkdtemp(), "claude")
    cli.write_text(f'#!/bin/sh\nexec {sys.executable} -m tests.adapters.claude_cli "$@"\n')
    cli.chmod(0o755)
    env = {"CLAUDE_STEPS": json.dumps(steps), "PYTHONPATH": str(TESTS.parent)}
    return ClaudeAgentOptions(cli_path=cli, env=env, **options)


class TestClaudeAgentSdk(AdapterSuite):
    failure_reason = "tool_error"
    has_progress = False  # of tools, which run in Claude Code; that of its tasks is reported
    factory = "make_options"

    async def run(self, session: Session, steps: Sequence[Step], *, stream: bool) -> Any:
        reports = report_calls(session)
        options = make_options(
            steps, can_use_tool=reports.can_use_tool, include_partial_messages=stream
        )
        result = None
        async with ClaudeSDKClient(options) as client:
            await client.query("go")
            async for message in reports.follow(client.receive_response()):
                for block in getattr(message, "content", ()):
                    if isinstance(block, ToolUseBlock) and block.name == "hang":
                        Stage.hanging.set()
                result = message
        return result

    async def test_what_a_sub_agent_does_is_its_progress(self) -> None:
        async with self.stage([("delegate", self.delegated)], "done") as stage:
            assert stage.call("delegate").notes["progress"]["message"] == "reading"

    async def test_objects_that_a_newer_version_may_bring_break_no_run(self) -> None:
        async def messages() -> Any:
            yield type("AssistantMessage", (), {})()
            yield type("StreamEvent", (), {"event": None})()

        async with Stage().session as session:
            assert len([one async for one in report_calls(session).follow(messages())]) == 2
            assert session.health.degraded == 2
