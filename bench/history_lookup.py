"""Finding calls in a history of ten thousand, a hundred thousand, a million: it must not take longer.

The stores are filled through the store itself, with payloads of really made calls (see `mix`); a payload
stands in many rows here, which nothing that is measured depends on. Then every question is asked in turn of
each store, many times, for ids by chance from all over it. Look-ups are also asked after the system was told
to forget the files' pages.

PostgreSQL is one that the tests start; it does not write through to the disk, which no question depends on.
The disk, or the memory that stands for one, needs about 2 GB for as long as it runs.
"""

from __future__ import annotations

import gc
import os
import random
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import Any

from msgspec.structs import replace
from tests.support.postgres import Server, programs

from callsheet.history.call_records import to_rows
from callsheet.history.rows import CallRow, Query, SessionRow
from callsheet.history.store import Store
from callsheet.history.url import file_of, store_at
from callsheet.runtime.clock import new_call_id

from . import mix
from .table import Claim, Figures, Subject

SIZES = (10_000, 100_000, 1_000_000)
BATCH = 5000
LARGE = 8192
"""Bytes of a call that is left out, as the stores have to fit on the disk."""

SESSION = 100
"""Calls of a session."""

ASKED = 2000
COLD = 200
NEWEST = 50
LIMIT_MS = 5.0
FLAT = 1.5
_OLDEST = Query(until=mix.START + 0.5, limit=1)
BY_ID, LIST, WHOLE, TOOL, COLD_ID = (
    "a call by its id, whole",
    f"the {NEWEST} newest, as a list shows them",
    "the newest of a session, whole",
    f"the {NEWEST} newest of a tool",
    "a call by its id, the system's cache emptied",
)


SQLITE, POSTGRES = "SQLite", "PostgreSQL"

Times = dict[str, dict[int, list[float]]]
"""Milliseconds, by question and by the size of the store."""

Places = dict[int, str]
"""The URLs of the stores, by their sizes."""


def measure(most: int = SIZES[-1]) -> Subject:
    """Fill the stores, and ask them."""
    sizes = [size for size in SIZES if size <= most]
    made, took, notes = mix.templates(), dict[str, Times](), list[str]()
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-") as place:
        files = {size: Path(place) / f"{size}.sqlite" for size in sizes}
        places = {size: f"sqlite:///{file}" for size, file in files.items()}
        took[SQLITE] = _measure(places, made)
        took[SQLITE][COLD_ID] = _ask_cold(places)
        disk = sum(file.stat().st_size for file in files.values())
        notes.append(f"SQLite's files: {disk / 1e6:,.0f} MB in all")
    with _server() as server:
        if isinstance(server, str):
            notes.append(f"PostgreSQL is left out: {server}")
        else:
            names = {size: f"calls_{size}" for size in sizes}
            places = {size: _database(server, name) for size, name in names.items()}
            # A minute later, the server would have done it by itself.
            took[POSTGRES] = _measure(places, made, lambda size: server.do("ANALYZE", names[size]))
    return _subject(took, notes, sizes)


@contextmanager
def _server() -> Generator[Server | str, None, None]:
    """Return a server of our own, or why there is none."""
    found = programs()
    if found is None or find_spec("asyncpg") is None:
        yield "its programs or asyncpg are not on this machine"
        return
    server = Server(found)
    try:
        server.start()
        yield server
    finally:
        server.remove()


def _database(server: Server, name: str) -> str:
    server.do(f"CREATE DATABASE {name}")
    return server.url(name)


def _measure(
    places: Places, made: list[mix.Template], settle: Callable[[int], object] | None = None
) -> Times:
    stores: dict[int, tuple[Store, list[tuple[str, str]]]] = {}
    for size, url in places.items():
        store = store_at(url)
        store.open()
        ids = fill(store, made, size)
        store.close()  # what was written is in its file then, and in nobody's cache of pages
        if settle is not None:
            settle(size)
        store.open(write=False)
        stores[size] = store, ids
    gc.collect()
    took = _ask(stores)
    for store, _ in stores.values():
        store.close()
    return took


# Filling


def fill(store: Store, made: list[mix.Template], size: int) -> list[tuple[str, str]]:
    """Fill a store. Gives session and id of some calls from all over it."""
    pick = random.Random(size)
    calls = list(mix.waiting(made, len(made), pick))
    rows = to_rows(calls, store.codec)
    packed = [row for _, row in rows if isinstance(row, CallRow) and row.size < LARGE]
    wanted, ids = set(pick.sample(range(size), min(size, ASKED))), list[tuple[str, str]]()
    for start in range(0, size, BATCH):
        rows = list(_rows(packed, start, min(size, start + BATCH)))
        sessions = {
            row.session_id: SessionRow(session_id=row.session_id, updated_at=rows[-1].at)
            for row in rows
        }
        store.write([(sessions[row.session_id], row) for row in rows])
        ids += [(row.session_id, row.call_id) for at, row in enumerate(rows, start) if at in wanted]
    pick.shuffle(ids)
    return ids


