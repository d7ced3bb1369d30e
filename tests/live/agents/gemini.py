"""gemini-cli, from npm: run by node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.live.agents.agent import Agent
from tests.live.dialects.steps import Use

SETTINGS = {
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    "telemetry": {"enabled": False},
}


def _prepare(home: Path, url: str) -> Mapping[str, str]:
    (home / ".gemini").mkdir(exist_ok=True)
    (home / ".gemini" / "settings.json").write_text(json.dumps(SETTINGS))
    return {
        "GEMINI_CLI_HOME": str(home),
        "GEMINI_API_KEY": "fake",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_CLI_NO_RELAUNCH": "true",
    }


def _edit(path: Path, old: str, new: str) -> Use:
    what = {"instruction": "Say it otherwise", "old_string": old, "new_string": new}
    return Use("replace", {"file_path": str(path)} | what)


AGENT = Agent(
    name="gemini",
    registry="npm",
    package="@google/gemini-cli",
    version="0.61.0",
    program="node_modules/@google/gemini-cli/bundle/gemini.js",
    arguments=("--acp", "--model", "gemini-2.5-flash"),
    prepare=_prepare,
    read=lambda path: Use("read_file", {"file_path": str(path)}),
    edit=_edit,
    shell=lambda command: Use("run_shell_command", {"command": command}),
    shows_output=False,
    loads=False,
)
