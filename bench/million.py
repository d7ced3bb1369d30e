"""A million calls through one ledger: memory and look-up must not grow with what has passed.

Each variant runs in a process of its own (`python -m bench.million`), so its memory is its own.
Every call has an alias, a place, an input and a little content, and goes through all three states.
Two variants: our own ids; and ids from outside, which the ledger can only remember in its filter of
taken ids.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, perf_counter_ns
from typing import Any

from callsheet.report.content import TextContent
from callsheet.report.fields import ToolCallLocation, ToolKind
from callsheet.report.ledger import Ledger
from callsheet.report.status import ToolCallStatus
from callsheet.runtime.clock import new_call_id

from . import memory
from .table import Claim, Subject

CALLS = 1_000_000
FOREIGN_SHARE = 5
"""The variant with ids from outside gets one call in so many: it is the slower one."""

RECENT = 200
PASSES = 1001

_ROOT = Path(__file__).parent.parent


def measure(calls: int = CALLS) -> Subject:
    """Run both variants and judge how they grew between a tenth of the way and the end."""
    runs = {
        "own ids": _run(calls, foreign=False),
        "ids from outside": _run(max(10, calls // FOREIGN_SHARE), foreign=True),
    }
    head = ("variant", "after calls", "MiB", "by id", "by alias", "yardstick", "µs per call")
    rows = [row for name, run in runs.items() for row in _rows(name, run)]
    claims = [claim for name, run in runs.items() for claim in _claims(name, run)]
    notes = [
        f"look-ups: median of {PASSES} passes over the {RECENT} latest calls, the loop included",
        "the yardstick is the same look-up in dicts that never change; growth is judged against it",
        f"ids from outside: {runs['ids from outside']['renamed']} calls got a fresh id, because the"
        " filter took theirs for taken",
    ]
    return Subject("Many calls through one ledger", head, rows, claims, notes, {**runs})


def _run(calls: int, *, foreign: bool) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.million", "--calls", str(calls)]
    done = subprocess.run(
        [*command, "--foreign"] if foreign else command,
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60 + calls / 2000,
        check=True,
    )
    return json.loads(done.stdout)


def _rows(name: str, run: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (name, f"{point['calls']:,}", f"{point['mebibytes']:.1f}", *_times(point))
        for point in run["points"]
    ]


def _times(point: dict[str, float]) -> tuple[str, ...]:
    if not point["calls"]:
        return ("–",) * 4
    looks = (point["ns_by_id"], point["ns_by_alias"], point["ns_yardstick"])
    return (*(f"{look:.0f} ns" for look in looks), f"{point['us_per_call']:.1f}")


def _claims(name: str, run: dict[str, Any]) -> list[Claim]:
    """Judge memory as it is, and look-ups by the yardstick: a slow moment is no growth."""
    _, early, late = run["points"]
    span = f"{name}, {early['calls']:,} → {late['calls']:,} calls"
    speed = late["ns_yardstick"] / early["ns_yardstick"]
    by_id = late["ns_by_id"] / early["ns_by_id"] / speed
    by_alias = late["ns_by_alias"] / early["ns_by_alias"] / speed
    return [
        Claim(f"{span}: memory", late["mebibytes"] / early["mebibytes"], 1.3),
        Claim(f"{span}: look-up by id", by_id, 1.3),
        Claim(f"{span}: look-up by alias", by_alias, 1.3),
    ]


# In the process of its own


def pass_through(calls: int, *, foreign: bool) -> dict[str, Any]:
    """Let so many calls live and end in one ledger. Measures at the start, a tenth, the end."""
    ledger = Ledger("sess_1", new_call_id)
    recent: deque[tuple[str, str]] = deque(maxlen=RECENT)
    points: list[dict[str, float]] = [{"calls": 0, "mebibytes": round(memory.now(), 2)}]
    done = 0
    for goal in (calls // 10, calls):
        start = perf_counter()
        for number in range(done, goal):
            recent.append(_live(ledger, number, foreign))
        took = perf_counter() - start
        points.append(_point(ledger, recent, goal, took / (goal - done)))
        done = goal
    return {"points": points, "renamed": ledger.counts.collisions, "still_known": len(ledger)}


def _live(ledger: Ledger, number: int, foreign: bool) -> tuple[str, str]:
    """Let one call live and end; gives its id and its alias."""
    alias, path = f"toolu_{number:024d}", f"/home/dev/app/file_{number % 1000}.py"
    key = ledger.open(
        "read",
        title="Reading a file",
        kind=ToolKind.READ,
        locations=(ToolCallLocation(path, 3),),
        raw_input={"path": path, "limit": 200},
        tool_call_id=f"fc_{number:024d}" if foreign else None,
        notes={"alias": alias},
    ).tool_call_id
    ledger.update(key, ToolCallStatus.IN_PROGRESS)
    ledger.update(key, ToolCallStatus.COMPLETED, content=(TextContent(f"{number} lines read"),))
    return key, alias


def _point(
    ledger: Ledger, recent: deque[tuple[str, str]], calls: int, seconds: float
) -> dict[str, float]:
    mebibytes = memory.now()
    by_id, by_alias, yardstick = _look_up(ledger, *map(list, zip(*recent, strict=True)))
    return {
        "calls": calls,
        "mebibytes": round(mebibytes, 2),
        "ns_by_id": round(by_id, 1),
        "ns_by_alias": round(by_alias, 1),
        "ns_yardstick": round(yardstick, 1),
        "us_per_call": round(seconds * 1e6, 2),
    }


class _Yardstick:
    """A look-up of the same shape in dicts that never change: how fast is the machine just now?"""

    def __init__(self) -> None:
        self._others: dict[str, str] = {}
        self._values = {f"key_{number:026d}": number for number in range(4352)}
        self.keys = list(self._values)[-RECENT:]

    def get(self, key: str) -> int | None:
        """Look up twice, as for an alias."""
        return self._values.get(self._others.get(key, key))


def _look_up(ledger: Ledger, ids: list[str], aliases: list[str]) -> tuple[float, float, float]:
    """Return the nanoseconds of a look-up by id, by alias, and of the yardstick.

    All three are timed in each of many short passes, so that what disturbs one disturbs all.
    """
    if any(ledger.get(key) is None for key in (*ids, *aliases)):
        raise RuntimeError("a recent call is not found")
    yardstick = _Yardstick()
    passes = [
        (_time(ledger.get, ids), _time(ledger.get, aliases), _time(yardstick.get, yardstick.keys))
        for _ in range(PASSES)
    ]
    by_id, by_alias, fixed = (median(column) for column in zip(*passes, strict=True))
    return by_id, by_alias, fixed


def _time(get: Callable[[str], object], keys: list[str]) -> float:
    start = perf_counter_ns()
    for key in keys:
        get(key)
    return (perf_counter_ns() - start) / len(keys)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.million")
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--foreign", action="store_true")
    options = parser.parse_args()
    print(json.dumps(pass_through(options.calls, foreign=options.foreign)))


if __name__ == "__main__":
    _main()
