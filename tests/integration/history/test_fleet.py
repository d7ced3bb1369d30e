"""A fleet: histories publish to real NATS servers, and collectors write what comes into one store, each row once."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from copy import deepcopy
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from callsheet.history import (
    BadUrl,
    Head,
    History,
    HistoryError,
    Query,
    Store,
    collector,
    fleet,
    spool,
    store_at,
)
from callsheet.history.collector import Collector, CollectorHealth
from callsheet.history.rows import CallRow, Origin
from callsheet.history.url import check_url, without_password
from callsheet.report.terminal import CallRecord
from callsheet.report.usage import TokenUsage
from tests.support import ROOT
from tests.support.inspector import inspector
from tests.support.nats_servers import Servers, nats, needs_nats
from tests.support.postgres import free_port
from tests.support.stores import batch, call, cli_in_process, message, report

__all__ = ["nats"]

pytestmark = needs_nats
PATIENCE = 30.0
VIEWS = [
    "SELECT call_id, tool, status, input, output, user_name, agent, source FROM callsheet_calls ORDER BY 1",
    "SELECT stop_reason, input_tokens, model, user_name, host, agent, agent_version FROM callsheet_turns",
    "SELECT title, workspace, user_name, agent FROM callsheet_sessions",
]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def target(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'collected.sqlite'}"


async def until(is_so: Callable[[], object], patience: float = PATIENCE) -> None:
    end = time.monotonic() + patience
    while not is_so():
        assert time.monotonic() < end, "it did not come to be"
        await asyncio.sleep(0.02)


@asynccontextmanager
async def collecting(
    source: str, target: str, said: list[str] | None = None, **how: Any
) -> AsyncIterator[CollectorHealth]:
    """Run a collector meanwhile, and give what it has done."""
    notify = (lambda _: None) if said is None else said.append
    made = Collector(source, store_at(target), notify=notify, **how)
    running = asyncio.create_task(made.run())
    try:
        yield made.done
    finally:
        made.stop()
        await running


@contextmanager
def read(target: str) -> Iterator[Store]:
    store = store_at(target)
    store.open(write=False)
    try:
        yield store
    finally:
        store.close()


def calls_in(target: str, **asked: Any) -> list[Head]:
    """Return the calls that are in a store by now, the newest first."""
    try:
        with read(target) as store:
            return store.heads(Query(limit=10_000, **asked))
    except HistoryError:  # it is being made
        return []


async def until_ended(target: str, count: int) -> None:
    """Wait until so many calls are in the store, all of them ended.

    What a busy machine publishes late is published again from the spool, in other messages. So tests count
    what is stored, and not what was published or collected.
    """
    await until(lambda: len(calls_in(target)) >= count and not calls_in(target, status="open"))
    assert len(calls_in(target)) == count


async def until_left(url: str) -> None:
    """Wait until a spool is there for others: a history that was closed may still try to connect."""
    await until(lambda: spool.is_waiting(store_at(url).url))


def put(log: Any, call_id: str, status: str = "completed", **fields: Any) -> None:
    log.send(deque([CallRecord(report(call_id, status=status, **fields))]))


async def messages(nats: Servers, stream: str = fleet.ROWS) -> int:
    async def ask(nc: Any, js: Any) -> int:
        return (await js.stream_info(stream)).state.messages

    return await asyncio.to_thread(nats.do, ask)


async def send(nats: Servers, *bodies: bytes, subject: str = "callsheet.core.host.s") -> None:
    store = store_at(nats.url())
    store.open()  # which makes the streams
    store.close()

    async def work(nc: Any, js: Any) -> None:
        for body in bodies:
            await js.publish(subject, body)

    await asyncio.to_thread(nats.do, work)


# What comes


async def test_what_is_published_is_stored_as_if_it_had_been_written(
    nats: Servers, target: str, tmp_path: Path
) -> None:
    direct = f"sqlite:///{tmp_path / 'direct.sqlite'}"
    said = list[str]()
    for url in (nats.url(), direct):
        async with History(url, notify=said.append) as history:
            who = Origin(agent="hand", agent_version="1.2", source="tap")
            log = history.session("one.two *>", cwd="/code", title="A title", origin=who)
            log.begin_turn()
            log.say("user", "m1", [{"type": "text", "text": "hello"}])
            put(log, "a", "in_progress", text="first")
            assert await history.flush()
            put(log, "a", text="first and last", raw_input={"path": "a.py"})
            put(log, "b", "failed", reason="timeout")
            log.end_turn("end_turn", TokenUsage(input_tokens=7, model="m"))
            assert await history.flush()
            assert history.health.problem is None
    async with collecting(nats.url(), target, said) as done:
        await until_ended(target, 2)
        await until(lambda: done.rows >= 6)
    assert said == []
    with read(target) as collected, read(direct) as written:
        found, expected = (
            [
                (one.position, getattr(one, "record", None) or getattr(one, "blocks", None))
                for one in store.timeline("one.two *>")
            ]
            for store in (collected, written)
        )
        assert found == expected
        assert len(found) == 3
        session = collected.session("one.two *>")
        assert session is not None
        assert (session.cwd, session.title) == ("/code", "A title")
        for view in VIEWS:
            shown, wanted = (store.db.fetch(view) for store in (collected, written))
            assert list(map(tuple, shown)) == list(map(tuple, wanted))
        assert collected.heads(Query(status="open")) == []
        assert [one.call_id for one in collected.heads(Query(search="last"))] == ["a"]


async def test_subjects_name_team_host_and_session(
    nats: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "my.host")
    async with History(nats.url("Team%20A")) as history:
        put(history.session("ünïque/" + "x" * 500), "a")

    async def ask(nc: Any, js: Any) -> dict[str, int]:
        return (await js.stream_info(fleet.ROWS, subjects_filter=">")).state.subjects

    (subject,) = await asyncio.to_thread(nats.do, ask)
    first, team, host, session = subject.split(".")
    assert (first, team, host) == ("callsheet", "Team%20A", "my%2Ehost")
    assert session.startswith("%C3%BCn%C3%AFque%2Fxxx")
    assert len(session) < 70


async def test_teams_are_collected_alone_or_together(
    nats: Servers, target: str, tmp_path: Path
) -> None:
    for team in ("red", "blue"):
        async with History(nats.url(team)) as history:
            put(history.session(team), team)
    both = f"sqlite:///{tmp_path / 'both.sqlite'}"
    async with collecting(nats.url("red"), target):
        await until_ended(target, 1)
        async with collecting(nats.url("").rstrip("/"), both):
            await until_ended(both, 2)
    assert [one.call_id for one in calls_in(target)] == ["red"]


async def test_collectors_share_the_work_and_one_that_is_new_begins_where_they_are(
    nats: Servers, target: str
) -> None:
    async with History(nats.url()) as history:
        logs = [history.session(f"s{n}") for n in range(50)]
        async with collecting(nats.url(), target) as one, collecting(nats.url(), target) as other:
            for number in range(20):
                for log in logs:
                    put(log, f"c{number}")
                assert await history.flush()
            await until_ended(target, 1000)
        assert one.rows
        assert other.rows
        async with collecting(nats.url(), target) as third:
            put(logs[0], "last")
            await until_ended(target, 1001)
        assert third.rows < 1000


async def test_what_is_published_again_is_known_by_its_id(nats: Servers) -> None:
    store = store_at(nats.url())
    store.open()
    rows = batch(store.codec, call("a"), message("m", "hello"))
    for _ in range(3):
        store.write(rows)
    store.write(batch(store.codec, call("a", status="failed")))
    store.close()
    assert await messages(nats) == 2


async def test_an_earlier_state_that_comes_again_changes_nothing(
    nats: Servers, target: str
) -> None:
    store = store_at(nats.url())
    states = [
        batch(
            store.codec,
            call("a", at=100.0, status=status),
            message("m", text, at=100.0, position=1),
        )
        for status, text in (
            ("pending", "one"),
            ("in_progress", "one two"),
            ("completed", "one two three"),
        )
    ]
    for number, rows in enumerate(states):
        for _, row in rows:
            if isinstance(row, CallRow):
                row.updated_at = 100.0 + number
    bodies = [
        fleet.encode(fleet.Envelope(fleet.VERSION, "w", rows[0][0], [row for _, row in rows]))
        for rows in states
    ]
    for end in (2, 3):
        expected = states[end - 1]
        for body in (*bodies[:end], *reversed(bodies[:end])):
            await send(nats, body)
        async with collecting(nats.url(), target) as done:
            await until(lambda end=end: done.messages >= 2 * end)
        with read(target) as found:
            (head,) = found.heads(Query())
            assert head.status == ("in_progress", "completed")[end - 2]
            _, said = found.timeline("s")
            assert said.blocks == found.codec.decode_blocks(expected[1][1].payload)


# What can't be stored


async def test_what_makes_no_sense_is_put_aside_and_holds_up_nobody(
    nats: Servers, target: str
) -> None:
    async with History(nats.url()) as history:
        put(history.session("s"), "before")
        assert await history.flush()
        broken = [fleet.VERSION, "w", {"session_id": "s"}, [{"type": "call"}]]
        made = msgspec.msgpack.decode(envelope(target, "odd"))
        other_session, no_status, no_time = deepcopy(made), deepcopy(made), deepcopy(made)
        other_session[2]["session_id"] = "another"
        no_status[3][0]["status"] = "odd"  # which would break every list of calls
        no_time[3][0]["at"] = -1.0  # which no page of a list would get past
        odd = [broken, {}, other_session, no_status, no_time]
        await send(nats, b"hello", b"", *map(msgspec.msgpack.encode, odd))
        put(history.session("s"), "after")
        assert await history.flush()
        async with collecting(nats.url(), target, said := []) as done:
            await until(lambda: len(calls_in(target)) == 2 and done.aside == 7)
    assert await messages(nats, fleet.ASIDE) == 7
    assert all("is put aside in CALLSHEET_ASIDE" in one for one in said)


async def test_a_row_that_no_column_takes_is_put_aside_alone(nats: Servers, target: str) -> None:
    rows = batch(store_at(target).codec, *(call(f"c{n}", position=n) for n in range(20)))
    bad = rows[7][1]
    assert isinstance(bad, CallRow)
    bad.duration_ms = 1.0
    bad.marks = "x"
    bad.size = 1 << 63  # msgpack takes it, a column does not
    await send(nats, fleet.encode(fleet.Envelope(1, "w", rows[0][0], [row for _, row in rows])))
    async with collecting(nats.url(), target, said := []) as done:
        await until_ended(target, 19)
        await until(lambda: done.aside)
    assert (done.aside, len(said)) == (1, 1)


def envelope(target: str, *names: str, **fields: Any) -> bytes:
    """Return a message with ended calls of a session of the name of the first."""
    calls = [call(name, session=names[0], position=at) for at, name in enumerate(names)]
    rows = batch(store_at(target).codec, *calls)
    made = fleet.Envelope(fleet.VERSION, "w", rows[0][0], [row for _, row in rows])
    return fleet.encode(replace(made, **fields))


async def test_messages_of_another_version_wait_for_a_collector_that_knows_them(
    nats: Servers, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = [envelope(target, f"later{number}", version=2) for number in range(5)]
    await send(nats, envelope(target, "now"), *later)
    async with collecting(nats.url(), target, said := []) as done:
        await until(lambda: done.aside == 5)
    assert [one.call_id for one in calls_in(target)] == ["now"]
    assert len(said) == 1
    assert "it is of version 2, and this callsheet knows version 1" in said[0]
    monkeypatch.setattr(fleet, "VERSION", 2)
    shown = f"sqlite:///{tmp_path / 'shown.sqlite'}"  # who only looks takes nothing away
    async with collecting(nats.url(), shown, last=3600.0, settled=0.1):
        await until(lambda: len(calls_in(shown)) == 5)
    assert await messages(nats, fleet.ASIDE) == 5
    async with collecting(nats.url(), target, said := [], settled=0.1):
        await until_ended(target, 6)
        await until(lambda: said)
    assert said == ["Stored 5 entries that had been put aside."]
    assert await messages(nats, fleet.ASIDE) == 0


async def test_what_can_not_be_put_aside_holds_up_nobody_and_waits(
    nats: Servers, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "ACKNOWLEDGED_IN", 1.0)
    full: dict[str, Any] = {
        "name": fleet.ASIDE,
        "subjects": ["callsheet_aside.>"],
        "discard": "new",
    }
    await asyncio.to_thread(nats.do, lambda nc, js: js.add_stream(**full, max_bytes=1))
    await send(nats, b"hello", envelope(target, "a"))
    async with collecting(nats.url(), target, said := []) as done:
        await until_ended(target, 1)
        await until(lambda: said)
        assert "can't be put aside: nats://" in said[0]
        await send(nats, envelope(target, "b"))
        await until_ended(target, 2)
        assert (done.aside, len(said)) == (0, 1)
        await asyncio.to_thread(nats.do, lambda nc, js: js.update_stream(**full, max_bytes=1 << 20))
        await until(lambda: done.aside == 1)
    assert len(said) == 3
    assert await messages(nats, fleet.ASIDE) == 1


async def test_what_a_publisher_calls_itself_names_no_file_of_the_collectors_machine(
    nats: Servers, target: str, tmp_path: Path
) -> None:
    file = tmp_path / "precious"
    file.touch()
    (row,) = batch(store_at(target).codec, call("a", status="in_progress"))
    await send(nats, fleet.encode(fleet.Envelope(fleet.VERSION, str(file), row[0], [row[1]])))
    async with collecting(nats.url(), target, settled=0.1) as done:
        await until(lambda: done.closed)
    assert file.exists()


async def test_a_call_too_large_for_the_servers_keeps_its_head(data: Path, target: str) -> None:
    servers = Servers(settings="max_payload: 200KB")
    try:
        servers.start()
        servers.wait()
        said = list[str]()
        async with History(servers.url(), notify=said.append) as history:
            log = history.session("s")
            for number in range(5):
                put(log, f"small{number}")
            put(log, "large", text=os.urandom(400_000).hex())
            log.say("agent", "m", [{"type": "text", "text": os.urandom(400_000).hex()}])
            assert await history.flush()
            async with collecting(servers.url(), target):
                await until_ended(target, 6)
        assert len(said) == 1
        assert "too large for nats://" in said[0]
        assert "max_payload" in said[0]
        with read(target) as store:
            (found,) = store.calls(Query(call_id="large"))
            assert found.head.status == "completed"
            assert "more than a fleet's servers take" in found.record.report.content[0].text
    finally:
        servers.remove()


async def test_rows_that_fit_into_a_message_alone_but_not_together_come_whole(target: str) -> None:
    servers = Servers(settings="max_payload: 200KB")
    try:
        servers.start()
        servers.wait()
        store = store_at(servers.url())
        store.open()
        texts = [random.Random(size).randbytes(size // 2).hex() for size in (60_000, 320_000)]
        calls = [call(f"c{n}", position=n, text=text) for n, text in enumerate(texts)]
        store.write(batch(store.codec, *calls))
        store.close()
        async with collecting(servers.url(), target):
            await until_ended(target, 2)
        with read(target) as found:
            whole = {one.record.report.content[0].text for one in found.calls(Query())}
        assert whole == set(texts)
    finally:
        servers.remove()


# Who is gone


async def test_calls_of_publishers_that_are_gone_are_closed_and_no_others(
    nats: Servers, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "GONE", 4.0)
    monkeypatch.setattr(fleet, "BEAT", 0.2)
    gone, lives = store_at(nats.url()), store_at(nats.url())
    for number, store in enumerate((gone, lives)):
        store.open()
        store.write(
            batch(store.codec, call(f"c{number}", session=f"s{number}", status="in_progress"))
        )
    gone.close()

    async def publish() -> None:  # others go on all the time: a collector is never without work
        for number in count():
            body = envelope(target, f"other{number}")
            await asyncio.to_thread(
                nats.do, lambda nc, js, body=body: js.publish("callsheet.core.host.o", body)
            )

    async with collecting(nats.url(), target, said := [], settled=1.0) as done:
        busy = asyncio.create_task(publish())
        await until(lambda: calls_in(target, status="open"))
        with read(target) as store:  # who reads it knows nothing of them
            assert store.recover() == 0
        await until(lambda: done.closed)
        busy.cancel()
        # Whoever does not say so is forgotten as soon as the other one.
        assert done.closed == 1
        assert calls_in(target, call_id="c0")[0].reason == "abandoned"
        assert calls_in(target, call_id="c1")[0].reason is None
        assert "1 call of publishers that are gone closed as abandoned." in said
        with read(target) as store:
            assert store.stats(Query()).indexed > 1
        # It was a mistake: the network was away.
        gone.open()
        gone.write(batch(gone.codec, call("c0", session="s0")))
        await until(lambda: calls_in(target, call_id="c0")[0].status == "completed")
    for store in (gone, lives):
        store.close()
    assert calls_in(target, call_id="c1")[0].status == "in_progress"


async def test_a_publisher_that_connects_again_is_the_same(nats: Servers) -> None:
    store = store_at(nats.url())
    for number in range(2):
        store.open()
        store.write(batch(store.codec, call(f"c{number}", status="in_progress")))
        store.close()

    async def writers(nc: Any, js: Any) -> set[str]:
        found = [await js.get_msg(fleet.ROWS, seq) for seq in (1, 2)]
        return {fleet.decode(one.data).writer for one in found}

    assert len(await asyncio.to_thread(nats.do, writers)) == 1


# When something is away


async def test_what_waits_while_the_servers_are_away_is_on_the_disk_and_comes_later(
    nats: Servers, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "PATIENCE", 1.0)
    said = list[str]()
    async with History(nats.url(), notify=said.append) as history:
        log = history.session("s")
        put(log, "before")
        put(log, "open", "in_progress")
        assert await history.flush()
        nats.kill(0)
        for number in range(10):
            put(log, f"c{number}")
            assert await history.flush()
        put(log, "open")
        assert await history.flush()
        assert history.health.spooled > 0
        assert len(said) == 1
        nats.start(0)
        await until(lambda: history.health.spooled == 0 and history.health.problem is None)
    assert len(said) == 2
    assert "is written again, with all that has waited" in said[1]
    async with collecting(nats.url(), target):
        await until_ended(target, 12)
    with read(target) as store:
        assert [one.position for one in store.timeline("s")] == list(range(12))


async def test_what_a_process_could_not_publish_the_next_one_does(
    nats: Servers, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nats.kill(0)
    with monkeypatch.context() as hurried:
        hurried.setattr(fleet, "CONNECT", 1.0)
        async with History(nats.url(), notify=lambda _: None) as history:
            put(history.session("s"), "first")
            assert await history.flush()
    await until_left(nats.url())
    nats.start(0)
    async with History(nats.url(), notify=(said := list[str]()).append) as history:
        put(history.session("s"), "second")
        async with collecting(nats.url(), target):
            await until_ended(target, 2)
    assert said == ["Wrote 1 entry that earlier processes could not write."]


async def test_a_server_that_hangs_delays_nobody_and_gets_all_of_it_later(
    nats: Servers, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "PATIENCE", 1.5)
    said = list[str]()
    async with History(nats.url(), notify=said.append) as history:
        log = history.session("s")
        put(log, "before")
        assert await history.flush()
        os.kill(nats.pid(), signal.SIGSTOP)
        for number in range(5):
            put(log, f"c{number}")
            began = time.monotonic()
            assert await history.flush()
            assert time.monotonic() - began < 5
        os.kill(nats.pid(), signal.SIGCONT)
        await until(lambda: history.health.spooled == 0 and history.health.problem is None)
    assert "does not acknowledge what is published" in said[0]
    assert len(said) == 2
    async with collecting(nats.url(), target):
        await until_ended(target, 6)


async def test_a_collector_waits_for_the_servers_and_for_the_store(
    nats: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "RETRY_MOST", 0.5)
    place = tmp_path / "place"
    target = f"sqlite:///{place / 'x.sqlite'}"
    place.write_text("a file, where a directory is needed")
    nats.kill(0)
    async with collecting(nats.url(), target, said := []):
        await until(lambda: said)
        await asyncio.sleep(0.7)
        assert len(said) == 1
        nats.start(0)
        await until(lambda: len(said) == 2)
        async with History(nats.url(), notify=lambda _: None) as history:
            put(history.session("s"), "a")
            await until(lambda: len(said) == 3)
            place.unlink()
            await until_ended(target, 1)
            await until(lambda: len(said) == 4)
            assert "is there again" in said[1]
            assert "is there again" in said[3]
            nats.kill(0)
            await until(lambda: len(said) == 5)
            nats.start(0)
            put(history.session("s", position=1), "b")
            await until_ended(target, 2)
            await until(lambda: len(said) == 6)


async def problem_of(url: str, **how: Any) -> str:
    said = list[str]()
    async with History(url, notify=said.append) as history:
        log = history.session("s")
        for number in range(3):
            put(log, f"c{number}")
            await history.flush()
        await until(lambda: history.health.problem)
        assert history.health.spooled == 3
        assert history.health.lost == 0
        found = history.health.problem
    assert found is not None
    assert len([one for one in said if "The work goes on" in one]) == 1, said
    return found


async def test_endpoints_that_are_wrong_are_named_once_and_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fleet, "CONNECT", 1.0)
    monkeypatch.setattr(fleet, "PATIENCE", 1.0)
    dead = await problem_of(f"nats://127.0.0.1:{free_port()}/core")
    assert "can't be reached" in dead

    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    for answer in (shout, silent):
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        assert "can't be reached" in await problem_of(f"nats://127.0.0.1:{port}/core")
        server.close()


async def test_connecting_ends_in_time_on_a_busy_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody answers, the driver tries for ever, and may miss that it is cancelled."""
    url, pick = f"nats://127.0.0.1:{free_port()}/core", random.Random(1)

    async def fails() -> None:
        await asyncio.sleep(pick.random() * 0.3)
        monkeypatch.setattr(fleet, "CONNECT", 0.25 + pick.random() * 0.3)
        with pytest.raises(fleet.ServersUnavailable, match="can't be reached"):
            await fleet.Connection(url).open()

    async def is_busy() -> None:
        while True:
            time.sleep(0.02)
            await asyncio.sleep(0)

    busy = asyncio.create_task(is_busy())
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(fails() for _ in range(400)))
    busy.cancel()


