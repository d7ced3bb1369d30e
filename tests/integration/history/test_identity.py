"""Every call gets its row, whatever ids agents use; what is written again is the same row."""

from __future__ import annotations

import gzip
import lzma
import random
import re
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from callsheet import Peer, ToolCallReport
from callsheet.history import (
    History,
    Query,
    Replay,
    Store,
    StoredCall,
    StoredMessage,
    StoreUnavailable,
    sqlite,
    store_at,
)
from callsheet.history.filters import parse_filter
from callsheet.history.rows import Origin
from callsheet.report.content import TerminalContent
from callsheet.report.terminal import CallRecord, TerminalRecord
from callsheet.tap.context import Context, TapSettings
from callsheet.tap.history_sink import HistorySink
from callsheet.tap.pipeline import Pipeline
from callsheet.tap.stats import Account
from callsheet.testing import fold
from tests.support import TESTS, engines
from tests.support.engines import database, engine, postgres, store, url
from tests.support.made_recordings import SESSION, announced, completed, opening
from tests.support.postgres import Server
from tests.support.sizes import sized
from tests.support.stores import (
    NOW,
    call,
    check_whole,
    cli_in_process,
    keep,
    raw,
    store_in,
    store_of,
)
from tests.support.tap_harness import line_of

__all__ = ["database", "engine", "postgres", "store", "url"]

OLD = TESTS / "data" / "history-0.1.0.sqlite.gz"
BEFORE = TESTS / "data" / "history-3.sqlite.xz"
BEFORE_REPLAYED = TESTS / "data" / "history-3.replay.jsonl.xz"
BEFORE_TABLES = TESTS / "data" / "history-5.postgres.sql"
OLD_TABLES = TESTS / "data" / "history-0.1.0.postgres.sql"
IDS = ("call_0", "call_1", "0", "call_0~2", "a b", "ü")


def record(key: str, title: str, status: str = "completed") -> CallRecord:
    return CallRecord(ToolCallReport(key, "bash", title, "execute", status))


def told(history: History, position: int, dice: random.Random, name: str) -> list[str]:
    """Say and do some things in a run of their own, with ids that other runs have, too. Return what it was."""
    log = history.session("s", position=position)
    done: list[str] = []
    for number in range(dice.randrange(1, 6)):
        title = f"{name} {number}"
        if dice.random() < 0.4:
            text = [{"type": "text", "text": title}]
            log.say("user", f"message-{number % 2}", text)
        else:
            key = dice.choice(IDS)
            if dice.random() < 0.6:
                log.send(deque([record(key, title, "in_progress")]))
            log.send(deque([record(key, title)]))
        done.append(title)
    return done


def title_of(entry: StoredCall | StoredMessage) -> str:
    if isinstance(entry, StoredCall):
        return entry.head.title
    return entry.blocks[0]["text"]


@pytest.mark.parametrize("seed", range(sized(60, 2)))
async def test_every_call_of_every_run_is_kept_once_and_in_order(url: str, seed: int) -> None:
    dice = random.Random(seed)
    expected: list[str] = []
    for number in range(dice.randrange(2, 6)):
        async with History(url) as history:
            end = await history.ask(lambda store: store.last_position("s"))
            expected += told(history, end + 1, dice, f"run {number}")
            if dice.random() < 0.5:
                await history.flush()
    reader = store_at(url)
    reader.open(write=False)
    entries = reader.timeline("s", limit=1000)
    assert [title_of(entry) for entry in entries] == expected
    calls = [entry for entry in entries if isinstance(entry, StoredCall)]
    ids = [entry.head.call_id for entry in calls]
    assert len(set(ids)) == len(ids)
    assert [entry.record.report.tool_call_id for entry in calls] == ids
    replay = Replay("s", Peer(version=1))
    lines = [line for entry in calls for line in replay.lines(entry)]
    assert [report.title for report in fold(lines)] == [entry.head.title for entry in calls]
    reader.close()