def _rows(packed: list[CallRow], start: int, end: int) -> Iterator[CallRow]:
    for number in range(start, end):
        at = mix.START + number * 0.7
        yield replace(
            packed[number % len(packed)],
            session_id=f"sess_{number // SESSION:08}",
            call_id=(call_id := new_call_id()),
            key=call_id,
            position=number % SESSION,
            at=at,
            updated_at=at + 0.4,
        )


# Asking


def _ask(stores: dict[int, tuple[Store, list[tuple[str, str]]]]) -> Times:
    took: Times = {name: {size: [] for size in stores} for name in (BY_ID, LIST, WHOLE, TOOL)}
    for number in range(ASKED):
        for size, (store, ids) in stores.items():
            for name, ask in _questions(store, *ids[number % len(ids)]).items():
                begun = perf_counter()
                found = ask()
                took[name][size].append((perf_counter() - begun) * 1e3)
                if not found:
                    raise RuntimeError(f"{name}: nothing is found among {size} calls")
    return took


def _questions(store: Store, session_id: str, call_id: str) -> dict[str, Callable[[], list[Any]]]:
    return {
        BY_ID: lambda: store.calls(Query(call_id=call_id, limit=1)),
        LIST: lambda: store.heads(Query(limit=NEWEST)),
        WHOLE: lambda: store.calls(Query(session_id=session_id, limit=1)),
        TOOL: lambda: store.heads(Query(tool="grep", limit=NEWEST)),
    }


def _ask_cold(places: Places) -> dict[int, list[float]]:
    """Look calls up while neither the store nor the system has the file's pages."""
    took: dict[int, list[float]] = {size: [] for size in places}
    for size, url in places.items():
        ids = _some_ids(url)
        for call_id in ids:
            _forget_pages(file_of(url))
            store = store_at(url)
            store.open(write=False)
            begun = perf_counter()
            (_found,) = store.calls(Query(call_id=call_id, limit=1))
            took[size].append((perf_counter() - begun) * 1e3)
            store.close()
    return took


def _some_ids(url: str) -> list[str]:
    """Return ids from all over a store."""
    store = store_at(url)
    store.open(write=False)
    first, last = [(store.heads(query))[0].at for query in (_OLDEST, Query(limit=1))]
    pick, found = random.Random(mix.SEED), list[str]()
    for _ in range(COLD):
        heads = store.heads(Query(until=pick.uniform(first + 1, last), limit=1))
        found += [head.call_id for head in heads]
    store.close()
    return found


def _forget_pages(file: Path) -> None:
    if hasattr(os, "posix_fadvise"):
        fd = os.open(file, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


# Judging


def _subject(took: dict[str, Times], notes: list[str], sizes: list[int]) -> Subject:
    rows: list[tuple[str, ...]] = []
    claims: list[Claim] = []
    kept: Figures = {}
    for engine, times in took.items():
        found = {name: {size: _shares(ms) for size, ms in by.items()} for name, by in times.items()}
        rows += [
            (f"{engine}: {name}", *map(_told, by.values()), f"{_growth(by):.2f}×")
            for name, by in found.items()
        ]
        for name in (BY_ID, LIST):
            what, span = f"{engine}, {name}", f"{sizes[0]:,} → {sizes[-1]:,} calls"
            claims += [
                Claim(f"{what}, p95 of all sizes", _worst(found[name]), LIMIT_MS, unit=" ms"),
                Claim(f"{what}, p50 of {span}", _growth(found[name]), FLAT),
            ]
        kept[engine] = {
            name: {
                f"{size}": {"p50_ms": round(p50, 4), "p95_ms": round(p95, 4)}
                for size, (p50, p95) in by.items()
            }
            for name, by in found.items()
        }
    notes = [
        f"p50 / p95 of {ASKED:,} questions to each store, in turns; of {COLD} where caches are emptied"
        " (the file's pages forgotten, a new connection)",
        *notes,
    ]
    head = ("question", *[f"{size:,} calls" for size in sizes], "growth")
    return Subject("A history, asked", head, rows, claims, notes, kept)


def _told(shares: tuple[float, float]) -> str:
    return f"{shares[0]:.3f} / {shares[1]:.3f} ms"


def _shares(values: list[float]) -> tuple[float, float]:
    cuts = quantiles(values, n=20, method="inclusive")
    return cuts[9], cuts[18]


def _growth(by: dict[int, tuple[float, float]]) -> float:
    sizes = sorted(by)
    return by[sizes[-1]][0] / by[sizes[0]][0]


def _worst(by: dict[int, tuple[float, float]]) -> float:
    return max(p95 for _, p95 in by.values())
