"""Which call is running here, known to everything that a tool calls.

Keeps tools away from the pipe that the protocol runs on.

While tools run, what a tool prints becomes live output of its call, and what it reads from stdin is at its
end at once. That is done for Python's `sys.stdout` and `sys.stdin`, and needs nothing of the program.

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
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TextIO, cast

if TYPE_CHECKING:
    from callsheet.tools.session import Call


running: ContextVar[Call | None] = ContextVar("running", default=None)


class OwnStdio(NamedTuple):
    """The protocol's ends, as binary files that nobody else has."""

    stdin: BinaryIO
    stdout: BinaryIO


@contextmanager
def own_stdio() -> Generator[OwnStdio]:
    """Take the process's stdin and stdout for the protocol alone.

    Descriptor 0 is empty for everybody else, and what is written to 1 goes to stderr.
    """
    sys.stdout.flush()
    kept = os.dup(0), os.dup(1)  # not inherited by children
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    own = OwnStdio(os.fdopen(kept[0], "rb", buffering=0), os.fdopen(kept[1], "wb", buffering=0))
    try:
        yield own
    finally:
        sys.stdout.flush()
        os.dup2(own.stdin.fileno(), 0)
        os.dup2(own.stdout.fileno(), 1)
        own.stdin.close()
        own.stdout.close()


# The stand-ins are no `io` objects: those close what they stand for when they are forgotten.


class _Out:
    """Stands in for `sys.stdout`: what a tool prints goes to its call."""

    def __init__(self, real: TextIO) -> None:
        self.real: TextIO = real
        self.buffer: _OutBytes = _OutBytes(real)

    def write(self, text: str, /) -> int:
        call = running.get()
        if call is None:
            return self.real.write(text)
        call.write(text)
        return len(text)

    def writelines(self, lines: Iterable[str], /) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class _OutBytes:
    """Stands in for `sys.stdout.buffer`."""

    def __init__(self, real: TextIO) -> None:
        self._real: TextIO = real

    def write(self, data: Any, /) -> int:
        call = running.get()
        if call is None:
            return self._real.buffer.write(data)
        call.write(bytes(data))
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real.buffer, name)


class _In:
    """Stands in for `sys.stdin`: for a tool, it is at its end."""

    def __init__(self, real: TextIO) -> None:
        self.real: TextIO = real

    def __iter__(self) -> Iterator[str]:
        return iter(self._one())

    @property
    def buffer(self) -> BinaryIO:
        # Not that of a wrapper: it would be closed when the wrapper is forgotten.
        return self.real.buffer if running.get() is None else io.BytesIO(b"")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._one(), name)

    def _one(self) -> TextIO:
        if running.get() is None:
            return self.real
        return io.TextIOWrapper(io.BytesIO(b""))


_lock = Lock()
_users = 0


def put_up() -> None:
    """Stand between tools and the pipe. Each `put_up` is ended by a `take_down`."""
    global _users  # noqa: PLW0603 - stdout is the process's, and so is this
    with _lock:
        _users += 1
        # Others replace them, too, and put back what they found. So a stand-in is known by what it is, and
        # never stands for another one. None means that the process has none.
        out, into = cast("tuple[object, object]", (sys.stdout, sys.stdin))
        if out is not None and not isinstance(out, _Out):
            sys.stdout = cast("TextIO", _Out(sys.stdout))
        if into is not None and not isinstance(into, _In):
            sys.stdin = cast("TextIO", _In(sys.stdin))


def take_down() -> None:
    """Undo a `put_up`. The last one gives the process its own back."""
    global _users  # noqa: PLW0603
    with _lock:
        _users -= 1
        if _users == 0:
            out, into = cast("tuple[object, object]", (sys.stdout, sys.stdin))
            if isinstance(out, _Out):
                sys.stdout = out.real
            if isinstance(into, _In):
                sys.stdin = into.real


@contextmanager
def shielded() -> Generator[None]:
    """Stand between tools and the pipe for a while."""
    put_up()
    try:
        yield
    finally:
        take_down()
