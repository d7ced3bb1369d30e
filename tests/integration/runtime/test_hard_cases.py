"""Sessions where things go wrong: odd sinks, odd values, closed loops, forks, signals, late threads."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from callsheet import GuardSettings, Peer, PermissionDenied, PipeSink, Session
from callsheet.testing import Recorder, assert_every_call_ended, updates_in


class OddSink:
    peer = Peer()

    def __init__(self, send: Any) -> None:
        self._send = send

    def send(self, items: deque[Any]) -> Any:
        return self._send(items)

    def close(self) -> None:
        pass


# Terminals, as Zed reads them


@pytest.mark.parametrize("late", [False, True], ids=["from the start", "attached late"])
async def test_a_terminal_is_reported_with_the_announcement_and_its_output_after_it(
    late: bool,
) -> None:
    recorder = Recorder(Peer(terminals="meta"))
    async with Session(
        sinks=[] if late else [recorder, Recorder(Peer(terminals="meta"))]
    ) as session:
        async with session.call("bash", {"command": "make"}) as call:
            call.start()
            call.write(b"one\n")
            if late:
                session.attach(recorder)
            call.write(b"two\n")
            call.succeed(raw={"exit_code": 0})
    keys = [
        (u["sessionUpdate"], sorted(k for k in u.get("_meta", {}) if k.startswith("terminal_")))
        for u in recorder.updates
    ]
    assert keys[0] == ("tool_call", ["terminal_info"])
    assert all("terminal_info" not in found for _, found in keys[1:])
    assert sum("terminal_exit" in found for _, found in keys) == 1
    shown = "".join(
        u["_meta"]["terminal_output"]["data"]
        for u in recorder.updates
        if "terminal_output" in u.get("_meta", {})
    )
    assert shown == "one\ntwo\n"


async def test_output_of_a_call_that_was_announced_without_a_terminal_is_text() -> None:
    recorder = Recorder(Peer(terminals="meta"))
    async with Session(sinks=[recorder]) as session:
        async with session.call("mcp__ci__status", {}) as call:
            await session.flush()
            call.write(b"green\n")
            call.succeed()
    assert not any("terminal" in str(update) for update in recorder.updates)
    (report,) = recorder.fold()
    assert report.content[0].text == "```\ngreen\n```"  # type: ignore[attr-defined]


async def test_a_command_that_writes_nothing_shows_no_empty_terminal_at_its_end() -> None:
    recorders = [Recorder(Peer(terminals="meta")), Recorder(), Recorder(Peer(version=2))]
    async with Session(sinks=recorders) as session:
        async with session.call("bash", {"command": "true"}) as call:
            await session.flush()
            call.succeed("Done", raw={"exit_code": 0})
    for recorder in recorders:
        (report,) = recorder.fold()
        assert [item.text for item in report.content] == ["Done"]  # type: ignore[attr-defined]


async def test_output_after_the_content_was_replaced_brings_nothing_old_back() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        async with session.call("bash", {"command": "x"}, title="Old") as call:
            call.write(b"one\n")
            await session.flush()
            call.update(title="New", content=["new content"])
            await session.flush()
            call.write(b"two\n")
            await session.flush()
            (report,) = recorder.fold()
            assert (report.title, [i.text for i in report.content]) == ("New", ["new content"])  # type: ignore[attr-defined]
            call.succeed()


async def test_a_thread_that_writes_fast_is_shown_whole_or_says_what_is_missing() -> None:
    import base64
    import re

    recorder = Recorder(Peer(version=2))
    piece, count = b"x" * 8191 + b"\n", 1000
    async with Session(sinks=[recorder]) as session:
        async with session.call("bash", {"command": "yes"}) as call:
            await asyncio.to_thread(lambda: [call.write(piece) for _ in range(count)])
            call.succeed()
    output = b"".join(base64.b64decode(u["data"]) for u in recorder.updates if "data" in u)
    left_out = sum(map(int, re.findall("\\[… (\\d+) bytes left out …\\]".encode(), output)))
    assert output.count(b"x") + output.count(b"x\n") + left_out >= len(piece) * count
    assert left_out < len(piece) * count / 4, "a healthy peer is shown nearly all of it"


# Odd sinks


@pytest.mark.parametrize("exc", [asyncio.CancelledError, GeneratorExit, RuntimeError])
async def test_a_sink_that_raises_anything_wedges_nothing(exc: type[BaseException]) -> None:
    def send(items: deque[Any]) -> None:
        raise exc

    good = Recorder()
    session = Session(sinks=[OddSink(send), good], dead_after=0.2).open()
    async with session.call("x", {}) as call:
        call.succeed()
    await asyncio.wait_for(session.close(), 5)
    assert session.health.failed > 0
    assert_every_call_ended(good)


async def test_a_sink_that_takes_nothing_is_given_up() -> None:
    session = Session(sinks=[OddSink(lambda items: None)], dead_after=0.2).open()
    async with session.call("x", {}) as call:
        call.succeed()
    await asyncio.wait_for(session.close(), 5)
    assert "took nothing" in session.health.faults[0]


async def test_a_consumer_may_flush_and_may_report() -> None:
    lines: list[bytes] = []

    async def busy(line: bytes) -> None:
        lines.append(line)
        await session.flush()
        if len(lines) < 10:
            async with session.call("nested", {}) as call:
                call.succeed()

    session = Session(on_update=busy)
    async with session:
        async with session.call("x", {}) as call:
            call.succeed()
        await asyncio.wait_for(session.flush(), 5)
    assert_every_call_ended(lines)


async def test_a_line_that_was_begun_is_finished_before_anything_else() -> None:
    read_end, write_end = os.pipe()
    received = bytearray()
    sink = PipeSink(write_end)
    session = Session(sinks=[sink]).open()
    call = session.call("x", {"text": "y" * 13_000}).__enter__()
    for number in range(12):
        call.update(raw_input={"text": f"{number}" * 13_000})
        await session.consumers[0]._loop.create_task(asyncio.sleep(0))
        session.consumers[0].flush()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()  # in the middle of a line
    await asyncio.sleep(0.01)

    def read() -> None:
        while data := os.read(read_end, 65536):
            received.extend(data)

    reader = asyncio.create_task(asyncio.to_thread(read))
    call.succeed()
    await session.close()
    os.close(write_end)
    await reader
    os.close(read_end)
    assert_every_call_ended(bytes(received).splitlines())


@pytest.mark.parametrize("kind", ["pipe", "socket"])
async def test_a_sink_that_is_given_up_leaves_nothing_in_the_loop(kind: str) -> None:
    if kind == "pipe":
        near, far = os.pipe()[::-1]
    else:
        one, two = socket.socketpair()
        near, far = one.detach(), two.detach()
    session = Session(sinks=[PipeSink(near)], dead_after=0.1).open()
    for _ in range(40):
        async with session.call("x", {"text": "y" * 9000}) as call:
            call.succeed("z" * 9000)
    await asyncio.sleep(0.3)
    assert session.health.dead == 1
    assert (
        not asyncio.get_running_loop()._selector.get_map()
        or len(  # type: ignore[attr-defined]
            asyncio.get_running_loop()._selector.get_map()  # type: ignore[attr-defined]
        )
        == 1
    )
    await session.close()
    os.close(near)
    os.close(far)


async def test_a_pseudo_terminals_master_gets_the_lines() -> None:
    master, slave = pty.openpty()
    os.set_blocking(slave, False)
    async with Session(sinks=[PipeSink(slave), PipeSink(master)]) as session:
        async with session.call("x", {}) as call:
            call.succeed()
    assert b"toolCallId" in os.read(master, 65536)
    assert b"toolCallId" in os.read(slave, 65536)
    os.close(master)
    os.close(slave)


# Closed, forked, interrupted


async def test_a_closed_session_says_nothing_whoever_comes_late() -> None:
    recorder = Recorder()
    session = Session(sinks=[recorder]).open()
    go, stop = threading.Event(), threading.Event()

    def late() -> None:
        go.wait(5)
        while not stop.is_set():
            with session.call("late", {}) as call:
                call.succeed()

    threads = [threading.Thread(target=late) for _ in range(3)]
    for thread in threads:
        thread.start()
    go.set()
    await asyncio.sleep(0.05)
    await session.close()
    lines = len(recorder.lines)
    await asyncio.sleep(0.05)
    stop.set()
    for thread in threads:
        thread.join()
    await asyncio.sleep(0.02)
    assert len(recorder.lines) == lines
    assert_every_call_ended(recorder)
    assert session.health.dropped > 0


def test_a_call_on_a_loop_that_has_ended_raises_nothing() -> None:
    for on_update in (lambda line: None, _slow, _raise):
        box: dict[str, Any] = {}

        async def open_it(on_update: Any = on_update, box: dict[str, Any] = box) -> None:
            box["session"] = session = Session(on_update=on_update).open()
            box["call"] = session.call("bash", {"command": "x"}).__enter__()
            await session.flush() if on_update is not _raise else None

        asyncio.run(open_it())
        box["call"].write(b"x" * 100_000)
        box["call"].succeed("y")
        asyncio.run(box["session"].close())


async def _slow(line: bytes) -> None:
    await asyncio.sleep(0)


def _raise(line: bytes) -> None:
    raise RuntimeError


def run(script: str, tmp_path: Path) -> bytes:
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent(script))
    done = subprocess.run([sys.executable, file], stdout=subprocess.PIPE, timeout=30, check=False)
    return done.stdout


def test_a_forked_child_says_nothing_even_of_what_waits(tmp_path: Path) -> None:
    out = run(
        """
        import asyncio, os, sys
        from callsheet import Session, PipeSink

        async def main():
            async with Session(sinks=[PipeSink(1)]) as session:
                async with session.call("x", {}) as call:
                    call.start()
                    if os.fork() == 0:
                        call.succeed("from the child")
                        await asyncio.sleep(0.05)
                        sys.exit(0)
                    os.wait()
                    call.succeed("done")

        asyncio.run(main())
        """,
        tmp_path,
    )
    assert list(assert_every_call_ended(out.splitlines()).values()) == [
        ["pending", "in_progress", "completed"]
    ]


def test_the_end_of_the_process_with_the_loop_in_another_thread(tmp_path: Path) -> None:
    out = run(
        """
        import asyncio, threading
        from callsheet import Session, PipeSink

        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        async def open_session():
            return Session(sinks=[PipeSink(1)]).open()
        session = asyncio.run_coroutine_threadsafe(open_session(), loop).result()
        for number in range(200):
            session.call("x", {"n": number}).__enter__().start()
        """,
        tmp_path,
    )
    assert_every_call_ended(out.splitlines(), at_least=200)


async def test_a_signals_handler_may_report() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        async with session.call("x", {}) as call:
            before = signal.signal(signal.SIGALRM, lambda *_: call.progress(1, 2, "alarm"))
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
            try:
                end = time.monotonic() + 0.3
                while time.monotonic() < end:
                    call.title("x")
                    call.write(b"y")
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
            call.succeed()
    assert_every_call_ended(recorder)


async def test_flush_waits_for_output_behind_a_long_line_of_changes() -> None:
    lines: list[bytes] = []

    async def slow(line: bytes) -> None:
        await asyncio.sleep(0)
        lines.append(line)

    async with Session(on_update=slow, peer=Peer(version=2)) as session:
        for number in range(100):
            async with session.call("x", {"text": f"{number:4}" * 1500}) as call:
                call.succeed("z" * 4000)
        async with session.call("bash", {"command": "x"}) as call:
            call.start()
            call.write(b"marker\n")
            await session.flush()
            assert any(u["sessionUpdate"] == "terminal_output_chunk" for u in updates_in(lines))
            call.succeed()


async def test_a_timeout_never_reaches_code_outside_its_call() -> None:
    async with Session(strict=True) as session:
        with contextlib.suppress(Exception):
            await session.call("x", {}, kind="nonsense", timeout=0.05).__aenter__()
        await asyncio.sleep(0.1)
    async with Session() as session:
        with session.call("x", {}, timeout=0.01) as call:
            time.sleep(0.02)
            call.succeed()
        assert session.health.degraded == 1
        with pytest.raises(TimeoutError):
            async with session.call("x", {}, timeout=30) as call:
                raise TimeoutError("the database")
        assert call.report.content[0].text == "TimeoutError: the database"  # type: ignore[attr-defined]


# Odd values


class Raises:
    def __repr__(self) -> str:
        raise ValueError("no")

    __str__ = __fspath__ = __iter__ = keys = __len__ = __repr__


ODD = [
    None,
    5,
    -1.5,
    float("nan"),
    b"\xff",
    "\ud800",
    [],
    {},
    object(),
    Raises(),
    {Raises(): 1},
    [[[]]],
    "x" * 100_000,
]


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
async def test_no_value_raises_into_the_tool_and_the_call_still_ends(value: Any) -> None:
    recorders = [
        Recorder(),
        Recorder(Peer(version=2)),
        Recorder(Peer(terminals="meta", owns_terminals=True)),
    ]
    async with Session(sinks=recorders) as session:
        options: dict[str, Any] = {}
        for name in (
            "title",
            "kind",
            "locations",
            "alias",
            "parent",
            "depends_on",
            "timeout",
            "meta",
            "custom",
        ):
            options[name] = value
        async with session.call(value, value, **options) as call:
            call.start()
            for method in (
                call.title,
                call.show,
                call.write,
                call.locate,
                call.terminal,
                call.progress,
                call.exit,
            ):
                method(value)
            call.update(
                title=value, content=value, raw_input=value, kind=value, nonsense=value, meta=value
            )
            call.diff(value, value, value)
            call.custom(x=value)
            call.usage(cpu_ms=value, max_rss_kb=value)
            call.succeed(value, raw=value)
            if not call.has_ended:
                call.fail(value, reason=value, raw=value)
    for recorder in recorders:
        assert_every_call_ended(recorder)


async def test_a_status_set_by_hand_is_a_real_move() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        async with session.batch("two", summary=True) as batch:
            for _ in range(2):
                async with batch.call("x", {}) as call:
                    call.update(status="in_progress")
                    call.update(status="completed", raw_output={"a": 1})
        async with session.call("y", {}) as call:
            call.update(status="cancelled")
    parent, one, _, cancelled = recorder.fold()
    assert parent.status.value == "completed"
    assert "durationMs" in one.notes
    assert one.raw_output == {"a": 1}
    assert cancelled.status.value == "cancelled"


async def test_items_are_shown_once_also_if_something_comes_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Session(guard=GuardSettings(spill=False)) as session:
        call = session.call("x", {}).__enter__()
        guard, bounded = session.guard, session.guard.bounded

        def interrupted(fields: dict[str, Any], *args: Any, **options: Any) -> Any:
            if "content" in fields:
                call.progress(len(fields["content"]), 400)
            return bounded(fields, *args, **options)

        monkeypatch.setattr(guard, "bounded", interrupted)
        for number in range(400):
            call.show(f"item {number} " + "y" * 300)
        whole = [item.text.split()[1] for item in call.whole_content(call.report)]  # type: ignore[attr-defined]
        assert [int(number) for number in whole] == list(range(400))
        assert "progress" in call.report.notes
        call.succeed()


@pytest.mark.parametrize("peer", [Peer(), Peer(version=2), Peer(terminals="meta")])
async def test_a_call_of_which_no_update_can_be_made_still_ends(peer: Peer) -> None:
    recorder = Recorder(peer)
    async with Session(sinks=[recorder]) as session:

        def broken(*_: Any, **__: Any) -> Any:
            raise RuntimeError("a bug in a view")

        session.consumers[0].queue.view.call = broken  # type: ignore[method-assign]
        async with session.call("x", {}) as call:
            call.title("Only views know what is new about this call")
            call.start()
            call.cancel()
    statuses = assert_every_call_ended(recorder)[call.id]
    assert statuses == ["pending", "in_progress", "cancelled" if peer.version == 2 else "failed"]
    assert session.health.degraded >= 2


# Permission


async def test_asking_is_not_held_up_by_other_consumers_and_ends_with_the_session() -> None:
    async def stuck(line: bytes) -> None:
        await asyncio.sleep(60)

    async def ask(question: Any) -> str:
        if question.report.name == "closing":
            closing = asyncio.create_task(session.close())
            await asyncio.sleep(0.05)
            assert closing
        if question.report.name == "broken":
            raise ConnectionError("gone")
        return "allow_once"

    client = Recorder()
    session = Session(sinks=[client, stuck], on_permission=ask, dead_after=0.5).open()
    async with session.call("bash", {"command": "ls"}) as call:
        await asyncio.wait_for(call.permission(), 0.3)
        call.succeed()
    with pytest.raises(PermissionDenied, match="gone"):
        async with session.call("broken", {}) as call:
            await call.permission()
    with pytest.raises(PermissionDenied):
        async with session.call("closing", {}) as call:
            await call.permission()
    await session.close()
    assert [r.status.value for r in client.fold()] == ["completed", "failed", "failed"]


async def test_a_plain_function_may_answer() -> None:
    async with Session(on_permission=lambda question: "allow_once") as session:
        async with session.call("bash", {}) as call:
            assert (await call.permission()).kind == "allow_once"
            call.succeed()
