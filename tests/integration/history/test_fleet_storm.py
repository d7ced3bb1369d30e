"""Many publishers, while the stream's leader is killed, a collector is killed, and PostgreSQL is restarted."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from asyncio.subprocess import Process
from pathlib import Path

import pytest

from callsheet.history import Query, Store, store_at
from tests.support import ROOT
from tests.support.nats_servers import Servers, cluster, needs_nats
from tests.support.postgres import Server, needs_postgres, programs
from tests.support.sizes import FULL, sized

__all__ = ["cluster"]

pytestmark = [needs_nats, needs_postgres]

PROCESSES = sized(10, 3)
PUBLISHERS = sized(5, 2)
"""In each process."""

CALLS = sized(200, 40)
SECONDS = sized(30.0, 4.0)
PATIENCE = 240.0


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data"


async def started(*args: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", *args,
        cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


def counted(url: str) -> int:
    store = store_at(url)
    try:
        store.open(write=False)
        return store.db.fetch_value("SELECT count(*) FROM calls WHERE writer IS NULL")
    except Exception:  # noqa: BLE001 - it is just being restarted
        return -1
    finally:
        store.close()


async def reached(url: str, count: int) -> float:
    """Wait until so many calls have ended, and return when."""
    end = time.monotonic() + PATIENCE
    while (found := await asyncio.to_thread(counted, url)) < count:
        assert time.monotonic() < end, f"{found} of {count} calls are there"
        await asyncio.sleep(0.1)
    return time.monotonic()


@pytest.mark.usefixtures("data")
async def test_all_calls_are_there_once_and_in_order_whatever_is_killed(
    cluster: Servers, capsys: pytest.CaptureFixture[str]
) -> None:
    found = programs()
    assert found is not None
    postgres = Server(found)  # of its own: it is restarted
    all_calls = PROCESSES * PUBLISHERS * CALLS
    processes: list[Process] = []
    try:
        postgres.start()
        postgres.do("CREATE DATABASE fleet")
        url = postgres.url("fleet")
        collect = ("callsheet", "collect", "--from", cluster.url(), "--to", url, "--verbose")
        doomed, other = [await started(*collect) for _ in range(2)]
        processes += [doomed, other]
        storms = [
            await started(
                "tests.support.fleet_storm",
                cluster.url(), f"p{number}", str(PUBLISHERS), str(CALLS), str(SECONDS),
            )
            for number in range(PROCESSES)
        ]  # fmt: skip
        processes += storms
        begun = await reached(url, all_calls // 10)
        leader = await asyncio.to_thread(cluster.leader)
        await asyncio.to_thread(cluster.kill, leader)
        await reached(url, all_calls // 4)
        doomed.send_signal(signal.SIGKILL)
        await reached(url, all_calls // 3)
        await asyncio.to_thread(postgres.stop)
        await asyncio.sleep(sized(5.0, 1.0))
        await asyncio.to_thread(postgres.start)
        back = time.monotonic()
        behind = await asyncio.to_thread(cluster.waiting)
        while await asyncio.to_thread(cluster.waiting):
            await asyncio.sleep(0.1)
        caught_up = time.monotonic() - back
        await asyncio.to_thread(cluster.start, leader)
        said = [await asyncio.wait_for(storm.communicate(), PATIENCE) for storm in storms]
        assert [out for out, _ in said] == [b"durable\npublished\n"] * PROCESSES, said
        published = time.monotonic()
        ended = await reached(url, all_calls)
        # What the killed collector had in hand comes again.
        while await asyncio.to_thread(cluster.waiting, also_in_hand=True):
            await asyncio.sleep(0.1)
        other.send_signal(signal.SIGTERM)
        _, err = await asyncio.wait_for(other.communicate(), PATIENCE)
        assert other.returncode == 0, err.decode()
        assert b" 0 messages wait" in err.splitlines()[-1], err.decode()
        store = store_at(url)
        store.open(write=False)
        try:
            await asyncio.to_thread(check, store)
        finally:
            store.close()
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
        postgres.remove()
    with capsys.disabled():
        if FULL:
            print(
                f"\n{all_calls:,} calls, {all_calls / (ended - begun):,.0f} a second; {behind:,} messages "
                f"waited when PostgreSQL was back, and none {caught_up:.1f} s later; all there "
                f"{max(0.0, ended - published):.1f} s after the last was published\n{err.decode()}"
            )


def check(store: Store) -> None:
    """Assert that each call is there once, whole, and in order within its session."""
    stats = store.stats(Query())
    assert (stats.calls, stats.open, stats.failed) == (PROCESSES * PUBLISHERS * CALLS, 0, 0)
    for process in range(PROCESSES):
        for publisher in range(PUBLISHERS):
            name = f"p{process}-{publisher}"
            timeline = store.timeline(name, limit=1 << 30)
            shown = [one.record.report.content[0].text for one in timeline]
            assert shown == [f"{name} {number}" for number in range(CALLS)]
            assert [one.position for one in timeline] == list(range(CALLS))
            assert len({one.key for one in timeline}) == CALLS
