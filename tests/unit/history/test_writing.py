"""The thread that writes: what is durable when, in which order, with several writers, and at the end."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from callsheet import Session, ToolCallContent
from callsheet.history import History, Query, StoreUnavailable
from callsheet.history import history as writing
from callsheet.history.sink import LONG
from callsheet.report.terminal import CallRecord
from callsheet.runtime.consumer import Consumer
from tests.support.stores import check_whole, count, report, store_in


class Told(list[str]):
    """What people were told."""

    def __call__(self, text: str) -> None:
        self.append(text)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
async def history(tmp_path: Path, told: Told) -> AsyncIterator[History]:
    history = History(f"sqlite:///{tmp_path}/history.sqlite", notify=told)
    yield history
    await history.close()
    assert told == []


def records(*reports: Any) -> deque[Any]:
    return deque(CallRecord(one) for one in reports)


# What is durable


async def test_a_quick_call_is_written_once_in_its_last_state(
    tmp_path: Path, history: History
) -> None:
    log = history.session("s")
    for status in ("pending", "in_progress", "completed"):
        log.send(records(report("c1", status=status)))
    assert await history.flush()
    assert history.health.written == 1
    (head,) = await history.ask(lambda store: store.heads(Query()))
    assert (head.status, head.position) == ("completed", 0)


async def test_the_order_of_a_session_is_kept(history: History) -> None:
    log = history.session("s")
    log.say("user", "m1", [{"type": "text", "text": "do"}])
    log.send(records(report("c1", status="pending"), report("c2", status="pending")))
    log.say("agent", "m2", [{"type": "text", "text": "one "}])
    log.send(records(report("c2")))
    log.say("agent", "m2", [{"type": "text", "text": "goes on"}])
    log.plan("p", [{"content": "a"}])
    log.send(records(report("c3"), report("c1")))
    log.plan("p", [{"content": "b"}])
    log.say("agent", "m2", [{"type": "text", "text": "end"}])
    found = await history.ask(lambda store: store.timeline("s"))
    said = [one.head.call_id if hasattr(one, "head") else one.blocks for one in found]
    text = [{"type": "text", "text": "one goes on"}]
    assert said == [
        [{"type": "text", "text": "do"}], "c1", "c2", text, [{"content": "b"}], "c3",
        [{"type": "text", "text": "end"}],
    ]  # fmt: skip


async def test_a_long_message_is_kept_whole_in_parts(tmp_path: Path, history: History) -> None:
    log = history.session("s")
    pieces = [f"{n:04} " * 40 for n in range(4 * LONG // 200)]
    for n, piece in enumerate(pieces):
        log.say("agent", "m", [{"type": "text", "text": piece}])
        if n % 20 == 0:
            await history.flush()
    found = await history.ask(lambda store: store.timeline("s"))
    assert "".join(block["text"] for one in found for block in one.blocks) == "".join(pieces)
    assert 3 <= len(found) <= 6
    await history.close()
    with store_in(tmp_path) as store:
        check_whole(store)


async def test_a_session_is_named_once_and_found_by_its_directory(history: History) -> None:
    odd = os.fsdecode(b"/caf\xe9")  # a directory whose name is no text
    for number, cwd in enumerate(("/code", odd, "/nul\0")):
        log = history.session(f"s{number}", cwd=cwd, info={"locale": "de"})
        log.name("  the \n title " + "x" * 200)
        log.name("another")
        log.send(records(report("c1")))
    assert await history.flush()
    sessions = await history.ask(lambda store: store.sessions())
    assert {one.session_id for one in sessions} == {"s0", "s1", "s2"}
    assert all(one.title.startswith("the title xx") for one in sessions)
    assert all(len(one.title) == 80 for one in sessions)
    for number, cwd in enumerate(("/code", odd)):
        (one,) = await history.ask(lambda store, cwd=cwd: store.sessions(cwd=cwd))
        assert one.session_id == f"s{number}"
    assert all(one.info == {"locale": "de"} for one in sessions)


async def test_questions_are_answered_while_much_is_written(history: History) -> None:
    log = history.session("s")
    seen: list[int] = []
    for turn in range(20):
        for number in range(50):
            log.send(records(report(f"c{turn}-{number}", text="x" * 300)))
        seen.append(len(await history.ask(lambda store: store.heads(Query(limit=10_000)))))
    assert seen == [50 * (turn + 1) for turn in range(20)]


async def test_several_sessions_and_threads_write_at_once(history: History) -> None:
    def work(name: str) -> None:
        log = history.session(name)
        for number in range(100):
            log.send(records(report(f"c{number}", status="pending")))
            log.send(records(report(f"c{number}")))

    threads = [threading.Thread(target=work, args=(f"s{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert await history.flush()
    for number in range(6):
        found = await history.ask(lambda store, n=number: store.timeline(f"s{n}", limit=1000))
        assert [(one.head.call_id, one.head.status) for one in found] == [
            (f"c{n}", "completed") for n in range(100)
        ]


# The end


async def test_closing_writes_what_waits_and_ends_the_thread(tmp_path: Path, told: Told) -> None:
    history = History(f"sqlite:///{tmp_path}/history.sqlite", notify=told)
    log = history.session("s")
    log.send(records(report("c1")))
    await history.close()
    await history.close()
    assert "callsheet-history" not in [thread.name for thread in threading.enumerate()]
    with store_in(tmp_path) as store:
        assert count(store, "calls") == 1
        assert len(list((tmp_path / "history.sqlite.writers").iterdir())) == 1  # this one's
    log.send(records(report("c2")))
    assert not await history.flush()
    assert history.health.lost == 1
    with pytest.raises(StoreUnavailable, match="closed"):
        await history.ask(lambda store: store.heads(Query()))


def test_without_a_loop_it_closes_too(tmp_path: Path, told: Told) -> None:
    history = History(f"sqlite:///{tmp_path}/history.sqlite", notify=told)
    history.close_now()  # nothing was begun
    history.session("s").send(records(report("c1")))
    history.close_now()
    with store_in(tmp_path) as store:
        assert count(store, "calls") == 1
    assert told == []


async def test_a_history_that_nothing_was_put_into_makes_no_file(
    tmp_path: Path, told: Told
) -> None:
    history = History(f"sqlite:///{tmp_path}/a/history.sqlite", notify=told)
    history.session("s")
    assert await history.flush()
    await history.close()
    assert list(tmp_path.iterdir()) == []


async def test_where_no_thread_can_be_started_that_is_said_and_caught_up_with(
    tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    history = History(f"sqlite:///{tmp_path}/history.sqlite", notify=told)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for key in ("c1", "c2"):
            history.session("s").send(records(report(key)))
        assert await history.flush()
        assert history.health.spooled == 2
        with pytest.raises(StoreUnavailable, match="No thread can be started"):
            await history.ask(lambda store: store.heads(Query()))
    history.session("s").send(records(report("c3")))
    while history.health.problem:  # what fails is not waited for; it is tried again soon
        await history.flush()
        await asyncio.sleep(0.05)
    found = await history.ask(lambda store: store.heads(Query()))
    assert sorted(head.call_id for head in found) == ["c1", "c2", "c3"]
    assert [text[:24] for text in told] == ["No thread can be started", told[1][:24]]
    assert "is written again" in told[1]
    await history.close()


# Odd givers and listeners


async def test_what_can_not_be_kept_is_reported_and_holds_up_nothing(
    tmp_path: Path, told: Told
) -> None:
    history = History(f"sqlite:///{tmp_path}/history.sqlite", notify=told)
    log = history.session("s")
    good = [report(f"c{n}") for n in range(30)]
    log.send(records(*good[:15]))
    log.say("agent", "m", [{"type": "text", "text": object()}])
    history.session("bad \ud800", position=1 << 70).send(
        records(report("x"))
    )  # no column takes that
    log.send(records(*good[15:]))
    assert await history.flush()
    heads = await history.ask(lambda store: store.heads(Query(limit=100)))
    assert {head.call_id for head in heads} == {f"c{n}" for n in range(30)}
    assert history.health.lost == 2
    assert len([text for text in told if "can't be kept" in text]) == 1
    assert not any("set aside" in text for text in told)
    await history.close()


async def test_a_listener_that_fails_keeps_nothing_from_being_written(tmp_path: Path) -> None:
    def tell(text: str) -> None:
        raise RuntimeError(text)

    (tmp_path / "history.sqlite").write_bytes(b"no database at all" * 100)
    history = History(f"sqlite:///{tmp_path}/history.sqlite", notify=tell)
    history.session("s").send(records(report("c1")))
    assert await history.flush()
    await history.close()


async def test_in_quiet_times_it_indexes_and_prunes_and_lets_spills_go(
    tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "IDLE", 0.01)
    gone: list[str] = []
    spilled = {"callsheet": {"truncated": {"spill": "/tmp/spill-1"}}}
    history = History(
        f"sqlite:///{tmp_path}/history.sqlite",
        keep=writing.Retention(max_calls=1),
        notify=told,
        forget_spills=gone.extend,
    )
    log = history.session("s")
    log.send(records(report("c1", meta=spilled)))
    await asyncio.sleep(0.002)
    log.send(records(report("c2")))
    assert await history.flush()
    until = time.monotonic() + 20
    while not gone and time.monotonic() < until:
        await asyncio.sleep(0.01)
    assert gone == ["/tmp/spill-1"]
    stats = await history.ask(lambda store: store.stats(Query()))
    assert (stats.calls, stats.indexed) == (1, 1)
    await history.close()
    assert told == []


async def test_a_session_that_is_forgotten_takes_its_spill_files_along(tmp_path: Path) -> None:
    gone: list[str] = []
    spilled = {"callsheet": {"truncated": {"spill": "/tmp/spill-1"}}}
    url = f"sqlite:///{tmp_path}/history.sqlite"
    async with History(url, forget_spills=gone.extend) as history:
        history.session("s").send(records(report("c1", meta=spilled)))
        assert (await history.forget("s")).calls == 1
    assert gone == ["/tmp/spill-1"]


async def test_a_call_that_a_handler_ends_within_an_earlier_change_has_ended(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, real = history.session("s"), Consumer.put
    async with Session("s", sinks=[log]) as session:
        async with session.call("read", {"path": "/a"}) as call:
            call.start()
            with monkeypatch.context() as patched:

                def interrupted(consumer: Consumer, report: Any, *rest: Any) -> None:
                    patched.setattr(Consumer, "put", real)
                    call.succeed("done")  # as a signal's handler would, just here
                    real(consumer, report, *rest)

                patched.setattr(Consumer, "put", interrupted)
                call.progress(1, 2)
        await session.flush()
        (head,) = await history.ask(lambda store: store.heads(Query()))
        assert (head.status, head.position) == ("completed", 0)
        assert log.position == 1


async def test_a_session_of_real_calls_is_kept_as_it_was_reported(history: History) -> None:
    log = history.session("s")
    async with Session("s", sinks=[log]) as session:
        async with session.call("read", {"path": "/a"}) as call:
            call.show(ToolCallContent.image(b"\x89PNG" * 5000, "image/png"))
            call.succeed()
        with pytest.raises(ZeroDivisionError):
            async with session.call("fail", {}):
                _ = 1 / 0
        await session.flush()
        kept = await history.ask(lambda store: store.calls(Query()))
        known = {one.tool_call_id: one for one in session.reports}
        assert {one.head.call_id: one.record.report for one in kept} == known
        assert sorted(one.head.status for one in kept) == ["completed", "failed"]
