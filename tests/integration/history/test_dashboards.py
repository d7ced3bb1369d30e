"""What other programs read: the page on dashboards is true, on real servers, with the role that it makes."""

from __future__ import annotations

import asyncio
import json
import math
import re
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from callsheet.history import HistoryError, Query, Retention, store_at
from callsheet.history.call_records import WaitingTurn, to_rows
from callsheet.history.postgres import WEEK
from callsheet.history.rows import KEEP, Origin, SessionRow, limits
from callsheet.history.store import Store
from callsheet.history.views import NAMES
from callsheet.report.usage import TokenUsage
from tests.support import ROOT
from tests.support.engines import ENGINES, call, database, engine, message, postgres, store, url
from tests.support.postgres import Server, needs_postgres
from tests.support.stores import pruned

__all__ = ["ENGINES", "database", "engine", "postgres", "store", "url"]

PAGE = (ROOT / "docs" / "how-to" / "dashboards.md").read_text(encoding="utf-8")
SQL = re.findall(r"^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
BOARD = json.loads((ROOT / "docs" / "dashboards" / "callsheet.json").read_text(encoding="utf-8"))
NOW = 1_763_000_000.0
WHO = Origin(user="ada", host="build7", agent="an-agent", agent_version="1.2", source="tap")


def fill(store: Store, now: float) -> None:
    """Store a turn with its cost, a call that went well, and a command that failed."""
    rows = [
        call(1, at=now - 100, name="read"),
        call(2, at=now - 90, status="failed", text="no such file", notes={"reason": "exit_code"}),
    ]
    for one in rows:
        one.session.origin = WHO
    usage = TokenUsage(input_tokens=70, output_tokens=5, cost=0.25, currency="USD", model="m")
    turn = WaitingTurn(rows[0].session, 0, now - 101, "turn 1", now - 80, "end_turn", usage)
    rows = [replace(one, turn="turn 1") for one in rows]
    store.write(to_rows([turn, *rows], store.codec))


@asynccontextmanager
async def connected(server: Server, database: str, **settings: str) -> AsyncIterator[Any]:
    import asyncpg

    db = await asyncpg.connect(server.url(database), server_settings=settings)
    try:
        yield db
    finally:
        await db.close()


@pytest.fixture
async def server_now(postgres: Server, database: str) -> AsyncIterator[float]:
    """What the server takes for the time: queries of the page ask for the last days."""
    async with connected(postgres, database) as db:
        yield await db.fetchval("SELECT extract(epoch FROM now())::float8")


@needs_postgres
async def test_each_query_of_the_page_works_for_a_role_that_reads_nothing_else(
    postgres: Server, database: str, server_now: float
) -> None:
    with closing(store_at(postgres.url(database))) as made:
        made.open()
        fill(made, server_now)
    roles = [one for one in SQL if "ROLE" in one]
    asked = [one for one in SQL if "FROM callsheet_" in one and "strftime" not in one]
    assert (len(roles), len(asked)) == (2, 5)
    async with connected(postgres, database) as db:
        if not await db.fetchval("SELECT count(*) FROM pg_roles WHERE rolname = 'grafana'"):
            await db.execute(roles[0])
        await db.execute(roles[1].split("\n", 1)[1])  # the role is there already
        await db.execute("SET SESSION AUTHORIZATION grafana; SET search_path = callsheet")
        rows = {sql: await db.fetch(sql) for sql in asked}
        by_tool, by_hour, took, cost, failed = rows.values()
        assert {tuple(row) for row in by_tool} == {("read", 1, 0), ("bash", 1, 1)}
        assert sum(row["calls"] for row in by_hour) == 2
        assert {row["tool"]: row["p95_ms"] for row in took} == {"read": 1.0, "bash": 2.0}
        assert tuple(cost[0])[1:] == ("ada", "an-agent", "USD", 0.25, 70, 5, 1)
        assert failed[0]["command"] == "make 2"
        assert (failed[0]["user_name"], failed[0]["host"]) == ("ada", "build7")
        assert failed[0]["output"] == "no such file"
        for table in ("calls", "sessions", "turns", "messages", "origins", "calls_text"):
            with pytest.raises(Exception, match="permission denied"):
                await db.fetch(f"SELECT * FROM callsheet.{table}")
        for panel in BOARD["panels"]:
            assert await db.fetch(as_grafana_sends_it(panel["targets"][0]["rawSql"])), panel[
                "title"
            ]
        await db.execute("RESET SESSION AUTHORIZATION")


def as_grafana_sends_it(sql: str) -> str:
    """Return a query of a panel with its macros as Grafana replaces them."""
    recent = r"\1 BETWEEN now() - interval '7 days' AND now() + interval '1 minute'"
    sql = re.sub(r"\$__timeFilter\((\w+)\)", recent, sql)
    group = r"to_timestamp(floor(extract(epoch FROM \1) / 60) * 60) AS time"
    sql = re.sub(r"\$__timeGroupAlias\((\w+), \$__interval\)", group, sql)
    assert "$" not in sql
    return sql


def test_the_query_for_a_file_works(tmp_path: Path) -> None:
    (sql,) = (one for one in SQL if "strftime" in one)
    file = tmp_path / "history.sqlite"
    with closing(store_at(str(file))) as made:
        made.open()
        fill(made, time.time())
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
            assert {row[:3] for row in db.execute(sql)} == {("read", 1, 0), ("bash", 1, 1)}


@needs_postgres
async def test_a_week_of_old_calls_is_dropped_at_once_with_all_that_belongs_to_it(
    postgres: Server, database: str, server_now: float
) -> None:
    with closing(store_at(postgres.url(database))) as made:
        made.open()
        old, skewed = server_now - 20 * WEEK, server_now + 50 * WEEK
        made.write(
            to_rows(
                [
                    message(0, "hello", session="old"),
                    call(1, at=old, session="old", text="needle"),
                    call(2, at=old + 60, session="both", text="needle"),
                    call(3, at=server_now, session="both", text="needle"),
                    call(4, at=old + 90, session="runs", status="in_progress"),
                    call(5, at=skewed, session="skewed"),
                ],
                made.codec,
            )
        )
        tables = "SELECT relname FROM pg_class WHERE relname LIKE 'calls_w%' AND relkind = 'r'"
        assert len(postgres.do(tables, database)) == 2
        assert len(made.heads(Query(search="needle"))) == 3
        # One that runs keeps its week.
        rule = Retention(max_age=10 * WEEK)
        assert pruned(made, rule, now=server_now).calls == 2
        assert len(postgres.do(tables, database)) == 2
        made.write(to_rows([call(4, at=old + 90, session="runs", text="done")], made.codec))
        steps = pruned(made, rule, now=server_now)
        assert (steps.calls, steps.sessions) == (1, 1)
        assert len(postgres.do(tables, database)) == 1
        assert {head.call_id for head in made.heads(Query())} == {"call_both_3", "call_skewed_5"}
        assert len(made.heads(Query(search="needle"))) == 1
        assert {one.session_id for one in made.sessions()} == {"both", "skewed"}
        made.vacuum()


@needs_postgres
async def test_while_somebody_reads_weeks_come_and_go_later_and_nobody_waits_long(
    postgres: Server, database: str, server_now: float
) -> None:
    rule, old = Retention(max_age=10 * WEEK), server_now - 20 * WEEK
    with closing(store_at(postgres.url(database))) as made:
        made.open()
        made.write(to_rows([call(1, at=old), call(2, at=server_now)], made.codec))
        async with connected(postgres, database) as db, db.transaction():
            await db.fetch("SELECT count(*) FROM callsheet.callsheet_calls")
            pruning = asyncio.create_task(
                asyncio.to_thread(lambda: list(made.prune(rule, now=server_now)))
            )
            waits = f"SELECT 1 FROM pg_stat_activity WHERE datname = '{database}' AND wait_event_type = 'Lock'"
            while not postgres.do(waits):
                await asyncio.sleep(0.02)
            await pruning
            made.write(to_rows([call(3, at=old - 5 * WEEK)], made.codec))
        assert len(made.heads(Query())) == 3
        assert postgres.do("SELECT count(*) FROM callsheet.calls_other", database) == [(1,)]
        tables = "SELECT relname FROM pg_class WHERE relname LIKE 'calls_w%' AND relkind = 'r'"
        assert len(postgres.do(tables, database)) == 2
        made.write(to_rows([call(4, at=old - 5 * WEEK)], made.codec))  # there is time for its week
        assert postgres.do("SELECT count(*) FROM callsheet.calls_other", database) == [(0,)]
        pruned(made, rule, now=server_now)
        assert len(postgres.do(tables, database)) == 1


async def test_a_time_that_is_none_breaks_no_view_and_no_figure(store: Store) -> None:
    fill(store, NOW)
    for number, at in enumerate((math.nan, 1e300, -1.0)):
        session = SessionRow(session_id=f"odd{number}", created_at=at, updated_at=at)
        turn = WaitingTurn(session, 0, at, "t", at, usage=TokenUsage(input_tokens=1))
        with suppress(HistoryError):  # a file takes no NaN
            store.write(to_rows([turn], store.codec))
    for name in NAMES:
        assert store.db.fetch(f"SELECT * FROM {name}")
    assert store.used_by("day")


@needs_postgres
async def test_calls_of_a_clock_that_was_ahead_move_into_their_week_when_it_comes(
    postgres: Server, database: str, server_now: float
) -> None:
    with closing(store_at(postgres.url(database))) as made:
        made.open()
        # As it was stored while no week had begun that it belongs to.
        made.db.fetch(
            "INSERT INTO calls (session_id, call_id, position, name, title, kind, status, at, updated_at, "
            "size, payload, key) VALUES ('s0', 'early', 0, 'n', 't', 'other', 'completed', ?, 0, 1, '', 'k')",
            server_now + 1,
        )
        in_other = "SELECT count(*) FROM callsheet.calls_other"
        assert postgres.do(in_other, database) == [(1,)]
        made.write(to_rows([call(1, at=server_now)], made.codec))
        assert postgres.do(in_other, database) == [(0,)]
        assert {head.call_id for head in made.heads(Query())} == {"early", "call_s1_1"}


async def test_views_have_plain_types_and_say_who(store: Store) -> None:
    fill(store, NOW)
    odd = call(3, at=NOW - 50, command="a\0b" + "x" * 100_000)
    store.write(to_rows([odd], store.codec))
    columns = "tool, status, reason, user_name, agent, source, turn_id, started_at, input, output"
    rows = store.db.fetch(f"SELECT {columns} FROM callsheet_calls ORDER BY started_at")
    assert [row[:7] for row in map(tuple, rows)] == [
        ("read", "completed", None, "ada", "an-agent", "tap", "turn 1"),
        ("bash", "failed", "exit_code", "ada", "an-agent", "tap", "turn 1"),
        ("bash", "completed", None, None, None, None, None),
    ]
    began, given, returned = rows[0][7:]
    assert str(began).replace(" ", "T").startswith("2025-11-13T02:11:40")
    assert json.loads(given) == {"command": "make 1"}
    assert json.loads(returned) == "done"
    long = json.loads(rows[2][8])
    assert long.startswith('{"command":"a\ufffdbxxx')
    assert long.endswith("characters)")
    assert len(long) < 33_000
    assert not store.db.fetch("SELECT 1 FROM callsheet_usage WHERE cost <> 0.25")
    (turn,) = store.db.fetch(
        "SELECT duration_ms, input_tokens, cost, thought_tokens, user_name FROM callsheet_turns"
    )
    assert tuple(turn) == (21_000.0, 70, 0.25, None, "ada")
    for name in NAMES:
        assert store.db.fetch(f"SELECT * FROM {name}")


def test_only_age_limits_a_store_that_many_share_unless_somebody_says_otherwise() -> None:
    assert limits(KEEP, is_shared=True) == Retention(max_age=KEEP.max_age)
    assert limits(KEEP, is_shared=False) == KEEP
    own = Retention(max_age=None, max_calls=5)
    assert limits(own, is_shared=True) == own
