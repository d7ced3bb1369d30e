"""`initialize`, answered before anything is imported: as the agent itself would, or not at all."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from callsheet.agent.agent import Agent, AgentSettings
from callsheet.agent.handshake import Handshake, answer_early
from callsheet.agent.startup import palette
from callsheet.cli.settings import history_settings
from callsheet.cli.start import _has_history

INITIALIZE = b'{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":1}}\n'
AUTHENTICATE = b'{"jsonrpc":"2.0","id":8,"method":"authenticate","params":{}}\n'


def shake(sent: bytes) -> tuple[Handshake, bytes]:
    """Send bytes, and return the handshake and what was answered."""
    pipes = (*os.pipe(), *os.pipe())
    try:
        os.write(pipes[1], sent)
        done = answer_early(False, pipes[0], pipes[3])
        os.set_blocking(pipes[2], False)
        try:
            return done, os.read(pipes[2], 65536)
        except BlockingIOError:
            return done, b""
    finally:
        for fd in pipes:
            os.close(fd)


def served(sent: bytes, handshake: Handshake | None = None) -> bytes:
    """Return all that an agent answers to bytes."""
    pipes = (*os.pipe(), *os.pipe())

    async def scenario() -> None:
        await Agent(AgentSettings(handler=palette), pipes[0], pipes[3], handshake).run()

    os.write(pipes[1], sent)
    os.close(pipes[1])
    asyncio.run(scenario())
    os.close(pipes[3])
    answers = os.read(pipes[2], 65536)
    os.close(pipes[0])
    os.close(pipes[2])
    return answers


def test_the_early_answer_is_the_one_that_the_agent_gives() -> None:
    done, answer = shake(INITIALIZE)
    assert done.params == {"protocolVersion": 1}
    assert (done.ahead, answer) == (b"", served(INITIALIZE))


@pytest.mark.parametrize("version", [0, 2, 10**30])
def test_a_client_of_another_version_is_answered_in_v1_too(version: int) -> None:
    sent = INITIALIZE.replace(b":1}", b":%d}" % version)
    assert shake(sent)[1] == served(sent) != b""


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]\n",
        b"5\n",
        AUTHENTICATE,
        INITIALIZE[:-1],
        b"\n" + INITIALIZE,
        b"[" + INITIALIZE[:-1] + b"]\n",
        INITIALIZE.replace(b'"2.0"', b'"1.0"'),
        INITIALIZE.replace(b'"id":7', b'"id":"seven"'),
        INITIALIZE.replace(b'"id":7', b'"id":null'),
        INITIALIZE.replace(b'"id":7', b'"id":true'),
        INITIALIZE.replace(b'"id":7', b'"id":7.0'),
        INITIALIZE.replace(b'"id":7', b'"id":-1'),
        INITIALIZE.replace(b'"id":7,', b""),
        INITIALIZE.replace(b'"id":7', b'"id":7,"result":{}'),
        INITIALIZE.replace(b":1}", b":NaN}"),
        INITIALIZE.replace(b":1}", b':"1"}'),
        INITIALIZE.replace(b":1}", b":true}"),
        INITIALIZE.replace(b":1}", b':1,"more":NaN}'),
        INITIALIZE.replace(b":1}", b':1,"name":"\\ud800"}'),
        INITIALIZE.replace(b":1}", b':1,"name":"\xff"}'),
        INITIALIZE.replace(b'{"protocolVersion":1}', b"[1]"),
        INITIALIZE.replace(b'{"protocolVersion":1}', b'"protocolVersion"'),
        INITIALIZE.replace(b'{"protocolVersion":1}', b"[" * 9000 + b"]" * 9000),
    ],
)
def test_what_is_unusual_is_left_to_the_agent(line: bytes) -> None:
    done, answer = shake(line)
    assert (done.params, done.ahead, answer) == (None, line, b"")
    assert served(b"", done) == served(line)


def test_what_follows_is_handled_by_the_agent() -> None:
    done, _ = shake(INITIALIZE + AUTHENTICATE + INITIALIZE)
    assert done.ahead == AUTHENTICATE + INITIALIZE
    answers = [json.loads(line) for line in served(b"", done).splitlines()]
    assert [(one["id"], one["error"]["code"]) for one in answers] == [(8, -32602), (7, -32600)]


def test_nothing_heavy_is_imported_before_the_answer() -> None:
    code = (
        "import sys\nfrom callsheet.cli import start\nfrom callsheet.agent.handshake import answer_early\n"
        "start._has_history(); assert answer_early(True).params\n"
        "assert not {'asyncio', 'msgspec', 'typing', 'pathlib', 'tomllib'} & sys.modules.keys()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=INITIALIZE, capture_output=True, check=True
    )
    assert json.loads(done.stdout)["result"]["agentCapabilities"]["loadSession"] is True


@pytest.mark.parametrize(
    ("files", "variables"),
    [
        ({}, {}),
        ({}, {"CALLSHEET_HISTORY": "off"}),
        ({}, {"CALLSHEET_HISTORY": "OFF"}),
        ({}, {"CALLSHEET_HISTORY": "h.sqlite"}),
        ({"pyproject.toml": "[project]\nname = 'x'\n"}, {}),
        ({"pyproject.toml": "[tool.callsheet.history]\nurl = 'off'\n"}, {}),
        ({"../pyproject.toml": "[tool.callsheet.history]\nurl = 'off'\n"}, {}),
        ({"../pyproject.toml": "[tool.callsheet.history]\nurl = 'off'\n", ".git": ""}, {}),
        ({"config/callsheet/callsheet.toml": "[history]\nurl = 'off'\n"}, {}),
        ({"own.toml": "[history]\nurl = 'off'\n"}, {"CALLSHEET_CONFIG": "own.toml"}),
    ],
)
def test_whether_there_is_a_history_is_known_without_reading_settings_or_not_at_all(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, str],
    variables: dict[str, str],
) -> None:
    cwd = tmp_path / "home/project"
    cwd.mkdir(parents=True)
    (tmp_path / ".git").touch()
    monkeypatch.chdir(cwd)
    for name in ("CALLSHEET_HISTORY", "CALLSHEET_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    settings = {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(cwd / "config")} | variables
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    for name, text in files.items():
        (cwd / name).parent.mkdir(parents=True, exist_ok=True)
        (cwd / name).write_text(text)
    known, url = _has_history(), history_settings()[0]
    assert known in (None, url is not None)
    if not files or "[project]" in files.get("pyproject.toml", ""):
        assert (known is None) == (variables.get("CALLSHEET_HISTORY") not in (None, "off"))
