"""opencode, from npm: one binary."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.live.agents.agent import Agent
from tests.live.dialects.steps import Use


def _prepare(home: Path, url: str) -> Mapping[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Fake",
        "options": {"baseURL": f"{url}/v1", "apiKey": "fake"},
        "models": {"fake": {"name": "fake", "limit": {"context": 200_000, "output": 8_000}}},
    }
    settings = {
        "model": "fake/fake",
        "small_model": "fake/fake",
        "enabled_providers": ["fake"],
        "provider": {"fake": provider},
        "permission": {"edit": "ask", "bash": "ask"},
        "autoupdate": False,
        "share": "disabled",
    }
    return {
        "OPENCODE_CONFIG_CONTENT": json.dumps(settings),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_PURE": "1",
    }


def _edit(path: Path, old: str, new: str) -> Use:
    return Use("edit", {"filePath": str(path), "oldString": old, "newString": new})


AGENT = Agent(
    name="opencode",
    registry="npm",
    package="opencode-ai",
    version="1.18.33",
    program="node_modules/opencode-ai/bin/opencode.exe",
    arguments=("acp",),
    prepare=_prepare,
    read=lambda path: Use("read", {"filePath": str(path)}),
    edit=_edit,
    shell=lambda command: Use("bash", {"command": command}),
)
