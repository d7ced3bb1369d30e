"""A process that makes a storm of calls, and says which of them the history has acknowledged.

`python -m tests.support.history_storm URL SEED SESSION [CALLS]` writes a line for each: its number and its id. The
text of a call follows from the seed and its number, so that others can tell whether it is whole. Without
CALLS it goes on until it is killed.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys

from callsheet import Session
from callsheet.history import History

AT_ONCE = 6


def text_of(seed: int, number: int) -> str:
    """Return what a call shows: mostly a few lines, sometimes so much that it is kept in a blob."""
    dice = random.Random(f"{seed} {number}")
    if dice.random() < 0.2:  # also what many calls show, which is kept once
        number = dice.randrange(5)
        dice = random.Random(f"{seed} shared {number}")
        return f"shared {number} " + dice.randbytes(dice.randrange(4000, 12000)).hex()
    return f"call {number} " + dice.randbytes(dice.randrange(10, 400)).hex()


async def one(session: Session, history: History, seed: int, number: int) -> None:
    """Make a call, and say so when it is kept."""
    async with session.call("work", {"number": number}) as call:
        call.start()
        await asyncio.sleep(random.random() * 0.01)
        call.show(text_of(seed, number))
        call.succeed()
    await session.flush()
    if await history.flush():
        os.write(1, f"{number} {call.id}\n".encode())


async def storm(url: str, seed: int, name: str, calls: int) -> None:
    """Make calls, several at once."""
    history = History(url)
    numbers = iter(range(calls or sys.maxsize))
    log = history.session(name, cwd="/code")
    async with Session(name, cwd="/code", sinks=[log]) as session:

        async def worker() -> None:
            for number in numbers:
                await one(session, history, seed, number)

        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    await history.close()


if __name__ == "__main__":
    url, seed, name, *rest = sys.argv[1:]
    asyncio.run(storm(url, int(seed), name, int(rest[0]) if rest else 0))
