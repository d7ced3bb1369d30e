"""200 lines from the middle of a file of 2 GiB: how long it takes, and how much memory.

Each way runs in a process of its own (`python -m bench.reading`), several times, in turns. Callsheet's is
the whole tool, through a session: found, checked, read, reported. It is asked twice in each process; the
second time, it knows where the lines are. The file has just been written, so the system holds it in memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any

from callsheet import Session

from . import memory
from .pipes import run_module
from .table import Claim, Figures, Subject
from .timing import ratio

SIZE = 2 << 30
LINES = 200
ROUNDS = 3

OURS = "callsheet, the first time"
AGAIN = "callsheet, the second time"
SED = "sed -n"
ISLICE = "Python, islice over the file"
READLINES = "Python, readlines"

_LINE = b"%012d 10.0.3.7 - - GET /static/app.js HTTP/1.1 200 5316 a usual line, as logs have many\n"
_ROOM = 4
"""Times its size that a file takes as a list of lines."""


def measure() -> Subject:
    """Time all ways that are here."""
    notes: list[str] = []
    with _file(SIZE) as (path, lines):
        first = lines // 2
        ways = list(_ways(notes))
        took: dict[str, list[dict[str, float]]] = {}
        for _ in range(ROUNDS):
            for way in ways:
                options = (way, str(path), str(first))
                for name, run in run_module("bench.reading", *options, timeout=600).items():
                    took.setdefault(name, []).append(run)
        notes.insert(
            0,
            f"lines {first:,}–{first + LINES - 1:,} of {lines:,}, {path.stat().st_size / 2**30:.1f} GiB;"
            f" {ROUNDS} processes each, in turns",
        )
    return _subject(took, notes)


def _ways(notes: list[str]) -> Iterator[str]:
    yield "ours"
    if shutil.which("sed"):
        yield "sed"
    else:
        notes.append("sed is left out: it is not on this machine")
    yield "islice"
    free = _free_memory()
    if free is None or free > SIZE * _ROOM:
        yield "readlines"
    else:
        notes.append("readlines is left out: it would need more memory than is free")


def _free_memory() -> int | None:
    try:
        found = re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None


@contextmanager
def _file(size: int) -> Iterator[tuple[Path, int]]:
    """Make a file of lines. Gives it, and how many they are."""
    length = len(_LINE % 0)
    lines = size // length
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-") as directory:
        path = Path(directory, "huge.log")
        with path.open("wb") as file:
            for begin in range(0, lines, 100_000):
                file.write(b"".join(_LINE % n for n in range(begin, min(lines, begin + 100_000))))
        sleep(0.2)  # a file that has just changed is not remembered
        yield path, lines


def _subject(took: dict[str, list[dict[str, float]]], notes: list[str]) -> Subject:
    times = {name: [run["seconds"] * 1000 for run in runs] for name, runs in took.items()}
    grown, read = _most(took, "mebibytes"), _most(took, "read")
    what = "200 lines of 2 GiB"
    claims = [
        Claim(f"{what}, memory of the first time", grown[OURS], 16, unit=" MiB"),
    ]
    if OURS in read:
        claims.append(Claim(f"{what}, share of it that is read", read[OURS] / SIZE, 0.51))
    if SED in times:
        claims.append(Claim(f"{what}, first time / sed", ratio(times[OURS], times[SED]), 1.5))
    kept: Figures = {
        "milliseconds": {name: round(median(values), 2) for name, values in times.items()},
        "mebibytes": {name: round(value, 1) for name, value in grown.items()},
        "bytes_read": read,
    }
    head = ("way", "ms", "min–max", "MiB more", "MiB read")
    rows = [
        (
            name,
            f"{median(values):,.1f}",
            f"{min(values):,.1f}–{max(values):,.1f}",
            f"{grown[name]:,.1f}" if name in grown else "–",
            f"{read[name] / 2**20:,.1f}" if name in read else "–",
        )
        for name, values in times.items()
    ]
    return Subject("200 lines from the middle of a file of 2 GiB", head, rows, claims, notes, kept)


def _most(took: dict[str, list[dict[str, float]]], fact: str) -> dict[str, float]:
    return {name: max(run[fact] for run in runs) for name, runs in took.items() if fact in runs[0]}


# In a process of its own


def _bytes_read() -> int | None:
    try:
        found = re.search(r"rchar: (\d+)", Path("/proc/self/io").read_text())
    except OSError:
        return None
    return int(found[1]) if found else None


@contextmanager
def _measured(into: dict[str, float]) -> Iterator[None]:
    held, had = memory.now(), _bytes_read()
    memory.forget_peak()
    start = perf_counter()
    yield
    into["seconds"] = perf_counter() - start
    into["mebibytes"] = max(0.0, memory.peak() - held)
    if had is not None:
        into["read"] = (_bytes_read() or 0) - had


def _check(text: str, first: int) -> None:
    for n in (first - 1, first + LINES - 2):
        if (_LINE % n).decode().rstrip() not in text:
            raise RuntimeError(f"line {n + 1} is missing")


async def _ours(path: Path, first: int) -> dict[str, Any]:
    runs: dict[str, dict[str, float]] = {OURS: {}, AGAIN: {}}
    async with Session(cwd=path.parent) as session:
        (path.parent / "small.txt").write_text("a\n")
        await session.run("read", {"path": "small.txt"})
        for run in runs.values():
            with _measured(run):
                arguments = {"path": path.name, "offset": first, "limit": LINES}
                result = await session.run("read", arguments)
            _check(result.output, first)
    return runs


def _sed(path: Path, first: int) -> dict[str, Any]:
    last = first + LINES - 1
    start = perf_counter()
    command = ["sed", "-n", f"{first},{last}p;{last}q", str(path)]
    text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    took = perf_counter() - start
    _check(text, first)
    return {SED: {"seconds": took}}


def _python(name: str, path: Path, first: int) -> dict[str, Any]:
    run: dict[str, float] = {}
    with _measured(run), path.open("rb") as file:
        if name == READLINES:
            lines = file.readlines()[first - 1 : first - 1 + LINES]
        else:
            lines = list(islice(file, first - 1, first - 1 + LINES))
        text = b"".join(lines).decode()
    _check(text, first)
    return {name: run}


_WAYS: dict[str, Callable[[Path, int], dict[str, Any]]] = {
    "ours": lambda path, first: asyncio.run(_ours(path, first)),
    "sed": _sed,
    "islice": lambda path, first: _python(ISLICE, path, first),
    "readlines": lambda path, first: _python(READLINES, path, first),
}


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.reading")
    parser.add_argument("way", choices=_WAYS)
    parser.add_argument("path", type=Path)
    parser.add_argument("first", type=int)
    options = parser.parse_args()
    print(json.dumps(_WAYS[options.way](options.path, options.first)))


if __name__ == "__main__":
    _main()
