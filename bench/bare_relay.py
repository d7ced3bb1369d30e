"""What any proxy in Python costs at least: starts an agent, and passes on what either side says, unread.

`pieces`: as they come, by `os.read` and `os.write`. `lines`: line by line, each flushed, as scripts do it.
Started as a program: `python bench/bare_relay.py pieces AGENT…`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from threading import Thread
from typing import IO

PIECE = 1 << 16


def pieces(source: IO[bytes], target: IO[bytes]) -> None:
    """Pass on pieces."""
    reading, writing = source.fileno(), target.fileno()
    while data := os.read(reading, PIECE):
        while data:
            data = data[os.write(writing, data) :]
    target.close()


def lines(source: IO[bytes], target: IO[bytes]) -> None:
    """Pass on lines."""
    for line in source:
        target.write(line)
        target.flush()
    target.close()


def main() -> int:
    """Run an agent behind it."""
    relay = {"pieces": pieces, "lines": lines}[sys.argv[1]]
    agent = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert agent.stdin is not None
    assert agent.stdout is not None
    Thread(target=relay, args=(sys.stdin.buffer, agent.stdin), daemon=True).start()
    answers = Thread(target=relay, args=(agent.stdout, sys.stdout.buffer))
    answers.start()
    answers.join()
    return agent.wait()


if __name__ == "__main__":
    sys.exit(main())
