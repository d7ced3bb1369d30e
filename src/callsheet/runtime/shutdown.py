"""The end of a process: sessions that are still open then end their calls and send what waits.

A forked child has its parent's sessions in memory, but not its conversations: there, they send
nothing more.
"""

from __future__ import annotations

import atexit
import os
from contextlib import suppress
from time import monotonic
from typing import Protocol

PATIENCE = 2.0
"""Seconds that the end of a process may take for this."""


class Open(Protocol):
    """What is to be done with a session that is open at the end."""

    def end_now(self, until: float) -> None:
        """End every call and send everything, until a monotonic time."""
        ...

    def mute(self) -> None:
        """Send nothing more."""
        ...


_open: dict[int, Open] = {}


def remember(session: Open) -> None:
    """Note that a session is open."""
    _open[id(session)] = session


def forget(session: Open) -> None:
    """Note that a session is closed."""
    _open.pop(id(session), None)


@atexit.register
def _end() -> None:
    until = monotonic() + PATIENCE
    for session in list(_open.values()):
        with suppress(Exception):  # one must not keep the others from their end
            session.end_now(until)
    _open.clear()


def _forked() -> None:
    for session in _open.values():
        session.mute()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
