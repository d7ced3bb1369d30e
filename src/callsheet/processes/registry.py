"""Which agents and taps of this user run now: a directory with a small file for each of them.

A process holds the lock of its file for as long as it lives, however it ends. A file that nobody has locked
was left behind, and is removed by whoever reads the directory. Secrets in command lines are redacted.
"""

from __future__ import annotations

import atexit
import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import DecodeError, Struct, ValidationError, json

LARGEST = 1 << 16
"""Bytes of an entry that are read."""


class RunningProcess(Struct, kw_only=True):
    """An agent or a tap that runs. `history` is `off`, or where it stores calls, without a password."""

    pid: int
    kind: Literal["agent", "tap"]
    name: str
    command: str
    cwd: str
    since: float
    history: str


def default_directory() -> Path:
    """Return the directory of this user."""
    from platformdirs import user_state_path

    return user_state_path("callsheet", appauthor=False) / "running"


def enter(
    kind: Literal["agent", "tap"], name: str, command: Sequence[str], history: str, since: float
) -> None:
    """Enter this process. It is removed when the process ends.

    Args:
        kind: What it is.
        name: What it is called.
        command: Its command line.
        history: `off`, or where it stores calls, without a password.
        since: When it was started, in seconds since 1970.

    Raises:
        OSError: There is no place for it.
    """
    import shlex

    from callsheet.redaction.redactor import Redactor
    from callsheet.report.json import is_list

    safe, _ = Redactor().value([*command])
    entry = RunningProcess(
        pid=os.getpid(),
        kind=kind,
        name=name,
        command=shlex.join(map(str, safe if is_list(safe) else ())),
        cwd=os.getcwd(),  # noqa: PTH109
        since=since,
        history=history,
    )
    directory = default_directory()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = directory / f"{os.getpid()}-{os.urandom(4).hex()}.json"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    lock = os.open(file, flags, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    if not os.fstat(lock).st_nlink:  # somebody has read the directory just now
        os.close(lock)
        enter(kind, name, command, history, since)
        return
    os.write(lock, json.encode(entry))
    owner = os.getpid()

    def leave() -> None:
        if os.getpid() == owner:
            file.unlink(missing_ok=True)

    atexit.register(leave)
    # A forked child would hold the lock after its parent's end.
    os.register_at_fork(after_in_child=lambda: os.close(lock) if os.getppid() == owner else None)


def running_processes() -> list[RunningProcess]:
    """Return the agents and taps that run now, the oldest first. What others have left is removed."""
    found: list[RunningProcess] = []
    with suppress(OSError, RuntimeError):  # there is no such directory, or no home
        for file in default_directory().glob("*.json"):
            with suppress(OSError, DecodeError, ValidationError):
                if (data := _read(file)) is not None:
                    found.append(json.decode(data, type=RunningProcess))
    return sorted(found, key=lambda one: one.since)


def _read(file: Path) -> bytes | None:
    """Return an entry; None if its process is gone."""
    # Opened without waiting: a pipe in its place would have nobody who writes.
    opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(opened, LARGEST)
    else:
        file.unlink(missing_ok=True)
        return None
    finally:
        os.close(opened)
