"""Searching a tree of 100 MB: `grep` as a whole, through a session, against bare `rg`.

Bare `rg` gets the same pattern and directory, and what it prints is thrown away; ours counts all that
matches, and shows the first hundred lines in the order of paths. All take turns. The tree has just been
written, so the system holds it in memory.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import tempfile
from pathlib import Path
from statistics import median

from callsheet import Session
from callsheet.tools import ripgrep

from .table import Claim, Figures, Subject
from .timing import Batch, interleave, repeat

SIZE = 100_000_000
ROUNDS = 21
SECONDS = 0.02

RARE, FREQUENT, NOWHERE = "one line in all", "every tenth line", "nowhere"
PATTERNS = {RARE: "needle_[a-z]+_haystack", FREQUENT: "return", NOWHERE: "needle_[0-9]+"}


def measure() -> Subject:
    """Time both, for patterns that are found seldom, often, and never."""
    found = ripgrep.program()
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-") as name, asyncio.Runner() as runner:
        tree = Path(name).resolve()
        files = _fill(tree)
        peers: dict[str, Batch] = {}
        for kind, pattern in PATTERNS.items():
            peers[f"rg, {kind}"] = _bare(found, pattern, tree)
            peers[f"grep, {kind}"] = _ours(runner, pattern, tree)
        took = interleave(peers, rounds=ROUNDS, seconds=SECONDS)
    return _subject(took, files)


def _fill(tree: Path) -> int:
    """Make a tree of source files. Gives how many."""
    chance = random.Random(7)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chance.choices(letters, k=chance.randint(2, 9))) for _ in range(3000)]
    size = files = 0
    while size < SIZE:
        lines = [
            " ".join(chance.choices(words, k=chance.randint(1, 12)))
            + (" return" if not number % 10 else "")
            for number in range(chance.randint(50, 900))
        ]
        directory = tree / f"d{files % 40}" / f"e{files % 7}"
        directory.mkdir(parents=True, exist_ok=True)
        size += (directory / f"f{files}.py").write_text("\n".join(lines) + "\n")
        files += 1
    (tree / "d3" / "rare.txt").write_text("x\nneedle_in_haystack\n")
    return files + 1


def _bare(program: str, pattern: str, tree: Path) -> Batch:
    command = [program, "--no-config", "-e", pattern, "./"]
    null = subprocess.DEVNULL
    return repeat(lambda: subprocess.run(command, cwd=tree, stdin=null, stdout=null, check=False))


def _ours(runner: asyncio.Runner, pattern: str, tree: Path) -> Batch:
    async def batch(times: int) -> float:
        async with Session(cwd=tree) as session:
            loop = asyncio.get_running_loop()
            begun = loop.time()
            for _ in range(times):
                result = await session.run("grep", {"pattern": pattern})
                if not result.success:
                    raise RuntimeError(result.output)
            return loop.time() - begun

    return lambda times: runner.run(batch(times))


def _subject(took: dict[str, list[float]], files: int) -> Subject:
    best = {name: min(values) / 1000 for name, values in took.items()}
    claims = [
        Claim(
            f"grep in 100 MB, {kind}, callsheet / bare rg, the best of each",
            best[f"grep, {kind}"] / best[f"rg, {kind}"],
            1.3,
        )
        for kind in PATTERNS
    ]
    rows = [
        (name, f"{best[name]:.1f}", f"{median(values) / 1000:.1f}") for name, values in took.items()
    ]
    notes = [
        f"{files:,} files; {ROUNDS} rounds, in which all take turns",
        "what bare rg prints is thrown away; grep counts all, and shows the first 100 by path",
    ]
    kept: Figures = {"milliseconds": {name: round(value, 2) for name, value in best.items()}}
    return Subject(
        "Searching 100 MB",
        ("what, and how often it is there", "best ms", "median ms"),
        rows,
        claims,
        notes,
        kept,
    )