async def test_what_a_server_said_outranks_that_it_hung_up() -> None:
    async def refuse_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.close()  # who comes again finds nobody
        writer.write(b'INFO {"auth_required": true, "max_payload": 1048576}\r\n')
        await reader.readline()
        writer.write(b"-ERR 'Authorization Violation'\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse_once, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert "Authorization Violation" in await problem_of(f"nats://127.0.0.1:{port}/core")


async def test_servers_that_refuse_say_why() -> None:
    servers = Servers(settings="authorization { token: s3cret }")
    try:
        servers.start()
        refused = await problem_of(servers.url(who="wr0ng@"))
        assert "Authorization Violation" in refused
        assert "wr0ng" not in refused
        await until_left(servers.url(who="any@"))
        async with History(servers.url(who="s3cret@")) as history:
            put(history.session("s"), "a")
            assert await history.ask(lambda store: store.is_open)
            assert history.health.written == 4  # with what the one before has left
    finally:
        servers.remove()
    plain = Servers(jetstream=False)
    try:
        plain.start()
        assert "has no JetStream; start its server with --jetstream" in await problem_of(
            plain.url()
        )
    finally:
        plain.remove()


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (
            {"name": "CALLSHEET", "subjects": ["callsheet.>"], "retention": "interest"},
            "its retention is interest",
        ),
        (
            {"name": "CALLSHEET", "subjects": ["callsheet.>"], "max_msgs_per_subject": 1},
            "max_msgs_per_subject",
        ),
        ({"name": "CALLSHEET", "subjects": ["other.>"]}, "its subjects are not callsheet.>"),
        (
            {"name": "OTHER", "subjects": ["callsheet.>"]},
            "subjects overlap with an existing stream",
        ),
    ],
)
async def test_a_stream_that_would_lose_calls_is_not_used(
    nats: Servers, config: dict[str, Any], why: str, target: str
) -> None:
    await asyncio.to_thread(nats.do, lambda nc, js: js.add_stream(**config))
    assert why in await problem_of(nats.url())
    async with collecting(nats.url(), target, said := []):
        await until(lambda: said)
        assert why in said[0]


