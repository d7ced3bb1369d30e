"""Damaged files, at random: nobody is stuck, nobody shows a traceback, and work goes on in a file that is whole.

12 damages by default, 240 with CALLSHEET_FULL=1.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
from collections import deque
from contextlib import closing, suppress
from pathlib import Path

import pytest

from callsheet.history import History, HistoryError, Query
from callsheet.report.terminal import CallRecord
from tests.support.sizes import sized
from tests.support.stores import cli_in_process, report

PAGE = 4096
SQL = (
    "DROP TABLE calls",
    "DROP TABLE unindexed", "DROP TABLE messages", "DROP TABLE sessions", "DROP TABLE calls_text",
    "DROP TRIGGER calls_added",
    "ALTER TABLE calls RENAME COLUMN title TO words", "ALTER TABLE messages RENAME COLUMN payload TO load",
    "UPDATE calls SET at = 'soon'", "UPDATE calls SET at = 1e300", "UPDATE calls SET payload = 1",
    "UPDATE calls SET status = 'odd', kind = 7", "UPDATE calls SET position = 'first'",
    "UPDATE calls SET title = x'00', name = x'ff'", "UPDATE calls SET size = 'a', duration_ms = 'b'",
    "UPDATE sessions SET info = '{'", "UPDATE sessions SET title = x'ff00ff'",
    "UPDATE sessions SET updated_at = 'x'",
    "UPDATE calls SET writer = 7", "UPDATE messages SET position = 'x', kind = 'none'",
    "PRAGMA user_version = 0", "PRAGMA application_id = 0", "PRAGMA user_version = 88888888",
)  # fmt: skip
READING = (
    ["history"], ["history", "--format", "json"], ["show", "last"], ["replay", "old"],
    ["replay", "old", "--format", "pretty"], ["history", "stats"], ["history", "export"],
    ["history", "sessions"], ["history", "--search", "read"],
)  # fmt: skip
CHANGING = (
    ["history", "prune", "--keep-calls", "20", "--yes"], ["history", "vacuum"],
    ["history", "forget", "old", "--yes"],
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with calls, texts of all sizes, messages and an index."""
    folder = tmp_path_factory.mktemp("whole")

    async def fill() -> None:
        async with History(f"sqlite:///{folder}/history.sqlite") as history:
            log = history.session("old", cwd="/code")
            log.say("user", "m", [{"type": "text", "text": "hello " * 3000}])
            for number in range(120):
                text = random.Random(number).randbytes(200 + number % 7 * 1500).hex()
                log.send(deque([CallRecord(report(f"old{number}", text=text))]))
            await history.flush()
            await history.ask(lambda store: store.index())

    asyncio.run(fill())
    return folder / "history.sqlite"


def damage(file: Path, dice: random.Random) -> str:
    """Damage a file in one of many ways. Return which."""
    data = bytearray(file.read_bytes())
    size, page = len(data), dice.randrange(len(data) // PAGE) * PAGE
    kind = dice.choice(
        ["bytes", "few", "cut", "zeros", "head", "foreign", "tables", "wal", "page", "swapped"]
    )
    if kind in ("bytes", "few", "head"):
        for _ in range(dice.randrange(1, 2000 if kind == "bytes" else 8)):
            data[dice.randrange(100 if kind == "head" else size)] = dice.randrange(256)
    elif kind == "cut":
        del data[dice.randrange(size) :]
    elif kind == "zeros":
        end = min(size, page + PAGE * dice.randrange(1, 9))
        data[page:end] = bytes(end - page)
    elif kind == "foreign":
        some = [b"dear diary\n" * 500, dice.randbytes(20_000), b"", bytes(9000), b"PK\3\4" * 300]
        data = bytearray(dice.choice([*some, b"SQLite format 3\0" + dice.randbytes(5000)]))
    elif kind == "page":
        data[page : page + PAGE] = dice.randbytes(PAGE)
    elif kind == "swapped":
        other = dice.randrange(1, size // PAGE) * PAGE
        one, two = data[page : page + PAGE], data[other : other + PAGE]
        data[page : page + PAGE], data[other : other + PAGE] = two, one
    elif kind == "tables":
        sql = dice.choice(SQL)
        with closing(sqlite3.connect(file, isolation_level=None)) as db, suppress(sqlite3.Error):
            db.execute(sql)
        return f"{kind}: {sql}"
    else:
        wal = file.with_name(file.name + "-wal")
        with closing(sqlite3.connect(file, isolation_level=None)) as db:
            db.execute("UPDATE calls SET title = 'w' || title WHERE seq % 3 = 0")
            data, log = bytearray(file.read_bytes()), bytearray(wal.read_bytes())
        for _ in range(dice.randrange(1, 40)):
            log[dice.randrange(len(log))] = dice.randrange(256)
        wal.write_bytes(log)
    file.write_bytes(data)
    return kind


async def write(url: str) -> tuple[list[str], list[str]]:
    """Write to a history, ask it, and let it tidy up. Return the calls that it has, and what it has said."""
    said: list[str] = []
    async with asyncio.timeout(60), History(url, notify=said.append) as history:
        log = history.session("new", cwd="/code")
        for number in range(30):
            log.send(deque([CallRecord(report(f"new{number:02}", text="y" * number * 400))]))
            if number % 10 == 0:
                await history.flush()
        while not await history.flush() or history.health.problem or history.health.spooled:
            await asyncio.sleep(0.02)
        with suppress(HistoryError):  # a file that is found to be damaged by this is set aside
            while await history.ask(lambda store: store.index()):
                pass
        log.send(deque([CallRecord(report("new30"))]))
        found = await history.ask(lambda store: store.heads(Query(session_id="new", limit=100)))
    return sorted(head.call_id for head in found), said


@pytest.mark.parametrize("seed", range(sized(240, 8)))
def test_nobody_is_stuck_or_shows_a_traceback(
    seed: int, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    shutil.copy(whole, one)
    kind = damage(one / "history.sqlite", random.Random(seed))
    shutil.copytree(one, other)
    cli = cli_in_process(capsys, monkeypatch, f"sqlite:///{other}/history.sqlite")
    for command in (*READING, *CHANGING):
        done = cli(*command)
        assert done.code in (0, 1), (kind, command)
        assert done.code == 0 or "callsheet: " in done.err, (kind, command, done.err)
    kept, said = asyncio.run(write(f"sqlite:///{one}/history.sqlite"))
    was_set_aside = list(one.glob("*.damaged-*"))
    assert kept == [f"new{n:02}" for n in range(31)] or (was_set_aside and "new30" in kept), kind
    assert bool(was_set_aside) == any("set aside as" in text for text in said), (kind, said)
    cli = cli_in_process(capsys, monkeypatch, f"sqlite:///{one}/history.sqlite")
    for command in READING:
        assert cli(*command).code in (0, 1), (kind, command)
