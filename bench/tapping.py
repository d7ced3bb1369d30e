"""What a proxy costs for each message that it passes on: CPU time of its process, all threads of it.

An agent's talk, in small pieces: each sent when the one before has arrived, as a model gives them; and as
fast as the pipe takes them. And updates of real agents' calls, each written by itself, as fast as they go:
these the tap puts right, makes slim and looks through for secrets, where its peers only pass them on.

The peers: a relay in Python that reads nothing (the floor), one that goes line by line, and a proxy on the
official Python SDK. All of them run at the same time, on one CPU, and are measured in turns.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from .table import Claim, Figures, Subject
from .tap_pipes import KEEPING, LINES, PIECES, SDK, TAP, UNGUARDED, Proxy, one_cpu, present, proxy
from .tap_traffic import END, calls, chunk, talk
from .timing import ratio, summarise

ROUNDS = 30
PEERS = (TAP, UNGUARDED, KEEPING, PIECES, LINES, SDK)
SLOW = 10
"""The SDK gets one message in so many: it is the slower one, and noise is no matter."""

ONE, FLOOD, CALLS = "one by one", "flood", "calls"
COUNTS = {ONE: 1184, FLOOD: 5000, CALLS: 200}


class Took(NamedTuple):
    """Microseconds for each message, by round."""

    cpu: list[float]
    wall: list[float]


def measure() -> Subject:
    """Let all proxies that are here pass on the same, round by round."""
    names = present(PEERS)
    took = {name: {work: Took([], []) for work in COUNTS} for name in names}
    with one_cpu(), ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="callsheet-bench-"))
        history = f"sqlite:///{Path(folder, 'history.sqlite')}"
        proxies = {
            name: stack.enter_context(proxy(name, history if name == KEEPING else "off"))
            for name in names
        }
        told = {name: calls() for name in names}
        for round_ in range(ROUNDS + 1):
            for name in names[round_ % len(names) :] + names[: round_ % len(names)]:
                share = SLOW if name == SDK else 1
                for work, many in COUNTS.items():
                    lines = list(islice(told[name], many // share)) if work == CALLS else []
                    run = _work(work, proxies[name], many // share, lines)
                    cpu, wall = _timed(proxies[name], run)
                    if round_:  # the first one warms up
                        took[name][work].cpu.append(cpu / (many // share) * 1e6)
                        took[name][work].wall.append(wall / (many // share) * 1e6)
    return _subject(took)


def _work(work: str, ends: Proxy, many: int, lines: list[bytes]) -> Callable[[], None]:
    said = (talk() * (many // len(talk()) + 1))[:many]
    if work == ONE:
        return lambda: _one_by_one(ends, said)
    pieces = [*lines, chunk(END)] if work == CALLS else [b"".join(said) + chunk(END)]
    return lambda: _at_once(ends, pieces, None if work == CALLS else many + 1)


def _one_by_one(ends: Proxy, said: list[bytes]) -> None:
    for line in said:
        ends.tell(line)


def _at_once(ends: Proxy, pieces: list[bytes], expected: int | None) -> None:
    found = ends.flood(pieces, END.encode())
    # A word that may be the beginning of a key is sent together with the next one.
    if expected is not None and not 0.9 * expected <= found <= expected:
        raise RuntimeError(f"{found} lines have arrived, not {expected}")


def _timed(ends: Proxy, run: Callable[[], None]) -> tuple[float, float]:
    used, begun = ends.cpu(), perf_counter()
    run()
    return ends.cpu() - used, perf_counter() - begun


def _subject(took: dict[str, dict[str, Took]]) -> Subject:
    rows: list[tuple[str, ...]] = []
    kept: dict[str, object] = {}
    for name, works in took.items():
        cells: list[str] = []
        for work, (cpu, wall) in works.items():
            used = summarise(cpu)
            times = ratio(cpu, took[PIECES][work].cpu)
            cells += [f"{used.median:.2f}", f"{times:.2f}×"]
            kept[f"{name}, {work}"] = {
                "cpu_microseconds": used.rounded(),
                "of_the_bare_relay": round(times, 3),
                "messages_per_second": round(1e6 / summarise(wall).median),
            }
        rows.append((name, *cells))
    notes = [
        f"{ROUNDS} rounds of {COUNTS[ONE]:,} messages one by one, {COUNTS[FLOOD]:,} in a flood and"
        f" {COUNTS[CALLS]:,} about calls, in turns; the SDK gets a tenth of them; ×: of the bare relay,"
        " the median of the rounds' own ratios",
        "in a flood, a relay that reads nothing passes on some 370 messages in one go",
    ]
    if SDK not in took:
        notes.append("the Python SDK is left out: agent-client-protocol is not installed")
    head = ("proxy", "one by one: CPU µs", "×", "flood: CPU µs", "×", "calls: CPU µs", "×")
    figures: Figures = kept
    return Subject("A message through a proxy", head, rows, _claims(took), notes, figures)


def _claims(took: dict[str, dict[str, Took]]) -> list[Claim]:
    ours, bare, lines = took[TAP], took[PIECES], took[LINES]
    claims = [
        Claim("tap, talk one by one: CPU / bare relay", ratio(ours[ONE].cpu, bare[ONE].cpu), 2.0),
        Claim(
            "tap, talk in a flood: CPU / relay line by line",
            ratio(ours[FLOOD].cpu, lines[FLOOD].cpu),
            2.0,
        ),
    ]
    if SDK in took:
        sdk = took[SDK]
        claims += [
            Claim(f"tap, talk {name}: messages a second / Python SDK", figure, 10.0, at_least=True)
            for name, figure in (
                ("one by one", ratio(sdk[ONE].cpu, ours[ONE].cpu)),
                ("in a flood", ratio(sdk[FLOOD].wall, ours[FLOOD].wall)),
            )
        ]
    return claims
