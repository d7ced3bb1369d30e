"""What is removed and what is not: retention, forgetting, and calls whose process is gone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from random import Random

import pytest

from callsheet.describe import Describer
from callsheet.history import Pruned, Query, Retention
from callsheet.history.store import Store
from tests.support import ROOT
from tests.support.stores import (
    NOW,
    batch,
    call,
    check_whole,
    count,
    keep,
    message,
    pruned,
    raw,
    store_in,
    store_of,
)


def prune(store: Store, keep_: Retention, *, most: int = 500, now: float = NOW) -> Pruned:
    """Prune, hold that all is whole, and return the sum of what was removed."""
    total = pruned(store, keep_, now=now, most=most)
    check_whole(store)
    return total


def ids(store: Store) -> list[str]:
    return sorted(head.call_id for head in store.heads(Query(limit=1 << 30)))


# Retention


def test_by_age_the_old_go_with_what_was_said_before_them(tmp_path: Path) -> None:
    with store_in(tmp_path, quick=True) as store:
        for n in range(10):
            keep(store, message(f"m{n}", "x" * 8192, position=2 * n, at=NOW - 100 * (10 - n)))
            keep(store, call(f"c{n}", position=2 * n + 1, at=NOW - 100 * (10 - n), text="y" * 8192))
        store.index()
        done = prune(store, Retention(max_age=350), most=3)
        assert (done.calls, done.messages, done.sessions) == (7, 7, 0)
        assert ids(store) == ["c7", "c8", "c9"]
        assert [one.position for one in store.timeline("s")] == [14, 15, 16, 17, 18, 19]


def test_sessions_of_which_nothing_is_left_go_too(tmp_path: Path) -> None:
    with store_in(tmp_path, quick=True) as store:
        keep(store, call("c", session="old", at=NOW - 1000))
        keep(store, message("m", "z" * 9000, session="said", at=NOW - 1000))
        keep(store, message("m", "z" * 9000, session="new", at=NOW - 1))
        done = prune(store, Retention(max_age=500))
        assert (done.calls, done.messages, done.sessions) == (1, 1, 2)
        assert [one.session_id for one in store.sessions()] == ["new"]


def test_by_count_the_oldest_go(tmp_path: Path) -> None:
    with store_in(tmp_path, quick=True) as store:
        keep(store, *(call(f"c{n:02}", at=NOW + n) for n in range(20)))
        prune(store, Retention(max_calls=5), most=4)
        assert sorted(head.at - NOW for head in store.heads(Query())) == [15, 16, 17, 18, 19]


def test_calls_that_run_never_go(tmp_path: Path) -> None:
    with store_in(tmp_path, quick=True) as store:
        keep(
            store,
            *(
                call(f"c{n}", at=NOW - 1000 + n, status="in_progress" if n < 3 else "completed")
                for n in range(6)
            ),
        )
        for rule in (
            Retention(max_age=1),
            Retention(max_calls=0),
            Retention(max_bytes=0),
        ):
            prune(store, rule)
            assert ids(store) == ["c0", "c1", "c2"]


def test_by_bytes_about_as_much_is_kept_as_may_be_and_the_file_becomes_smaller(
    tmp_path: Path,
) -> None:
    with store_in(tmp_path, quick=True) as store:
        for n in range(600):
            keep(
                store,
                call(
                    f"c{n:04}",
                    at=NOW + n,
                    text=Random(n).randbytes(1600).hex(" ", 3),
                ),
            )
        while store.index():
            pass
        file = tmp_path / "history.sqlite"
        raw(store).execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = file.stat().st_size
        limit = before // 2
        prune(store, Retention(max_bytes=limit), most=100)
        left = ids(store)
        assert file.stat().st_size <= limit
        assert left == [f"c{n:04}" for n in range(600 - len(left), 600)]  # the newest
        assert len(left) >= 200, (len(left), before, limit)  # and not many fewer than fit


def test_who_goes_on_after_an_interruption_has_a_limit_of_their_own(tmp_path: Path) -> None:
    with store_in(tmp_path, quick=True) as store:
        keep(store, *(call(f"c{n:03}", at=NOW + n, text="x" * 900) for n in range(100)))
        next(store.prune(Retention(max_bytes=0), now=NOW, most=10))  # and no more: it was stopped
        assert prune(store, Retention(max_bytes=1 << 30)).calls == 0
        assert len(ids(store)) == 90


def test_what_was_said_goes_too_where_only_that_takes_the_space(tmp_path: Path) -> None:
    with store_in(tmp_path, quick=True) as store:
        for n in range(100):
            keep(
                store,
                message(f"m{n:03}", Random(n).randbytes(4000).hex(), position=n, at=NOW - 100 + n),
            )
        file = tmp_path / "history.sqlite"
        done = prune(store, Retention(max_bytes=300_000), most=10)
        assert 0 < done.messages < 100
        assert file.stat().st_size <= 300_000
        left = [one.message_id for one in store.timeline("s")]
        assert left == [f"m{n:03}" for n in range(100 - len(left), 100)]


def test_spill_files_are_named_when_their_call_goes(tmp_path: Path) -> None:
    with store_in(tmp_path, quick=True) as store:
        told = {"truncated": [{"spill": "/s/1", "others": [{"spill": "/s/2"}]}, {"spill": "/s/3"}]}
        keep(
            store,
            call("c1", meta={"callsheet": told}),
            call("c2", session="b", meta={"callsheet": {"truncated": {"spill": "/s/4"}}}),
        )
        assert sorted(
            prune(store, Retention(max_calls=1)).spills + list(store.forget("b").spills)
        ) == ["/s/1", "/s/2", "/s/3", "/s/4"]


def test_nothing_goes_where_nothing_is_too_much(tmp_path: Path) -> None:
    with store_in(tmp_path, quick=True) as store:
        keep(store, call("c1"), message("m", "hi"))
        rule = Retention(
            max_age=1e6,
            max_calls=1,
            max_bytes=1 << 30,
        )
        assert prune(store, rule) == Pruned(spills=[])
        assert prune(store, Retention()) == Pruned(spills=[])


def test_others_write_between_the_steps(tmp_path: Path) -> None:
    with store_in(tmp_path) as store, store_in(tmp_path) as other:
        keep(store, *(call(f"c{n:03}", at=NOW + n) for n in range(100)))
        raw(other).execute("PRAGMA busy_timeout = 0")  # it would not wait at all
        for n in range(9):
            assert next(store.prune(Retention(max_calls=10 + n), now=NOW, most=10)).calls
            keep(other, call(f"new{n}", at=NOW + 1000))
        assert count(store, "calls") > 10


def test_space_is_given_back_also_while_somebody_reads(tmp_path: Path) -> None:
    with store_in(tmp_path) as store, store_in(tmp_path) as other:
        keep(
            store,
            *(
                call(f"c{n:03}", at=NOW + n, text=Random(n).randbytes(3000).hex())
                for n in range(100)
            ),
        )
        raw(other).execute("BEGIN")
        raw(other).execute("SELECT count(*) FROM calls").fetchone()
        gone = pruned(store, Retention(max_calls=10), now=NOW)  # does not wait for the reader
        assert gone.calls == 90
        raw(other).execute("COMMIT")
        store.vacuum()
        assert (tmp_path / "history.sqlite").stat().st_size < 250_000
        check_whole(store)


# Forgetting


def test_a_session_is_forgotten_with_all_it_had(tmp_path: Path) -> None:
    with store_in(tmp_path, quick=True) as store:
        for session in "ab":
            keep(
                store,
                call("c1", session=session, text="t" * 8192),
                call("c2", session=session, status="pending"),
            )
            keep(store, message("m", session * 8192, session=session, position=9))
        done = store.forget("a")
        assert (done.calls, done.messages, done.sessions) == (2, 1, 1)
        assert store.session("a") is None
        assert store.timeline("a") == []
        assert len(store.timeline("b")) == 3
        assert store.forget("a") == Pruned(spills=[])
        check_whole(store)


# Processes that are gone

LEAVES = """
    import os, sys, time
    from collections import deque
    from callsheet import ToolCallReport
    from callsheet.history import History
    from callsheet.report.terminal import CallRecord
    history = History(sys.argv[1])
    log = history.session("s", info={"locale": "de"})
    for status in ("pending", "in_progress", "paused", "completed"):
        notes = {"startedAt": "2026-01-02T03:04:05.678Z"}
        log.send(deque([CallRecord(ToolCallReport(status, "bash", "t", status=status, meta={"callsheet": notes}))]))
    assert history.wait(time.monotonic() + 60)
    print("ready", flush=True)
    sys.stdin.read()
    log.send(deque([CallRecord(ToolCallReport("paused", "bash", "true end", status="completed"))]))
    history.close_now()
