"""A small process that ends the agent if we are killed and can't do it ourselves.

It is forked before anything else is done, knows the agent's process group and mark, and waits for the end of
a pipe that only we hold open. Systems without fork have none: the agent is told by the end of its input.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from .strays import end_marked

GRACE = 0.4
"""Seconds from SIGTERM to SIGKILL."""

_PACE = 0.01
_MOST_DESCRIPTORS = 1 << 16
_DISMISSED = b"."


class Watchdog:
    """Our end of it."""

    def __init__(self, pid: int, pipe: int) -> None:
        self._pid: int = pid
        self._pipe: int = pipe

    @classmethod
    def start(cls) -> Watchdog | None:
        """Fork it. There must be no thread yet."""
        if not hasattr(os, "fork"):
            return None
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                os.close(write)
                _watch(read)
            finally:
                os._exit(0)
        os.close(read)
        return cls(pid, write)

    def watch(self, group: int, mark: str) -> None:
        """Say what is to be ended."""
        with suppress(OSError):  # somebody has killed it
            os.write(self._pipe, f"{group} {mark}\n".encode())

    def dismiss(self) -> None:
        """Let it go: everything has ended."""
        with suppress(OSError):
            os.write(self._pipe, _DISMISSED)
        os.close(self._pipe)
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def _watch(pipe: int) -> None:
    _let_go_of_all_but(pipe)
    heard = b""
    while more := os.read(pipe, 64):
        heard += more
    group, _, mark = heard.partition(b"\n")[0].decode().partition(" ")
    if group and not heard.endswith(_DISMISSED):
        end_group(int(group))
        end_marked(mark)


def _let_go_of_all_but(pipe: int) -> None:
    """Leave the client's group, its signals and its pipes: it must see their end when we are gone."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.closerange(3, pipe)
    os.closerange(pipe + 1, min(os.sysconf("SC_OPEN_MAX"), _MOST_DESCRIPTORS))


def end_group(group: int, grace: float = GRACE) -> None:
    """Ask a process group to end, and kill what is still there after the grace."""
    for number in (signal.SIGTERM, signal.SIGCONT):
        with suppress(OSError):
            os.killpg(group, number)
    if not is_gone(group, grace):
        with suppress(OSError):
            os.killpg(group, signal.SIGKILL)


def is_gone(group: int, within: float) -> bool:
    """Wait until nobody is left in a group. Gives whether that is so."""
    until = time.monotonic() + within
    while True:
        try:
            os.killpg(group, 0)
        except OSError:
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(_PACE)
