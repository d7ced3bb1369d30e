"""The end of a process: sessions that are still open then end their calls and send what waits.

A forked child has its parent's sessions in memory, but not its conversations: there, they send
nothing more.
"""

from __future__ import annotations

import asyncio
import atexit
import os
from concurrent.futures import CancelledError
from contextlib import suppress
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from callsheet.runtime.session import RuntimeSession

PATIENCE = 2.0
"""Seconds that the end of a process may take for this."""


_open: dict[int, RuntimeSession] = {}


def remember(session: RuntimeSession) -> None:
    """Note that a session is open."""
    _open[id(session)] = session


def forget(session: RuntimeSession) -> None:
    """Note that a session is closed."""
    _open.pop(id(session), None)


def end_now(session: RuntimeSession, until: float) -> None:
    """End every call of a session and send everything, until a monotonic time."""
    loop = session.loop
    if loop is not None and loop.is_running() and get_ident() != session.thread:
        closing = asyncio.run_coroutine_threadsafe(session.close(), loop)
        with suppress(TimeoutError, CancelledError):
            closing.result(max(0.0, until - monotonic()))
        return
    session.is_closed = True
    session.end_calls("interrupted")
    for consumer in session.consumers:
        consumer.send_now(until)


@atexit.register
def _end() -> None:
    until = monotonic() + PATIENCE
    for session in list(_open.values()):
        with suppress(Exception):  # one must not keep the others from their end
            end_now(session, until)
    _open.clear()


def _forked() -> None:
    for session in _open.values():
        session.mute()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
