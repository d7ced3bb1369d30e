"""Filling a history: so many calls through our store, against bare `executemany` of the same rows.

Ours encodes each call (JSON, zstd) and writes it, in transactions as large as those of the history's thread.
The floor is the bare cost of the same rows: the JSON is encoded, compressed as ours is, and inserted into the
same table with the same columns, indexes and settings, and nothing else. The peer gets rows with the JSON as
it is: once ready-made, so that only `executemany` counts; once with the making of the JSON, which whoever
stores calls must do. They take turns, some thousand calls each, in one process.

The second subject is what the files take: with what a store needs besides, and by the size of the calls.
"""

from __future__ import annotations

import random
import re
import sqlite3
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import mean
from time import perf_counter, process_time
from typing import Any, NamedTuple

from msgspec.structs import replace

from callsheet.history.call_records import WaitingCall, to_rows
from callsheet.history.codec import Codec, as_json_bytes
from callsheet.history.rows import Query, SessionRow, WaitingRow
from callsheet.history.schema import SQLITE_TABLES
from callsheet.history.sqlite import SqliteDatabase
from callsheet.history.store import Store
from callsheet.history.writer import BATCH_ROWS

from . import mix
from .table import Claim, Figures, Subject
from .timing import ratio

CALLS = 200_000
ROUND = 5 * BATCH_ROWS
INDEXED = 20_000
"""Calls of which a search index is made: its share of a store does not depend on how many there are."""

