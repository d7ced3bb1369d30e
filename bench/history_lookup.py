"""Finding calls in a history of ten thousand, a hundred thousand, a million: it must not take longer.

The stores are filled through the store itself, with payloads of really made calls (see `mix`); a payload
stands in many rows here, which nothing that is measured depends on. Then every question is asked in turn of
each store, many times, for ids by chance from all over it. Look-ups are also asked after the system was told
to forget the files' pages.

The disk needs about 2 GB for as long as it runs.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import Any

from msgspec.structs import replace

from callsheet.history.places import store_at
from callsheet.history.rows import Batch, CallRow, Query, SessionRow
from callsheet.history.store import Store
from callsheet.runtime.ids import new_call_id

from . import mix
from .table import Claim, Figures, Subject

SIZES = (10_000, 100_000, 1_000_000)
BATCH = 5000
SESSION = 100
"""Calls of a session."""

ASKED = 2000
COLD = 200
NEWEST = 50
LIMIT_MS = 5.0
FLAT = 1.5
BY_ID, LIST, WHOLE, TOOL, COLD_ID = (
    "a call by its id, whole",
    f"the {NEWEST} newest, as a list shows them",
    "the newest of a session, whole",
    f"the {NEWEST} newest of a tool",
    "a call by its id, the system's cache emptied",
)


def measure(most: int = SIZES[-1]) -> Subject:
    """Fill the stores, and ask them."""
    sizes = [size for size in SIZES if size <= most]
    made = mix.templates()
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-") as place:
        took, disk = asyncio.run(_measure(Path(place), made, sizes))
    return _subject(took, disk, sizes)


Times = dict[str, dict[int, list[float]]]
"""Milliseconds, by question and by the size of the store."""


async def _measure(place: Path, made: list[mix.Template], sizes: list[int]) -> tuple[Times, int]:
    stores: dict[int, tuple[Store, list[tuple[str, str]]]] = {}
    disk = 0
    for size in sizes:
        file = place / f"{size}.sqlite"
        store = store_at(f"sqlite:///{file}")
        await store.open()
        ids = await _fill(store, made, size)
        await store.close()  # what was written is in its file then, and in nobody's cache of pages
        await store.open(write=False)
        stores[size] = store, ids
        disk += file.stat().st_size
    gc.collect()
    took = await _ask(stores)
    took[COLD_ID] = {size: await _cold(place / f"{size}.sqlite", stores[size][1]) for size in sizes}
    for store, _ in stores.values():
        await store.close()
    return took, disk


# Filling


async def _fill(store: Store, made: list[mix.Template], size: int) -> list[tuple[str, str]]:
    """Fill a store. Gives session and id of some calls from all over it."""
    pick = random.Random(size)
    calls = mix.waiting(made, len(made), pick)
    packed = [row for call in calls for row, blobs in [call.fold(store.packer)] if not blobs]
    store.packer.press(packed, [])
    wanted, ids = set(pick.sample(range(size), min(size, ASKED))), list[tuple[str, str]]()
    for start in range(0, size, BATCH):
        rows = list(_rows(packed, start, min(size, start + BATCH)))
        sessions = [
            SessionRow(session_id=key, updated_at=rows[-1].at)
            for key in dict.fromkeys(row.session_id for row in rows)
        ]
        await store.write(Batch(sessions=sessions, calls=rows))
        ids += [(row.session_id, row.call_id) for at, row in enumerate(rows, start) if at in wanted]
    pick.shuffle(ids)
    return ids


def _rows(packed: list[CallRow], start: int, end: int) -> Iterator[CallRow]:
    for number in range(start, end):
        at = mix.START + number * 0.7
        yield replace(
            packed[number % len(packed)],
            session_id=f"sess_{number // SESSION:08}",
            call_id=new_call_id(),
            position=number % SESSION,
            at=at,
            updated_at=at + 0.4,
        )


# Asking


async def _ask(stores: dict[int, tuple[Store, list[tuple[str, str]]]]) -> Times:
    took: Times = {name: {size: [] for size in stores} for name in (BY_ID, LIST, WHOLE, TOOL)}
    for number in range(ASKED):
        for size, (store, ids) in stores.items():
            for name, ask in _questions(store, *ids[number % len(ids)]).items():
                begun = perf_counter()
                found = await ask()
                took[name][size].append((perf_counter() - begun) * 1e3)
                if not found:
                    raise RuntimeError(f"{name}: nothing is found among {size} calls")
    return took


def _questions(
    store: Store, session_id: str, call_id: str
) -> dict[str, Callable[[], Awaitable[list[Any]]]]:
    return {
        BY_ID: lambda: store.calls(Query(call_id=call_id, limit=1)),
        LIST: lambda: store.heads(Query(limit=NEWEST)),
        WHOLE: lambda: store.calls(Query(session_id=session_id, limit=1)),
        TOOL: lambda: store.heads(Query(tool="grep", limit=NEWEST)),
    }


async def _cold(file: Path, ids: list[tuple[str, str]]) -> list[float]:
    """Look calls up while neither the store nor the system has the file's pages."""
    took: list[float] = []
    for _, call_id in ids[:COLD]:
        _forget_pages(file)
        store = store_at(f"sqlite:///{file}")
        await store.open(write=False)
        begun = perf_counter()
        (_found,) = await store.calls(Query(call_id=call_id, limit=1))
        took.append((perf_counter() - begun) * 1e3)
        await store.close()
    return took


def _forget_pages(file: Path) -> None:
    if hasattr(os, "posix_fadvise"):
        fd = os.open(file, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


# Judging


def _subject(took: Times, disk: int, sizes: list[int]) -> Subject:
    found = {name: {size: _shares(ms) for size, ms in by.items()} for name, by in took.items()}
    rows = [
        (name, *[f"{p50:.3f} / {p95:.3f} ms" for p50, p95 in by.values()], f"{_growth(by):.2f}×")
        for name, by in found.items()
    ]
    claims = [
        Claim(f"{name}, p95 of all sizes", _worst(found[name]), LIMIT_MS, unit=" ms")
        for name in (BY_ID, LIST)
    ]
    claims += [
        Claim(f"{name}, p50 of {sizes[0]:,} → {sizes[-1]:,} calls", _growth(found[name]), FLAT)
        for name in (BY_ID, LIST)
    ]
    notes = [
        f"p50 / p95 of {ASKED:,} questions to each store, in turns; of {COLD} where caches are emptied"
        f" (the file's pages forgotten, a new connection)",
        f"the files: {disk / 1e6:,.0f} MB in all",
    ]
    kept: Figures = {
        "milliseconds": {
            name: {
                f"{size}": {"p50": round(p50, 4), "p95": round(p95, 4)}
                for size, (p50, p95) in by.items()
            }
            for name, by in found.items()
        },
        "disk_bytes": disk,
    }
    head = ("question", *[f"{size:,} calls" for size in sizes], "growth")
    return Subject("A history, asked", head, rows, claims, notes, kept)


def _shares(values: list[float]) -> tuple[float, float]:
    cuts = quantiles(values, n=20, method="inclusive")
    return cuts[9], cuts[18]


def _growth(by: dict[int, tuple[float, float]]) -> float:
    sizes = sorted(by)
    return by[sizes[-1]][0] / by[sizes[0]][0]


def _worst(by: dict[int, tuple[float, float]]) -> float:
    return max(p95 for _, p95 in by.values())
