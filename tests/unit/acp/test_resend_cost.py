"""What a growing output costs a client that is shown text: at most 4 bytes for each, also if it is short.

The cost is what a call's updates take more than those of the same call without output.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

import pytest

from callsheet import Session
from callsheet.report.content import TextContent
from callsheet.testing import FakeClock, Recorder
from tests.support.made_recordings import Message, announced, updated, words
from tests.support.sizes import sized
from tests.support.tap_harness import Tapped

MOST = 4
SHELL: Message = {"title": "make", "kind": "execute", "rawInput": {"command": "make"}}

Told = Callable[[str], Message]

WAYS: dict[str, Told] = {
    "content": lambda said: {"content": words(said)},
    "fenced": lambda said: {"content": words(f"```\n{said}\n```")},
    "both": lambda said: {"content": words(said), "rawOutput": {"output": said, "exit": None}},
    "raw text": lambda said: {"rawOutput": said},
    "raw object": lambda said: {"rawOutput": {"stdout": said, "stderr": ""}},
    "raw, the end": lambda said: {"rawOutput": {"stdout": said[-6000:]}},
    "raw lines": lambda said: {"rawOutput": said.splitlines()},
    "counting": lambda said: {"content": words(f"{len(said):09} bytes\n{said}")},
}
TEXTS = [
    "step {n:05} of the build: done\n",
    'path "C:\\dir\\{n}"\t→ ok\n',
    "{n}\n",
    "漢字 und Umlaute äöü {n}\n",
    "." * 79 + "\n",
]


def printed(size: int, line: str) -> str:
    text = "".join(line.replace("{n:05}", f"{n:05}").replace("{n}", str(n)) for n in range(size))
    return text.encode()[:size].decode(errors="ignore")


def bytes_of(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode())


def tapped(total: str, step: int, way: Told, gap: float) -> int:
    """Return the bytes that a client gets of a tapped call whose output grows."""
    tap = Tapped().agent(announced(**SHELL), updated(status="in_progress"))
    for at in range(step, len(total) + step, step):
        tap.agent(updated(**way(total[:at]))).wait(gap)
    tap.agent(updated(status="completed", **way(total)))
    return sum(map(len, tap.wait(1).lines()))


def cases(seed: str) -> Iterator[tuple[int, int, float]]:
    """Generate sizes of outputs, of the steps in which they come, and the time between these."""
    rng = random.Random(seed)
    for _ in range(sized(60, 5)):
        size = int(1000 * sized(1000, 30) ** rng.random())
        steps = int(2 * sized(200, 60) ** rng.random())
        yield size, max(10, size // steps), rng.choice([0.001, 0.02, 0.05, 0.09, 0.15])


@pytest.mark.parametrize("way", WAYS)
def test_output_that_is_tapped_costs_at_most_4_bytes_each(way: str) -> None:
    none = tapped("", 1, lambda _: {}, 0)
    for size, step, gap in cases(way):
        line = random.Random(size).choice(TEXTS)
        total = printed(size, line)
        cost = tapped(total, step, WAYS[way], gap) - none
        assert cost <= MOST * bytes_of(total), (size, step, gap, line, cost / bytes_of(total))


async def reported(total: str, step: int, gap: float, *, as_terminal: bool) -> int:
    """Return the bytes that a client gets of a call of our own whose output grows."""
    clock, recorder = FakeClock(), Recorder()
    async with Session(sinks=[recorder], clock=clock) as session:
        async with session.call("bash", {"command": "make"}) as call:
            call.start()
            for at in range(0, len(total), step):
                if as_terminal:
                    call.write(total[at : at + step])
                else:
                    call.update(content=(TextContent(total[: at + step]),))
                await clock.advance(gap)
            call.succeed()
    return sum(map(len, recorder.lines))


@pytest.mark.parametrize("as_terminal", [True, False])
async def test_output_of_our_own_costs_at_most_4_bytes_each(as_terminal: bool) -> None:
    none = await reported("", 1, 0, as_terminal=False)
    for size, step, gap in cases("own"):
        total = printed(size, random.Random(size).choice(TEXTS))
        cost = await reported(total, step, gap, as_terminal=as_terminal) - none
        assert cost <= MOST * bytes_of(total), (size, step, gap, cost / bytes_of(total))
