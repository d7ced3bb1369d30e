"""How long a message is under way through a proxy: from one end to the other, by one clock.

Two things are timed, in turns, one at a time: a piece of an agent's talk, one way; and a request of the
editor with the agent's answer, there and back. Beside the proxies, the same through pipes alone: what is more
is theirs.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from itertools import count
from statistics import quantiles
from time import perf_counter_ns
from typing import Protocol

import msgspec

from .table import Claim, Figures, Subject
from .tap_pipes import LINES, PIECES, SDK, TAP, one_cpu, present, proxy
from .tap_traffic import SESSION, talk

ROUNDS = 100
MANY = 50
"""Messages of a round."""

DIRECT = "no proxy: pipes alone"
TALK, ASK = "talk, one way", "request and answer"
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Ends(Protocol):
    """Both ends of something that passes lines on."""

    def ask(self, line: bytes) -> bytes:
        """Let the editor say a line, and give what the agent hears of it."""
        ...

    def tell(self, line: bytes) -> bytes:
        """Let the agent say a line, and give what the editor hears of it."""
        ...


class Direct:
    """Two pipes."""

    def __init__(self) -> None:
        self._asked, self._asking = os.pipe()
        self._heard, self._telling = os.pipe()

    def ask(self, line: bytes) -> bytes:
        """Write it, and read it."""
        os.write(self._asking, line)
        return os.read(self._asked, 1 << 16)

    def tell(self, line: bytes) -> bytes:
        """Write it, and read it."""
        os.write(self._telling, line)
        return os.read(self._heard, 1 << 16)

    def close(self) -> None:
        """Close them."""
        for end in (self._asked, self._asking, self._heard, self._telling):
            os.close(end)


def measure() -> Subject:
    """Time all that are here, in turns."""
    names = present((TAP, PIECES, LINES, SDK))
    with one_cpu(), ExitStack() as stack:
        ends: dict[str, Ends] = {DIRECT: Direct()}
        stack.callback(ends[DIRECT].close)  # pyright: ignore[reportAttributeAccessIssue]
        ends |= {name: stack.enter_context(proxy(name)) for name in names}
        took = {name: {TALK: list[float](), ASK: list[float]()} for name in ends}
        for round_ in range(ROUNDS + 1):
            for name, both in ends.items():
                talked, asked = _talk(both), _ask(both)
                if round_:  # the first one warms up
                    took[name][TALK] += talked
                    took[name][ASK] += asked
    return _subject(took)


def _talk(ends: Ends) -> list[float]:
    took: list[float] = []
    for line in talk()[:MANY]:
        begun = perf_counter_ns()
        ends.tell(line)
        took.append((perf_counter_ns() - begun) / 1000)
    return took


_numbers = count(1)


def _ask(ends: Ends) -> list[float]:
    took: list[float] = []
    for number in (next(_numbers) for _ in range(MANY)):
        params = {"sessionId": SESSION, "modeId": "ask"}
        request = {"jsonrpc": "2.0", "id": number, "method": "session/set_mode", "params": params}
        line = _encode(request) + b"\n"
        begun = perf_counter_ns()
        heard = _decode(ends.ask(line))
        there = perf_counter_ns()
        answer = _encode({"jsonrpc": "2.0", "id": heard["id"], "result": {}}) + b"\n"
        again = perf_counter_ns()
        back = ends.tell(answer)
        took.append((perf_counter_ns() - again + there - begun) / 1000)
        if _decode(back)["id"] != number:
            raise RuntimeError(f"the answer to {number} is {back!r}")
    return took


def _subject(took: dict[str, dict[str, list[float]]]) -> Subject:
    cuts = {
        name: {work: quantiles(values, n=100) for work, values in works.items()}
        for name, works in took.items()
    }
    middle = {name: {work: cut[49] for work, cut in works.items()} for name, works in cuts.items()}
    worst = {name: {work: cut[98] for work, cut in works.items()} for name, works in cuts.items()}
    rows = [
        (
            name,
            *[
                cell
                for work in (TALK, ASK)
                for cell in (
                    f"{middle[name][work]:.0f}",
                    f"{worst[name][work]:.0f}",
                    f"{middle[name][work] - middle[DIRECT][work]:.0f}",
                    f"{worst[name][work] - worst[DIRECT][work]:.0f}",
                )
            ],
        )
        for name in took
    ]
    kept: Figures = {
        name: {
            work: {"p50_us": round(middle[name][work], 1), "p99_us": round(worst[name][work], 1)}
            for work in (TALK, ASK)
        }
        for name in took
    }
    claims = [
        Claim(
            f"tap, {work}: p50 over a bare relay's", middle[TAP][work] - middle[PIECES][work], 50, unit=" µs"
        )
        for work in (TALK, ASK)
    ]  # fmt: skip
    if SDK in took:
        claims += [
            Claim(f"tap, {work}: p50 / Python SDK", middle[TAP][work] / middle[SDK][work], 1 / 3)
            for work in (TALK, ASK)
        ]
    notes = [
        f"{ROUNDS} rounds of {MANY} messages each, in turns, on one CPU; wall time, with what else goes on",
        "+: more than through pipes alone",
    ]
    head = ("µs", "talk p50", "p99", "+p50", "+p99", "request p50", "p99", "+p50", "+p99")
    return Subject("A message's way through a proxy", head, rows, claims, notes, kept)
