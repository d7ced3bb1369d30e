"""A store that can't be written: the work goes on, it is said once, and all is caught up with when it can be."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from callsheet.history import History, HistoryError, Query, StoreUnavailable, spool, writer
from callsheet.history import history as writing
from callsheet.history import sqlite as opening
from callsheet.history.store import Store
from callsheet.report.terminal import CallRecord
from tests.support import ROOT
from tests.support.stores import (
    call,
    check_whole,
    count,
    keep,
    raw,
    report,
    store_in,
    store_of,
)

PATIENCE = 60.0
RANDOM = random.Random(7)


class Kept:
    """A history, what was put into it, and what people were told."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.told: list[str] = []
        self.history = History(f"sqlite:///{file}", notify=self.told.append)
        self.log = self.history.session("s")
        self.put_ids: list[str] = []

    def put(self, count: int = 1, size: int = 20, **fields: Any) -> None:
        for _ in range(count):
            key = f"c{len(self.put_ids):05}"
            self.put_ids.append(key)
            text = RANDOM.randbytes(size // 2).hex()
            self.log.send(deque([CallRecord(report(key, text=text, **fields))]))

    async def fails(self) -> None:
        """Wait until it is known that the store can't be written."""
        async with asyncio.timeout(PATIENCE):
            while self.history.health.problem is None:
                await self.history.flush(0.1)

    async def catches_up(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while not await self.history.flush() or self._is_behind:
                await asyncio.sleep(0.01)

    @property
    def _is_behind(self) -> bool:
        health = self.history.health
        return health.problem is not None or health.spooled > 0

    async def close(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.history.close()

    def ids(self, folder: Path | None = None) -> list[str]:
        with store_in(folder or self.file.parent) as store:
            check_whole(store)
            return sorted(head.call_id for head in store.heads(Query(limit=1 << 30)))


@pytest.fixture
async def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kept]:
    monkeypatch.setattr(opening, "BUSY", 0.05)
    monkeypatch.setattr(writing, "RETRY_MOST", 0.3)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    kept = Kept(tmp_path / "h" / "history.sqlite")
    yield kept
    await kept.close()


def mount(folder: Path, *options: str) -> None:
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        ["mount", *options, str(folder)], capture_output=True, text=True, timeout=20, check=False
    )
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    mount(folder, "-t", "tmpfs", "-o", f"size={size}", "tmpfs")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], timeout=20, check=True)


# A full disk


async def test_a_full_disk_is_said_once_and_caught_up_with(kept: Kept) -> None:
    folder = kept.file.parent
    with small_disk(folder, "6m"):
        filler = folder / "filler"
        filler.write_bytes(bytes(4_500_000))
        for _ in range(60):
            kept.put(10, size=8000)
            await kept.history.flush()
            if kept.history.health.problem:
                break
        await kept.fails()
        kept.put(5)
        assert len(kept.told) == 1
        assert "is full" in kept.told[0] or "I/O" in kept.told[0]
        assert "The work goes on" in kept.told[0]
        filler.unlink()
        await kept.catches_up()
        assert len(kept.told) == 2
        assert "written again, with all that has waited." in kept.told[1]
        await kept.close()
        assert kept.ids() == kept.put_ids
        assert kept.history.health.lost == 0


async def test_a_disk_that_is_full_from_the_beginning_is_caught_up_with(kept: Kept) -> None:
    folder = kept.file.parent
    with small_disk(folder, "2m"):
        (folder / "filler").write_bytes(bytes(2 << 20))
        kept.put(20)
        await kept.fails()
        assert len(kept.told) == 1
        (folder / "filler").unlink()
        await kept.catches_up()
        await kept.close()
        assert kept.ids() == kept.put_ids


async def test_a_file_that_may_not_grow_is_like_a_full_disk(kept: Kept) -> None:
    kept.put()
    assert await kept.history.flush()

    def limit(store: Any, more: int) -> None:
        (pages,) = raw(store).execute("PRAGMA page_count").fetchone()
        raw(store).execute(f"PRAGMA max_page_count = {pages + more}")

    await kept.history.ask(lambda store: limit(store, 0))
    kept.put(100, size=9000)
    await kept.fails()
    assert len(kept.told) == 1
    assert "full" in kept.told[0]
    await kept.history.ask(lambda store: limit(store, 100_000))
    await kept.catches_up()
    await kept.close()
    assert kept.ids() == kept.put_ids