CLASSES = (1 << 10, 1 << 12, 1 << 14, 1 << 30)
_NAMES = ("up to 1 KB", "1–4 KB", "4–16 KB", "more")
_BARE = (
    "INSERT INTO calls (session_id, call_id, position, name, title, kind, status, reason, at, updated_at,"
    " duration_ms, size, payload, key) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

OURS = "callsheet: packed and written"
READY = "executemany, rows ready-made"
MADE = "executemany, with the making of the JSON"
FLOOR = "encode, compress, executemany (the floor)"


class Cost(NamedTuple):
    """Seconds that a round took."""

    cpu: float
    wall: float


def measure(calls: int = CALLS) -> Subject:
    """Fill the stores, and compare what it took and what they take."""
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-") as place:
        return _measure(Path(place), mix.templates(), calls)


def _measure(place: Path, made: list[mix.Template], calls: int) -> Subject:
    ingest, pick = Ingest(place), random.Random(mix.SEED)
    ingest.store.open()
    stream = mix.waiting(made, calls, pick)
    while some := list(islice(stream, ROUND)):
        ingest.round(some)
    ours, bare = _size(ingest.store), ingest.bare.size()
    _check(ingest, _others(made, pick), calls)
    ingest.store.close()
    ingest.floor.close()
    searched = _with_index(place, made)
    return _subject(ingest, calls, ours, bare, searched)


def _others(made: list[mix.Template], pick: random.Random) -> list[WaitingCall]:
    """Return calls to be written and read again."""
    return [
        replace(call, session=SessionRow(session_id="checked"))
        for call in mix.waiting(made, BATCH_ROWS, pick)
    ]


def _check(ingest: Ingest, calls: list[WaitingCall], expected: int) -> None:
    """Hold that all are there, and that what is read is what was written."""
    ingest.write(calls)
    for call in calls[:: len(calls) // 50]:
        (found,) = ingest.store.calls(Query(call_id=call.record.report.tool_call_id))
        if found.record != call.record:
            raise RuntimeError(f"{call.record.report.tool_call_id} is not what was written")
    found = (ingest.store.stats(Query())).calls - len(calls), ingest.bare.close()
    if found != (expected, expected):
        raise RuntimeError(f"{found} of {expected} calls are there")


def _with_index(place: Path, made: list[mix.Template]) -> tuple[int, int, float]:
    """Return the bytes of a store without and with its search index, and the CPU time of indexing a call."""
    ingest = Ingest(place / "searched")
    ingest.store.open()
    stream = mix.waiting(made, INDEXED, random.Random(mix.SEED))
    while some := list(islice(stream, BATCH_ROWS)):
        ingest.write(some)
    before = _size(ingest.store)
    begun = process_time()
    while ingest.store.index():
        pass
    took = process_time() - begun
    after = _size(ingest.store)
    ingest.store.close()
    return before, after, took / INDEXED * 1e6


def _size(store: Store) -> int:
    store.db.fetch("PRAGMA wal_checkpoint(TRUNCATE)")
    return store.db.disk_bytes()


def _subject(
    ingest: Ingest, calls: int, ours: int, bare: int, searched: tuple[int, int, float]
) -> Subject:
    ratios = {
        name: (_ratio(ingest, name, "cpu"), _ratio(ingest, name, "wall")) for name in ingest.costs
    }
    rows = [(name, *_cells(ingest.costs[name], ratios[name])) for name in ingest.costs]
    before, after, indexing = searched
    claims = [
        Claim(
            "a stored call / its floor: encoded, compressed, inserted; CPU", ratios[FLOOR][0], 1.6
        ),
        Claim("ingest, callsheet / executemany with the JSON's making, CPU", ratios[MADE][0], 2),
        Claim("ingest, callsheet / executemany with the JSON's making, wall", ratios[MADE][1], 2),
        Claim("bytes of the file, callsheet / plain JSON", ours / bare, 1 / 2),
    ]
    share = after / before
    notes = [
        f"{calls:,} calls of {bare / calls:,.0f} bytes as rows of JSON, {BATCH_ROWS:,} in a transaction;"
        f" rounds of {ROUND:,}, in turns; ratios are the rounds' medians; every commit is on the disk",
        f"files: {ours / 1e6:,.1f} MB, and {bare / 1e6:,.1f} MB with plain JSON; with the search index"
        f" {share:.2f}× of ours, {ours / bare * share:.2f}× of plain JSON without one",
        f"indexing a call for the search, later, when there is time: {indexing:.0f} µs",
        *_by_class(ingest.classes),
    ]
    kept: Figures = {
        "calls": calls,
        "cpu_microseconds_per_call": {
            name: round(_mean(costs, "cpu"), 2) for name, costs in ingest.costs.items()
        },
        "wall_microseconds_per_call": {
            name: round(_mean(costs, "wall"), 2) for name, costs in ingest.costs.items()
        },
        "callsheet_over": {
            name: {"cpu": round(cpu, 3), "wall": round(wall, 3)}
            for name, (cpu, wall) in ratios.items()
            if name != OURS
        },
        "file_bytes": {"callsheet": ours, "plain_json": bare},
        "with_search_index": round(share, 3),
        "indexing_cpu_microseconds_per_call": round(indexing, 1),
        "by_size": {
            name: {"calls": count, "json_bytes": size, "stored_bytes": stored}
            for name, (count, size, stored) in zip(_NAMES, ingest.classes, strict=True)
        },
    }
    head = ("writer", "CPU µs per call", "wall µs", "callsheet / it: CPU", "wall")
    return Subject("A history, filled", head, rows, claims, notes, kept)


def _cells(costs: list[Cost], ratios: tuple[float, float]) -> list[str]:
    return [
        f"{_mean(costs, 'cpu'):.1f}",
        f"{_mean(costs, 'wall'):.1f}",
        f"{ratios[0]:.2f}",
        f"{ratios[1]:.2f}",
    ]


def _mean(costs: list[Cost], clock: str) -> float:
    return mean(getattr(cost, clock) for cost in costs) / ROUND * 1e6


def _ratio(ingest: Ingest, name: str, clock: str) -> float:
    ours, others = ([getattr(cost, clock) for cost in ingest.costs[one]] for one in (OURS, name))
    return ratio(ours, others)


def _by_class(classes: list[list[int]]) -> list[str]:
    told = [
        f"{name}: {count:,} calls, {size / count:,.0f} → {stored / count:,.0f} bytes ({stored / size:.2f})"
        for name, (count, size, stored) in zip(_NAMES, classes, strict=True)
        if count
    ]
    return ["payloads, as JSON → as stored: " + "; ".join(told)]


class Bare:
    """The table of calls alone, with the same settings."""

    def __init__(self, file: Path) -> None:
        self.file: Path = file
        self._db: sqlite3.Connection = sqlite3.connect(file, isolation_level=None)
        for pragma in ("auto_vacuum = INCREMENTAL", "journal_mode = WAL", "synchronous = FULL"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.execute("PRAGMA cache_size = -16000")
        for statement in re.sub("--.*", "", SQLITE_TABLES).split(";"):
            if re.match(r"\s*CREATE (TABLE calls \(|(UNIQUE )?INDEX calls_)", statement):
                self._db.execute(statement)

    def write(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write rows in one transaction."""
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany(_BARE, rows)
        self._db.execute("COMMIT")

    def size(self) -> int:
        """Return what the file takes, with everything in it."""
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return self.file.stat().st_size

    def close(self) -> int:
        """Let go of it. Gives how many rows there are."""
        (count,) = self._db.execute("SELECT count(*) FROM calls").fetchone()
        self._db.close()
        return count


class Ingest:
    """What was measured while the stores were filled."""

    def __init__(self, place: Path) -> None:
        place.mkdir(exist_ok=True)
        self.store: Store = Store(SqliteDatabase(place / "ours.sqlite"))
        self._codec: Codec = Codec()
        self.bare: Bare = Bare(place / "bare.sqlite")
        self.floor: Bare = Bare(place / "floor.sqlite")
        self.costs: dict[str, list[Cost]] = {OURS: [], READY: [], MADE: [], FLOOR: []}
        self.classes: list[list[int]] = [[0, 0, 0] for _ in CLASSES]

    def round(self, calls: list[WaitingCall]) -> None:
        """Write the same calls to all."""
        begun = _now()
        written = [
            self.write(calls[at : at + BATCH_ROWS]) for at in range(0, len(calls), BATCH_ROWS)
        ]
        self.costs[OURS].append(_since(begun))
        self._count(written)
        begun = _now()
        rows = [_row(call) for call in calls]
        making = _since(begun)
        begun = _now()
        for at in range(0, len(rows), BATCH_ROWS):
            self.bare.write(rows[at : at + BATCH_ROWS])
        wrote = _since(begun)
        self.costs[READY].append(wrote)
        self.costs[MADE].append(Cost(wrote.cpu + making.cpu, wrote.wall + making.wall))
        begun = _now()
        for at in range(0, len(calls), BATCH_ROWS):
            some = [as_json_bytes(call.record) for call in calls[at : at + BATCH_ROWS]]
            made = zip(rows[at : at + BATCH_ROWS], self._codec.compress(some), strict=True)
            self.floor.write([(*row[:-2], payload, row[-1]) for row, payload in made])
        self.costs[FLOOR].append(_since(begun))

    def write(self, calls: list[WaitingCall]) -> list[WaitingRow]:
        """Do what the history's thread does. Return what was written."""
        batch = to_rows(calls, self._codec)
        self.store.write(batch)
        return batch

    def _count(self, written: list[list[WaitingRow]]) -> None:
        for batch in written:
            for _, row in batch:
                found = next(at for at, limit in enumerate(CLASSES) if row.size <= limit)
                for column, more in enumerate((1, row.size, len(row.payload))):
                    self.classes[found][column] += more


def _now() -> Cost:
    return Cost(process_time(), perf_counter())


def _since(begun: Cost) -> Cost:
    return Cost(process_time() - begun.cpu, perf_counter() - begun.wall)


def _row(call: WaitingCall) -> tuple[Any, ...]:
    report, data = call.record.report, as_json_bytes(call.record)
    notes = report.notes
    return (
        call.session.session_id, report.tool_call_id, call.position, report.name, report.title or report.name,
        str(report.kind), report.status.value, notes.get("reason"), call.at, call.updated_at,
        notes.get("durationMs"), len(data), data, report.tool_call_id,
    )  # fmt: skip
