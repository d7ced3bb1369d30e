"""A fleet: what it costs to publish a call, against a history in SQLite, and how much one collector takes.

Kept means, as in `history_life`: from the records that a session hands to its history, each call's beginning
and its end, until its row is durable, in all threads of this process. Both histories get the same records, in
turns: a thousand calls at once, as a busy process has them, and one after the other, each made durable. The
server is another process on this machine, with JetStream on its disk.

A collector is timed with what waits in the stream: messages of many rows, as a busy process publishes, and of
one row each, as most agents do. Its store is PostgreSQL, without `fsync`, and SQLite.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from tests.support.nats_servers import Servers
from tests.support.nats_servers import program as nats_server
from tests.support.postgres import Server, programs

from callsheet.history import History, fleet, store_at
from callsheet.history.call_records import WaitingCall, to_rows
from callsheet.history.codec import Codec
from callsheet.history.collector import Collector
from callsheet.history.rows import SessionRow
from callsheet.report.terminal import CallRecord

from . import history_life
from .pipes import run_module
from .table import Claim, Figures, Subject
from .timing import ratio, summarise

PROCESSES, ROUNDS = 3, 5
SINGLE = 200
"""Calls of a round that are made durable one after the other."""

LIMIT = 1.15
ROWS = 20_000
"""Rows that a collector gets."""

WAYS = ("at once", "one by one")
Took = dict[str, dict[str, list[float]]]
"""CPU microseconds per call, by tool and way, and by store."""


def measure() -> Subject:
    """Time publishing in several processes, then collecting."""
    if nats_server() is None:
        return Subject("A fleet", ("",), [], [], ["skipped: there is no nats-server"], {})
    took: Took = {}
    for _ in range(PROCESSES):
        found = run_module("bench.fleet", f"--rounds={ROUNDS}", timeout=500)
        for name, columns in found.items():
            for store, values in columns.items():
                took.setdefault(name, {}).setdefault(store, []).extend(values)
    rows, claims, figures = list[tuple[str, ...]](), list[Claim](), Figures()
    for name, stores in took.items():
        found = {store: summarise(values) for store, values in stores.items()}
        share = ratio(stores["nats"], stores["sqlite"])
        medians = (f"{found[store].median:.1f}" for store in ("sqlite", "nats"))
        rows.append((f"a kept call, {name}", *medians, f"{share:.2f}×"))
        claims.append(Claim(f"a kept call, {name}: published / in SQLite", share, LIMIT))
        figures[name] = {store: one.rounded() for store, one in found.items()} | {"ratio": share}
    for name, speed in asyncio.run(_collecting()).items():
        rows.append((f"a collector, {name}", "", "", f"{speed:,.0f} rows a second"))
        figures[f"collector, {name}"] = {"rows_per_second": round(speed)}
    notes = [
        f"CPU µs of a call in all threads of the publisher; {PROCESSES} processes, in each {ROUNDS}"
        " rounds, in turns; the ratio is the median of the rounds' own",
        f"a collector: {ROWS:,} rows that wait in one server, until all are committed; the server, the"
        " database and the collector share this machine",
    ]
    return Subject("A fleet", ("", "SQLite µs", "NATS µs", ""), rows, claims, notes, figures)


# Publishing, in a process of its own


async def _publishing(rounds: int) -> Took:
    servers = Servers()
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-") as place:
        try:
            servers.start()
            urls = {"sqlite": f"sqlite:///{Path(place) / 'kept.sqlite'}", "nats": servers.url()}
            histories = {name: History(url) for name, url in urls.items()}
            took: Took = {}
            for tool in history_life.TOOLS:
                records = await history_life.records_of(tool.__name__)
                for round_ in range(rounds + 1):
                    for store, history in histories.items():
                        session = f"{tool.__name__}{round_}"
                        both = (
                            await history_life.keep(history, records, session),
                            await _one_by_one(history, records, f"{session} single"),
                        )
                        if store == "sqlite":
                            await history_life.index(history)  # now, not during what follows
                        for way, value in zip(WAYS, both, strict=True):
                            columns = took.setdefault(f"{tool.__name__}, {way}", {})
                            columns.setdefault(store, []).extend([value] if round_ else [])
            for history in histories.values():
                await history.close()
                if history.health.lost or history.health.spooled:
                    raise RuntimeError(f"not all is kept: {history.health}")
        finally:
            servers.remove()
    return took


async def _one_by_one(history: History, records: Sequence[CallRecord], session: str) -> float:
    log = history.session(session, cwd=history_life.CWD)
    begun = process_time()
    for begin in range(0, 2 * SINGLE, 2):
        log.send(deque(records[begin : begin + 2]))
        await history.flush()
    return (process_time() - begun) / SINGLE * 1e6


# Collecting


async def _collecting() -> dict[str, float]:
    """Return how many rows a collector takes in a second, by the messages and the store."""
    records = await history_life.records_of("page")
    ended = [record for record in records if record.report.is_final]
    found = programs()
    postgres = None if found is None else Server(found)
    speeds: dict[str, float] = {}
    try:
        if postgres is not None:
            postgres.start()
        for together in (50, 1):
            servers = Servers()
            try:
                servers.start()
                await _fill(servers.url(), ended, together)
                with tempfile.TemporaryDirectory(prefix="callsheet-bench-") as place:
                    targets = {"SQLite": f"sqlite:///{Path(place) / 'x.sqlite'}"}
                    if postgres is not None:
                        postgres.do(f"CREATE DATABASE fleet{together}")
                        targets["PostgreSQL"] = postgres.url(f"fleet{together}")
                    for name, target in targets.items():
                        speed = await _collected(servers.url(), target)
                        speeds[f"{together} rows in a message, {name}"] = speed
            finally:
                servers.remove()
    finally:
        if postgres is not None:
            postgres.remove()
    return speeds


async def _fill(url: str, records: Sequence[CallRecord], together: int) -> None:
    """Publish rows, so many in a message."""
    connection, codec = fleet.Connection(url), Codec()
    await connection.open()
    messages: list[fleet.Message] = []
    for number in range(ROWS // together):
        row = SessionRow(session_id=f"s{number % 100}", cwd=history_life.CWD)
        entries = [
            WaitingCall(
                row, at, 1.8e9 + at, 1.8e9 + at, records[at % len(records)], f"{number} {at}"
            )
            for at in range(together)
        ]
        rows = [one for _, one in to_rows(entries, codec)]
        for at, one in enumerate(rows):
            one.call_id, one.position = f"{number}-{at}", number * together + at
        body = fleet.encode(fleet.Envelope(fleet.VERSION, "bench", row, rows))
        messages.append(fleet.Message(fleet.ROWS, f"core.host.s{number % 100}", body))
    for begin in range(0, len(messages), 500):
        await connection.publish(messages[begin : begin + 500])
    await connection.close()


async def _collected(source: str, target: str) -> float:
    collector = Collector(source, store_at(target), notify=lambda text: print(text, flush=True))
    begun = perf_counter()
    running = asyncio.create_task(collector.run())
    while collector.done.rows < ROWS:
        await asyncio.sleep(0.01)
        if running.done():
            break
    took = perf_counter() - begun
    collector.stop()
    with suppress(asyncio.CancelledError):
        await running
    return ROWS / took


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.fleet")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    took: Any = asyncio.run(_publishing(rounds))
    print(json.dumps(took))


if __name__ == "__main__":
    _main()