def test_a_process_that_may_write_no_more_bytes_goes_on_and_catches_up(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    script = """
        import asyncio, resource, sys
        from collections import deque
        from random import Random
        from callsheet import ToolCallReport
        from callsheet.history import History, history as writing
        from callsheet.report.terminal import CallRecord
        writing.RETRY_MOST = 0.3
        told = []
        async def main():
            history = History(sys.argv[1], notify=told.append)
            log = history.session("s")
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
            for n in range(200):
                text = Random(n).randbytes(3000).hex()
                log.send(deque([CallRecord(ToolCallReport(f"c{n:05}", raw_output=text, status="completed"))]))
                if n % 10 == 0:
                    await history.flush()
            while not history.health.problem:
                await history.flush()
            assert len(told) == len(set(told)), told
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            while history.health.problem or history.health.spooled or not await history.flush():
                await asyncio.sleep(0.01)
            assert "is written again" in told[-1], told
            await history.close()
        asyncio.run(main())
    """
    src = ROOT / "src"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), f"sqlite:///{tmp_path}/history.sqlite"],
        env={**os.environ, "PYTHONPATH": str(src)}, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with store_in(tmp_path) as store:
        assert count(store, "calls") == 200
        check_whole(store)


# What may not be written


async def test_a_read_only_directory_is_said_once_and_caught_up_with(kept: Kept) -> None:
    folder = kept.file.parent
    if os.geteuid() == 0:  # to whom modes say nothing
        with small_disk(folder, "9m"):
            subprocess.run(["mount", "-o", "remount,ro", str(folder)], timeout=20, check=True)
            await writes_later(kept, ["mount", "-o", "remount,rw", str(folder)])
    else:
        folder.mkdir(mode=0o500)
        await writes_later(kept, ["chmod", "700", str(folder)])


async def test_a_read_only_file_is_said_once_and_caught_up_with(kept: Kept) -> None:
    with store_in(kept.file.parent) as store:
        keep(store, call("earlier"))
    if os.geteuid() != 0:
        kept.file.chmod(0o400)
        await writes_later(kept, ["chmod", "600", str(kept.file)], ["earlier"])
        return
    lock = ["chattr", "+i", str(kept.file)]
    if shutil.which("chattr") is None or subprocess.run(lock, timeout=20, check=False).returncode:
        pytest.skip("root is kept from no file here")
    await writes_later(kept, ["chattr", "-i", str(kept.file)], ["earlier"])


async def writes_later(kept: Kept, allow: list[str], earlier: list[str] | None = None) -> None:
    try:
        kept.put(20)
        await kept.fails()
        kept.put(20)
        assert len(kept.told) == 1
        assert str(kept.file) in kept.told[0]
        assert "The work goes on" in kept.told[0]
        with pytest.raises(HistoryError):
            await kept.history.ask(lambda store: store.heads(Query()))
    finally:
        subprocess.run(allow, timeout=20, check=True)
    await kept.catches_up()
    await kept.close()
    assert kept.ids() == [*kept.put_ids, *(earlier or [])]
    assert len(kept.told) == 2


async def test_who_may_only_read_sees_and_searches_what_is_there(tmp_path: Path) -> None:
    with small_disk(tmp_path / "d", "9m"):
        with store_in(tmp_path / "d") as store:
            keep(store, call("c1", title="the red fox"), call("c2"))
            store.index()
        subprocess.run(["mount", "-o", "remount,ro", str(tmp_path / "d")], timeout=20, check=True)
        with store_in(tmp_path / "d", write=False) as store:
            assert len(store.heads(Query())) == 2
            assert [one.head.call_id for one in store.calls(Query(search="fox"))] == ["c1"]
            assert (store.stats(Query())).calls == 2


# Other processes

