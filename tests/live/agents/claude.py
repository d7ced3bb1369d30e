"""claude-agent-acp, from npm: run by node, with a binary behind it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.live.agents.agent import Agent
from tests.live.dialects.steps import Use


def _prepare(home: Path, url: str) -> Mapping[str, str]:
    return {
        "CLAUDE_CONFIG_DIR": str(home),
        "ANTHROPIC_API_KEY": "fake",
        "ANTHROPIC_BASE_URL": url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
    }


def _edit(path: Path, old: str, new: str) -> Use:
    return Use("Edit", {"file_path": str(path), "old_string": old, "new_string": new})


AGENT = Agent(
    name="claude",
    registry="npm",
    package="@agentclientprotocol/claude-agent-acp",
    version="0.99.1",
    program="node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js",
    prepare=_prepare,
    read=lambda path: Use("Read", {"file_path": str(path)}),
    edit=_edit,
    shell=lambda command: Use("Bash", {"command": command, "description": "Run it"}),
)
