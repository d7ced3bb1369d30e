"""The queries of docs/how-to/dashboards.md, over a million calls in PostgreSQL, as a dashboard asks them.

A part of the calls is really made and stored (see `mix`); the server multiplies them over 90 days, thousands
of sessions and 50 people. PostgreSQL is one that the tests start, on a small machine's settings.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from pathlib import Path
from statistics import median

from tests.support.postgres import Server, programs

from callsheet.history.call_records import WaitingCall, WaitingTurn, to_rows
from callsheet.history.rows import Origin, SessionRow
from callsheet.history.store import Store
from callsheet.history.url import store_at
from callsheet.report.usage import TokenUsage

from . import mix
from .table import Claim, Subject

CALLS, MADE, DAYS = 1_000_000, 5000, 90
PEOPLE, SESSION, TURN = 50, 100, 10
"""People, calls of a session, and calls of a turn."""

LARGE = 2048
"""Bytes of a call that is left out, as the calls have to fit on the disk."""

LIMIT_MS, ROUNDS = 300.0, 7
PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "dashboards.md"

# The same calls again, earlier, by others.
_MULTIPLIED = """
INSERT INTO calls (session_id, call_id, position, name, title, kind, status, reason, at, updated_at,
    duration_ms, size, marks, payload, key, origin, turn, input, output)
SELECT c.session_id || '-' || n, c.call_id || '-' || n, c.position, c.name, c.title, c.kind, c.status,
    c.reason, c.at - n * {step}, c.updated_at - n * {step}, c.duration_ms, c.size, c.marks, c.payload, c.key,
    o.key, c.turn, c.input, c.output
FROM generate_series({first}, {last}) n
JOIN (SELECT key, row_number() OVER (ORDER BY key) AS number FROM origins) o ON o.number = n % {people} + 1
CROSS JOIN calls c WHERE c.at > {since}
"""


def queries(page: str) -> dict[str, str]:
    """Return the queries of the page, by the sentences before them."""
    part = page.partition("## Five queries")[2].partition("\n## ")[0]
    return dict(re.findall(r"^([^\n`]+):\n\n```sql\n(.*?);\n```", part, re.MULTILINE | re.DOTALL))


def measure(calls: int = CALLS) -> Subject:
    """Fill a server, and ask it."""
    title, head = "Dashboards: queries over a million calls", ["query", "ms", "rows"]
    found = programs()
    if found is None:
        return Subject(title, head, [], [], ["PostgreSQL is not on this machine."], {})
    server = Server(found)
    server.start()
    try:
        server.do("CREATE DATABASE dashboards")
        store = store_at(server.url("dashboards"))
        store.open()
        _fill(store, calls)
        there = store.db.fetch_value("SELECT count(*) FROM calls")
        size = store.db.disk_bytes()
        store.close()
        times = asyncio.run(_ask(server.url("dashboards")))
    finally:
        server.remove()
    return Subject(
        title,
        head,
        [[name, f"{took:.0f}", str(rows)] for name, (took, rows) in times.items()],
        [Claim(name, took, LIMIT_MS, unit=" ms") for name, (took, _) in times.items()],
        [f"{there:,} calls of {PEOPLE} people in {DAYS} days; {size / 1e9:.1f} GB on the disk"],
        {name: {"ms": round(took, 1), "rows": rows} for name, (took, rows) in times.items()},
    )


def _fill(store: Store, calls: int) -> None:
    pick, now = random.Random(mix.SEED), time.time()
    made = [one for one in mix.templates() if one.size < LARGE]
    people = [
        Origin(user=f"person-{n}", host=f"host-{n % 20}", agent="an-agent", agent_version="1.0")
        for n in range(PEOPLE)
    ]
    span = DAYS * 86400 * MADE / calls
    began = now - span
    waiting: list[WaitingCall] = []
    for number in range(MADE):
        at, key = began + span * number / MADE, f"key {number}"
        session = SessionRow(session_id=f"session-{number // SESSION}", origin=people[number % 7])
        record = made[number % len(made)].record(pick, at)
        turn = f"turn {number // TURN}"
        waiting.append(WaitingCall(session, number % SESSION, at, at + 1, record, key, turn))
    store.write(to_rows(waiting, store.codec))
    _add_turns(store, people, now, calls // TURN)
    store.db.prepare_for(now - day * 86400 for day in range(DAYS + 2))
    with store.db.patiently():
        store.db.fetch("ALTER TABLE calls DISABLE TRIGGER USER")
        for first in range(1, calls // MADE, 20):
            last = min(first + 20, calls // MADE) - 1
            sql = _MULTIPLIED.format(
                step=span, people=PEOPLE, first=first, last=last, since=began - 1e-3
            )
            store.db.fetch(sql)
        store.db.fetch("ALTER TABLE calls ENABLE TRIGGER USER")
        store.db.fetch("VACUUM (ANALYZE) calls")
        store.db.fetch("VACUUM (ANALYZE) turns")


def _add_turns(store: Store, people: list[Origin], now: float, count: int) -> None:
    rows: list[WaitingTurn] = []
    for number in range(count):
        at = now - DAYS * 86400 * number / count
        usage = TokenUsage(
            input_tokens=1000 + number % 977,
            output_tokens=100 + number % 89,
            model="a-model",
            cost=0.01 + number % 13 / 1000,
            currency="USD",
            cost_source="agent",
        )
        session = SessionRow(session_id=f"chat-{number % 1000}", origin=people[number % PEOPLE])
        rows.append(WaitingTurn(session, 0, at, f"turn {number}", at + 20, "end_turn", usage))
    for begin in range(0, count, 5000):
        store.write(to_rows(rows[begin : begin + 5000], store.codec))


async def _ask(url: str) -> dict[str, tuple[float, int]]:
    """Return how long each query takes, in milliseconds, and how many rows it has."""
    import asyncpg

    db = await asyncpg.connect(url, server_settings={"search_path": "callsheet"})
    found: dict[str, tuple[float, int]] = {}
    for name, sql in queries(PAGE.read_text(encoding="utf-8")).items():
        times: list[float] = []
        rows: list[object] = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            rows = await db.fetch(sql)
            times.append((time.perf_counter() - begin) * 1000)
        if not rows:
            raise RuntimeError(f"nothing is found: {name}")
        found[name] = median(times), len(rows)
    await db.close()
    return found