HOLD = """
    import sqlite3, sys
    db = sqlite3.connect(sys.argv[1], isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    print("held", flush=True)
    sys.stdin.read()
"""


async def test_a_lock_of_another_process_is_waited_out(kept: Kept) -> None:
    kept.put()
    assert await kept.history.flush()
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLD), str(kept.file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == b"held\n"
        await kept.history.ask(lambda store: raw(store).execute("PRAGMA busy_timeout = 50"))
        kept.put(50)
        await kept.fails()
        kept.put(50)
        assert len(kept.told) == 1
        assert "database is locked" in kept.told[0]
        # Who reads is not kept waiting.
        assert len(await kept.history.ask(lambda store: store.heads(Query()))) == 1
        other.stdin.close()
        await kept.catches_up()
    await kept.close()
    assert kept.ids() == kept.put_ids


# Damaged files


def some_file(folder: Path) -> bytes:
    with store_in(folder) as store:
        keep(store, *(call(f"old{n}", text=RANDOM.randbytes(3000).hex()) for n in range(50)))
    file = folder / "history.sqlite"
    data = file.read_bytes()
    file.unlink()
    return data


def broken(kind: str, data: bytes) -> bytes:
    half = len(data) // 2 // 4096 * 4096
    return {
        "half": data[:half],
        "odd length": data[: half + 1234],
        "noise": RANDOM.randbytes(50_000),
        "text": b"dear diary\n" * 1000,
        "noise after the first page": data[:4096] + RANDOM.randbytes(len(data) - 4096),
        "zeros": bytes(20_000),
    }[kind]


@pytest.mark.parametrize(
    "kind",
    ["half", "odd length", "noise", "text", "noise after the first page", "zeros"],
)
async def test_a_damaged_file_is_set_aside_and_a_new_one_begun(kept: Kept, kind: str) -> None:
    kept.file.parent.mkdir()
    data = broken(kind, some_file(kept.file.parent))
    kept.file.write_bytes(data)
    kept.put(20)
    await kept.catches_up()
    kept.put(20)
    await kept.catches_up()
    await kept.close()
    assert kept.ids() == kept.put_ids
    said = [text for text in kept.told if "set aside as" in text]
    assert len(said) == 1
    (aside,) = kept.file.parent.glob("*.damaged-*[0-9]")
    assert str(aside) in said[0]
    assert aside.read_bytes()[:4096] == data[:4096]


async def test_a_file_that_was_named_by_mistake_stays_where_it_is(tmp_path: Path) -> None:
    notes, said = tmp_path / "NOTES.md", list[str]()
    notes.write_text("dear diary\n" * 1000)
    async with History(str(notes), notify=said.append) as history:
        history.session("s").say("user", "m", [{"type": "text", "text": "hi"}])
        assert not await history.flush()
    assert notes.read_text() == "dear diary\n" * 1000
    assert list(tmp_path.iterdir()) == [notes]
    assert len(said) == 1
    assert "it is left alone. Name another file. Nothing is kept." in said[0]


@pytest.mark.parametrize(
    "question",
    [
        lambda store: store.timeline("s", after=1 << 70),
        lambda store: store.timeline("\ud800"),
        lambda store: store.heads(Query(since="soon", limit=object())),
        lambda store: store.heads(Query(search=7)),
        lambda store: store.sessions(limit=1 << 70),
        lambda store: store.forget("\ud800"),
    ],
)
async def test_no_question_makes_a_history_a_damaged_one(kept: Kept, question: Any) -> None:
    kept.put(5)
    assert await kept.history.flush()
    with suppress(Exception):
        await kept.history.ask(question)
    kept.put(5)
    await kept.catches_up()
    await kept.close()
    assert not list(kept.file.parent.glob("*damaged*"))
    assert kept.ids() == kept.put_ids


async def test_an_empty_file_is_a_new_one(kept: Kept) -> None:
    kept.file.parent.mkdir()
    kept.file.touch()
    kept.put(5)
    await kept.catches_up()
    await kept.close()
    assert kept.told == []
    assert kept.ids() == kept.put_ids


@pytest.mark.parametrize("how", ["noise", "empty", "half"])
async def test_a_file_that_is_damaged_while_it_is_open_is_survived(kept: Kept, how: str) -> None:
    kept.put(100, size=3000)
    assert await kept.history.flush()
    await kept.history.ask(checkpointed)
    size = kept.file.stat().st_size
    with kept.file.open("r+b") as file:
        if how == "noise":
            file.seek(4096)
            file.write(RANDOM.randbytes(size - 4096))
        else:
            file.truncate(0 if how == "empty" else size // 2 // 4096 * 4096)
    for _ in range(4):
        kept.put(100, size=3000)
        await kept.history.flush()
    await kept.close()
    # Whatever of this it has noticed itself, the next one goes on with a file that is whole.
    after = Kept(kept.file)
    after.put(3)
    await after.catches_up()
    await after.close()
    with store_in(kept.file.parent) as store:
        assert {head.call_id for head in store.heads(Query(limit=1 << 30))} >= set(after.put_ids)


def checkpointed(store: Any) -> None:
    raw(store).execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw(store).execute("PRAGMA cache_size = 1")


async def test_damage_is_never_set_aside_twice(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    file.write_bytes(b"noise" * 1000)
    one, other = store_of(file), store_of(file)
    assert "set aside" in (one.open())[0]
    keep(one, call("c1"))
    assert other.open() == []
    other.close()
    one.close()
    for number in range(3):  # within one second
        file.write_bytes(f"noise {number}".encode() * 1000)
        assert one.open() != []
        one.close()
    assert len(list(tmp_path.glob("*.damaged-*"))) == 4


@pytest.mark.parametrize("what", ["file", "directory", "replaced"])
async def test_a_file_that_was_removed_is_begun_anew(kept: Kept, what: str) -> None:
    kept.put(10)
    assert await kept.history.flush()
    if what == "directory":
        shutil.rmtree(kept.file.parent)
    else:
        kept.file.unlink()
    if what == "replaced":
        (kept.file.parent / "history.sqlite-wal").unlink(missing_ok=True)
        (kept.file.parent / "history.sqlite-shm").unlink(missing_ok=True)
        with store_in(kept.file.parent) as store:
            keep(store, call("theirs"))
    kept.put(10)
    await kept.catches_up()
    kept.put(10)
    await kept.catches_up()
    await kept.close()
    assert kept.ids() == [*kept.put_ids[10:], *(["theirs"] if what == "replaced" else [])]
    assert "was removed or replaced" in kept.told[0]
    assert len(kept.told) == 2


# What will never work


async def test_a_history_of_a_later_version_is_said_once_and_nothing_waits_for_it(
    kept: Kept,
) -> None:
    with store_in(kept.file.parent) as store:
        raw(store).execute("PRAGMA user_version = 9")
    for _ in range(5):
        kept.put(20, size=3000)
        await kept.fails()
    async with asyncio.timeout(PATIENCE):
        while len(kept.history._writer.rows):
            await asyncio.sleep(0.01)
    assert len(kept.told) == 1
    assert "Nothing is kept" in kept.told[0]
    with pytest.raises(HistoryError, match="version 9"):
        await kept.history.ask(lambda store: store.heads(Query()))
    await kept.close()
    assert kept.history.health.lost == 100
    assert len(kept.told) == 1


async def test_another_programs_database_is_not_written_to(kept: Kept) -> None:
    kept.file.parent.mkdir()
    with closing(sqlite3.connect(kept.file)) as db:
        db.execute("CREATE TABLE mine (x)")
        db.commit()
    before = kept.file.read_bytes()
    kept.put()
    await kept.fails()
    await kept.close()
    assert kept.file.read_bytes() == before
    assert "another program" in kept.told[0]


# Bounds


def size(waiting: writer.Writer) -> int:
    """Return how many rows wait in memory."""
    with waiting.busy:
        return len(waiting.rows)


async def test_what_waits_is_bounded_and_the_oldest_goes_first(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is, what waits in memory, where it can't be spooled."""
    monkeypatch.setattr(writer, "MOST_WAITING", 100)
    kept.file.parent.write_text("no directory")
    monkeypatch.setenv("XDG_DATA_HOME", str(kept.file.parent))
    for _ in range(10):
        kept.put(50, size=4000)
        await kept.fails()
    async with asyncio.timeout(PATIENCE):
        waiting = kept.history._writer
        while waiting.entries or size(waiting) > 100 or not kept.history.health.lost:
            await asyncio.sleep(0.01)
    with waiting.busy:  # nothing is being encoded any more
        pass
    lost = kept.history.health.lost
    assert 0 < lost < 500
    assert len(kept.told) == 3
    assert "can't be made: File exists" in kept.told[0]
    assert any("can't be spooled" in text for text in kept.told)
    assert any("the oldest calls are let go" in text for text in kept.told)
    kept.file.parent.unlink()
    await kept.catches_up()
    await kept.close()
    assert f"{lost} entries lost" in kept.told[3]
    assert kept.ids() == kept.put_ids[lost:]


async def test_what_is_too_much_for_the_memory_is_spooled(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MOST_WAITING", 100)
    kept.file.parent.write_text("no directory")
    await asyncio.to_thread(kept.put)
    await kept.fails()
    for _ in range(10):
        kept.put(50, size=4000)
        await asyncio.sleep(0.1)
    assert kept.history.health.lost == 0
    async with asyncio.timeout(PATIENCE):
        while size(kept.history._writer) > 100:
            await asyncio.sleep(0.01)
    kept.file.parent.unlink()
    await kept.catches_up()
    await kept.close()
    assert kept.ids() == kept.put_ids


async def test_a_spool_that_is_full_is_said_once(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "MOST", 100_000)
    kept.file.parent.write_text("no directory")
    kept.put()
    await kept.fails()
    for _ in range(4):
        kept.put(20, size=4000)
        await kept.history.flush()
    assert not await kept.history.flush(0.1)
    assert len([text for text in kept.told if "can't be spooled" in text]) == 1
    kept.file.parent.unlink()
    await kept.catches_up()
    await kept.close()
    assert kept.ids() == kept.put_ids


async def test_a_store_that_has_no_time_for_much_gets_less_at_once(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "RETRY", 0.01)
    monkeypatch.setattr(writing, "RETRY_MOST", 0.02)
    real = Store.write

    def slow(store: Store, batch: Any, writer: str | None = None) -> None:
        if len(batch) > 30:
            raise StoreUnavailable("it does not answer")
        real(store, batch, writer)

    monkeypatch.setattr(Store, "write", slow)
    kept.put(500)
    await kept.catches_up()
    await kept.close()
    assert kept.ids() == kept.put_ids


async def test_what_could_not_be_written_by_the_end_is_said(kept: Kept) -> None:
    kept.file.parent.write_text("no directory")
    kept.put(7)
    await kept.fails()
    kept.put(2)
    await kept.close()
    assert len(kept.told) == 2
    assert "9 entries for" in kept.told[1]
    kept.file.parent.unlink()
    after = Kept(kept.file)
    after.put(0)
    assert await after.history.ask(lambda store: store.last_position("s")) == 8
    await after.close()
    assert after.told == ["Wrote 9 entries that earlier processes could not write."]
    assert kept.ids() == kept.put_ids


async def test_what_can_not_even_be_set_by_is_said_to_be_lost(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.file.parent.write_text("no directory")
    monkeypatch.setenv("XDG_DATA_HOME", str(kept.file.parent))
    kept.put(7)
    await kept.fails()
    await kept.close()
    assert "can't be spooled" in kept.told[1]
    assert "7 entries could not be written" in kept.told[2]
    assert kept.history.health.lost == 7


async def test_a_file_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    file, said = tmp_path / "notes.txt", list[str]()
    file.write_text("my notes\n" * 100)
    async with History(f"sqlite:///{file}", notify=said.append) as history:
        history.session("s").say("user", "m", [{"type": "text", "text": "hi"}])
        assert not await history.flush()
    assert file.read_text() == "my notes\n" * 100
    assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]
    assert len(said) == 1
    assert "is no history, but something else" in said[0]
