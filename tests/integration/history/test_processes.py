"""The history over several processes: what others can read, what exits and forks leave, and many at once."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callsheet.history import History, Query
from callsheet.report.terminal import CallRecord
from tests.support import ROOT
from tests.support.sizes import sized
from tests.support.stores import check_whole, count, report, store_in

SRC = str(ROOT / "src")

_started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    for process in _started:
        process.kill()
        process.communicate()
    _started.clear()


def start(script: str, *args: str, **more: Any) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": SRC}
    code = textwrap.dedent(script)
    process = subprocess.Popen(
        [sys.executable, "-c", code, *args],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, **more,
    )  # fmt: skip
    _started.append(process)
    return process


def finish(process: subprocess.Popen[str], seconds: float = 60) -> str:
    out, errors = process.communicate(timeout=seconds)
    _started.remove(process)
    assert process.returncode == 0, errors
    return out


async def test_flushed_means_that_any_other_process_can_read_it(
    tmp_path: Path,
) -> None:
    history = History(f"sqlite:///{tmp_path}/history.sqlite")
    log = history.session("s")
    log.send(deque(CallRecord(one) for one in (report("c1"), report("c2", status="pending"))))
    assert await history.flush()
    script = """
        import sqlite3, sys
        db = sqlite3.connect(sys.argv[1])
        print(db.execute("SELECT call_id, status FROM calls ORDER BY call_id").fetchall())
    """
    out = finish(start(script, f"{tmp_path}/history.sqlite"))
    assert out.strip() == "[('c1', 'completed'), ('c2', 'pending')]"
    await history.close()


EXITS = """
    import asyncio, sys
    from callsheet import Session
    from callsheet.history import History
    async def main():
        history = History(sys.argv[1])
        session = Session("s", sinks=[history.session("s")]).open()
        call = session.call("bash", {"command": "sleep 100"})
        await call.__aenter__()
        done = session.call("read", {"path": "/a"})
        async with done:
            done.succeed()
        print(call.id, done.id, flush=True)
        if sys.argv[2] == "flushed":
            await session.flush()
            await history.flush()
        sys.exit(0)
    asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["flushed", "at once"])
def test_a_program_that_just_exits_leaves_ended_calls(tmp_path: Path, how: str) -> None:
    out = finish(start(EXITS, f"sqlite:///{tmp_path}/history.sqlite", how))
    with store_in(tmp_path, write=False) as store:
        heads = {head.call_id: head for head in store.heads(Query())}
        running, done = out.split()
        assert heads[done].status == "completed"
        assert (heads[running].status, heads[running].reason) == ("failed", "abandoned")


FORGETS = """
    import asyncio, sys
    from callsheet import Session
    from callsheet.history import History
    async def main():
        async with Session("s", sinks=[History(sys.argv[1]).session("s")]) as session:
            async with session.call("read", {"path": "/a"}) as call:
                call.succeed()
    asyncio.run(main())
"""


def test_a_program_that_never_closes_its_history_loses_nothing(tmp_path: Path) -> None:
    finish(start(FORGETS, f"sqlite:///{tmp_path}/history.sqlite"))
    with store_in(tmp_path, write=False) as store:
        assert [head.status for head in store.heads(Query())] == ["completed"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_keeps_its_own_and_leaves_its_parents(tmp_path: Path) -> None:
    script = """
        import os, sys, time
        from collections import deque
        from callsheet import ToolCallReport
        from callsheet.history import History
        from callsheet.report.terminal import CallRecord
        def put(log, key, status="completed"):
            log.send(deque([CallRecord(ToolCallReport(key, "read", key, status=status))]))
        history = History(sys.argv[1])
        log = history.session("parent")
        put(log, "open", "in_progress")
        put(log, "before")
        history.wait(time.monotonic() + 60)
        put(log, "waits")
        child = os.fork()
        if child == 0:
            put(history.session("child"), "of child")
            history.close_now()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        put(log, "after")
        assert history.wait(time.monotonic() + 60)
        history.close_now()
    """
    finish(start(script, f"sqlite:///{tmp_path}/history.sqlite"))
    with store_in(tmp_path, write=False) as store:
        found = [(h.session_id, h.call_id, h.status) for h in store.heads(Query())]
        assert sorted(found) == [
            ("child", "of child", "completed"),
            ("parent", "after", "completed"),
            ("parent", "before", "completed"),
            ("parent", "open", "in_progress"),
            ("parent", "waits", "completed"),
        ]


# Several processes

WRITER = """
    import asyncio, sys
    from callsheet import Session
    from callsheet.history import History, history as writing, sqlite
    writing.SOON = sqlite.BUSY = 60  # a machine that is busy is no reason to spool
    url, name, many = sys.argv[1], sys.argv[2], int(sys.argv[3])
    told = []
    async def main():
        history = History(url, notify=told.append)
        async with Session(name, sinks=[history.session(name)]) as session:
            for number in range(many):
                async with session.call("bash", {"command": f"echo {number}", "text": "shared " * 2000}) as call:
                    call.show(f"{name} {number}")
                    call.succeed()
                if number % 10 == 0:
                    await session.flush()
                    assert await history.flush(30)
        await history.close(30)
    asyncio.run(main())
    print(len(told), told)
"""
READER = """
    import sys
    from pathlib import Path
    from callsheet.history import Query, store_at
    store = store_at(sys.argv[1])
    store.open(write=False)
    print("open", flush=True)
    seen, ended = 0, False
    while not ended:  # once more after the end: a reader that was never scheduled before sees calls, too
        ended = Path(sys.argv[2]).exists()
        calls = store.calls(Query(limit=30))
        for call in calls:
            assert call.record.report.raw_input["text"] == "shared " * 2000
        seen += len(calls)
        store.heads(Query(search="echo", limit=5))
        store.stats(Query())
    print(seen)
    store.close()
"""


def test_four_processes_write_and_two_read_at_once(tmp_path: Path) -> None:
    many, url, end = sized(400, 40), f"sqlite:///{tmp_path}/history.sqlite", tmp_path / "end"
    with store_in(tmp_path):  # readers open a history that is there
        pass
    readers = [start(READER, url, str(end)) for _ in range(2)]
    assert [reader.stdout.readline() for reader in readers if reader.stdout] == ["open\n"] * 2
    writers = [start(WRITER, url, f"w{n}", str(many)) for n in range(4)]
    try:
        outs = [finish(writer, 120) for writer in writers]
    finally:
        end.touch()
    assert outs == ["0 []\n"] * 4, outs
    assert all(int(finish(reader)) > 0 for reader in readers)
    with store_in(tmp_path) as store:
        assert count(store, "calls") == 4 * many
        for n in range(4):
            found = store.timeline(f"w{n}", limit=10_000)
            said = [one.record.report.content[0].text for one in found]
            assert said == [f"w{n} {number}" for number in range(many)]
            assert {one.head.status for one in found} == {"completed"}
        assert len(store.heads(Query(search=f"w3 {many - 1}", limit=500))) == 1
        check_whole(store)
