"""What both engines do alike: the same tests, over SQLite and PostgreSQL."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from callsheet.cli.history.lookup import all_heads
from callsheet.history import History, NotKept, Query, Retention, Store, StoreTooNew, store_at
from callsheet.history.rows import Origin, StoredCall
from tests.support import stores
from tests.support.engines import (
    NOON,
    batch,
    call,
    database,
    engine,
    ids,
    message,
    postgres,
    store,
    url,
)
from tests.support.postgres import Server, needs_postgres

__all__ = ["database", "engine", "postgres", "store", "url"]

LARGE = "a large text, " * 1000
NOISE = random.Random(0).randbytes(9000).hex()


async def test_what_is_written_is_read_again_whole_the_newest_first(store: Store) -> None:
    texts = ["", "short", LARGE, "nul \0 in it", "\0blob:00", "日本語 ß é 🙂", LARGE + "other"]
    given = [call(number, text) for number, text in enumerate(texts)]
    store.write(batch(given))
    found = store.calls(Query())
    assert [one.record for one in found] == [one.record for one in reversed(given)]
    assert [one.head.at for one in found] == [one.at for one in reversed(given)]
    assert [one.head.position for one in found] == [6, 5, 4, 3, 2, 1, 0]
    assert found == store.calls(Query(session_id="s1"))
    assert store.calls(Query(call_id="call_s1_2")) == [found[4]]


async def test_nul_in_an_id_is_no_reason_to_keep_nothing(store: Store, url: str) -> None:
    async with History(url) as history:
        history.session("a\0b").say("agent", "m\0", [{"type": "text", "text": "said"}])
    assert len(store.timeline("a\0b")) == 1
    assert store.session("a\0b") is not None
    assert ids(store, call_id="a\0b") == []


async def test_a_call_changes_until_it_has_ended_and_keeps_its_place(store: Store) -> None:
    store.write(batch([call(1, "", status="in_progress")]))
    assert ids(store, status="open") == ["call_s1_1"]
    store.write(batch([replace(call(1, LARGE), at=NOON + 50, position=50)]))
    (found,) = store.calls(Query())
    assert (found.head.status, found.head.at, found.head.position) == ("completed", NOON + 1, 1)
    store.write(batch([call(1, "late", status="in_progress")]))
    store.write(batch([call(1, "later", status="failed")]))
    assert store.calls(Query()) == [found]
    assert ids(store, status="open") == []


async def test_an_earlier_state_that_comes_late_changes_nothing(store: Store) -> None:
    early, late = (
        batch([replace(call(1, text, status="in_progress"), updated_at=at), said])
        for text, at, said in (
            ("early", NOON + 2, message(2, "said")),
            ("late", NOON + 3, message(2, "said more")),
        )
    )
    store.write(late)
    before = everything(store)
    store.write(early)
    store.write([*late, *early])
    assert everything(store) == before
    store.write(batch([replace(call(1, "ended"), updated_at=NOON - 100)]))  # a clock was set back
    assert ids(store, status="completed") == ["call_s1_1"]


async def test_calls_of_a_fleets_writers_are_closed_by_who_knows_them(store: Store) -> None:
    rows = batch([call(number, "", status="in_progress") for number in range(3)])
    keys = [(row.session_id, row.key) for _, row in rows]
    store.write(rows, dict(zip(keys, ["@one", "@two", "gone"], strict=True)))
    assert store.recover() == 1
    assert ids(store, status="open") == ["call_s1_1", "call_s1_0"]
    assert store.recover({"@two", "@three"}) == 1
    assert ids(store, status="open") == ["call_s1_1"]


async def test_the_same_rows_again_change_nothing(store: Store) -> None:
    given = batch(
        [call(1, LARGE), call(2, "", status="in_progress"), message(3, "said"), message(4, LARGE)]
    )
    store.write(given)
    before = everything(store)
    store.write(given)
    assert everything(store) == before
    store.write(given * 2)
    assert everything(store) == before


def everything(store: Store) -> Any:
    stats = store.stats(Query())
    return (
        store.calls(Query()),
        store.timeline("s1"),
        store.sessions(),
        replace(stats, file_bytes=0),
    )


async def test_a_session_keeps_its_name_and_reports_when_it_was_last_used(store: Store) -> None:
    store.write(batch([call(1)]))
    later = batch([call(2)])
    later[0][0].title, later[0][0].cwd = "another", "/else"
    store.write(later)
    store.write(batch([call(3, at=NOON - 9, session="s1")]))
    found = store.session("s1")
    assert found is not None
    assert (found.title, found.cwd, found.updated_at, found.calls) == ("s1", "/code", NOON + 2, 3)
    assert store.session("none") is None


async def test_what_is_known_of_a_session_is_not_forgotten(store: Store) -> None:
    first = Origin(user="ada", agent="x", agent_version="1")
    for cwd, info, origin in (
        ("/code", {"command": "x"}, first),
        ("", {"command": "python"}, Origin(user="ada")),
        ("", {}, Origin()),
    ):
        rows = batch([call(1)])
        session = rows[0][0]
        session.cwd, session.info, session.origin = cwd, info, origin
        store.write(rows)
        found = store.session("s1")
        assert found is not None
        assert (found.cwd, found.info, found.origin) == ("/code", {"command": "x"}, first)
    rows[0][0].info, rows[0][0].origin = {"command": "y"}, Origin(agent="x", agent_version="2")
    store.write(rows)
    found = store.session("s1")
    assert found is not None
    assert (found.info, found.origin) == ({"command": "y"}, rows[0][0].origin)


async def test_calls_are_found_by_each_condition(store: Store) -> None:
    store.write(
        batch(
            [
                call(1, name="read"),
                call(2, status="failed", notes={"reason": "timeout"}),
                call(3, status="cancelled"),
                call(4, status="in_progress"),
                call(5, session="s2"),
            ]
        )
    )
    s1, s2 = (lambda *numbers: [f"call_s1_{one}" for one in numbers]), ["call_s2_5"]
    assert ids(store) == [*s2, *s1(4, 3, 2, 1)]
    assert ids(store, session_id="s2") == s2
    assert ids(store, tool="read") == ids(store, tool="READ") == s1(1)
    assert ids(store, status="completed") == [*s2, *s1(1)]
    assert ids(store, status="failed") == ids(store, status="timeout") == s1(2)
    assert ids(store, status="cancelled") == s1(3)
    assert ids(store, status="open") == ids(store, status="in_progress") == s1(4)
    assert ids(store, since=NOON + 2, until=NOON + 4) == s1(3, 2)
    assert ids(store, limit=2) == [*s2, *s1(4)]
    assert ids(store, id_part="call_s2") == ids(store, id_part="2_5") == s2
    assert ids(store, id_part="_s1_") == ids(store, id_part="%") == []
    assert ids(store, tool="\udcff") == ids(store, id_part="\udcff") == []
    assert store.session("\udcff") is None
    assert ids(store, call_id="none") == ids(store, tool="bash", until=NOON) == []


async def test_pages_go_through_all_calls_of_the_same_moment_once(store: Store) -> None:
    given = [call(number, session=f"s{number % 3}", at=NOON) for number in range(20)]
    store.write(batch(given))
    found, before = [], None
    while page := store.heads(Query(before=before, limit=3)):
        found += [head.call_id for head in page]
        before = (page[-1].at, page[-1].session_id, page[-1].call_id)
    assert sorted(found) == sorted(one.record.report.tool_call_id for one in given)
    assert found == ids(store)


async def test_a_call_of_a_time_that_is_none_ends_a_list(store: Store) -> None:
    store.write(batch([call(1), call(2, at=-5.0)]))
    found = [head.call_id for head in islice(all_heads(store, Query()), 10)]
    assert set(found) == {"call_s1_1", "call_s1_2"}
    assert len(found) < 10


async def test_sessions_come_in_pages_the_last_used_first(store: Store) -> None:
    store.write(batch([call(number, session=f"s{number}") for number in range(7)]))
    found, before = [], None
    while page := store.sessions(before=before, limit=3):
        found += [one.session_id for one in page]
        before = (page[-1].updated_at, page[-1].session_id)
    assert found == [f"s{number}" for number in reversed(range(7))]
    assert store.sessions(cwd="/else") == []
    assert len(store.sessions(cwd="/code")) == 7


async def test_a_timeline_has_what_was_said_and_done_in_order_in_pages(store: Store) -> None:
    given = [
        call(number) if number % 3 else message(number, f"said {number} " + LARGE * (number == 6))
        for number in range(10)
    ]
    store.write(batch(given))
    store.write(batch([call(1, session="s2")]))
    found, after = [], -1
    while page := store.timeline("s1", after=after, limit=4):
        found += page
        after = page[-1].head.position if isinstance(page[-1], StoredCall) else page[-1].position
    assert [one.record if isinstance(one, StoredCall) else tuple(one.blocks) for one in found] == [
        one.record if hasattr(one, "record") else one.blocks for one in given
    ]
    assert (store.last_position("s1"), store.last_position("none")) == (9, -1)


# Searching

TEXTS = {
    1: "the quick brown fox jumps",
    2: "the brown quick fox",
    3: "\n".join(f"src/callsheet/module_{number}.py:{number}: def thing" for number in range(600)),
    4: "Grüße aus Köln, naïve café",
    5: "日本語の文章を検索する",
    6: "ERROR: Permission denied (os error 13)",
    7: " ".join(f"word{number}" for number in range(3000)),
}
QUESTIONS = [
    "quick", "quick brown", '"quick brown"', "qui", "quick bro", '"brown fox" jum', '"the quick" fo',
    "src/callsheet/module_599.py", "src/callsheet/module_9999.py", "module_59", "GRÜSSE", "grüße", "cafe",
    "koln", "naive", "日本", "文章", "本日", "permission-denied", "denied permission", "error 13", "os.error",
    "word2999", "word2998 word2999", '"word2998 word2999"', '"word2999 word2998"', "make", "make 3", "", '""',
    "!!!", "none", "'; DROP TABLE calls; --", "a & b | !c:*", "run", "Running make 7",
]  # fmt: skip


async def test_words_phrases_and_beginnings_are_found(store: Store) -> None:
    store.write(batch([call(number, text) for number, text in TEXTS.items()]))

    async def found(text: str) -> list[int]:
        return sorted(int(key.rsplit("_", 1)[1]) for key in ids(store, search=text))

    assert await found("quick brown") == [1, 2]
    assert await found('"quick brown"') == [1]
    assert await found("qui") == [1, 2]
    assert await found("src/callsheet/module_599.py") == [3]
    assert await found("src/callsheet/module_9999.py") == []
    assert await found("文章") == [5]
    assert await found("本日") == []
    assert await found("permission-denied") == [6]
    assert await found("word2999") == [7]
    assert await found("cafe") == await found("café") == [4]
    assert await found("") == await found("!!!") == []
    assert await found("make") == sorted(TEXTS)


async def test_a_call_is_found_as_it_ended_not_as_it_was(store: Store) -> None:
    store.write(batch([call(1, "pear", status="in_progress"), call(2, "apple")]))
    assert ids(store, search="pear") == []
    store.write(batch([call(1, "plum")]))
    assert ids(store, search="pear") == []
    assert ids(store, search="plum") == ["call_s1_1"]
    assert (store.stats(Query(search="plum"))).calls == 1
    assert (store.stats(Query())).indexed == 2
    assert store.index() == 0


# Removing


async def test_the_oldest_go_first_with_what_was_said_before_them(store: Store) -> None:
    items: list[Any] = [call(number) for number in (1, 2, 4, 6)]
    items += [message(0, "a"), message(3, LARGE), message(5, "c"), call(9, status="in_progress")]
    store.write(batch(items))
    assert pruned(store, Retention(max_calls=3)) == (2, 1)
    assert [place(one) for one in store.timeline("s1")] == [3, 4, 5, 6, 9]
    assert pruned(store, Retention(max_age=0)) == (2, 2)
    assert ids(store) == ["call_s1_9"]
    assert (store.stats(Query())).sessions == 1


def pruned(store: Store, keep: Retention) -> tuple[int, int]:
    """Prune. Return how many calls and messages were removed."""
    done = stores.pruned(store, keep, now=NOON + 1000, most=2)
    return done.calls, done.messages


def place(one: Any) -> int:
    return one.head.position if isinstance(one, StoredCall) else one.position


async def test_a_text_that_others_show_stays_and_goes_with_the_last(store: Store) -> None:
    store.write(batch([call(1, LARGE), call(2, LARGE, session="s2"), message(3, LARGE)]))
    kept = (store.stats(Query())).stored
    store.forget("s2")
    assert [one.record for one in store.calls(Query())] == [call(1, LARGE).record]
    store.forget("s1")
    stats = store.stats(Query())
    assert kept > (stats.stored, stats.calls, stats.sessions, stats.messages)[0] == 0
    assert (stats.calls, stats.sessions, stats.messages, stats.indexed) == (0, 0, 0, 0)


async def test_what_was_shown_only_for_a_while_does_not_stay(store: Store) -> None:
    for number in range(5):
        store.write(batch([call(1, NOISE + str(number), status="in_progress")]))
    store.write(batch([call(1, "short"), call(2, LARGE)]))
    store.vacuum()
    assert (store.stats(Query())).stored < 2000
    assert [one.record for one in store.calls(Query())] == [
        call(2, LARGE).record, call(1, "short").record,
    ]  # fmt: skip


async def test_the_spill_files_of_what_is_removed_are_named(store: Store) -> None:
    notes = {"truncated": {"spill": "/spills/a", "others": [{"spill": "/spills/b"}]}}
    store.write(batch([call(1, notes=notes), call(2)]))
    done = stores.pruned(store, Retention(max_calls=1), now=NOON)
    assert list(done.spills) == ["/spills/a", "/spills/b"]


async def test_what_nobody_did_anything_in_goes_with_age(store: Store) -> None:
    store.write(batch([message(1, LARGE), message(2, "b", session="s2"), call(3, session="s3")]))
    done = stores.pruned(store, Retention(max_age=998.5), now=NOON + 1000)
    assert (done.calls, done.messages, done.sessions) == (0, 1, 1)
    assert store.stats(Query()).sessions == 1  # in the other one, nothing was called
    assert [one.session_id for one in store.sessions()] == ["s3", "s2"]


async def test_space_is_given_back(store: Store) -> None:
    noise = random.Random(1)
    for start in range(0, 300, 50):
        given = [call(n, noise.randbytes(20_000).hex()) for n in range(start, start + 50)]
        store.write(batch(given))
    full = (store.stats(Query())).file_bytes
    assert full > 6_000_000
    stores.pruned(store, Retention(max_calls=3), now=NOON)
    store.vacuum()
    assert (store.stats(Query())).file_bytes < full - 5_000_000
    assert len(store.calls(Query())) == 3


async def test_a_store_that_is_too_large_is_made_smaller_by_its_oldest(store: Store) -> None:
    noise = random.Random(2)
    store.write(batch([call(n, noise.randbytes(50_000).hex()) for n in range(200)]))
    pruned(store, Retention(max_bytes=6_000_000))
    left = ids(store, limit=1000)
    assert 40 < len(left) < 160
    assert left == [f"call_s1_{n}" for n in reversed(range(200 - len(left), 200))]


async def test_what_goes_for_a_limit_of_bytes_is_reported_beforehand(store: Store) -> None:
    assert store.fill(0).surplus == 0
    noise = random.Random(3)
    store.write(batch([call(n, noise.randbytes(9_000).hex()) for n in range(100)]))
    full = store.fill(0)
    assert full.surplus == 100
    assert (store.fill(100_000_000)).surplus == 0
    limit = full.used // 2
    told = (store.fill(limit)).surplus
    pruned(store, Retention(max_bytes=limit))
    gone = 100 - store.stats(Query()).calls
    assert 40 <= gone <= 70
    assert abs(told - gone) <= 10


async def test_figures_of_some_calls_are_of_their_sessions_and_their_texts(store: Store) -> None:
    large = random.Random(5).randbytes(20_000).hex()
    store.write(batch([message(1, "a"), message(2, "b"), call(3, large), call(4, name="read")]))
    store.write(batch([message(1, "c", session="s2"), call(2, session="s2")]))
    every, bash, read, none = [
        store.stats(query)
        for query in (
            Query(), Query(session_id="s1", tool="bash"), Query(tool="read"), Query(tool="no")
        )
    ]  # fmt: skip
    assert [(one.calls, one.sessions, one.messages) for one in (every, bash, read, none)] == [
        (3, 2, 3), (1, 1, 2), (1, 1, 2), (0, 0, 0),
    ]  # fmt: skip
    assert every.stored > bash.stored > 10_000 > read.stored > none.stored == 0
    assert none.file_bytes == every.file_bytes > 0
    assert store.stats(Query(tool="bash")).calls == 2
    assert store.stats(Query(search="make")).calls == 3


# Opening


async def test_what_is_not_there_is_not_made_by_reading(url: str) -> None:
    for _ in range(2):
        with pytest.raises(NotKept, match="no history"):
            store_at(url).open(write=False)


async def test_a_store_of_a_later_version_is_left_alone(
    url: str, engine: str, request: pytest.FixtureRequest
) -> None:
    store = store_at(url)
    store.open()
    store.close()
    if engine == "sqlite":
        import sqlite3

        db = sqlite3.connect(url.removeprefix("sqlite:///"))
        db.execute("PRAGMA user_version = 99")
        db.close()
    else:
        server: Server = request.getfixturevalue("postgres")
        later = "UPDATE callsheet.facts SET value = 99 WHERE name = 'version'"
        server.do(later, request.getfixturevalue("database"))
    with pytest.raises(StoreTooNew, match="99"):
        store_at(url).open()


@needs_postgres
async def test_both_engines_give_the_same_of_the_same(
    postgres: Server, database: str, tmp_path: Path
) -> None:
    dice = random.Random(7)
    both = [store_at(f"sqlite:///{tmp_path / 'h'}"), store_at(postgres.url(database))]
    items: list[Any] = [call(number, text, session="t") for number, text in TEXTS.items()]
    for number in range(100):
        status = dice.choice(["completed", "failed", "cancelled", "in_progress"])
        items.append(
            call(
                number,
                dice.choice(["", "text", LARGE]),
                session=f"s{dice.randrange(4)}",
                name=dice.choice(["bash", "read", "Edit", "äpfel"]),
                status=status,
                at=NOON + dice.randrange(100),
                notes={"durationMs": dice.random() * 1000} if dice.random() < 0.8 else {},
            )
        )
    items += [message(number + 500, "said", session=f"s{number % 4}") for number in range(20)]
    given = batch(items)
    told: list[list[Any]] = []
    for kept in both:
        kept.open()
        kept.write(given)
        told.append([answers(kept)])
        told[-1].append(stores.pruned(kept, Retention(max_calls=80), now=NOON))
        told[-1].append(answers(kept))
        told[-1].append(kept.forget("s1"))
        told[-1].append(answers(kept))
        kept.close()
    for one, other in zip(*told, strict=True):
        assert one == other


def answers(store: Store) -> Any:
    """Return what a store says to many questions."""
    queries = [Query(limit=500), Query(tool="Edit"), Query(session_id="s2", limit=7)]
    queries += [Query(status=one) for one in ("failed", "completed", "open", "cancelled")]
    queries += [Query(since=NOON + 20, until=NOON + 60, limit=500)]
    found: dict[str, Any] = {}
    for query in queries:
        found[repr(query)] = store.calls(query)
        stats = store.stats(query)
        found[f"stats {query}"] = replace(stats, file_bytes=0)
    for text in QUESTIONS:  # the order of what is of the same moment is not told
        heads = store.heads(Query(search=text, limit=500))
        found[text] = sorted(heads, key=lambda head: (head.session_id, head.call_id))
    found["sessions"] = store.sessions()
    for number in range(4):
        found[f"s{number}"] = store.timeline(f"s{number}", limit=30)
        found[f"last {number}"] = store.last_position(f"s{number}")
    return found