@pytest.mark.parametrize("version", [1, 2])
async def test_messages_of_two_runs_are_two_when_they_are_replayed(url: str, version: int) -> None:
    for text in ("first", "second"):
        async with History(url) as history:
            end = await history.ask(lambda store: store.last_position("s"))
            history.session("s", position=end + 1).say(
                "user", "message-1", [{"type": "text", "text": text}]
            )
    reader = store_at(url)
    reader.open(write=False)
    replay = Replay("s", Peer(version=version))  # type: ignore[arg-type]
    said = b"".join(line for one in reader.timeline("s") for line in replay.lines(one))
    reader.close()
    assert said.count(b'"message-1"') == said.count(b'"message-1~2"') == 1
    assert said.index(b"first") < said.index(b"second")


async def test_a_call_is_one_row_however_often_it_is_written(store: Store) -> None:
    runs = [engines.call(0), engines.call(0), engines.call(0)]
    items = [replace(item, key=f"run{n}") for n, item in enumerate(runs)]
    made = engines.batch(items, store.codec)
    for _ in range(3):
        store.write(engines.batch(items, store.codec))
    store.write(made)  # with the ids that the agents told
    found = engines.ids(store)
    assert sorted(found) == ["call_s1_0", "call_s1_0~2", "call_s1_0~3"]


async def test_two_processes_at_once_share_no_row(url: str) -> None:
    one, other = History(url), History(url)
    logs = [one.session("s"), other.session("s")]
    for number in range(20):
        for name, log in zip("ab", logs, strict=True):
            log.send(deque([record("call_0", f"{name} {number}", "in_progress")]))
            log.send(deque([record("call_0", f"{name} {number}")]))
        if number % 5 == 0:
            assert await one.flush()
            assert await other.flush()
    await one.close()
    await other.close()
    reader = store_at(url)
    reader.open(write=False)
    heads = reader.heads(Query(limit=100))
    assert len({head.title for head in heads}) == len({head.call_id for head in heads}) == 40
    reader.close()


async def test_what_has_ended_and_is_replayed_is_no_other_call(tmp_path: Path) -> None:
    async with History(f"sqlite:///{tmp_path}/h.sqlite") as history:
        log = history.session("s")
        meta = {"callsheet": {"startedAt": "2026-01-01T00:00:00.000Z"}}
        for title in ("one", "one, late"):
            report = ToolCallReport("c", "bash", title, "execute", "completed", meta=meta)
            log.send(deque([CallRecord(report)]))
        heads = await history.ask(lambda store: store.heads(Query()))
        assert [head.title for head in heads] == ["one"]


async def test_terminals_of_two_runs_are_two_when_they_are_replayed(url: str) -> None:
    for number in range(2):
        async with History(url) as history:
            terminal = TerminalRecord(
                "term_0", "ls", "/", None, 3, 0, b"", f"run {number}".encode()
            )
            content = (TerminalContent("term_0"),)
            report = ToolCallReport("c", "bash", "ls", "execute", "completed", content)
            log = history.session("s", position=number)
            log.send(deque([CallRecord(report, (terminal,))]))
    reader = store_at(url)
    reader.open(write=False)
    calls = [one for one in reader.timeline("s") if isinstance(one, StoredCall)]
    reader.close()
    assert [one.record.terminals[0].terminal_id for one in calls] == ["term_0", "term_0~2"]
    shown = [one.record.report.content[0] for one in calls]
    assert shown == [TerminalContent("term_0"), TerminalContent("term_0~2")]


async def test_an_agent_that_uses_its_ids_again_in_its_next_process_loses_nothing(url: str) -> None:
    """Also the id of its session, and without saying that it goes on with one."""
    for number in range(3):
        keeping = HistorySink(lambda: History(url), "agent", print)
        tap = Context(TapSettings(locale="en"), Account(), store=keeping.call, spill=False)
        pipeline = Pipeline(tap, print, keeping)
        chunk = {
            "jsonrpc": "2.0", "method": "session/update",
            "params": {"sessionId": SESSION, "update": {
                "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": f"turn {number}"},
            }},
        }  # fmt: skip
        for one in (
            *opening(),
            chunk,
            announced("call_0", title=f"Work {number}"),
            completed("call_0"),
        ):
            is_clients = "method" in one and "id" in one
            (pipeline.from_client if is_clients else pipeline.from_agent)(
                line_of(one), float(number)
            )
        keeping.close()
    reader = store_at(url)
    reader.open(write=False)
    entries = reader.timeline(SESSION, limit=100)
    reader.close()
    calls = [one for one in entries if isinstance(one, StoredCall)]
    assert [one.head.title for one in calls] == [f"Work {n}" for n in range(3)]
    said = [one.blocks[0]["text"] for one in entries if getattr(one, "kind", "") == "agent"]
    assert said == ["turn 0", "turn 1", "turn 2"]
    assert len({one.head.call_id for one in calls}) == 3


