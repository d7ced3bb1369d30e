"""The history's commands with a history on a real PostgreSQL server: the same as with a file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.support.postgres import Server, database, needs_postgres, postgres
from tests.support.stores import ONE, Cli, cli_in_process, fill

__all__ = ["database", "postgres"]  # fixtures

pytestmark = needs_postgres


@pytest.fixture
def cli(
    postgres: Server,
    database: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Cli:
    url = postgres.url(database)
    asyncio.run(fill(url, tmp_path))
    return cli_in_process(capsys, monkeypatch, url)


def test_every_command_works_with_a_server(cli: Cli) -> None:
    listed = json.loads(cli("history", "--format", "json").out)
    assert [one["tool"] for one in listed] == ["think", "write", "read", "bash", "bash", "read"]
    found = json.loads(cli("history", "--search", "needle", "--format", "json").out)
    assert {one["tool"] for one in found} == {"bash"}
    (failed,) = json.loads(cli("history", "--status", "exit_code", "--format", "json").out)
    for text in (failed["id"], failed["id"][-8:]):
        shown = cli("show", text)
        assert shown.out.startswith("Running `echo needle in the hay; exit 3`\nneedle in the hay\n")
    assert cli("show", "zzz").code == 1
    assert len(cli("replay", "AAAAAA").out.splitlines()) >= 7
    assert json.loads(cli("history", "stats", "--format", "json").out)["calls"] == 6
    assert len(cli("history", "export").out.splitlines()) == 6
    assert len(cli("history", "sessions").out.splitlines()) == 2
    stored = cli("call", "think", "thought=here, too")
    assert (stored.code, stored.err) == (0, "")
    assert cli("show", "last").out.startswith("Thinking\nhere, too\n")
    assert "Removed 3 calls" in cli("history", "prune", "--keep-calls", "4", "--yes").err
    assert f"Removed session {ONE} with 2 calls" in cli("history", "forget", ONE, "--yes").err
    assert cli("history", "vacuum").code == 0
    assert len(cli("history").out.splitlines()) == 2


def test_a_server_that_is_not_there_is_reported_in_one_line_without_the_password(cli: Cli) -> None:
    for command in (["history"], ["show", "last"], ["history", "prune", "--yes"]):
        done = cli(*command, "--history", "postgresql://me:hidden@127.0.0.1:1/x")
        assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
        assert "hidden" not in done.err
