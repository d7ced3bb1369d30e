"""The length of a call's way, counted: each Python frame is a layer that every call pays for."""

from __future__ import annotations

import subprocess
import sys

MOST = 80
"""Frames of one life: announced, started, ended with 2 KB, three lines in a pipe."""

LIFE = """
import asyncio, os, statistics, sys
from callsheet.acp.peer import Peer
from callsheet.runtime.session import RuntimeSession
from callsheet.runtime.sinks import PipeSink

TEXT = "one line of a file that a tool has read\\n" * 50

async def main():
    reader, writer = os.pipe()
    counts = []
    async with RuntimeSession(cwd="/home/dev/app", sinks=[PipeSink(writer, Peer())]) as session:
        for _ in range(9):
            counts.append(0)
            def profile(frame, event, arg):
                counts[-1] += event == "call"
            sys.setprofile(profile)
            async with session.call("read", {"path": "/home/dev/app/a.py", "limit": 9}) as call:
                call.start()
                call.succeed(TEXT, raw={"content": TEXT})
            await session.flush()
            sys.setprofile(None)
            assert os.read(reader, 1 << 16).count(b"\\n") == 3
    print(statistics.median(counts))

asyncio.run(main())
"""


def test_a_calls_life_takes_few_frames() -> None:
    # In a process of its own: here, every update is checked against the schema, which takes frames, too.
    done = subprocess.run([sys.executable, "-c", LIFE], capture_output=True, text=True, check=True)
    assert float(done.stdout) <= MOST
