"""Rows say who made calls, from every way into the history, on both engines; and views show it in plain types."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
import sqlite3
import subprocess
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import date, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from callsheet import Session, ToolCallReport
from callsheet.adapters.reporter import Reporter
from callsheet.agent.handshake import CALLSHEET
from callsheet.history import History, Query, Store, StoredMessage, StoredSession, store_at
from callsheet.history.call_records import PLAIN, WaitingCall, WaitingTurn, to_rows
from callsheet.history.codec import Codec
from callsheet.history.origin import here
from callsheet.history.rows import UNKNOWN, Origin, SessionRow
from callsheet.report.terminal import CallRecord
from callsheet.report.usage import TokenUsage
from callsheet.testing import AgentClient
from tests.support import TESTS
from tests.support.engines import NOON, database, engine, postgres, store, url
from tests.support.made_recordings import announced, completed, opening
from tests.support.puppet import puppet
from tests.support.shells import CALLSHEET as COMMAND
from tests.support.stores import Cli, cli_in_process

__all__ = ["database", "engine", "postgres", "store", "url"]

PERSON = {"LOGNAME": "ada.lovelace", "USER": "ada.lovelace"}
KIMI = TESTS / "recordings" / "kimi-cli-1.51.0.mixed-none.jsonl"


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> str:
    """Somebody who uses this machine, here and in processes that are started."""
    for name, value in PERSON.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CALLSHEET_PSEUDONYMS", raising=False)
    return PERSON["USER"]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("socket.gethostname", lambda: "build7")
    return "build7"


def stored(url: str) -> tuple[Origin, StoredSession]:
    """Return who made the newest call, and its session."""
    with closing(store_at(url)) as reader:
        reader.open(write=False)
        head = reader.heads(Query(limit=1))[0]
        session = reader.session(head.session_id)
        assert session is not None
        return reader.origins([head.origin])[head.origin], session


def run(url: str, *args: str) -> None:
    done = subprocess.run(
        [*COMMAND, *args, "--history", url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# Each way into the history


def test_a_call_from_the_command_line_says_who(url: str, person: str) -> None:
    run(url, "call", "think", "thought=x")
    origin, session = stored(url)
    assert (origin.user, origin.source) == (person, "call")
    assert origin.host
    assert (origin.agent, origin.agent_version) == (CALLSHEET["name"], CALLSHEET["version"])
    assert session.origin == origin


async def test_an_agent_says_who_and_in_which_client(url: str, person: str, tmp_path: Path) -> None:
    async with AgentClient([*COMMAND, "agent", "--history", url]) as client:
        session = await client.new_session(str(tmp_path))
        await client.prompt(session, "/think thought=x")
    origin, its = stored(url)
    assert (origin.user, origin.source, origin.agent) == (person, "agent", CALLSHEET["name"])
    assert (origin.client, origin.client_version) == ("callsheet-client", "1")
    assert (its.origin, its.cwd) == (origin, str(tmp_path))


SCRIPT: list[list[Any]] = [
    ["await", "initialize"],
    ["say", {"jsonrpc": "2.0", "id": "$id", "result": {
        "protocolVersion": 1, "agentInfo": {"name": "Claude\0 Agent", "version": "0.99.1"},
    }}],
    ["await", "session/new"],
    ["say", {"jsonrpc": "2.0", "id": "$id", "result": {"sessionId": "s1"}}],
    ["await", "session/prompt"],
    ["say", {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1", "update": {
        "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Reading a file", "kind": "read",
        "status": "completed",
    }}}],
    ["say", {"jsonrpc": "2.0", "id": "$id", "result": {"stopReason": "end_turn"}}],
    ["await", "nothing more"],
]  # fmt: skip


async def test_a_tap_says_whose_agent_it_is_and_in_which_client(
    url: str, person: str, tmp_path: Path
) -> None:
    command = [*COMMAND, "tap", "--no-notice", "--history", url, "--", *puppet(*SCRIPT)]
    async with AgentClient(command) as client:
        await client.prompt(await client.new_session(str(tmp_path)), "go")
    origin, its = stored(url)
    assert (origin.user, origin.source) == (person, "tap")
    assert (origin.agent, origin.agent_version) == ("Claude Agent", "0.99.1")
    assert (origin.client, origin.client_version) == ("callsheet-client", "1")
    assert (its.origin, its.cwd) == (origin, str(tmp_path))


def test_an_import_says_the_agent_and_not_who_imports_it(url: str, person: str) -> None:
    run(url, "history", "import", str(KIMI))
    origin, its = stored(url)
    assert (origin.user, origin.host, origin.source) == ("", "", "import")
    assert origin.agent_name == "Kimi Code CLI 1.51.0"
    assert its.origin == origin


async def test_a_session_of_ones_own_is_an_agent_until_an_adapter_names_its_framework(
    url: str, person: str, host: str
) -> None:
    async with History(url) as history:
        log = history.session("s")
        async with Session("s", builtin=True, sinks=[log], locale="en") as session:
            await session.run("think", {"thought": "x"})
            await history.flush()
            assert stored(url)[0] == Origin(user=person, host=host, source="agent")
            with Reporter(session, "msgspec") as reporter:
                reporter.start("k1", "lookup", {})
                reporter.end("k1", "done")
    origin, its = stored(url)
    framework = Origin(agent="msgspec", agent_version=version("msgspec"), source="adapter")
    assert origin == replace(framework, user=person, host=host)
    assert its.origin == origin


async def test_a_program_that_says_who_is_believed(url: str, person: str) -> None:
    who = Origin(
        user="grace", host="mars", agent="Mine", source="agent", client="\n\x1b[31mred\udc80"
    )
    async with History(url) as history:
        log = history.session("s", origin=replace(who, agent_version="9" * 10_000))
        log.send(deque([CallRecord(ToolCallReport("c", "bash", status="completed"))]))
    origin, _ = stored(url)
    assert (origin.user, origin.host, origin.client) == ("grace", "mars", "[31mred")
    assert origin.agent_version == "9" * 100


async def test_two_who_work_in_one_session_are_both_said(url: str, store: Store) -> None:
    names = ("ada", "grace")
    async with History(url) as history:
        for place, name in enumerate(names):
            log = history.session("s", origin=Origin(user=name), position=place)
            log.send(deque([CallRecord(ToolCallReport(name, "bash", status="completed"))]))
    heads = store.heads(Query())
    origins = store.origins(head.origin for head in heads)
    assert {head.call_id: origins[head.origin].user for head in heads} == {
        name: name for name in names
    }


# Pseudonyms


async def made_by(url: str, secret: str, monkeypatch: pytest.MonkeyPatch, cwd: Path) -> Origin:
    """Store a call with pseudonyms, and return who has made it."""
    monkeypatch.setenv("CALLSHEET_PSEUDONYMS", secret)
    async with History(url) as history:
        log = history.session(f"of {secret}", cwd=str(cwd), title="A title")
        async with Session(builtin=True, sinks=[log], cwd=cwd, locale="en") as session:
            await session.run("think", {"thought": "x"})
    return stored(url)[0]


async def test_a_pseudonym_is_stable_and_depends_on_the_secret(
    url: str, person: str, host: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cwd = tmp_path / person / "work"
    cwd.mkdir(parents=True)
    one = await made_by(url, "first secret", monkeypatch, cwd)
    again = await made_by(url, "first secret", monkeypatch, cwd)
    other = await made_by(url, "second secret", monkeypatch, cwd)
    assert one == again
    assert one.user.startswith("user-")
    assert one.host.startswith("host-")
    assert not {one.user, one.host} & {other.user, other.host}
    rows = dump(url)
    assert one.user in rows
    assert person not in rows
    assert host not in rows


@pytest.mark.parametrize("secret", ["", "a secret"])
def test_who_is_here_is_asked_twice_with_the_same_answer(
    secret: str, person: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fleet's subjects are made of what is in the rows."""
    monkeypatch.setenv("CALLSHEET_PSEUDONYMS", secret)
    for origin in (UNKNOWN, Origin(user="grace", host="mars", agent="Mine")):
        once = here(origin)
        assert here(once) == once