def test_a_call_is_shown_by_the_id_that_it_has_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with store_in(tmp_path) as made:
        for number in range(2):
            item = call("call_0", title=f"Work {number}", position=number, at=NOW + number)
            keep(made, replace(item, key=f"run{number}"))
    cli = cli_in_process(capsys, monkeypatch, f"sqlite:///{tmp_path}/history.sqlite")
    assert "Work 0" in cli("show", "call_0").out
    assert "Work 1" in cli("show", "call_0~2").out
    assert [line.split("\t")[0] for line in cli("history").out.splitlines()] == [
        "call_0~2",
        "call_0",
    ]


def test_a_call_that_the_index_has_passed_by_and_a_crash_has_closed_gets_its_true_end(
    tmp_path: Path,
) -> None:
    with store_in(tmp_path) as made:
        keep(made, call("a", status="in_progress"))
        made.index()
        raw(made).execute("UPDATE calls SET writer = 'gone'")
        assert made.recover() == 1
        keep(made, call("a", text="the true end"))
        assert [head.status for head in made.heads(Query())] == ["completed"]
        assert len(made.heads(Query(search="true end"))) == 1
        check_whole(made)


# What version 0.1.0 has written


def test_a_history_of_0_1_0_is_brought_up_to_date_without_loss(tmp_path: Path) -> None:
    (tmp_path / "history.sqlite").write_bytes(gzip.decompress(OLD.read_bytes()))
    with store_in(tmp_path) as made:
        check_whole(made)
        check_old(made.timeline("s"), made.timeline("other"))
        assert len(made.heads(Query(search="not indexed"))) == 1
        keep(made, call("call_0", title="a state of what has ended"))
        assert made.heads(Query(session_id="s", call_id="call_0"))[0].title == "bash call_0"
        made.forget("s")
        check_whole(made)
        assert made.timeline("s") == []
        assert len(made.timeline("other")) == 1


def test_a_history_of_the_version_before_is_replayed_byte_for_byte(tmp_path: Path) -> None:
    """It has 200 calls with texts, diffs, terminals and spill files, and what was said around them."""
    (tmp_path / "history.sqlite").write_bytes(lzma.decompress(BEFORE.read_bytes()))
    with store_in(tmp_path) as made:
        found = b"".join(
            line
            for peer in (Peer(), Peer(terminals="meta"), Peer(version=2))
            for session in sorted(one.session_id for one in made.sessions())
            for line in replayed(made, session, peer)
        )
        assert found == lzma.decompress(BEFORE_REPLAYED.read_bytes())
        assert len(made.heads(Query(search="connection refused", limit=500))) == 25
        keep(made, call("more", session="sess_0000", text="connection refused"))
        assert len(made.heads(Query(search="connection refused", limit=500))) == 26
        check_whole(made)


def replayed(store: Store, session: str, peer: Peer) -> Iterator[bytes]:
    replay = Replay(session, peer)
    for entry in store.timeline(session, limit=1000):
        yield from replay.lines(entry)


def test_a_migration_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "history.sqlite"
    file.write_bytes(gzip.decompress(OLD.read_bytes()))

    def copies(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "copy_rows", copies)
        with pytest.raises(StoreUnavailable, match="No space"):
            store_of(file).open()
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert db.execute("SELECT count(*) FROM blobs").fetchone() != (0,)
    with store_in(tmp_path) as made:
        check_old(made.timeline("s"), made.timeline("other"))
        names = [name for (name,) in raw(made).execute("SELECT name FROM sqlite_master")]
        assert not [name for name in names if name.startswith("old_") or "blob" in name]


