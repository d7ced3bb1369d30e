"""`kill -9` at a random moment, in a storm of calls, on both engines, also while the store can't be written.

Twice by default; 200 times with CALLSHEET_FULL=1 (`make storm`). CALLSHEET_SEED repeats a run.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from callsheet.history import History, Query, Store, store_at
from callsheet.history.spool import is_waiting
from callsheet.history.url import file_of
from callsheet.report.content import TextContent
from tests.support import ROOT
from tests.support.engines import database, engine, postgres, url
from tests.support.history_storm import text_of
from tests.support.postgres import Server
from tests.support.sizes import sized

__all__ = ["database", "engine", "postgres", "url"]

KILLS = sized(200, 2)


class Outage:
    """Whatever keeps a store from being written for a while: it begins and ends."""

    def begin(self, dice: random.Random) -> None:
        """Begin."""

    def end(self) -> None:
        """End, if it has begun."""


class Locked(Outage):
    """Another process holds the lock of a file."""

    def __init__(self, url: str) -> None:
        self._file = file_of(url)
        self._db: sqlite3.Connection | None = None

    def begin(self, dice: random.Random) -> None:
        """Take the lock, if the file is there."""
        if self._file.exists():
            self._db = sqlite3.connect(
                self._file, isolation_level=None, timeout=20, check_same_thread=False
            )
            self._db.execute(dice.choice(["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"]))

    def end(self) -> None:
        """Let go of the lock."""
        if self._db is not None:
            self._db.close()
        self._db = None


class Stopped(Outage):
    """The server is killed."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._is_down = False

    def begin(self, dice: random.Random) -> None:
        """Kill it: at once, or its main process only."""
        self._is_down = True
        self._server.stop(dice.choice([signal.SIGQUIT, signal.SIGQUIT, signal.SIGKILL]))

    def end(self) -> None:
        """Start it again, when those whom it has left have noticed that it is gone."""
        until = time.monotonic() + 60
        while self._is_down:
            try:
                self._server.start()
                self._is_down = False
            except AssertionError:
                assert time.monotonic() < until, self._server.said()
                self._server.stop()
                time.sleep(0.2)


async def killed_storm(
    url: str, seed: int, name: str, dice: random.Random, outage: Outage
) -> dict[str, int]:
    """Run a storm and kill it at a random moment. Gives the calls that were acknowledged before."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.history_storm", url, str(seed), name,
        cwd=ROOT, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        said = b""
        if dice.random() < 0.9:  # else perhaps before the store was even opened
            said = await asyncio.wait_for(process.stdout.readline(), 60)
        await asyncio.sleep(dice.random() * 0.4)
        if dice.random() < 0.8:
            await asyncio.to_thread(outage.begin, dice)
            await asyncio.sleep(dice.random() * 2.5)
            if dice.random() < 0.3:
                await asyncio.to_thread(outage.end)
                await asyncio.sleep(dice.random() * 0.8)
    finally:
        process.send_signal(signal.SIGKILL)
    said += await process.stdout.read()
    await process.wait()
    await asyncio.to_thread(outage.end)
    lines = [line.split() for line in said.decode().splitlines(keepends=True) if line[-1] == "\n"]
    return {key: int(number) for number, key in lines}


async def recovered(store: Store) -> None:
    """Wait until a server has noticed that a process is gone, in the middle of whose last words it may be."""
    until = time.monotonic() + 30
    while store.heads(Query(status="open")):
        assert time.monotonic() < until
        await asyncio.sleep(0.05)
        store.recover()


async def check(store: Store, seed: int, name: str, acknowledged: dict[str, int]) -> int:
    """Hold that every acknowledged call is there, whole, and that all have ended. Gives how many were cut."""
    found, after, numbers = {}, -1, list[int]()
    while page := store.timeline(name, after=after, limit=500):
        found |= {one.head.call_id: one for one in page}
        numbers += [one.record.report.raw_input["number"] for one in page]
        after = page[-1].head.position
    lost = acknowledged.keys() - found.keys()
    assert not lost, f"{len(lost)} of {len(acknowledged)} calls are lost"
    assert numbers == sorted(set(numbers)), "once, and in order"
    for key, number in acknowledged.items():
        assert found[key].head.status == "completed"
        assert found[key].record.report.raw_input == {"number": number}
        assert found[key].record.report.content == (TextContent(text_of(seed, number)),)
    cut = [one for one in found.values() if one.head.status != "completed"]
    assert all((one.head.status, one.head.reason) == ("failed", "abandoned") for one in cut)
    assert all(one.record.report.is_final for one in cut)
    return len(cut)


async def test_a_kill_loses_nothing_that_was_acknowledged_and_leaves_nothing_open(
    url: str, engine: str, record_property: Callable[[str, object], None]
) -> None:
    await kills(url, Outage(), f"{engine}", record_property)


async def test_nor_does_a_kill_while_the_store_is_away(
    engine: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    """A file that others have locked; a server, of this test alone, that is killed, too."""
    if engine == "sqlite":
        url = f"sqlite:///{tmp_path / 'history.sqlite'}"
        await kills(url, Locked(url), "sqlite, locked", record_property)
        return
    server = Server(request.getfixturevalue("postgres").programs)
    try:
        server.start()
        server.do("CREATE DATABASE h")
        await kills(server.url("h"), Stopped(server), "postgres, killed too", record_property)
    finally:
        server.remove()


async def kills(
    url: str, outage: Outage, engine: str, record_property: Callable[[str, object], None]
) -> None:
    seed = int(os.environ.get("CALLSHEET_SEED") or random.SystemRandom().randrange(2**32))
    print(f"again with the same seed: CALLSHEET_SEED={seed}")
    dice, began = random.Random(seed), time.monotonic()
    rounds: list[tuple[str, dict[str, int]]] = []
    cut = spooled = 0
    for number in range(KILLS):
        name = f"storm_{number}"
        rounds.append((name, await killed_storm(url, seed, name, dice, outage)))
        async with History(url, notify=lambda _: None) as history:  # the next process
            await history.ask(lambda store: store.recover())
            spooled += history.health.written
        store = store_at(url)
        store.open()
        await recovered(store)
        cut += await check(store, seed, *rounds[-1])
        store.close()
    await check_all(url, seed, rounds)
    acknowledged = sum(len(calls) for _, calls in rounds)
    assert acknowledged
    assert not is_waiting(url), "nothing is left in a spool of this store"
    record_property(
        "told",
        f"{engine}: {KILLS} kills, {acknowledged} calls acknowledged and whole, {spooled} entries spooled, "
        f"{cut} cut and closed, "
        f"{time.monotonic() - began:.0f} s, seed {seed}",
    )


async def check_all(url: str, seed: int, rounds: list[tuple[str, dict[str, int]]]) -> None:
    """Hold the same of all rounds again: later kills have not harmed what earlier ones left."""
    store = store_at(url)
    store.open()
    for name, acknowledged in rounds:
        await check(store, seed, name, acknowledged)
    stats = store.stats(Query())
    assert stats.open == 0
    assert stats.calls >= sum(len(calls) for _, calls in rounds)
    store.close()
    if url.startswith("sqlite:"):
        db = sqlite3.connect(file_of(url))
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        db.close()