async def test_with_pseudonyms_an_agent_still_lists_the_sessions_of_a_directory(
    url: str, person: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CALLSHEET_PSEUDONYMS", "a secret")
    cwd, more = tmp_path / person, tmp_path / "more" / person
    cwd.mkdir()
    more.mkdir(parents=True)
    command = [*COMMAND, "agent", "--history", url]
    async with AgentClient(command) as client:
        session = await client.new_session(str(cwd), additionalDirectories=[str(more)])
        await client.prompt(session, "/think thought=x")
    assert person not in dump(url)
    async with AgentClient(command) as client:
        answer: Any = await client.request("session/list", {"cwd": str(cwd)})
    (listed,) = answer["sessions"]
    assert (listed["cwd"], listed["additionalDirectories"]) == (str(cwd), [str(more)])


def test_an_import_with_pseudonyms_does_not_have_the_name(
    url: str, person: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CALLSHEET_PSEUDONYMS", "a secret")
    lines = [*opening(), announced("c1"), completed("c1")]
    lines[2]["params"]["cwd"] = f"/home/{person}/work"
    file = tmp_path / "it.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    run(url, "history", "import", str(file))
    assert re.fullmatch(r"/home/user-[0-9a-f]{12}/work", stored(url)[1].cwd)


async def test_paths_hide_the_name_from_all_but_the_one_whose_it_is(
    url: str, person: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CALLSHEET_PSEUDONYMS", "a secret")
    file, other = tmp_path / person / "a.txt", f"/srv/{person}.txt and {person}"
    file.parent.mkdir()
    file.write_text(f"{file}, {file.parent}\n{other}")
    spills = list[str]()
    async with History(url, forget_spills=spills.extend) as history:
        log = history.session("s", title=f"In {file.parent}:")
        async with Session("s", builtin=True, sinks=[log], cwd=tmp_path, locale="en") as session:
            await session.run("read", {"path": str(file)})
            log.say("agent", "m", [{"type": "text", "text": f"Read `{file}`"}])
            notes = {"callsheet": {"truncated": {"field": "content", "spill": f"/home/{person}/s"}}}
            report = ToolCallReport("c", "bash", status="completed", meta=notes)
            log.send(deque([CallRecord(report)]))
        assert await history.flush()
        with closing(store_at(url)) as mine:
            mine.open(write=False)
            message, *_ = [one for one in mine.timeline("s") if isinstance(one, StoredMessage)]
            (call,) = mine.calls(Query(tool="read"))
            assert message.blocks[0]["text"] == f"Read `{file}`"
            assert call.record.report.raw_input == {"path": str(file)}
            assert f"{file}, {file.parent}" in call.record.report.content[0].text  # type: ignore[union-attr]
        monkeypatch.delenv("CALLSHEET_PSEUDONYMS")
        stored = dump(url)
        assert f"/{person}/" not in stored
        assert f"/{person}\n" not in stored
        assert other in stored  # it is no part of a path
        monkeypatch.setenv("CALLSHEET_PSEUDONYMS", "a secret")
        await history.forget("s")
    assert spills == [f"/home/{person}/s"]


def dump(url: str) -> str:
    """Return all texts of a history."""
    found: list[Any] = []
    for table in ("sessions", "origins", "turns", "calls", "messages"):
        for row in read(url, f"SELECT * FROM {table}"):
            if payload := row.pop("payload", None):
                found.append(json.loads(Codec().decompress(payload)))
            found += row.values()
    return " ".join(map(str, found))


def read(url: str, sql: str) -> list[dict[str, Any]]:
    """Return rows as another program reads them; `callsheet_…` are the views."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as db:
            db.row_factory = sqlite3.Row
            return [dict(row) for row in db.execute(sql)]

    async def rows() -> list[dict[str, Any]]:
        import asyncpg

        db = await asyncpg.connect(url)
        await db.execute("SET search_path = callsheet")
        try:
            return [dict(row) for row in await db.fetch(sql)]
        finally:
            await db.close()

    with ThreadPoolExecutor(1) as pool:  # a test may have a loop of its own
        return pool.submit(asyncio.run, rows()).result()


# Rows of which nobody knows who made them


@pytest.fixture
def cli(url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    return cli_in_process(capsys, monkeypatch, url)


FULL = Origin(
    user="ada", host="build7", agent="Claude Agent", agent_version="0.99.1", client="Zed",
    client_version="0.213.1", source="tap",
)  # fmt: skip


def waiting(key: str, origin: Origin, at: float = NOON, **fields: Any) -> WaitingCall:
    report = ToolCallReport(key, "bash", f"Running {key}", "execute", "completed", **fields)
    row = SessionRow(session_id=f"of {key}", cwd="/w", created_at=at, updated_at=at, origin=origin)
    return WaitingCall(row, 0, at, at + 1, CallRecord(report))


def test_commands_say_who_or_that_nobody_knows(store: Store, cli: Cli) -> None:
    store.write(to_rows([waiting("old", UNKNOWN), waiting("new", FULL, NOON + 1)], store.codec))
    facts = FULL.facts()
    known = [json.loads(cli("history", "--format", "json").out)]
    known += [json.loads(cli("history", "sessions", "--format", "json").out)]
    lines = cli("history", "export").out.splitlines()
    known += [[json.loads(line) for line in lines]]
    for new, old in known:
        assert {name: new[name] for name in facts} == facts
        assert {name: old[name] for name in facts} == dict.fromkeys(facts)
        assert (new["cwd"], old["cwd"]) == ("/w", "/w")
    new, old = csv.DictReader(io.StringIO(cli("history", "export", "--format", "csv").out))
    assert {name: new[name] for name in facts} == facts
    assert {old[name] for name in facts} == {""}
    assert json.loads(cli("show", "new", "--format", "json").out)["agentVersion"] == "0.99.1"
    said = "ada on build7, Claude Agent 0.99.1 in Zed 0.213.1, through the tap"
    assert re.search(rf"^who +{said}$", cli("show", "new").out, re.MULTILINE)
    assert re.search(r"^who +unknown$", cli("show", "old").out, re.MULTILINE)


def test_lines_for_a_pipe_say_who_if_it_is_wanted(store: Store, cli: Cli) -> None:
    store.write(to_rows([waiting("old", UNKNOWN), waiting("new", FULL, NOON + 1)], store.codec))
    for command, count in ((("history",), 8), (("history", "sessions"), 5)):
        plain = [line.split("\t") for line in cli(*command).out.splitlines()]
        new, old = [line.split("\t") for line in cli(*command, "--who").out.splitlines()]
        assert [new[:count], old[:count]] == plain
        assert new[count:] == list(FULL.facts().values())
        assert old[count:] == [""] * 7


def test_a_filter_chooses_by_who(store: Store, cli: Cli) -> None:
    calls = [waiting("old", UNKNOWN), waiting("new", FULL), waiting("own", Origin(user="grace"))]
    store.write(to_rows(calls, store.codec))
    for text, expected in {
        "user:ada source:tap": {"new"},
        "host:build": {"new"},
        'client:"zed 0.2"': {"new"},
        "workspace:/W": {"old", "new", "own"},
        "-workspace:_": {"old", "new", "own"},
        "-user:ada": {"old", "own"},
    }.items():
        found = json.loads(cli("history", "--filter", text, "--format", "json").out)
        assert {one["id"] for one in found} == expected, text


# Views


TIME = "2025-06-15T15:06:40"
WHO = {
    "user_name": "ada", "host": "build7", "agent": "Claude Agent", "agent_version": "0.99.1",
    "client": "Zed", "client_version": "0.213.1", "source": "tap",
}  # fmt: skip


def when(text: str, is_file: bool) -> Any:
    """Return a moment as a view has it."""
    return f"{text}.000Z" if is_file else datetime.fromisoformat(f"{text}+00:00")


def test_views_have_plain_types_and_values(store: Store, url: str) -> None:
    is_file = url.startswith("sqlite")
    usage = TokenUsage(input_tokens=7, output_tokens=3, model="m-1", cost=0.25, currency="USD")
    notes = {"callsheet": {"durationMs": 12.5}}
    call = replace(
        waiting("c", FULL, raw_input={"command": "ls"}, raw_output=["a", 1], meta=notes), turn="t1"
    )
    turn = WaitingTurn(call.session, 0, NOON, "t1", NOON + 2, "end_turn", usage)
    silent = replace(
        turn, key="t2", at=NOON + 86_400, ended_at=None, stop_reason=None, usage=TokenUsage()
    )
    store.write(to_rows([call, turn, silent], store.codec))
    (row,) = read(url, "SELECT * FROM callsheet_calls")
    assert {name: row[name] for name in WHO} == WHO
    assert (row["started_at"], row["duration_ms"]) == (when(TIME, is_file), 12.5)
    assert (row["session_id"], row["call_id"], row["tool"]) == ("of c", "c", "bash")
    assert (row["turn_id"], row["workspace"], row["reason"]) == ("t1", "/w", None)
    assert [json.loads(row[name]) for name in ("input", "output")] == [{"command": "ls"}, ["a", 1]]
    (row,) = read(url, "SELECT * FROM callsheet_sessions")
    assert {name: row[name] for name in WHO} == WHO
    assert (row["started_at"], row["workspace"]) == (when(TIME, is_file), "/w")
    first, second = read(url, "SELECT * FROM callsheet_turns ORDER BY started_at")
    assert (first["duration_ms"], first["stop_reason"], first["cost"]) == (2000.0, "end_turn", 0.25)
    assert (first["ended_at"], second["ended_at"]) == (when("2025-06-15T15:06:42", is_file), None)
    assert [second[name] for name in ("model", "input_tokens", "cost", "stop_reason")] == [None] * 4
    (row,) = read(url, "SELECT * FROM callsheet_usage")
    assert row["day"] == ("2025-06-15" if is_file else date(2025, 6, 15))
    assert (row["input_tokens"], row["output_tokens"], row["model"]) == (7, 3, "m-1")
    if not is_file:
        types = "SELECT pg_typeof(started_at)::text AS t, pg_typeof(input)::text AS i FROM callsheet_calls"
        assert read(url, types) == [{"t": "timestamp with time zone", "i": "jsonb"}]


def test_views_say_nothing_of_what_nobody_knows(store: Store, url: str) -> None:
    store.write(to_rows([waiting("c", UNKNOWN)], store.codec))
    for view in ("callsheet_calls", "callsheet_sessions"):
        (row,) = read(url, f"SELECT * FROM {view}")
        assert {row[name] for name in WHO} == {None}, view
    (row,) = read(url, "SELECT input, output, turn_id, duration_ms FROM callsheet_calls")
    assert {json.loads(one) if isinstance(one, str) else one for one in row.values()} <= {None}


NESTED: Any = "x"
for _ in range(60):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"a\0b": "c\0d"}, {"a\ufffdb": "c\ufffdd"}),
        ({"a": "\\u0000 and \\\0"}, {"a": "\\u0000 and \\\ufffd"}),
        ("\\\\u0000", "\\\\u0000"),
        ({"a": "\x01\u2028\U0001f600 é"}, {"a": "\x01\u2028\U0001f600 é"}),
        ({"n": 2**63, "f": 1.5e3, "no": None}, {"n": 2**63, "f": 1.5e3, "no": None}),
        ([], []),
        ("", ""),
        (NESTED, NESTED),
    ],
)
def test_an_input_is_json_whatever_is_in_it(store: Store, url: str, value: Any, shown: Any) -> None:
    store.write(to_rows([waiting("c", FULL, raw_input=value, raw_output=value)], store.codec))
    (row,) = read(url, "SELECT input, output FROM callsheet_calls")
    assert [json.loads(text) for text in row.values()] == [shown, shown]


def test_an_input_that_is_too_long_for_a_column_says_so_and_is_whole_in_the_call(
    store: Store, url: str
) -> None:
    value = {"text": '"é\0' * PLAIN}
    store.write(to_rows([waiting("c", FULL, raw_input=value)], store.codec))
    (row,) = read(url, "SELECT input FROM callsheet_calls")
    text = json.loads(row["input"])
    assert text.startswith('{"text":"')
    assert re.search(r"… \(\d+ characters\)$", text)
    assert len(text) < PLAIN + 50
    (call,) = store.calls(Query())
    assert call.record.report.raw_input == value
