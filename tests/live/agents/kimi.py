"""kimi-cli, from PyPI."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

from tests.live.agents.agent import Agent
from tests.live.dialects.steps import Use

SETTINGS = """\
default_model = "fake"
telemetry = false

[models.fake]
provider = "fake"
model = "fake"
max_context_size = 200000

[providers.fake]
type = "openai_legacy"
base_url = "{url}/v1"
api_key = "fake"
"""


def _prepare(home: Path, url: str) -> Mapping[str, str]:
    (home / "config.toml").write_text(SETTINGS.format(url=url))
    # It makes no session for who has not logged in, though the model needs none of that.
    token = {"access_token": "fake", "refresh_token": "fake", "scope": "", "token_type": "Bearer"}
    until = {"expires_at": time.time() + 86_400, "expires_in": 86_400}
    (home / "credentials").mkdir(exist_ok=True)
    (home / "credentials" / "kimi-code.json").write_text(json.dumps(token | until))
    return {
        "KIMI_SHARE_DIR": str(home),
        "KIMI_DISABLE_TELEMETRY": "1",
        "KIMI_CLI_NO_AUTO_UPDATE": "1",
    }


def _edit(path: Path, old: str, new: str) -> Use:
    return Use("StrReplaceFile", {"path": str(path), "edit": {"old": old, "new": new}})


AGENT = Agent(
    name="kimi",
    registry="pypi",
    package="kimi-cli",
    version="1.51.0",
    program="bin/kimi",
    arguments=("acp",),
    prepare=_prepare,
    read=lambda path: Use("ReadFile", {"path": str(path)}),
    edit=_edit,
    shell=lambda command: Use("Shell", {"command": command}),
)