async def test_who_may_only_publish_publishes(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        fleet, "CONNECT", 2 * PATIENCE
    )  # an answer that never comes takes half of it
    users = (
        "{ user: all, password: a }, { user: pub, password: p, permissions: "
        '{ publish: ["callsheet.core.>", "callsheet_alive.core.>"], subscribe: ["_INBOX.>"] } }'
    )
    servers = Servers(settings=f"authorization {{ users: [{users}] }}")
    try:
        servers.start()
        async with collecting(servers.url(who="all:a@"), target):
            while not await asyncio.to_thread(servers.do, _has_stream, "all:a@"):
                await asyncio.sleep(0.02)
            began = time.monotonic()
            async with History(servers.url(who="pub:p@")) as history:
                put(history.session("s"), "a")
                assert await history.ask(lambda store: store.is_open)
                assert time.monotonic() - began < PATIENCE
                await until_ended(target, 1)
    finally:
        servers.remove()


async def _has_stream(nc: Any, js: Any) -> bool:
    with suppress(Exception):
        return bool(await js.stream_info(fleet.ALIVE))
    return False


# URLs and commands


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nats://h/t", "nats://h/t"),
        ("nats://s3cret@h:4222,h2:4223/t", "nats://…@h:4222,h2:4223/t"),
        ("tls://me:s3cret@h/t", "tls://me:…@h/t"),
        ("nats://[::1]:4222/t", "nats://[::1]:4222/t"),
    ],
)
def test_urls_that_name_servers(url: str, shown: str) -> None:
    check_url(url)
    assert without_password(url) == shown
    assert store_at(url).url == shown


