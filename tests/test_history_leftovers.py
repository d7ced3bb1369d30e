"""What could not be written before a process ended is written by the next one."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from callsheet.history import History, Query, leftovers
from callsheet.history.rows import MessageRow
from callsheet.history.sqlite import file as opening

HELLO = [{"type": "text", "text": "hello"}]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def locks_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "BUSY", 0.1)


def locked(file: Path) -> sqlite3.Connection:
    lock = sqlite3.connect(file, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    return lock


@pytest.mark.usefixtures("locks_are_not_waited_for")
async def test_what_waits_at_the_end_is_written_by_the_next_process(tmp_path: Path):
    file, said = tmp_path / "h.sqlite", list[str]()
    url = f"sqlite:///{file}"
    async with History(url, tell=said.append) as history:
        history.session("sess_1").say("user", "msg_0", HELLO)
        assert await history.flush()
        lock = locked(file)
        history.session("sess_1", position=1).say("user", "msg_1", HELLO)
        assert not await history.flush()
    lock.close()
    assert "waits in" in said[-1]
    async with History(url, tell=said.append) as history:
        kept = await history.ask(lambda store: store.timeline("sess_1"))
        assert [entry.message_id for entry in kept] == ["msg_0", "msg_1"]  # type: ignore[union-attr]
    assert list(leftovers.directory().iterdir()) == []


@pytest.mark.usefixtures("locks_are_not_waited_for")
async def test_each_store_gets_its_own(tmp_path: Path):
    one, other = (f"sqlite:///{tmp_path}/{name}.sqlite" for name in ("one", "other"))
    async with History(one, tell=lambda _: None) as history:
        history.session("sess_1").say("user", "msg_0", HELLO)
        await history.flush()
        lock = locked(tmp_path / "one.sqlite")
        history.session("sess_1", position=1).say("user", "msg_1", HELLO)
        await history.flush()
    async with History(other) as history:
        assert await history.ask(lambda store: store.timeline("sess_1")) == []
    assert len(list(leftovers.directory().iterdir())) == 1
    lock.close()


@pytest.mark.usefixtures("locks_are_not_waited_for")
async def test_files_of_one_name_in_two_directories_are_two_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        async with History("sqlite:///h.sqlite", tell=lambda _: None) as history:
            if name == "other":
                assert await history.ask(lambda store: store.timeline("sess_1")) == []
                break
            history.session("sess_1").say("user", "msg_0", HELLO)
            await history.flush()
            lock = locked(Path("h.sqlite"))
            history.session("sess_1", position=1).say("user", "msg_1", HELLO)
            await history.flush()
    assert len(list(leftovers.directory().iterdir())) == 1
    lock.close()


async def test_what_takes_longer_than_there_is_time_is_set_by(tmp_path: Path):
    file, said = tmp_path / "h.sqlite", list[str]()
    url = f"sqlite:///{file}"
    history = History(url, tell=said.append)
    history.session("sess_1").say("user", "msg_0", HELLO)
    assert await history.flush()
    lock = locked(file)
    log = history.session("sess_1", position=1)
    log.say("user", "msg_1", HELLO)
    assert not await history.flush(0.1)  # the thread waits for the lock now
    log.say("user", "msg_2", HELLO)
    await history.close(0.1)
    assert said[0].startswith("2 entries for sqlite:"), said
    lock.close()
    async with History(url, tell=said.append) as history:
        kept = await history.ask(lambda store: store.timeline("sess_1"))
        assert [entry.message_id for entry in kept] == ["msg_0", "msg_1", "msg_2"]  # type: ignore[union-attr]
        (session,) = await history.ask(lambda store: store.sessions())
        assert session.session_id == "sess_1"


async def test_what_is_not_whole_is_left_alone(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/h.sqlite"
    file = leftovers.set_by(url, leftovers.Batch())
    file.write_bytes(b"\x93nonsense")
    async with History(url) as history:
        assert await history.ask(lambda store: store.heads(Query())) == []
    assert [one.read_bytes() for one in file.parent.iterdir()] == [b"\x93nonsense"]


async def test_one_that_can_not_be_kept_holds_up_nothing(tmp_path: Path):
    url, said = f"sqlite:///{tmp_path}/h.sqlite", list[str]()
    row = MessageRow(
        session_id="s", message_id="m", part=0, position=2**63, kind="user", at=0.0, size=0, payload=b""
    )  # fmt: skip
    leftovers.set_by(url, leftovers.Batch(messages=[row]))
    async with History(url, tell=said.append) as history:
        history.session("sess_1").say("user", "msg_0", HELLO)
        assert await history.flush()
    assert len(said) == 1
    assert "can't be kept" in said[0]
    async with History(url, tell=said.append) as history:  # nor is it said again
        assert len(await history.ask(lambda store: store.timeline("sess_1"))) == 1
    assert len(said) == 1


async def test_what_a_process_took_and_did_not_write_is_taken_again(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/h.sqlite"
    leftovers.set_by(url, leftovers.Batch())
    ((taken, _),) = leftovers.take(url)
    assert list(leftovers.take(url)) == []
    long_ago = taken.stat().st_mtime - leftovers.GONE - 1
    os.utime(taken, (long_ago, long_ago))
    assert [file for file, _ in leftovers.take(url)] == [taken]


async def test_it_is_for_its_owner_alone(tmp_path: Path):
    file = leftovers.set_by("sqlite:///x", leftovers.Batch())
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