"""


@pytest.fixture
def leaver(tmp_path: Path) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(LEAVES), f"sqlite:///{tmp_path}/history.sqlite"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process  # type: ignore[misc]
        process.kill()


def test_the_calls_of_a_killed_process_are_closed_as_abandoned(
    tmp_path: Path, leaver: subprocess.Popen[bytes]
) -> None:
    leaver.kill()
    leaver.wait(30)
    store = store_of(tmp_path / "history.sqlite")
    news = store.open()
    assert news == ["3 calls that a crash had left open were closed as abandoned."]
    said = Describer("/", locale="de").phrase("interrupted")
    for one in store.calls(Query(status="abandoned")):
        notes = one.record.report.notes
        assert (one.head.status, one.head.reason) == ("failed", "abandoned")
        assert one.record.report.status == "failed"
        assert one.record.report.content[-1].text == said
        assert notes["endedAt"].endswith("Z")
        assert one.head.duration_ms == notes["durationMs"] > 0
    assert count(store, "calls WHERE writer IS NOT NULL") == 0
    assert {h.call_id: h.status for h in store.heads(Query())}["completed"] == "completed"
    assert store.recover() == 0
    store.close()
    assert list((tmp_path / "history.sqlite.writers").iterdir()) == []


def test_the_calls_of_a_living_process_are_left_alone(
    tmp_path: Path, leaver: subprocess.Popen[bytes]
) -> None:
    with store_in(tmp_path, quick=True) as store:
        assert store.recover() == 0
        assert count(store, "calls WHERE writer IS NOT NULL") == 3
        assert [h.call_id for h in store.heads(Query(status="open", limit=1))] != []


def test_a_call_that_was_taken_for_abandoned_gets_its_true_end(
    tmp_path: Path, leaver: subprocess.Popen[bytes]
) -> None:
    shutil.rmtree(tmp_path / "history.sqlite.writers")  # now nothing says that it lives
    with store_in(tmp_path, quick=True) as store:
        heads = {head.call_id: head for head in store.heads(Query())}
        assert heads["paused"].reason == "abandoned"
        assert leaver.stdin is not None
        leaver.stdin.close()
        assert leaver.wait(30) == 0
        heads = {head.call_id: head for head in store.heads(Query())}
        assert (heads["paused"].status, heads["paused"].reason) == ("completed", None)
        assert heads["paused"].title == "true end"
        assert heads["pending"].reason == "abandoned"


def test_a_process_shows_again_that_it_lives_after_somebody_tidied_up(tmp_path: Path) -> None:
    with store_in(tmp_path, quick=True) as store:
        keep(store, call("c1", status="pending"))
        shutil.rmtree(tmp_path / "history.sqlite.writers")
        keep(store, call("c2", status="pending"))
        script = textwrap.dedent("""
            import sys, json
            from callsheet.history import store_at
            print(json.dumps(store_at(sys.argv[1]).open()))
        """)
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(
            [sys.executable, "-c", script, f"sqlite:///{tmp_path}/history.sqlite"],
            env=env, capture_output=True, timeout=60, check=True,
        )  # fmt: skip
        assert json.loads(done.stdout) == []
        assert len(store.heads(Query(status="open"))) == 2


def test_a_store_that_was_closed_leaves_nothing_open(tmp_path: Path) -> None:
    with store_in(tmp_path, quick=True) as store:
        store.write(batch(store.codec, call("c1", status="in_progress")))
    second = store_of(tmp_path / "history.sqlite")
    assert second.open() == ["1 call that a crash had left open was closed as abandoned."]
    second.close()


def test_a_call_that_can_not_be_read_is_closed_all_the_same(tmp_path: Path) -> None:
    with store_in(tmp_path, quick=True) as store:
        keep(store, call("c1", status="paused", title="lost one"))
        raw(store).execute("UPDATE calls SET payload = x'00'")
    with store_in(tmp_path, quick=True) as store:
        (found,) = store.calls(Query())
        assert (found.head.reason, found.record.report.title) == ("abandoned", "lost one")
