"""codex-acp, from npm: one binary. It reads by commands, and edits by patches."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from tests.live.agents.agent import Agent
from tests.live.dialects.steps import Use

SETTINGS = """\
model = "gpt-5.3-codex"
model_provider = "fake"
approval_policy = "untrusted"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.fake]
name = "Fake"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "CODEX_API_KEY"
request_max_retries = 0
stream_max_retries = 0
"""


def _prepare(home: Path, url: str) -> Mapping[str, str]:
    (home / "config.toml").write_text(SETTINGS.format(url=url))
    return {"CODEX_HOME": str(home), "CODEX_API_KEY": "fake", "NO_BROWSER": "1"}


def _edit(path: Path, old: str, new: str) -> Use:
    lines = ("*** Begin Patch", f"*** Update File: {path}", "@@", f"-{old}", f"+{new}")
    return Use("apply_patch", text="\n".join([*lines, "*** End Patch"]))


def _shell(command: str) -> Use:
    return Use("exec_command", {"cmd": command, "yield_time_ms": 25_000})


AGENT = Agent(
    name="codex",
    registry="npm",
    package="@zed-industries/codex-acp",
    version="0.16.0",
    program="node_modules/.bin/codex-acp-linux-x64",
    prepare=_prepare,
    read=lambda path: _shell(f"cat {shlex.quote(str(path))}"),
    edit=_edit,
    shell=_shell,
    stays=True,
)
