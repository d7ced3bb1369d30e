"""Starting a keeper, telling it what to run, and understanding what it says (see `keeper.py`)."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from callsheet.processes.keeper import DIRECTORY

# Empty stand-ins for `callsheet` and `callsheet.processes`, so that the keeper's few modules are imported
# without the rest of the package, whose import takes much longer (and which `-S` would not find).
_KEEPER = (
    "import sys; new = type(sys); sys.modules['callsheet'] = new('callsheet'); "
    "package = sys.modules['callsheet.processes'] = new('callsheet.processes'); "
    "package.__path__ = sys.argv[1:2]; "
    "from callsheet.processes import keeper; keeper.main()"
)
_HERE = str(Path(__file__).resolve().parent)


class Ended(NamedTuple):
    """How a command ended, and what it used.

    `exit_code` or `signal` is None; both are, where nobody knows. What it used counts all that it
    waited for and all that it left for the keeper; it is None if the keeper was killed. The peak of
    memory is that of the largest process, and not less than the keeper's own few megabytes. `left`
    names what still ran when the command had ended, and was ended then; `survivors` counts what could
    not be ended; `is_cut` tells that some of the output was not handed on.
    """

    exit_code: int | None
    signal: str | None
    timed_out: bool = False
    cpu_ms: int | None = None
    max_rss_kb: int | None = None
    left: tuple[str, ...] = ()
    survivors: int = 0
    is_cut: bool = False


class Started(NamedTuple):
    """A keeper that runs, our end of the socket to it, and the end of the pipe to read output from."""

    keeper: subprocess.Popen[bytes]
    control: socket.socket
    output: int


def start_keeper(directory: int) -> Started:
    """Start a keeper for a command in an open directory. It waits for a `message`."""
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    try:
        keeper = subprocess.Popen(
            [python(), "-I", "-S", "-c", _KEEPER, _HERE, str(directory)],
            stdin=theirs.fileno(),
            stdout=write,
            stderr=write,
            cwd="/",
            pass_fds=(directory,),
            start_new_session=True,  # no terminal, so nothing asks there for a password
        )
    except BaseException:
        ours.close()
        os.close(read)
        raise
    finally:
        theirs.close()
        os.close(write)
    ours.setblocking(False)
    os.set_blocking(read, False)
    return Started(keeper, ours, read)


def python() -> str:
    """Return a Python to run the keeper with: this one, unless it is only part of a program."""
    own = None if getattr(sys, "frozen", False) else sys.executable
    found = own or shutil.which("python3")
    if not found:
        raise FileNotFoundError(
            "commands are watched over by a Python, and there is no python3 here"
        )
    return found


def message(argv: Sequence[str], env: Mapping[str, str], marker: str, grace: float) -> bytes:
    """Return what tells a keeper to run a command. Raises ValueError where a text can't be passed on."""
    for key in env:
        if not key or "=" in key:
            raise ValueError(f"{key!r} can't be the name of a variable of the environment")
    pairs = [f"{key}={value}" for key, value in env.items()]
    parts = [str(grace), marker, str(len(argv)), *argv, *pairs, marker]
    if any("\0" in part for part in parts):
        raise ValueError("a NUL character can't be passed on to a command")
    try:
        data = b"\0".join(os.fsencode(part) for part in parts)
    except UnicodeEncodeError as exc:
        bad = exc.object[exc.start]
        raise ValueError(f"the character {bad!r} can't be passed on to a command") from None
    return len(data).to_bytes(8, "big") + data


class Told:
    """What a keeper has said so far."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self.failure: tuple[int, bool] | None = None
        self.ended: Ended | None = None
        self._left: list[str] = []
        self._rest: bytes = b""

    def take(self, data: bytes) -> None:
        """Take in more."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            word, _, text = line.partition(b" ")
            if word == b"started":
                self.pid = int(text)
            elif word == b"failed":
                number, _, where = text.partition(b" ")
                self.failure = (int(number), where == DIRECTORY)
            elif word == b"left":
                self._left.append(text.decode())
            elif word == b"ended":
                self.ended = _ended(text, self._left)


def _ended(text: bytes, left: Sequence[str]) -> Ended:
    status, cpu_ms, peak, survivors = map(int, text.split())
    code, sign = None, None
    if status < 0:  # the keeper gave it up, alive
        sign = "SIGKILL"
    elif os.WIFSIGNALED(status):
        sign = signal_name(os.WTERMSIG(status))
    else:
        code = os.WEXITSTATUS(status)
    return Ended(code, sign, cpu_ms=cpu_ms, max_rss_kb=peak, left=tuple(left), survivors=survivors)


def signal_name(number: int) -> str:
    """Return a signal's name, such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"
