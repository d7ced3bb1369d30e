"""The first session of an agent behind a tap says, once and in one line, that it is tapped."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from callsheet.check.engine import check_stream
from callsheet.describe import Describer
from callsheet.describe.i18n import LOCALES
from tests.support.puppet import puppet
from tests.support.schemas import check_update

Message = dict[str, Any]


def say(kind: str, **fields: Any) -> list[Any]:
    params = {"sessionId": "s1", "update": {"sessionUpdate": kind, **fields}}
    return ["say", {"jsonrpc": "2.0", "method": "session/update", "params": params}]


def answer(**result: Any) -> list[Any]:
    return ["say", {"jsonrpc": "2.0", "id": "$id", "result": result}]


def text(words: str) -> Message:
    return {"messageId": "m1", "content": {"type": "text", "text": words}}


def agent(version: int) -> list[str]:
    """Return an agent that has two turns. It sends updates also before the turn, and before its words."""
    turn = [
        ["await", "session/prompt"],
        *([answer(messageId="m0")] if version == 2 else []),
        *([say("state_update", state="running")] if version == 2 else []),
        say("user_message_chunk", **text("Hi")),
        say("agent_message_chunk", **text("Hello.")),
        say("state_update", state="idle", stopReason="end_turn")
        if version == 2
        else answer(stopReason="end_turn"),
    ]
    return puppet(
        ["await", "initialize"],
        answer(protocolVersion=version, agentInfo={"name": "puppet", "version": "1"}),
        ["await", "session/new"],
        answer(sessionId="s1"),
        say("available_commands_update", availableCommands=[]),
        *turn,
        *turn,
    )


def tapped(tmp_path: Path, version: int = 1, *options: str) -> list[Message]:
    """Run that agent behind a tap, and return what its client receives."""
    asked = ["initialize", "session/new", "session/prompt", "session/prompt"]
    params: dict[str, Message] = {
        "initialize": {"protocolVersion": version, "clientCapabilities": {}},
        "session/new": {"cwd": "/code", "mcpServers": []},
        "session/prompt": {"sessionId": "s1", "prompt": [{"type": "text", "text": "Hi"}]},
    }
    requests = [
        {"jsonrpc": "2.0", "id": n, "method": method, "params": params[method]}
        for n, method in enumerate(asked)
    ]
    command = [sys.executable, "-m", "callsheet", "tap", *options, "--", *agent(version)]
    done = subprocess.run(
        command,
        input="".join(json.dumps(one) + "\n" for one in requests),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=tmp_path,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def words(messages: list[Message]) -> list[str]:
    """Return what the client is shown, in order: texts, and the kinds of what has none."""
    updates = [one["params"]["update"] for one in messages if "params" in one]
    return [one["content"]["text"] if "content" in one else one["sessionUpdate"] for one in updates]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the user's directory for state, which tests have none of."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "callsheet" / "tapped"


NOTICE = f"_{Describer('/', locale='en').phrase('tap_notice')}_\n\n"


@pytest.mark.parametrize("version", [1, 2])
def test_the_first_session_says_so_before_the_agents_own_words(
    version: int, tmp_path: Path, state: Path
) -> None:
    recording = tmp_path / "seen.jsonl"
    first = tapped(tmp_path, version, "--record", str(recording), "--history", str(tmp_path / "h"))
    shown = words(first)
    own = [one for one in shown if one != NOTICE]
    assert shown == [*own[: own.index("Hello.")], NOTICE, *own[own.index("Hello.") :]]
    (said,) = [one for one in first if NOTICE in str(one) or "callsheet-notice" in str(one)]
    check_update(version, said["params"]["update"])
    with recording.open("rb") as stream:
        found = {finding.rule for finding in check_stream(stream)}
    assert found <= {"order/overlapping-prompts"}  # the client here sends all its lines at once
    # It is the tap's own, so the history has the agent's words without it.
    stored = subprocess.run(
        [sys.executable, "-m", "callsheet", "replay", "s1", "--history", str(tmp_path / "h")],
        capture_output=True,
        check=True,
    ).stdout
    assert b"Hello." in stored
    assert b"callsheet-notice" not in stored
    assert len(list(state.iterdir())) == 1
    # Once is enough: not in the next turn, nor in the next session.
    assert words(tapped(tmp_path, version)) == own


def test_a_flag_and_a_setting_turn_it_off(tmp_path: Path, state: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.callsheet.tap]\nnotice = false\n")
    assert NOTICE not in words(tapped(tmp_path))
    (tmp_path / "pyproject.toml").write_text("[tool.callsheet.tap]\nnotices = false\n")
    assert NOTICE not in words(tapped(tmp_path, 1, "--no-notice"))
    assert not state.exists()
    assert NOTICE in words(tapped(tmp_path))  # a mistake in a project's file is left out


def test_nothing_is_said_where_nothing_can_be_remembered(tmp_path: Path) -> None:
    assert NOTICE not in words(tapped(tmp_path))


def test_it_is_said_in_the_users_language(tmp_path: Path, state: Path) -> None:
    phrases = {locale: Describer("/", locale=locale).phrase("tap_notice") for locale in LOCALES}
    assert len(set(phrases.values())) == len(LOCALES)
    assert f"_{phrases['de']}_\n\n" in words(tapped(tmp_path, 1, "--locale", "de"))
