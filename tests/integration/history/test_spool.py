"""What a store can't take is on the disk of this machine before a turn is answered, and in the store later: once."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from callsheet.history import History, Query, spool, store_at
from callsheet.history import sqlite as opening
from callsheet.history.rows import MessageRow, SessionRow, WaitingRow
from tests.support.sizes import sized
from tests.support.stores import (
    batch,
    call,
    check_whole,
    cli_in_process,
    count,
    message,
    store_in,
)

HELLO = [{"type": "text", "text": "hello"}]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def locks_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "BUSY", 0.1)


@contextmanager
def locked(file: Path) -> Iterator[None]:
    lock = sqlite3.connect(file, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        lock.close()


def files() -> list[Path]:
    place = spool.directory()
    return sorted(file for file in place.glob("*") if not file.name.endswith("-journal"))


def left(url: str, *batches: list[WaitingRow]) -> Path:
    """Leave a spool, as a process does that was killed."""
    made = spool.Spool(store_at(url).url)
    for one in batches:
        made.append(one)
    made.close()
    assert made.file is not None
    return made.file


async def said_in(history: History) -> list[str]:
    entries = await history.ask(lambda store: store.timeline("sess_1"))
    return [entry.message_id for entry in entries]  # type: ignore[union-attr]


@pytest.mark.usefixtures("locks_are_not_waited_for")
async def test_what_waits_at_the_end_is_written_by_the_next_process(tmp_path: Path) -> None:
    file, said = tmp_path / "h.sqlite", list[str]()
    url = f"sqlite:///{file}"
    async with History(url, notify=said.append) as history:
        history.session("sess_1").say("user", "msg_0", HELLO)
        assert await history.flush()
        with locked(file):
            history.session("sess_1", position=1).say("user", "msg_1", HELLO)
            assert await history.flush()
            assert len(files()) == 1
            await history.close()
    assert "1 entry for" in said[-1]
    async with History(url, notify=said.append) as history:
        assert await said_in(history) == ["msg_0", "msg_1"]
    assert files() == []


@pytest.mark.usefixtures("locks_are_not_waited_for")
async def test_a_process_writes_what_it_has_spooled_itself_in_order(tmp_path: Path) -> None:
    file = tmp_path / "h.sqlite"
    async with History(f"sqlite:///{file}", notify=lambda _: None) as history:
        log = history.session("sess_1")
        log.say("user", "msg_0", HELLO)
        assert await history.flush()
        with locked(file):
            for number in range(1, 6):
                log.say("user", f"msg_{number}", HELLO)
                log.plan("plan", [{"content": f"step {number}"}])
                assert await history.flush()
            assert history.health.spooled == 10
        async with asyncio.timeout(60):
            while history.health.spooled:
                await asyncio.sleep(0.02)
        log.say("user", "msg_6", HELLO)
        entries = await history.ask(lambda store: store.timeline("sess_1"))
        assert [one.message_id for one in entries if one.kind != "plan"] == [  # type: ignore[union-attr]
            f"msg_{n}" for n in range(7)
        ]
        (plan,) = [one for one in entries if one.kind == "plan"]  # type: ignore[union-attr]
        assert plan.blocks == [{"content": "step 5"}]  # type: ignore[union-attr]
    assert files() == []


@pytest.mark.usefixtures("locks_are_not_waited_for")
async def test_each_store_gets_its_own(tmp_path: Path) -> None:
    one, other = (f"sqlite:///{tmp_path}/{name}.sqlite" for name in ("one", "other"))
    left(one, batch(store_at(one).codec, message("msg_1", "hello")))
    async with History(other) as history:
        assert await history.ask(lambda store: store.timeline("s")) == []
    assert len(files()) == 1
    async with History(one) as history:
        assert len(await history.ask(lambda store: store.timeline("s"))) == 1
    assert files() == []


async def test_a_store_that_takes_longer_than_there_is_time_is_not_waited_for(
    tmp_path: Path,
) -> None:
    file, said = tmp_path / "h.sqlite", list[str]()
    url = f"sqlite:///{file}"
    history = History(url, notify=said.append)
    history.session("sess_1").say("user", "msg_0", HELLO)
    assert await history.flush()
    with locked(file):
        log = history.session("sess_1", position=1)
        log.say("user", "msg_1", HELLO)
        began = time.monotonic()
        assert await history.flush()  # the thread waits for the lock now
        assert time.monotonic() - began < opening.BUSY
        log.say("user", "msg_2", HELLO)
        await history.close(0.1)
    assert said[0].startswith("2 entries for sqlite:"), said
    async with asyncio.timeout(
        60
    ):  # until the first one's thread is gone: here, its process goes on
        while not spool.is_waiting(url):
            await asyncio.sleep(0.05)
    async with History(url, notify=said.append) as history:
        assert await said_in(history) == ["msg_0", "msg_1", "msg_2"]
        (session,) = await history.ask(lambda store: store.sessions())
        assert session.session_id == "sess_1"


async def test_one_that_is_damaged_is_reported_and_holds_up_nothing(tmp_path: Path) -> None:
    url, said = f"sqlite:///{tmp_path}/h.sqlite", list[str]()
    codec = store_at(url).codec
    file = left(url, batch(codec, message("msg_0", "hello")))
    left(url, batch(codec, message("msg_1", "hello", position=1)))
    file.write_bytes(b"noise" * 2000)
    async with History(url, notify=said.append) as history:
        found = await history.ask(lambda store: store.timeline("s"))
    assert [one.message_id for one in found] == ["msg_1"]  # type: ignore[union-attr]
    assert f"What waits in {file} can't be read" in said[0]
    assert files() == [file.with_suffix(".damaged")]


async def test_one_that_can_not_be_kept_holds_up_nothing(tmp_path: Path) -> None:
    url, said = f"sqlite:///{tmp_path}/h.sqlite", list[str]()
    bad = MessageRow(
        session_id="s", message_id="m", part=0, position=2**63, kind="user", at=0.0, size=0, payload=b"",
        key="m 0",
    )  # fmt: skip
    good = batch(store_at(url).codec, message("msg_1", "hello"), message("msg_2", "hello"))
    left(url, [good[0], (SessionRow(session_id="s"), bad), good[1]])
    async with History(url, notify=said.append) as history:
        assert len(await history.ask(lambda store: store.timeline("s"))) == 2
    assert any("can't be kept" in text for text in said)
    assert files() == []


@pytest.mark.usefixtures("locks_are_not_waited_for")
async def test_what_no_file_takes_holds_up_nothing_that_is_spooled(tmp_path: Path) -> None:
    file, said = tmp_path / "h.sqlite", list[str]()
    async with History(f"sqlite:///{file}", notify=said.append) as history:
        history.session("sess_1").say("user", "msg_0", HELLO)
        assert await history.flush()
        with locked(file):
            history.session("sess_1", position=1 << 70).say("user", "msg_1", HELLO)
            history.session("sess_1", position=1).say("user", "msg_2", HELLO)
            assert await history.flush()
        async with asyncio.timeout(60):
            while await said_in(history) != ["msg_0", "msg_2"]:
                await asyncio.sleep(0.05)
        assert history.health.lost == 1
    assert len([text for text in said if "can't be kept" in text]) == 1


async def test_what_a_living_process_has_spooled_is_left_to_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/h.sqlite"
    mine = spool.Spool(store_at(url).url)
    mine.append(batch(store_at(url).codec, message("msg_1", "hello")))
    async with History(url) as history:
        assert await history.ask(lambda store: store.timeline("s")) == []
    assert not spool.is_waiting(store_at(url).url)
    mine.close()
    assert spool.is_waiting(store_at(url).url)


async def test_calls_that_were_open_are_closed_as_abandoned(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/h.sqlite"
    codec = store_at(url).codec
    states = [call("c1", status="in_progress"), call("c2", status="in_progress", position=1)]
    left(url, batch(codec, *states), batch(codec, call("c1")))
    async with History(url, notify=lambda _: None) as history:
        found = await history.ask(lambda store: store.heads(Query()))
    assert {(head.call_id, head.status, head.reason) for head in found} == {
        ("c1", "completed", None),
        ("c2", "failed", "abandoned"),
    }


TAKE_OVER = """
import asyncio, sys
from callsheet.history import History
async def main():
    async with History(sys.argv[1], notify=lambda _: None) as history:
        print("begun", flush=True)
        await history.ask(lambda store: store.last_position("s"))
