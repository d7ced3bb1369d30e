"""What it costs to keep a call, against the floor: encoding, compressing and inserting the same row.

The calls are those of a session whose tool answers a word, or a page of two thousand characters. Kept means:
from the records that the session hands to its history, each call's beginning and its end, until its row is
durable, in all threads. The floor is given the same JSON as plain objects, and the other columns ready: it
encodes with `msgspec`, compresses with the same dictionary and level, and inserts into a file with the same
table, indexes and pragmas, in transactions of as many rows. Both are CPU time, in turns.

Besides, without a claim: what the same history adds to a call of a running session with a client at a pipe,
with what the session itself does for one more sink; and what the search index takes later.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sqlite3
import tempfile
from collections import deque
from pathlib import Path
from time import process_time
from typing import Any

import msgspec
import zstandard

from callsheet import Session, tool
from callsheet.acp.peer import Peer
from callsheet.history import History
from callsheet.history.call_records import WaitingCall, to_rows
from callsheet.history.codec import LEVEL, Codec, shipped_dictionary
from callsheet.history.rows import SessionRow
from callsheet.history.schema import SQLITE_TABLES
from callsheet.history.sqlite import execute_script
from callsheet.history.store import Store
from callsheet.report.terminal import CallRecord
from callsheet.runtime.sinks import PipeSink

from .pipes import drain, run_module
from .table import Claim, Figures, Subject
from .timing import ratio, summarise
from .work import PATH, SESSION, TEXT

CWD = "/home/dev/app"
PROCESSES = 4
ROUNDS = 5
CALLS = 1000
"""Calls of a round, and rows of a transaction."""

LIMIT_OF_RATIO = 1.6
STEPS = ("encode", "compress", "insert")
COLUMNS = (*STEPS, "floor", "kept", "without", "with", "indexing")

HEAD = 12
"""Columns of a call before its payload that the floor writes, too."""

_INSERT = """
INSERT INTO calls (session_id, call_id, position, name, title, kind, status, reason, at, updated_at,
                   duration_ms, size, payload, key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

Took = dict[str, dict[str, list[float]]]
"""CPU microseconds per call, by tool, column and round."""


async def word(path: str) -> str:
    """Say something short."""
    return path[-2:]


async def page(path: str) -> str:
    """Say something long."""
    return TEXT if path else ""


TOOLS = (word, page)


def measure() -> Subject:
    """Time all of them, in several processes."""
    took: Took = {}
    for _ in range(PROCESSES):
        found = run_module("bench.history_life", f"--rounds={ROUNDS}", timeout=300)
        for name, columns in found.items():
            for column, values in columns.items():
                took.setdefault(name, {}).setdefault(column, []).extend(values)
    return _subject(took)


def _subject(took: Took) -> Subject:
    rows: list[tuple[str, ...]] = []
    claims: list[Claim] = []
    figures: Figures = {}
    for name, columns in took.items():
        found = {column: summarise(values) for column, values in columns.items()}
        share = ratio(columns["kept"], columns["floor"])
        pairs = zip(columns["with"], columns["without"], strict=True)
        added = summarise([one - other for one, other in pairs])
        rows.append(
            (
                f"a tool that answers a {name}",
                *(f"{found[step].median:.1f}" for step in (*STEPS, "floor", "kept")),
                f"{found['kept'].spread_percent:.0f} %",
                f"{share:.2f}×",
                f"{added.median:.0f}",
                f"{found['indexing'].median:.0f}",
            )
        )
        claims.append(Claim(f"a call that answers a {name}: kept / floor", share, LIMIT_OF_RATIO))
        figures[name] = {
            **{f"{column}_cpu_microseconds": one.rounded() for column, one in found.items()},
            "added_to_a_session_cpu_microseconds": added.rounded(),
            "ratio": round(share, 3),
        }
    notes = [
        f"CPU time of all threads, per call; {PROCESSES} processes, in each {ROUNDS} rounds of {CALLS} calls,"
        " in turns; the ratio is the median of the rounds' own",
        "in a session: what a running session takes with a history, less what it takes without one",
        "indexing for the search is done later, when nothing happens, and is in no other column",
    ]
    head = (
        "a kept call", *STEPS, "floor µs", "kept µs", "spread", "ratio", "in a session", "indexing",
    )  # fmt: skip
    return Subject("A kept call", head, rows, claims, notes, figures)


# In the process of its own


def time_all(rounds: int) -> Took:
    """Return what everything takes."""
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-") as place, drain() as pipe:
        return asyncio.run(_time_all(Path(place), pipe, rounds))


async def _time_all(place: Path, pipe: int, rounds: int) -> Took:
    # Two files, so that the one that is compared with the floor has as many rows.
    history, live = (History(f"sqlite:///{place / name}.sqlite") for name in ("kept", "live"))
    floor = Floor(place / "floor.sqlite")
    sinks = [PipeSink(pipe, Peer()), PipeSink(pipe, Peer())]
    tools = [tool(function) for function in TOOLS]
    took: Took = {function.__name__: {name: [] for name in COLUMNS} for function in TOOLS}
    async with (
        Session(SESSION, cwd=CWD, tools=tools, builtin=False, sinks=sinks[:1]) as without,
        Session(SESSION, cwd=CWD, tools=tools, builtin=False, sinks=sinks[1:]) as kept,
    ):
        kept.attach(live.session(SESSION, cwd=CWD))
        for round_ in range(rounds + 1):
            for name, columns in took.items():
                records = await records_of(name)
                steps = floor.write(_rows(records, f"{name}{round_}"))
                whole = await keep(history, records, f"{name}{round_}")
                indexing = await index(history)  # now, lest its thread does it during what follows
                lives = await _live(without, name), await _live(kept, name, live)
                await index(live)
                values = (*steps, sum(steps), whole, *lives, indexing)
                if round_:  # the first one warms up
                    for column, value in zip(COLUMNS, values, strict=True):
                        columns[column].append(value)
            if not round_:
                gc.collect()
                gc.freeze()  # as in `timing`: what was imported is nobody's to walk
    for one in (history, live):
        await one.close()
        if one.health.lost or one.health.written < (rounds + 1) * len(took) * CALLS:
            raise RuntimeError(f"not all is kept: {one.health}")
    return took


class Records:
    """A sink that takes records, as a history does, and has them."""

    peer: Peer | None = None
    takes_records: bool = True

    def __init__(self) -> None:
        self.found: list[CallRecord] = []

    def send(self, items: deque[Any]) -> None:
        """Take records."""
        self.found += items
        items.clear()

    def send_now(self, items: deque[Any], until: float) -> None:  # noqa: ARG002
        """Take records, at the exit of a process."""
        self.send(items)

    def close(self) -> None:
        """Do nothing."""


async def records_of(name: str) -> list[CallRecord]:
    """Return the records of a session's calls, as they reach its history."""
    sink = Records()
    tools = [tool(function) for function in TOOLS]
    async with Session(SESSION, cwd=CWD, tools=tools, builtin=False, sinks=[sink]) as session:
        for _ in range(CALLS):
            await session.run(name, {"path": PATH})
        await session.flush()
    return sink.found


def _rows(records: list[CallRecord], session: str) -> list[tuple[Any, tuple[Any, ...]]]:
    """Return each call's JSON as plain objects, and the other columns of its row."""
    row = SessionRow(session_id=session)
    ended = [record for record in records if record.report.is_final]
    entries = [
        WaitingCall(row, at, 1.8e9 + at, 1.8e9 + at, record, f"{session} {at}")
        for at, record in enumerate(ended)
    ]
    codec = Codec()
    return [
        (
            msgspec.json.decode(codec.decompress(made.payload)),
            (*msgspec.structs.astuple(made)[:HEAD], made.key),
        )
        for _, made in to_rows(entries, codec)
    ]


class Floor:
    """A file with the table of calls, and nothing but encoding, compressing and inserting."""

    def __init__(self, file: Path) -> None:
        self._db: sqlite3.Connection = sqlite3.connect(file, isolation_level=None)
        for pragma in ("auto_vacuum = INCREMENTAL", "journal_mode = WAL", "synchronous = FULL"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.execute("PRAGMA cache_size = -16000")
        execute_script(self._db, SQLITE_TABLES)
        dictionary = zstandard.ZstdCompressionDict(shipped_dictionary())
        dictionary.precompute_compress(level=LEVEL)  # pyright: ignore[reportUnknownMemberType]
        self._compress: Any = zstandard.ZstdCompressor(dict_data=dictionary).compress

    def write(self, rows: list[tuple[Any, tuple[Any, ...]]]) -> tuple[float, float, float]:
        """Write rows in one transaction. Return what each step took."""
        encode, compress = msgspec.json.Encoder().encode, self._compress
        times = [process_time()]
        texts = [encode(body) for body, _ in rows]
        times.append(process_time())
        payloads = [compress(text) for text in texts]
        times.append(process_time())
        values = [
            (*columns[:-1], payload, columns[-1])
            for (_, columns), payload in zip(rows, payloads, strict=True)
        ]
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany(_INSERT, values)
        self._db.execute("COMMIT")
        times.append(process_time())
        first, second, third, fourth = (one / len(rows) * 1e6 for one in times)
        return second - first, third - second, fourth - third


async def keep(history: History, records: list[CallRecord], session: str) -> float:
    """Return what it takes to keep calls whose records are there."""
    log = history.session(session, cwd=CWD)
    items = deque(records)
    begun = process_time()
    log.send(items)
    await _durable(history)
    return (process_time() - begun) / CALLS * 1e6


async def _live(session: Session, name: str, history: History | None = None) -> float:
    """Return what calls of a running session take."""
    begun = process_time()
    for _ in range(CALLS):
        result = await session.run(name, {"path": PATH})
        assert result.success
    if history is not None:
        await _durable(history)
    return (process_time() - begun) / CALLS * 1e6


async def _durable(history: History) -> None:
    if not await history.flush(60):
        raise RuntimeError(f"not all is durable: {history.health}")


async def index(history: History) -> float:
    """Return what it takes to index the calls that were kept."""

    def index(store: Store) -> float:
        begun = process_time()
        while store.index():
            pass
        return (process_time() - begun) / CALLS * 1e6

    return await history.ask(index)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.history_life")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    print(json.dumps(time_all(parser.parse_args().rounds)))


if __name__ == "__main__":
    _main()