@pytest.mark.parametrize(
    "url",
    ["nats://h", "nats://h/", "nats:///t", "nats://h:99999/t", "nats://h:x/t", "nats://h,/t", "nats://h/a/b",
     "nats://s3cret@/t", "nats://h t/t"],
)  # fmt: skip
def test_urls_that_do_not(url: str) -> None:
    with pytest.raises(BadUrl, match=r"expected nats://HOST:4222/TEAM") as found:
        check_url(url)
    assert "s3cret" not in str(found.value)


def test_reading_says_where_to_read(
    nats: Servers, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = cli_in_process(capsys, monkeypatch, nats.url())
    for args in (["history"], ["show", "last"], ["replay", "last"], ["history", "stats"]):
        code, out, err = cli(*args)
        assert (code, out) == (1, "")
        assert "can't be read: calls only pass through it" in err
        assert "callsheet collect --to" in err
    store = store_at(nats.url())
    with pytest.raises(HistoryError, match="can't be read"):
        store.heads(Query())


def test_the_doctor_asks_the_servers(
    nats: Servers, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out, _ = cli_in_process(capsys, monkeypatch, nats.url())("doctor")
    assert f"✓ history    {nats.url()}: " in out
    monkeypatch.setattr(fleet, "CONNECT", 1.0)
    _, out, _ = cli_in_process(capsys, monkeypatch, "nats://127.0.0.1:1/core")("doctor")
    assert "✗ history    nats://127.0.0.1:1/core can't be reached" in out


def test_collect_wants_servers_and_a_store(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    cli = cli_in_process(capsys, monkeypatch, "off")
    for source, store, why in (
        (target, target, "expected a fleet's servers"),
        ("nats://h/t", "nats://h/t", "expected a store"),
        ("nats://h:x/t", target, "expected nats://HOST:4222/TEAM"),
    ):
        code, _, err = cli("collect", "--from", source, "--to", store)
        assert code == 2
        assert why in err


async def test_collect_ends_cleanly_with_figures(nats: Servers, target: str) -> None:
    async with History(nats.url()) as history:
        for number in range(100):
            put(history.session("s"), f"c{number}")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "callsheet", "collect", "--from", nats.url(), "--to", target,
        cwd=ROOT, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        await until_ended(target, 100)
        process.send_signal(signal.SIGTERM)
        _, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0
    assert re.search(rb"\d+ entries collected, 0 messages wait", err.splitlines()[-1])


async def test_the_inspector_shows_a_fleet_live(nats: Servers, tmp_path: Path) -> None:
    async with History(nats.url()) as history:
        log = history.session("s", cwd="/code")
        put(log, "before")
        assert await history.flush()
        with inspector(nats.url(), TMPDIR=str(tmp_path)) as page:
            with page.events() as wait_for:
                state = await asyncio.to_thread(wait_for, lambda state: state["total"] == 1)
                assert state["history"] == nats.url()
                (place,) = tmp_path.glob("callsheet-*")
                assert place.stat().st_mode & 0o777 == 0o700
                put(log, "open", "in_progress")
                await asyncio.to_thread(wait_for, lambda state: state["total"] == 2)
            found = await asyncio.to_thread(page.get, "calls")
            assert {one["id"]: one["status"] for one in found["calls"]} == {
                "before": "completed",
                "open": "in_progress",
            }
        assert not place.exists()
