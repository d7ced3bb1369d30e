"""Learns the dictionary that every history begins with, from calls of the built-in tools over this project.

Run it when the shape of reports changes: `python scripts/train_dictionary.py`. A store that was written with
an earlier dictionary keeps that one, so nothing that exists depends on the result.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import tempfile
from collections import deque
from pathlib import Path
from typing import Any

import zstandard

from callsheet import Session
from callsheet.history import codec
from callsheet.report.terminal import CallRecord
from callsheet.runtime.sanitizer import GuardSettings

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "src/callsheet/history/dictionary.zstd"
SIZE = 1 << 14
SEED = 7


class Collected:
    """A sink that keeps the last record of each call."""

    peer = None
    takes_records = True

    def __init__(self) -> None:
        self.records: dict[str, CallRecord] = {}

    def send(self, items: deque[Any]) -> None:
        """Keep the records."""
        while items:
            record = items.popleft()
            self.records[record.report.tool_call_id] = record

    def close(self) -> None:
        """Nothing was opened."""


async def collect(workspace: Path) -> list[CallRecord]:
    """Run the tools as an agent would, and give the records of their calls."""
    pick = random.Random(SEED)
    files = sorted(p for p in workspace.rglob("*.py") if p.stat().st_size < 20_000)
    sink = Collected()
    guard = GuardSettings(spill=False)
    async with Session(
        cwd=workspace, sinks=[sink], builtin=True, permission="allow", guard=guard
    ) as session:
        for number in range(300):
            file = str(pick.choice(files).relative_to(workspace))
            word = pick.choice(["def", "class", "import", "return", "raise", "async", "self"])
            await session.run("read", {"path": file, "limit": pick.choice([5, 20, 60])})
            await session.run("grep", {"pattern": word, "path": file, "limit": 8})
            await session.run("bash", {"command": f"wc -l {file}"})
            if number % 3 == 0:
                await session.run("list", {"path": str(Path(file).parent)})
                await session.run("glob", {"pattern": f"**/{word[0]}*.py"})
                await session.run("read", {"path": file + "x"})
                await session.run("bash", {"command": f"cat {file}.gone; exit {number % 4}"})
                await session.run("think", {"thought": f"The {word} in {file} has to go."})
                await session.run(
                    "edit",
                    {"path": file, "old_text": "from __future__", "new_text": "from __past__"},
                )
    return list(sink.records.values())


def main() -> None:
    """Learn it, and say how well it does."""
    with tempfile.TemporaryDirectory() as place:
        workspace = Path(place) / "project"
        shutil.copytree(ROOT / "src", workspace, ignore=shutil.ignore_patterns("__pycache__"))
        records = asyncio.run(collect(workspace))
        samples = [
            codec.as_json_bytes(record).replace(place.encode(), b"/home/user") for record in records
        ]
    samples = [one for one in samples if len(one) <= codec.SMALL]
    random.Random(SEED).shuffle(samples)
    learned = zstandard.train_dictionary(SIZE, samples[::2])
    TARGET.write_bytes(learned.as_bytes())
    judge = zstandard.ZstdCompressor(dict_data=learned, level=codec.LEVEL)
    plain = zstandard.ZstdCompressor(level=codec.LEVEL)
    rest = samples[1::2]
    sizes = [sum(map(len, rest)), sum(len(plain.compress(s)) for s in rest)]
    sizes.append(sum(len(judge.compress(s)) for s in rest))
    print(json.dumps(dict(zip(("json", "zstd", "with_dictionary"), sizes, strict=True))))


if __name__ == "__main__":
    main()
