"""`--mcp` of `callsheet call`, `tools` and `agent`, with a real server."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from callsheet.cli.options import server_of
from tests.integration.cli.conftest import Command
from tests.integration.cli.test_agent import editor
from tests.support import SUPPORT

REAL = shlex.join([sys.executable, str(SUPPORT / "mcp_real.py"), "stdio"])


def test_a_tool_of_a_server_is_called_with_values_of_its_types(
    command: Command, tmp_path: Path
) -> None:
    added = command(
        "call", "mcp__real__add", "a=1", "b=2", "--mcp", f"real={REAL}", "--format=result",
        cwd=tmp_path,
    )  # fmt: skip
    assert (added.returncode, added.stderr) == (0, "")
    assert json.loads(added.stdout)["metadata"]["structured_content"] == {"result": 3}


def test_what_is_wrong_with_a_call_of_a_server_is_bad_usage(
    command: Command, tmp_path: Path
) -> None:
    servers = ("--mcp", f"real={REAL}", "--mcp", "gone=no-such-program")
    unknown = command("call", "mcp__real__addd", *servers, cwd=tmp_path)
    wrong = command("call", "mcp__real__add", "a=x", "b=2", *servers, cwd=tmp_path)
    assert (unknown.returncode, wrong.returncode) == (2, 2)
    assert "did you mean mcp__real__add" in unknown.stderr
    assert "a: expected a whole number" in wrong.stderr
    for ended in (unknown, wrong):
        assert ended.stdout == ""
        assert "'gone' can't be started: there is no program 'no-such-program'" in ended.stderr


def test_the_tools_of_servers_are_listed_and_a_server_that_fails_is_reported(
    command: Command, tmp_path: Path
) -> None:
    failing = shlex.join([sys.executable, "-c", "import sys; sys.exit('no key')"])
    listed = command(
        "tools", "--format=json", "--mcp", REAL, "--mcp", f"bad={failing}", cwd=tmp_path
    )
    assert listed.returncode == 1
    assert {"read", "mcp__mcp_real__add"} <= {one["name"] for one in json.loads(listed.stdout)}
    assert "MCP server 'bad' exited with code 1" in listed.stderr
    assert "no key" in listed.stderr


def test_one_tool_is_shown_with_a_command_line_that_finds_it(
    command: Command, tmp_path: Path
) -> None:
    shown = command("tools", "mcp__real__add", "--mcp", f"real={REAL}", cwd=tmp_path)
    usage = shlex.split(shown.stdout.splitlines()[-1].replace("=A", "=1").replace("=B", "=2"))
    assert command(*usage[1:], cwd=tmp_path).returncode == 0


def test_the_agent_adds_the_servers_to_each_session(tmp_path: Path) -> None:
    options = ("--mcp", f"real={REAL}", "--mcp", "gone=no-such-program", "--permission=allow")
    with editor(*options, complains=b"there is no program 'no-such-program'") as client:
        for session in (client.open(tmp_path), client.new_session()):
            client.turn(session, "/mcp__real__add 1 2")
            assert list(client.statuses.values())[-1:] == ["completed"]


@pytest.mark.parametrize(
    ("entry", "name", "started"),
    [
        ("npx -y @acme/server-files /tmp", "server-files", "npx"),
        ("python -m mcp_server_git", "mcp_server_git", "python"),
        ("/opt/bin/shop --key=5", "shop", "/opt/bin/shop"),
        ("npx -y my.server@1.2", "my.server", "npx"),
        ("python3.11 /opt/shop.py", "shop", "python3.11"),
        ("python -c 'print(1)'", "python", "python"),
        ("shop=./server.py --x", "shop", "./server.py"),
        ("https://docs.example/mcp?a=b", "docs.example", "https://docs.example/mcp?a=b"),
        ("docs=http://[::1]:80/mcp", "docs", "http://[::1]:80/mcp"),
        ("http://[::1]:80/mcp", "::1", "http://[::1]:80/mcp"),
    ],
)
def test_a_server_is_named_by_its_entry_or_by_what_is_started(
    entry: str, name: str, started: str
) -> None:
    server = server_of(entry)
    assert (server.name, server.command or server.url) == (name, started)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["shop a", "shop b"], "two servers are named 'shop'"),
        (["shop 'a"], "no closing quotation"),
        ([""], "it is empty"),
        (["ws://shop"], "starts with http:// or https://"),
        (["shop=https://"], "names a host"),
    ],
)
def test_an_entry_that_can_t_be_meant_is_bad_usage(
    command: Command, tmp_path: Path, entries: list[str], message: str
) -> None:
    options = [word for entry in entries for word in ("--mcp", entry)]
    for name in ("call", "tools", "agent"):
        ended = command(name, *(["read"] if name == "call" else []), *options, cwd=tmp_path)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert message in ended.stderr
