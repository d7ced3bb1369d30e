"""`kill -9` at a random moment, in a storm of calls, on both engines.

Six times by default; 200 times with CALLSHEET_FULL=1 (`make storm`). CALLSHEET_SEED repeats a run.
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

from callsheet.history import Query, Store, store_at
from callsheet.history.places import file_of
from callsheet.report.content import TextContent

from .engines import database, engine, postgres, url
from .history_storm import text_of
from .sizes import sized

__all__ = ["database", "engine", "postgres", "url"]

ROOT = Path(__file__).parent.parent
KILLS = sized(200, 6)


async def killed_storm(url: str, seed: int, name: str, dice: random.Random) -> dict[str, int]:
    """Run a storm and kill it at a random moment. Gives the calls that were acknowledged before."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.history_storm", url, str(seed), name,
        cwd=ROOT, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        said = b""
        if dice.random() < 0.9:  # else perhaps before the store was even opened
            said = await asyncio.wait_for(process.stdout.readline(), 60)
        await asyncio.sleep(dice.random() * 0.4)
    finally:
        process.send_signal(signal.SIGKILL)
    said += await process.stdout.read()
    await process.wait()
    lines = [line.split() for line in said.decode().splitlines(keepends=True) if line[-1] == "\n"]
    return {key: int(number) for number, key in lines}


async def recovered(store: Store) -> None:
    """Wait until a server has noticed that a process is gone, in the middle of whose last words it may be."""
    until = time.monotonic() + 30
    while await store.heads(Query(status="open")):
        assert time.monotonic() < until
        await asyncio.sleep(0.05)
        await store.recover()


async def check(store: Store, seed: int, name: str, acknowledged: dict[str, int]) -> int:
    """Hold that every acknowledged call is there, whole, and that all have ended. Gives how many were cut."""
    found, after = {}, -1
    while page := await store.timeline(name, after=after, limit=500):
        found |= {one.head.call_id: one for one in page}
        after = page[-1].head.position
    assert acknowledged.keys() <= found.keys()
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
    seed = int(os.environ.get("CALLSHEET_SEED") or random.SystemRandom().randrange(2**32))
    print(f"again with the same seed: CALLSHEET_SEED={seed}")
    dice, began = random.Random(seed), time.monotonic()
    rounds: list[tuple[str, dict[str, int]]] = []
    told = cut = 0
    for number in range(KILLS):
        name = f"storm_{number}"
        rounds.append((name, await killed_storm(url, seed, name, dice)))
        store = store_at(url)
        told += bool(await store.open())
        await recovered(store)
        cut += await check(store, seed, *rounds[-1])
        await store.close()
    await check_all(url, seed, rounds)
    acknowledged = sum(len(calls) for _, calls in rounds)
    assert acknowledged
    assert cut == 0 or told or KILLS < 10
    record_property(
        "told",
        f"{engine}: {KILLS} kills, {acknowledged} calls acknowledged and whole, {cut} cut and closed, "
        f"{time.monotonic() - began:.0f} s, seed {seed}",
    )


async def check_all(url: str, seed: int, rounds: list[tuple[str, dict[str, int]]]) -> None:
    """Hold the same of all rounds again: later kills have not harmed what earlier ones left."""
    store = store_at(url)
    await store.open()
    for name, acknowledged in rounds:
        await check(store, seed, name, acknowledged)
    stats = await store.stats(Query())
    assert stats.open == 0
    assert stats.calls >= sum(len(calls) for _, calls in rounds)
    await store.close()
    if url.startswith("sqlite:"):
        db = sqlite3.connect(file_of(url))
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        db.close()
