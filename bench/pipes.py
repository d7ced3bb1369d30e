"""Pipes to another process that reads them: what an agent writes to, and an editor is.

Two readers: `cat`, where only the writer matters; and one that counts what it is told.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from msgspec import convert

from .reader import Count

ROOT = Path(__file__).parent.parent

_PATIENCE = 30.0


@contextmanager
def drain() -> Generator[int, None, None]:
    """Return the writing end of a pipe that `cat` reads and drops."""
    cat = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    with _ended(cat) as pipe:
        yield pipe.fileno()


class Counter:
    """A pipe to a process that counts. `count` is known when the pipe is closed."""

    def __init__(self) -> None:
        self.count: Count = Count()

    @contextmanager
    def pipe(self) -> Generator[int, None, None]:
        """Return the writing end, once the reader is ready."""
        reader = subprocess.Popen(
            [sys.executable, "-m", "bench.reader"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert reader.stdout is not None
        reader.stdout.readline()
        with _ended(reader) as pipe:
            yield pipe.fileno()
            pipe.close()
            self.count = convert(json.loads(reader.stdout.readline()), Count)


@contextmanager
def _ended(reader: subprocess.Popen[bytes]) -> Generator[IO[bytes], None, None]:
    """Return a reader's pipe, and end that reader in any case."""
    assert reader.stdin is not None
    try:
        yield reader.stdin
        reader.stdin.close()
        reader.wait(_PATIENCE)
    finally:
        if reader.poll() is None:
            reader.kill()
            reader.wait()
        if reader.stdout is not None:
            reader.stdout.close()


def run_module(module: str, *options: str, timeout: float) -> Any:
    """Run a module of the bench in a process of its own, and give what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", module, *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=timeout,
        check=True,
    )
    return json.loads(done.stdout)
