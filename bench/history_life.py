"""What a history adds to a call's life: CPU time of the whole process, the thread that writes included.

Two lives, each with a client at a pipe that `cat` reads. A tool that the session runs (`session.run`): one
that answers with a word, and one that answers with two thousand characters. And the reports alone, without a
tool (`session.call`, as in `life_pipe`). Each with and without a history in a file, in turns; a round ends
when all of it is durable. What the search index takes later, when there is time, is told besides.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import process_time
from typing import TypeAlias

from callsheet import Session, tool
from callsheet.acp.peer import Peer
from callsheet.history import History
from callsheet.history.store import Store
from callsheet.runtime.sinks import PipeSink

from .pipes import drain, run_module
from .table import Claim, Figures, Subject
from .timing import ratio, summarise
from .work import LIMIT, NAME, PATH, SESSION, TEXT

CWD = "/home/dev/app"
PROCESSES = 4
ROUNDS = 5
CALLS = 1000
"""Calls of a round: 20,000 of each kind in all, with a history and without one."""

LIMIT_OF_SHARE = 1.25
WORD, PAGE, EACH, END = (
    "session.run, a tool that answers a word",
    "session.run, a tool that answers a page",
    "session.call, each state waited for, a page",
    "session.call, the end waited for, a page",
)
CLAIMED = (WORD, PAGE)
Live: TypeAlias = Callable[[Session], Awaitable[None]]


async def word(path: str) -> str:
    """Say something short."""
    return path[-2:]


async def page(path: str) -> str:
    """Say something long."""
    return TEXT if path else ""


async def _run(session: Session, name: str) -> None:
    result = await session.run(name, {"path": PATH})
    assert result.success


async def _call(session: Session, *, each: bool) -> None:
    async with session.call(NAME, {"path": PATH, "limit": LIMIT}) as call:
        if each:
            await session.flush()
        call.start()
        if each:
            await session.flush()
        call.succeed(TEXT, raw={"content": TEXT})
    await session.flush()


LIVES: dict[str, Live] = {
    WORD: lambda session: _run(session, "word"),
    PAGE: lambda session: _run(session, "page"),
    EACH: lambda session: _call(session, each=True),
    END: lambda session: _call(session, each=False),
}


def measure() -> Subject:
    """Time all of them, in several processes."""
    took: dict[str, dict[str, list[float]]] = {}
    for _ in range(PROCESSES):
        found = run_module("bench.history_life", f"--rounds={ROUNDS}", timeout=300)
        for name, columns in found.items():
            for column, values in columns.items():
                took.setdefault(name, {}).setdefault(column, []).extend(values)
    return _subject(took)


def _subject(took: dict[str, dict[str, list[float]]]) -> Subject:
    rows: list[tuple[str, ...]] = []
    claims: list[Claim] = []
    kept: Figures = {}
    for name, columns in took.items():
        without, kept_too = summarise(columns["without"]), summarise(columns["with"])
        share = ratio(columns["with"], columns["without"])
        indexing = summarise(columns["indexing"]).median
        rows.append(
            (
                name,
                f"{without.median:.1f}",
                f"{kept_too.median:.1f}",
                f"{kept_too.spread_percent:.0f} %",
                f"{share:.2f}×",
                f"{indexing:.0f}",
            )
        )
        if name in CLAIMED:
            claims.append(Claim(f"{name}: with a history / without", share, LIMIT_OF_SHARE))
        kept[name] = {
            "cpu_microseconds_without": without.rounded(),
            "cpu_microseconds_with": kept_too.rounded(),
            "ratio": round(share, 3),
            "indexing_cpu_microseconds": round(indexing, 1),
        }
    notes = [
        f"CPU time of all threads; {PROCESSES} processes, in each {ROUNDS} rounds of {CALLS} calls with and"
        " without, in turns; the ratio is the median of the rounds' own",
        "indexing for the search is done later, when nothing happens, and is in no other column",
        "reports alone are the worst case: nothing is done between them that they could be compared to",
    ]
    head = ("a call's life", "CPU µs", "with history", "spread", "ratio", "indexing µs")
    return Subject("A call's life, kept", head, rows, claims, notes, kept)


# In the process of its own


def time_lives(rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return CPU microseconds per life, by life, with and without a history, by round."""
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-") as place, drain() as pipe:
        return asyncio.run(_time_lives(Path(place), pipe, rounds))


async def _time_lives(place: Path, pipe: int, rounds: int) -> dict[str, dict[str, list[float]]]:
    history = History(f"sqlite:///{place / 'history.sqlite'}")
    sinks = [PipeSink(pipe, Peer()), PipeSink(pipe, Peer())]
    tools = [tool(word), tool(page)]
    took: dict[str, dict[str, list[float]]] = {
        name: {"without": [], "with": [], "indexing": []} for name in LIVES
    }
    async with (
        Session(SESSION, cwd=CWD, tools=tools, builtin=False, sinks=sinks[:1]) as without,
        Session(SESSION, cwd=CWD, tools=tools, builtin=False, sinks=sinks[1:]) as kept,
    ):
        kept.attach(history.session(SESSION, cwd=CWD))
        for round_ in range(rounds + 1):
            for name, live in LIVES.items():
                bare = await _time(live, without)
                whole = await _time(live, kept, history)
                indexing = await _index(history)
                if round_:  # the first one warms up
                    for column, value in zip(took[name], (bare, whole, indexing), strict=True):
                        took[name][column].append(value)
            if not round_:
                gc.collect()
                gc.freeze()  # as in `timing`: what was imported is nobody's to walk
    await history.close()
    if history.health.lost or history.health.written < (rounds + 1) * len(LIVES) * CALLS:
        raise RuntimeError(f"not all is kept: {history.health}")
    return took


async def _time(live: Live, session: Session, history: History | None = None) -> float:
    begun = process_time()
    for _ in range(CALLS):
        await live(session)
    if history is not None and not await history.flush(60):
        raise RuntimeError(f"not all is durable: {history.health}")
    return (process_time() - begun) / CALLS * 1e6


async def _index(history: History) -> float:
    def index(store: Store) -> float:
        begun = process_time()
        while store.index():
            pass
        return (process_time() - begun) / CALLS * 1e6

    return await history.ask(index)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.history_life")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    print(json.dumps(time_lives(parser.parse_args().rounds)))


if __name__ == "__main__":
    _main()
