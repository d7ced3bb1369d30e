"""The store in a file: what is written, in which order it comes back, and what finds it."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.history import BadUrl, HistoryError, NotKept, Query, StoreTooNew, sqlite
from callsheet.history.rows import Head
from callsheet.history.store import Store
from callsheet.report.status import Reason
from tests.support.stores import (
    NOW,
    batch,
    call,
    check_whole,
    count,
    examples,
    keep,
    message,
    raw,
    store_in,
    store_of,
)

STATUSES = ["pending", "in_progress", "paused", "completed", "failed", "cancelled"]
OPEN = STATUSES[:3]


# Writing


def test_a_call_that_was_kept_comes_back_whole(tmp_path: Path) -> None:
    item = call("c1", text="x" * 9000, raw_input={"path": "/a"})
    with store_in(tmp_path) as store:
        keep(store, item)
        (found,) = store.calls(Query())
        assert found.record == item.record
        assert (found.head.call_id, found.head.at, found.head.updated_at) == ("c1", NOW, NOW + 1)
        assert found.head.size > 9000
        check_whole(store)


def dump(store: Store) -> list[str]:
    return [line for line in raw(store).iterdump() if "sqlite_sequence" not in line]


def test_the_same_batch_again_changes_nothing(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        items = [
            call("c1", text="y" * 8192),
            call("c2", status="pending"),
            message("m", "z" * 8192),
        ]
        keep(store, *items)
        before = dump(store)
        keep(store, *items)
        assert dump(store) == before


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
@pytest.mark.parametrize("later", STATUSES)
def test_a_call_that_has_ended_does_not_change_any_more(
    tmp_path: Path, end: str, later: str
) -> None:
    with store_in(tmp_path) as store:
        for status in ("pending", "in_progress", end):
            keep(store, call("c1", status=status, text=f"state {status} " * 600))
        keep(store, call("c1", status=later, title="too late", text="other " * 8192))
        (found,) = store.calls(Query())
        assert (found.head.status, found.head.title) == (end, "read c1")
        assert found.record.report.status == end
        assert count(store, "calls") == 1


def test_the_place_and_time_of_a_call_are_those_of_its_beginning(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        keep(store, call("c1", status="pending", position=3))
        keep(store, call("c1", position=9, at=NOW + 50))
        (head,) = store.heads(Query())
        assert (head.position, head.at, head.updated_at) == (3, NOW, NOW + 51)


def test_two_sessions_may_have_the_same_id_of_a_call(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        keep(store, call("c1", session="a"), call("c1", session="b", name="write"))
        assert {h.session_id: h.name for h in store.heads(Query(call_id="c1"))} == {
            "a": "read",
            "b": "write",
        }


def test_a_batch_is_written_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        made = batch(store.codec, call("c1"), call("c2"))
        made[1][1].payload = None  # type: ignore[assignment] # no row takes that
        with pytest.raises(Exception, match="NOT NULL"):
            store.write(made)
        assert count(store, "calls") == count(store, "sessions") == 0


def test_a_state_that_comes_too_late_takes_no_text_from_the_call(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        keep(store, call("c1", text="true " * 2000))
        keep(store, call("c1", status="in_progress", text="late " * 2000))
        (found,) = store.calls(Query())
        assert found.record.report.content[0].text == "true " * 2000


# Asking

reasons = [None, *(reason.value for reason in Reason if reason is not Reason.CANCELLED)]


@st.composite
def kept_calls(draw: st.DrawFn) -> list[Any]:
    made = []
    for number in range(draw(st.integers(0, 14))):
        status = draw(st.sampled_from(STATUSES))
        fields: dict[str, Any] = {"status": status}
        if status == "failed" and (reason := draw(st.sampled_from(reasons))):
            fields["reason"] = reason
        made.append(
            call(
                f"c{number}",
                session=draw(st.sampled_from("ab")),
                at=NOW + draw(st.integers(0, 4)),
                name=draw(st.sampled_from(["read", "bash"])),
                title=draw(st.sampled_from(["the red fox", "the blue fox", "un élan"])),
                **fields,
            )
        )
    return made


queries = st.builds(
    Query,
    session_id=st.none() | st.sampled_from("abx"),
    call_id=st.none() | st.sampled_from(["c0", "c3"]),
    tool=st.none() | st.sampled_from(["read", "bash", "none"]),
    status=st.none() | st.sampled_from([*STATUSES, "open", "denied", "abandoned", "what"]),
    since=st.none() | st.sampled_from([NOW + 1, NOW + 3]),
    until=st.none() | st.sampled_from([NOW + 1, NOW + 3]),
    search=st.none() | st.sampled_from(["fox", "red", "elan", "fo", "blue the", '"blue the"']),
)


def meets(head: Head, query: Query, title: str) -> bool:
    """The question as the documents say it, without a database."""
    is_open = head.status in OPEN
    words = {"elan": "un élan", '"blue the"': "nothing", "blue the": "the blue fox"}
    return all(
        (
            query.session_id in (None, head.session_id),
            query.call_id in (None, head.call_id),
            query.tool in (None, head.name),
            query.status in (None, head.status, head.reason)
            or (query.status == "open" and is_open),
            query.since is None or head.at >= query.since,
            query.until is None or head.at < query.until,
            query.search is None
            or (not is_open and words.get(query.search, query.search) in title),
        )
    )


@examples(30)
@given(kept_calls(), st.lists(queries, min_size=4, max_size=8), st.integers(1, 4))
def test_what_is_asked_for_comes_newest_first_in_pages_without_gaps(
    tmp_path_factory: pytest.TempPathFactory, items: list[Any], asked: list[Query], page: int
) -> None:
    folder = tmp_path_factory.mktemp("asked")
    with store_in(folder, quick=True) as store:
        if items:
            keep(store, *items)
        everything = store.heads(Query(limit=1000))
        assert len(everything) == len(items)
        for query in asked:
            right = [head for head in everything if meets(head, query, head.title)]
            right.sort(key=lambda head: (head.at, head.session_id, head.call_id), reverse=True)
            found: list[Head] = []
            before = None
            while True:
                part = store.heads(query_with(query, before, page))
                found += part
                if len(part) < page:
                    break
                before = (part[-1].at, part[-1].session_id, part[-1].call_id)
            assert found == right, query
            assert [one.head for one in store.calls(query_with(query, None, 1000))] == right
            check_stats(store, query, right)
    shutil.rmtree(folder)


def query_with(query: Query, before: Any, limit: int) -> Query:
    fields = {name: getattr(query, name) for name in query.__struct_fields__}
    return Query(**{**fields, "before": before, "limit": limit})


def check_stats(store: Store, query: Query, right: list[Head]) -> None:
    stats = store.stats(query)
    assert stats.calls == len(right)
    assert stats.open == sum(head.status in OPEN for head in right)
    assert stats.failed == sum(head.status == "failed" for head in right)
    assert stats.size == sum(head.size for head in right)
    assert stats.oldest == min((head.at for head in right), default=None)
    assert stats.newest == max((head.at for head in right), default=None)
    assert {tool.name: tool.calls for tool in stats.tools} == Counter(head.name for head in right)
    for tool in stats.tools:
        of_tool = [head for head in right if head.name == tool.name]
        assert tool.cancelled == sum(head.status == "cancelled" for head in of_tool)


@pytest.mark.parametrize(("values", "half", "most"), [
    ([], None, None), ([7], 7, 7), ([1, 2], 1, 2), (range(1, 101), 50, 95), (range(1, 61), 30, 57),
])  # fmt: skip
def test_durations_are_reported_by_rank(tmp_path: Path, values: Any, half: Any, most: Any) -> None:
    with store_in(tmp_path) as store:
        items = [call(f"c{n}", meta={"callsheet": {"durationMs": n}}) for n in reversed(values)]
        keep(store, call("x"), *items)  # one has none
        (tool,) = store.stats(Query()).tools
        assert (tool.p50, tool.p95) == (half, most)


def test_sessions_come_in_pages_the_last_used_first(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        for number in range(11):
            keep(store, call("c", session=f"s{number:02}", at=NOW + number // 3))
        found: list[str] = []
        before = None
        while page := store.sessions(before=before, limit=4):
            found += [one.session_id for one in page]
            before = (page[-1].updated_at, page[-1].session_id)
        assert found == sorted(found, reverse=True)
        assert len(found) == 11
        assert [one.session_id for one in store.sessions(cwd="/s03")] == ["s03"]
        assert store.session("s03").calls == 1
        assert store.session("none") is None


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=12), st.integers(1, 5))
@examples(20)
def test_a_timeline_has_everything_once_in_order_also_where_positions_meet(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[bool, int]], page: int
) -> None:
    folder = tmp_path_factory.mktemp("timeline")
    with store_in(folder, quick=True) as store:
        for number, (is_call, position) in enumerate(entries):
            make = call if is_call else message
            keep(store, make(f"e{number}", *([] if is_call else ["hi"]), position=position))
        found: list[Any] = []
        after = -1
        while part := store.timeline("s", after=after, limit=page):
            found += part
            after = part[-1].position
        assert [one.position for one in found] == sorted(position for _, position in entries)
        names = [
            one.message_id if hasattr(one, "message_id") else one.head.call_id for one in found
        ]
        assert sorted(names) == sorted(f"e{number}" for number in range(len(entries)))
        assert store.last_position("s") == max((p for _, p in entries), default=-1)
    shutil.rmtree(folder)


def test_there_is_no_position_where_there_is_nothing(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        assert store.last_position("none") == -1
        assert store.timeline("none") == []


# Files


def test_to_read_what_is_not_there_makes_nothing(tmp_path: Path) -> None:
    store = store_of(tmp_path / "none" / "history.sqlite")
    with pytest.raises(NotKept, match="no history at"):
        store.open(write=False)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "name", ["a b?c#d%41.db", "ü漢.db", "file:x", b"\xff\xfe.db".decode(errors="surrogateescape")]
)
def test_a_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    store = store_of(tmp_path / name)
    store.open()
    keep(store, call("c1"))
    store.close()
    assert (tmp_path / name).stat().st_size > 0
    assert (tmp_path / name).stat().st_mode & 0o77 == 0  # nobody else's to read


def test_a_file_of_a_later_version_is_left_as_it_is(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        raw(store).execute("PRAGMA user_version = 99")
    file = tmp_path / "history.sqlite"
    before = file.read_bytes()
    for write in (True, False):
        with pytest.raises(StoreTooNew, match=r"version 99.*another file"):
            store_of(file).open(write=write)
    assert file.read_bytes() == before
    assert sorted(one.name for one in tmp_path.glob("*damaged*")) == []


@pytest.mark.parametrize("version", [0, 1, 5])
def test_another_programs_database_is_left_alone(tmp_path: Path, version: int) -> None:
    file = tmp_path / "history.sqlite"
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE mine (x)")
        db.execute(f"PRAGMA user_version = {version}")
        db.commit()
    before = file.read_bytes()
    for write in (True, False):
        with pytest.raises(BadUrl, match=r"another program.*another file"):
            store_of(file).open(write=write)
    assert file.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["history.sqlite"]


@pytest.mark.parametrize("write", [True, False])
@pytest.mark.parametrize("moment", range(8))
def test_a_file_that_is_just_being_begun_is_nobody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int, write: bool
) -> None:
    file = tmp_path / "history.sqlite"
    file.touch()
    connection, said = sqlite.connection, 0

    def traced(named: Path, mode: str) -> sqlite3.Connection:
        def before(_: str) -> None:
            nonlocal said
            said += 1
            if said == moment + 1:
                with monkeypatch.context() as patch:
                    patch.setattr(sqlite, "connection", impatient)
                    patch.setattr(sqlite, "BUSY", 0.0)
                    with (
                        closing(store_of(file)) as reader,
                        suppress(HistoryError),
                    ):  # it is our turn
                        reader.open(write=False)

        db = connection(named, mode)
        db.set_trace_callback(before)
        return db

    def impatient(named: Path, mode: str) -> sqlite3.Connection:
        db = connection(named, mode)
        db.execute("PRAGMA busy_timeout = 0")
        return db

    monkeypatch.setattr(sqlite, "connection", traced)
    store = store_of(file)
    store.open(write=write)
    assert count(store, "calls") == 0
    store.close()
    assert said > moment


# Damage of single rows


def test_one_damaged_call_hides_no_other(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        items = [call(f"c{n}", position=n, at=NOW + n, title=f"word{n}") for n in range(5)]
        keep(
            store,
            *items,
            call("open", position=6, status="in_progress"),
            message("m", "hi", position=7),
        )
        raw(store).execute("UPDATE calls SET payload = x'00ff' WHERE call_id IN ('c2', 'open')")
        raw(store).execute("UPDATE messages SET payload = x'00ff'")
        shown = store.timeline("s")
        assert [one.position for one in shown] == [0, 1, 2, 3, 4, 6, 7]
        assert "lost" in shown[2].record.report.content[0].text
        assert shown[2].record.report.title == "word2"
        assert [head.call_id for head in store.heads(Query(search="word3"))] == ["c3"]
        store.vacuum()
        assert store.forget("s").calls == 6
        check_whole(store)
