"""What only a server brings: many processes, connections that are lost, and being refused."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from callsheet import Session
from callsheet.history import (
    BadUrl,
    History,
    HistoryError,
    Query,
    Retention,
    Store,
    StoreUnavailable,
    store_at,
)
from callsheet.history import postgres as engine
from callsheet.history.codec import Codec
from callsheet.report.content import TextContent
from tests.support import ROOT
from tests.support.engines import NOON, batch, call, database, ids, postgres
from tests.support.history_storm import text_of
from tests.support.postgres import PASSWORD, QUOTED, Server, free_port, needs_postgres
from tests.support.sizes import sized
from tests.support.stores import pruned

__all__ = ["database", "postgres"]

pytestmark = needs_postgres
WRITERS = sized(8, 3)
CALLS = sized(3000, 100)


@pytest.fixture
def url(postgres: Server, database: str) -> str:
    return postgres.url(database)


@asynccontextmanager
async def opened(url: str, *, write: bool = True) -> AsyncIterator[Store]:
    store = store_at(url)
    store.open(write=write)
    try:
        yield store
    finally:
        store.close()


# Many at once


async def test_processes_write_at_once_and_nothing_is_lost_or_twice(url: str) -> None:
    """The tables are made by whoever is first: all of them start on an empty database."""
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.support.history_storm", url, "5", f"w{number}", str(CALLS),
            cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )
        for number in range(WRITERS)
    ]  # fmt: skip
    said = await asyncio.gather(*(process.communicate() for process in processes))
    assert [
        (process.returncode, err) for process, (_, err) in zip(processes, said, strict=True)
    ] == [(0, b"")] * WRITERS
    async with opened(url) as store:
        for number, (out, _) in enumerate(said):
            acknowledged = dict(line.split()[::-1] for line in out.decode().splitlines())
            assert len(acknowledged) == CALLS
            found: list[Any] = []
            while page := store.timeline(
                f"w{number}", after=found[-1].head.position if found else -1, limit=500
            ):
                found += page
            assert {one.head.call_id: one.record.report.raw_input for one in found} == {
                key: {"number": int(told)} for key, told in acknowledged.items()
            }
            assert len(found) == CALLS
            for one in found:
                text = text_of(5, one.record.report.raw_input["number"])
                assert one.record.report.content == (TextContent(text),)
        stats = store.stats(Query())
        assert (stats.calls, stats.open, stats.sessions) == (WRITERS * CALLS, 0, WRITERS)


async def test_the_tables_are_made_once_by_eight_who_come_at_once(
    url: str, postgres: Server, database: str
) -> None:
    stores = [store_at(url) for _ in range(8)]
    assert await asyncio.gather(*(asyncio.to_thread(store.open) for store in stores)) == [[]] * 8
    await asyncio.gather(
        *(
            asyncio.to_thread(store.write, batch([call(1, session=f"s{n}")]))
            for n, store in enumerate(stores)
        )
    )
    assert len(ids(stores[0])) == 8
    locks = (
        "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database "
        f"WHERE l.locktype = 'advisory' AND d.datname = '{database}'"
    )
    assert postgres.do(locks)[0][0] == 8
    for store in stores:
        store.close()
    while postgres.do(locks)[0][0]:  # the server may take a moment to see that they are gone
        await asyncio.sleep(0.02)


TEXT = "shared " + random.Random(3).randbytes(10_000).hex()


async def until_it_waits(task: asyncio.Task[Any], postgres: Server, database: str) -> None:
    """Wait until a task waits for a lock in the database, or is done."""
    waits = (
        f"SELECT 1 FROM pg_stat_activity WHERE datname = '{database}' AND wait_event_type = 'Lock'"
    )
    while not task.done() and not postgres.do(waits):
        await asyncio.sleep(0.02)


async def test_a_session_that_somebody_is_about_to_use_again_stays_known(
    url: str, postgres: Server, database: str
) -> None:
    async with opened(url) as store, opened(url) as other:
        store.write(batch([call(1)]))
        with other.db.transaction():
            other._write(batch([call(2)]), None)  # pyright: ignore[reportPrivateUsage]
            pruning = asyncio.create_task(
                asyncio.to_thread(pruned, store, Retention(max_calls=0), now=NOON)
            )
            await until_it_waits(pruning, postgres, database)
        assert (await pruning).calls == 1
        assert ids(store) == ["call_s1_2"]
        assert store.session("s1") is not None


async def test_removing_and_writing_all_at_once_ends_with_all_that_is_left_whole(url: str) -> None:
    async with opened(url) as writer, opened(url) as other, opened(url) as tidy:
        for number in range(sized(200, 8)):
            both = [batch([call(number, TEXT, session=name)]) for name in ("a", "b")]
            await asyncio.gather(
                asyncio.to_thread(writer.write, both[0]),
                asyncio.to_thread(other.write, both[1]),
                asyncio.to_thread(pruned, tidy, Retention(max_calls=0), now=NOON),
            )
            tidy.forget("b")
        writer.write(batch([call(900, TEXT)]))
        for one in tidy.calls(Query(limit=100)):
            assert one.record.report.content == (TextContent(TEXT),)


# Connections


async def test_calls_of_those_who_live_are_left_alone(url: str) -> None:
    async with opened(url) as writer:
        writer.write(batch([call(1, status="in_progress")]))
        async with opened(url) as other:
            assert other.recover() == 0
            assert ids(other, status="open") == ["call_s1_1"]


async def test_a_call_that_is_closed_because_its_process_was_cut_off_gets_its_true_end(
    url: str, postgres: Server, database: str
) -> None:
    async with opened(url) as writer:
        writer.write(batch([call(1, "half", status="in_progress")]))
        postgres.do(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            f"WHERE datname = '{database}' AND pid <> pg_backend_pid()"
        )
        other = store_at(url)
        assert other.open() == ["1 call that a crash had left open was closed as abandoned."]
        (found,) = other.calls(Query())
        assert (found.head.status, found.head.reason) == ("failed", "abandoned")
        assert ids(other, search="half") == ["call_s1_1"]
        writer.write(batch([call(1, "whole")]))
        (found,) = other.calls(Query())
        assert found.record == call(1, "whole").record
        assert ids(other, search="half") == []
        assert ids(other, search="whole") == ["call_s1_1"]
        # It has its lock again: nobody takes it for gone.
        writer.write(batch([call(2, status="in_progress")]))
        assert other.recover() == 0
        other.close()


async def test_a_server_that_falls_silent_is_not_waited_for(
    url: str, postgres: Server, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine.COMMAND <= 10
    monkeypatch.setattr(engine, "COMMAND", 1.0)
    async with opened(url) as store, opened(url) as other:
        store.write(batch([call(1, status="in_progress")]))
        busy = (
            f"SELECT pid FROM pg_stat_activity WHERE datname = '{database}' ORDER BY backend_start"
        )
        pid = postgres.do(busy)[0][0]
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(StoreUnavailable, match="does not answer"):
                store.write(batch([call(2)]))
            store.write(batch([call(2), call(3, status="in_progress")]))
        finally:
            os.kill(pid, signal.SIGCONT)
        # The connection that was given up has had the lock until now.
        while postgres.do(f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid}"):
            await asyncio.sleep(0.02)
        store.write(batch([call(4)]))
        assert other.recover() == 0
        assert ids(other, status="open") == ["call_s1_3", "call_s1_1"]


async def test_a_server_that_goes_and_comes_back_loses_nothing(postgres: Server) -> None:
    """A server of its own, so that no other test is cut off."""
    server = Server(postgres.programs)
    told: list[str] = []
    try:
        server.start()
        server.do("CREATE DATABASE h")
        history = History(server.url("h"), notify=told.append)
        log = history.session("s", cwd="/code")
        async with Session("s", cwd="/code", sinks=[log]) as session:

            async def work(count: int) -> None:
                for number in range(count):
                    async with session.call("work", {"number": number}) as one:
                        one.show("text " * number)
                        one.succeed()

            await work(20)
            assert await history.flush()
            server.stop()
            began = time.monotonic()
            await work(30)
            assert await history.flush()  # in the spool
            assert time.monotonic() - began < 5  # it does not wait for what is not there
            await work(30)
            assert await history.flush()  # in the spool
            assert len(told) == 1
            assert any(why in told[0] for why in ("can't be reached", "stopped", "terminating"))
            assert PASSWORD not in told[0]
            assert QUOTED not in told[0]
            server.start()
            until = time.monotonic() + 60
            while len(told) < 2:
                assert time.monotonic() < until
                await asyncio.sleep(0.05)
            assert "is written again" in told[1]
            await work(20)
            assert await history.flush()
        stats = await history.ask(lambda store: store.stats(Query()))
        assert (stats.calls, stats.open, history.health.lost) == (100, 0, 0)
        assert len(told) == 2
        await history.close()
    finally:
        server.remove()


async def test_a_server_that_is_killed_has_all_that_it_acknowledged(postgres: Server) -> None:
    server = Server(postgres.programs)
    try:
        server.start()
        pid = server.pid
        server.do("CREATE DATABASE h")
        async with opened(server.url("h")) as store:
            for number in range(20):
                store.write(batch([call(number, "x" * 20_000)]))
            server.stop(signal.SIGQUIT)
            with pytest.raises(StoreUnavailable):
                store.write(batch([call(20)]))
            server.start()
            store.write(batch([call(20)]))
            assert len(store.calls(Query())) == 21
    finally:
        server.remove()
    # Also a server of the tests leaves nothing.
    assert not server.home.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_tables_that_somebody_has_dropped_are_made_anew(
    url: str, postgres: Server, database: str
) -> None:
    async with opened(url) as store:
        store.write(batch([call(1)]))
        postgres.do("DROP SCHEMA callsheet CASCADE", database)
        store.write(batch([call(2)]))
        assert ids(store) == ["call_s1_2"]


# Being refused


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"password": "wr0ng"}, "password authentication failed"),
        ({"user": "nobody_here"}, "password authentication failed"),
        ({"database": "no_such"}, "does not exist"),
    ],
)
async def test_a_refusal_says_what_is_wrong_and_not_the_password(
    postgres: Server, change: dict[str, str], why: str
) -> None:
    store = store_at(postgres.url(**{"database": "postgres", **change}))
    with pytest.raises(StoreUnavailable, match=why) as caught:
        store.open()
    assert "wr0ng" not in str(caught.value)
    assert QUOTED not in str(caught.value)
    assert PASSWORD not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "no-such-host.invalid", "{silent}"])
async def test_a_server_that_is_not_there_is_not_waited_for(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine.CONNECT <= 5
    monkeypatch.setattr(engine, "CONNECT", sized(engine.CONNECT, 1.0))

    with socket.create_server(
        ("127.0.0.1", 0)
    ) as silent:  # which takes connections and says nothing
        port = silent.getsockname()[1]
        where = host.format(port=free_port(), silent=f"127.0.0.1:{port}")
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match=r"can't be reached|does not answer") as caught:
            store_at(f"postgresql://me:s3cret@{where}/h").open()
    assert time.monotonic() - began < 8
    assert "s3cret" not in str(caught.value)


async def test_who_may_not_make_tables_is_reported_so(
    url: str, postgres: Server, database: str
) -> None:
    postgres.do(f"CREATE ROLE reader_{database} LOGIN PASSWORD 'r'")
    name = postgres.url(database, user=f"reader_{database}", password="r")
    store = store_at(name)
    with pytest.raises(StoreUnavailable, match="denied"):
        store.open()
    async with opened(url) as owner:
        owner.write(batch([call(1, "word")]))
    for sql in ("USAGE ON SCHEMA callsheet", "SELECT ON ALL TABLES IN SCHEMA callsheet"):
        postgres.do(f"GRANT {sql} TO reader_{database}", database)
    async with opened(name, write=False) as reader:
        assert ids(reader) == ["call_s1_1"]
        assert ids(reader, search="word") == []  # it may not index
        with pytest.raises(StoreUnavailable, match="denied"):
            reader.write(batch([call(2)]))
    for sql in ("OWNED BY", "ROLE"):
        postgres.do(f"DROP {sql} reader_{database}", database)


async def test_without_its_driver_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(BadUrl, match=r"pip install 'callsheet\[postgres\]'"):
        store_at("postgresql://localhost/h").open()


async def test_one_row_that_no_column_takes_is_reported_as_such(url: str) -> None:
    async with opened(url) as store:
        bad = batch([call(1)])
        bad[0][1].position = 1 << 70
        with pytest.raises(HistoryError) as caught:
            store.write(bad)
        assert type(caught.value) is HistoryError
        store.write(batch([call(2)]))
        assert ids(store) == ["call_s1_2"]


async def test_one_row_that_no_index_takes_is_reported_as_such(url: str) -> None:
    long = random.Random(1).randbytes(5000).hex()
    async with opened(url) as store:
        for field in ("call_id", "session_id", "kind", "input"):
            bad = batch([call(1)])
            value = "[" * 15_000 + "]" * 15_000 if field == "input" else long
            setattr(bad[0][1], field, value)
            bad[0][0].session_id = bad[0][1].session_id
            with pytest.raises(HistoryError) as caught:
                store.write(bad)
            assert type(caught.value) is HistoryError, field


# How rows are found


async def test_the_newest_and_one_by_its_id_are_found_by_indexes(
    url: str, postgres: Server, database: str
) -> None:
    async with opened(url) as store:
        codec = Codec()
        for start in range(0, 5000, 1000):
            items = [call(n, session=f"s{n % 500}") for n in range(start, start + 1000)]
            store.write(batch(items, codec))
        store.vacuum()
    columns = "session_id, call_id, title, at FROM callsheet.calls"
    newest = "ORDER BY at DESC, session_id DESC, call_id DESC LIMIT 50"
    for terms in (
        newest,
        f"WHERE (at, session_id, call_id) < ({NOON + 900}, 's5', 'call') {newest}",
        f"WHERE name = 'bash' {newest}",
        f"WHERE call_id = 'call_s7_7' {newest}",
    ):
        (plan,) = postgres.do(f"EXPLAIN (FORMAT JSON) SELECT {columns} {terms}", database)
        kinds = list(nodes(json.loads(plan[0])[0]["Plan"]))
        assert "Seq Scan" not in kinds, kinds
        assert any("Index" in kind for kind in kinds), kinds


def nodes(plan: Any) -> list[str]:
    """Return the kinds of a plan's nodes, but for those on `calls_other`, which is empty."""
    if plan.get("Relation Name") == "calls_other":
        return []
    return [plan["Node Type"], *(kind for one in plan.get("Plans", ()) for kind in nodes(one))]