asyncio.run(main())
"""


ROUNDS = sized(40, 20)


async def test_whoever_is_killed_in_the_midst_of_it_leaves_it_to_the_next(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/history.sqlite"
    codec, dice = store_at(url).codec, random.Random(1)
    many = [
        batch(codec, *(call(f"c{n}-{m}", position=n) for m in range(20))) for n in range(ROUNDS)
    ]
    left(url, *many)
    for _ in range(sized(8, 2)):
        process = subprocess.Popen(
            [sys.executable, "-c", TAKE_OVER, url], stdout=subprocess.PIPE, env=dict(os.environ)
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(dice.random() * 0.1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    others = [
        subprocess.Popen([sys.executable, "-c", TAKE_OVER, url], stdout=subprocess.DEVNULL)
        for _ in range(2)
    ]
    assert [one.wait(60) for one in others] == [0, 0]
    with store_in(tmp_path) as store:
        assert count(store, "calls") == 20 * ROUNDS
        check_whole(store)
    assert files() == []


def test_who_reads_finds_what_a_process_has_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/history.sqlite"
    cli = cli_in_process(capsys, monkeypatch, url)
    left(url, batch(store_at(url).codec, call("c1", title="Work")))
    done = cli("history")
    assert "Work" in done.out
    assert "Wrote 1 entry that earlier processes could not write." in done.err
    assert files() == []


async def test_it_is_for_its_owner_alone() -> None:
    file = left("sqlite:///x", batch(store_at("sqlite:///x").codec, call("c1")))
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_batches_wait_in_order_until_they_are_removed(data: Path) -> None:
    made, codec = spool.Spool("sqlite:///y"), store_at("sqlite:///y").codec
    for title in ("first", "second"):
        made.append(batch(codec, call("c1", title=title), message("m", "hello")))
    assert made.count == 4
    for title in ("first", "second"):
        assert len(made.first(1)) == 1
        found = made.first(10)
        assert [row.title for _, row in found if hasattr(row, "title")] == [title]
        made.remove(found)
    assert (made.count, made.first(10), files()) == (0, [], [])
    made.append(batch(codec, call("c2")))
    assert len(files()) == 1
    made.close()


@pytest.mark.parametrize("cut", [1, 100, 200])
async def test_a_batch_that_was_not_written_to_its_end_is_reported_once(
    tmp_path: Path, cut: int
) -> None:
    url, said = f"sqlite:///{tmp_path}/h.sqlite", list[str]()
    codec = store_at(url).codec
    whole = batch(codec, message("msg_0", "hello"))
    file = left(url, whole, batch(codec, message("msg_1", "hello", position=1)))
    os.truncate(file, file.stat().st_size - cut)
    for _ in range(2):
        async with History(url, notify=said.append) as history:
            found = await history.ask(lambda store: store.timeline("s"))
        assert [one.message_id for one in found] == ["msg_0"]  # type: ignore[union-attr]
    assert [text for text in said if "can't be read" in text] == said[:1]
    assert files() == [file.with_suffix(".damaged")]


def test_a_spool_that_is_full_takes_nothing_of_a_batch(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "MOST", 50_000)
    made, codec = spool.Spool("sqlite:///y"), store_at("sqlite:///y").codec
    made.append(batch(codec, call("c0")))
    many = [call(f"c{n}", text=random.Random(n).randbytes(500).hex()) for n in range(1, 200)]
    with pytest.raises(OSError, match="full"):
        made.append(batch(codec, *many))
    assert (made.count, len(made.first(1000))) == (1, 1)
    made.close()