def check_old(entries: list[Any], others: list[Any]) -> None:
    """Hold that all is there that the fixture was made with: see `test_a_server_of_0_1_0…` for what that is."""
    assert [getattr(one, "message_id", None) or one.head.call_id for one in entries] == [
        "msg_1", "call_0", "call_1", "open", "msg_2", "msg_2", "late",
    ]  # fmt: skip
    statuses = [one.head.status for one in entries if isinstance(one, StoredCall)]
    assert statuses == ["completed", "failed", "failed", "completed"]
    assert [one.head.reason for one in entries if isinstance(one, StoredCall)][1:3] == [
        "exit_code",
        "abandoned",
    ]
    assert entries[1].record.report.content[0].text == "line\n" * 3000
    assert [one.blocks[0]["text"] for one in entries if isinstance(one, StoredMessage)] == [
        "What does the note say?", "long " * 4000, "more",
    ]  # fmt: skip
    assert [one.record.report.content[0].text for one in others] == ["line\n" * 3000]


async def test_a_server_of_0_1_0_is_brought_up_to_date_without_loss(
    postgres: Server, database: str, tmp_path: Path
) -> None:
    """Its tables are made as they were, and filled with what a file of 0.1.0 has."""
    import asyncpg

    (tmp_path / "history.sqlite").write_bytes(gzip.decompress(OLD.read_bytes()))
    name = postgres.url(database)
    db = await asyncpg.connect(name)
    await db.execute(OLD_TABLES.read_text())
    await copy_old(tmp_path / "history.sqlite", db)
    await db.close()
    there = store_at(name)
    there.open()
    check_old(list(there.timeline("s")), list(there.timeline("other")))
    there.forget("s")
    assert len(there.timeline("other")) == 1
    assert postgres.do(
        "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'callsheet%'", database
    ) == [("callsheet",)]
    parts = "SELECT relname FROM pg_class WHERE relnamespace = 'callsheet'::regnamespace AND relispartition"
    tables = [name for (name,) in postgres.do(f"{parts} AND relkind = 'r'", database)]
    assert all(re.fullmatch(r"calls_(w\d+|other)", name) for name in tables), tables
    there.close()


async def test_a_server_of_the_version_before_is_brought_up_to_date_in_place(
    postgres: Server, database: str, tmp_path: Path
) -> None:
    """Calls move into partitions, and what was known of their agent is said of each."""
    import asyncpg

    (tmp_path / "history.sqlite").write_bytes(lzma.decompress(BEFORE.read_bytes()))
    name = postgres.url(database)
    db = await asyncpg.connect(name)
    await db.execute(BEFORE_TABLES.read_text())
    with closing(sqlite3.connect(tmp_path / "history.sqlite")) as old:
        for table in ("sessions", "messages", "calls"):
            found = old.execute(f"SELECT * FROM {table}")
            columns = ", ".join(one[0] for one in found.description)
            rows = found.fetchall()
            places = ", ".join(f"${n + 1}" for n in range(len(rows[0])))
            sql = f"INSERT INTO callsheet.{table} ({columns}) VALUES ({places})"
            await db.executemany(sql, rows)
    agent = """UPDATE callsheet.sessions SET info = '{"agent": "Old One 1.2", "source": "tap"}'"""
    await db.execute(f"{agent} WHERE session_id = 'sess_0000'")
    await db.close()
    with store_in(tmp_path) as file, closing(store_at(name)) as there:
        there.open()
        for session in sorted(one.session_id for one in file.sessions()):
            assert list(replayed(there, session, Peer())) == list(replayed(file, session, Peer()))
        assert len(there.heads(Query(search="connection refused", limit=500))) == 25
        terms, _ = parse_filter('agent:"old one" source:tap', NOW)
        found = there.window(Query(terms=terms), 0, 1000)
        assert {head.session_id for head in found.heads} == {"sess_0000"}
        session = there.session("sess_0000")
        assert session is not None
        assert session.origin == Origin(agent="Old One", agent_version="1.2", source="tap")
        others = there.session("sess_0001")
        assert others is not None
        assert others.origin == Origin()


async def copy_old(file: Path, db: Any) -> None:
    import sqlite3

    old = sqlite3.connect(file)
    for table in ("sessions", "messages", "blobs", "blob_uses", "dictionaries", "calls"):
        rows = [tuple(row) for row in old.execute(f"SELECT * FROM {table}").fetchall()]
        rows = [row[1:] for row in rows] if table == "calls" else rows  # without seq
        places = ", ".join(f"${n + 1}" for n in range(len(rows[0])))
        await db.executemany(f"INSERT INTO callsheet.{table} VALUES ({places})", rows)
    old.close()
