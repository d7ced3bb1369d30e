"""What tests of processes look at: the system's own table, read independently of what is tested."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection
from pathlib import Path
from uuid import uuid4

import pytest

linux = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux keeps all that a command starts under its keeper"
)


def new_token() -> str:
    """Return a number of seconds that no other process sleeps."""
    return f"61.{uuid4().int % 10**12:012}"


def with_token(token: str, but: int = 0) -> list[str]:
    """Return the processes that have the token in their command line or environment."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) not in (os.getpid(), but):
            line, environment = _read(entry / "cmdline"), _read(entry / "environ")
            if token.encode() in line + environment:
                found.append(f"{entry.name} {line.decode(errors='replace')!r}")
    return found


def children(but: Collection[str] = ()) -> list[str]:
    """Return what this process has started and not waited for, except what was there before."""
    found = [
        _read(entry / "children").decode() for entry in Path(f"/proc/{os.getpid()}/task").iterdir()
    ]
    return [name for text in found for name in text.split() if name not in but]


def wait_until_gone(token: str, seconds: float = 3.0, but: int = 0) -> list[str]:
    """Wait for the end of what has the token. Gives what is still there."""
    until = time.monotonic() + seconds
    while (left := with_token(token, but)) and time.monotonic() < until:
        time.sleep(0.01)
    return left


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def rss_mb(pid: int | str = "self") -> float:
    """Return how much memory a process has now."""
    text = Path(f"/proc/{pid}/statm").read_text(encoding="ascii")
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
