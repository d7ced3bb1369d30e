"""Protect the pipe that the protocol uses from tools, and store which call is running.

While tools run, what a tool prints becomes live output of its call, and reading stdin finds its end at once.
That is done by stand-ins for Python's `sys.stdout` and `sys.stdin`, and needs nothing of the program. Which
call prints is known from `current_call`, a context variable that tasks and our threads inherit.

Code in C, and children that inherit descriptors 0 and 1, write past Python. A program that speaks the
protocol on its stdin and stdout takes them for itself first: `with own_stdio() as (stdin, stdout)`.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TextIO

if TYPE_CHECKING:
    from callsheet.tools.session import Call


current_call: ContextVar[Call | None] = ContextVar("current_call", default=None)
"""The call that runs here, known to everything that its tool calls."""


class OwnStdio(NamedTuple):
    """The stdin and stdout of the protocol, as binary files that no other code uses."""

    stdin: BinaryIO
    stdout: BinaryIO


@contextmanager
def own_stdio() -> Generator[OwnStdio]:
    """Take the process's stdin and stdout for the protocol alone.

    Descriptor 0 is empty for everybody else, and what is written to 1 goes to stderr.
    """
    sys.stdout.flush()
    mine = os.dup(0), os.dup(1)  # not inherited by children
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    own = OwnStdio(os.fdopen(mine[0], "rb", buffering=0), os.fdopen(mine[1], "wb", buffering=0))
    try:
        yield own
    finally:
        sys.stdout.flush()
        os.dup2(own.stdin.fileno(), 0)
        os.dup2(own.stdout.fileno(), 1)
        own.stdin.close()
        own.stdout.close()


# The stand-ins are no `io` objects: those close the real file when they are garbage-collected.


class _Out:
    """A replacement for `sys.stdout`, and for its `buffer`, that sends what a tool prints to its call."""

    def __init__(self, real: Any) -> None:
        self.real: Any = real

    def write(self, data: Any, /) -> int:
        call = current_call.get()
        if call is None:
            return self.real.write(data)
        call.write(data if isinstance(data, str) else bytes(data))
        return len(data)

    def writelines(self, lines: Iterable[Any], /) -> None:
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> _Out:
        return _Out(self.real.buffer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class _In:
    """A replacement for `sys.stdin` that is at its end for a tool."""

    def __init__(self, real: TextIO) -> None:
        self.real: TextIO = real

    def __iter__(self) -> Iterator[str]:
        return iter(self._one())

    @property
    def buffer(self) -> BinaryIO:
        # Not that of a wrapper: it would be closed when the wrapper is garbage-collected.
        return self.real.buffer if current_call.get() is None else io.BytesIO(b"")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._one(), name)

    def _one(self) -> TextIO:
        if current_call.get() is None:
            return self.real
        return io.TextIOWrapper(io.BytesIO(b""))


_lock = Lock()
_users = 0


def enter_call(call: Call) -> None:
    """Make a call the one that runs in this context, and protect the pipe from its tool until `leave_call`.

    The context is that of a task or a thread of the call's own, so nobody takes it back.
    """
    global _users  # noqa: PLW0603 - stdout is the process's, and so is this
    with _lock:
        _users += 1
        # Other code (pytest, click) replaces them, too, and puts back what it found. So a stand-in is
        # known by its type, and never stands for another one. None means that the process has none.
        if type(sys.stdout) is not _Out and sys.stdout is not None:
            sys.stdout = _Out(sys.stdout)
        if type(sys.stdin) is not _In and sys.stdin is not None:
            sys.stdin = _In(sys.stdin)
    current_call.set(call)


def leave_call() -> None:
    """Release the pipe that was protected for a tool that has ended."""
    global _users  # noqa: PLW0603
    with _lock:
        _users -= 1
        if _users == 0:
            if type(sys.stdout) is _Out:
                sys.stdout = sys.stdout.real
            if type(sys.stdin) is _In:
                sys.stdin = sys.stdin.real
