"""A process with several publishers, each with a history and a session of its own.

`python -m tests.support.fleet_storm URL NAME PUBLISHERS CALLS SECONDS` makes so many calls in each, spread over so
many seconds, and writes a line when all of them are durable: in the servers, or on this machine's disk. Then
it waits until nothing is left on the disk, and says so.
"""

from __future__ import annotations

import asyncio
import sys
import time

from callsheet import Session
from callsheet.history import History


async def publish(url: str, name: str, calls: int, seconds: float) -> History:
    """Make calls: each is announced, runs, and ends a little later."""
    history = History(url, notify=lambda text: print(f"{name}: {text}", file=sys.stderr))
    pause = seconds / calls
    begun = time.monotonic()
    async with Session(name, cwd="/code", sinks=[history.session(name, cwd="/code")]) as session:
        for number in range(calls):
            async with session.call("work", {"number": number}) as call:
                call.start()
                call.show(f"{name} {number}")
                await asyncio.sleep(max(0.0, begun + number * pause - time.monotonic()))
                call.succeed()
    assert await history.flush(60)
    return history


async def storm(url: str, name: str, publishers: int, calls: int, seconds: float) -> None:
    """Run all publishers of this process."""
    names = [f"{name}-{number}" for number in range(publishers)]
    histories = await asyncio.gather(*(publish(url, one, calls, seconds) for one in names))
    print("durable", flush=True)
    while any(history.health.spooled or history.health.problem for history in histories):
        await asyncio.sleep(0.05)
    assert not any(history.health.lost for history in histories)
    print("published", flush=True)
    for history in histories:
        await history.close()


if __name__ == "__main__":
    url, name, publishers, calls, seconds = sys.argv[1:]
    asyncio.run(storm(url, name, int(publishers), int(calls), float(seconds)))
