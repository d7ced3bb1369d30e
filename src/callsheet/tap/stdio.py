"""Run an agent, and pass bytes on between it and the client on our stdin and stdout until both are served.

`Between` starts and serves; a `Relay` for each direction passes bytes on at once, in a thread of
its own, through a `Hook`. `LineSplitter` is for hooks that work on lines.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import Protocol, TypeAlias

from callsheet.processes.child import Child

PATIENCE = 0.3
"""Seconds without a word, after the agent's end, from those who hold its stdout open."""

SWITCH = 0.0005
"""Seconds that a thread may keep the others from running: a message waits no longer than this for a turn."""


class Between:
    """Stands between a client and an agent: `start`, then `serve`."""

    def __init__(self) -> None:
        self.child: Child = Child()
        self._stdin: int = -1
        self._stdout: int = -1
        self._answers: Relay | None = None

    def start(self, command: Sequence[str]) -> None:
        """Start the agent. There must be no other thread yet. Raises `CannotStart`."""
        self._stdin, self._stdout = self.child.start(command)

    def serve(self, to_agent: Hook, to_client: Hook) -> int:
        """Pass everything on until the agent has ended. Gives its exit code, or 128 and its signal.

        `to_agent` sees what the client says, `to_client` what the agent says.
        """
        sys.setswitchinterval(SWITCH)
        answers = self._answers = Relay(self._stdout, _take_over(1, os.O_WRONLY), to_client)
        answers.start()
        Relay(_take_over(0, os.O_RDONLY), self._stdin, to_agent, self.client_listens).start()
        code = self.child.wait()
        self._let_finish(answers)
        return code

    def client_listens(self) -> bool:
        """Whether somebody may still read what the agent says."""
        return self._answers is None or (self._answers.is_alive() and self._answers.is_heard)

    def _let_finish(self, answers: Relay) -> None:
        """Let the client read what the agent said last, however long that takes, here or there.

        One that left the agent's group may hold its stdout open. It is not waited for if it is
        silent: the relay has nothing in hand, neither at the beginning nor at the end of the wait,
        and nothing came.
        """
        while answers.is_alive() and not self.child.told_to_leave:
            pieces, was_idle = answers.pieces, answers.is_idle
            answers.join(PATIENCE)
            if was_idle and answers.is_idle and answers.pieces == pieces:
                return


def _take_over(descriptor: int, mode: int) -> int:
    """Return a descriptor of our own for stdin or stdout, and leave nothing in its place.

    Then nobody else holds it open when we close ours.
    """
    nothing = os.open(os.devnull, mode)
    try:
        ours = os.dup(descriptor)
    except OSError:  # it was closed when we were started
        return nothing
    os.dup2(nothing, descriptor)
    os.close(nothing)
    return ours


PIECE = 1 << 16
"""Bytes that are passed on in one go, at most: as much as a pipe holds."""

LOOK = 1.0
"""Seconds between two looks whether anybody is there for whom a side that does not read is waited for."""

_NOBODY = select.POLLERR | select.POLLHUP | select.POLLNVAL

Send: TypeAlias = Callable[[bytes], None]


class Hook(Protocol):
    """Is given what one side says, piece by piece, and sends on what the other side is to hear.

    Pieces end anywhere. One that only looks on sends each on as it is; one that changes lines holds
    back what has no end yet (`lines.py`).
    """

    def begin(self, send: Send) -> None:
        """Get the way to the other side, before anything comes. It may be used by any thread in turn."""
        ...

    def take(self, data: bytes, send: Send) -> None:
        """Take the next piece."""
        ...

    def end(self, send: Send) -> None:
        """Nothing more will come."""
        ...


class Relay(Thread):
    """Passes on what comes from `source` to `target`, until one of them ends. It closes both.

    So the end of one side reaches the other, whichever it is: a reader comes to the end, and a
    writer is told that nobody reads.
    """

    def __init__(
        self, source: int, target: int, hook: Hook, is_wanted: Callable[[], bool] | None = None
    ) -> None:
        """`is_wanted` tells whether what comes from `source` still matters, while `target` does not read."""
        super().__init__(daemon=True)
        self.is_listening: bool = False
        """Whether it has passed on all that it took, and waits for more."""
        self.pieces: int = 0
        """How many pieces it has taken."""
        self._source: int = source
        self._target: int = target
        self._hook: Hook = hook
        self._is_wanted: Callable[[], bool] | None = is_wanted
        if is_wanted is not None:
            os.set_blocking(target, False)
        hook.begin(self._send)

    @property
    def is_heard(self) -> bool:
        """Whether the other side may still read."""
        poll = select.poll()
        try:
            poll.register(self._target, 0)
            found = poll.poll(0)
        except (OSError, ValueError):
            return False
        return not any(what & _NOBODY for _, what in found)

    @property
    def is_idle(self) -> bool:
        """Whether all that came so far was passed on, and nothing waits to be read."""
        try:
            return self.is_listening and not _wait(self._source, select.POLLIN, 0)
        except (OSError, ValueError):  # it has ended meanwhile
            return False

    def run(self) -> None:
        """Pass on bytes until there are no more, or nobody wants them."""
        source, take, send = self._source, self._hook.take, self._send
        try:
            while True:
                self.is_listening = True
                data = _read(source)
                self.is_listening = False
                if not data:
                    break
                self.pieces += 1
                take(data, send)
            self._hook.end(send)
        except OSError:
            pass  # nobody reads any more; who writes is told so by what follows
        finally:
            with suppress(OSError):
                self._leave()

    def _leave(self) -> None:
        """Close both. Others may still send: the target's number stays ours, and leads to nowhere."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, self._target, inheritable=False)
        os.close(nowhere)
        os.close(self._source)

    def _send(self, data: bytes) -> None:
        try:
            written = os.write(self._target, data)  # nearly always all of it
        except BlockingIOError:
            written = 0
        if written < len(data):
            rest = memoryview(data)[written:]
            while rest:
                rest = rest[self._write(rest) :]

    def _write(self, data: memoryview) -> int:
        while True:
            try:
                return os.write(self._target, data)
            except BlockingIOError:
                while not _wait(self._target, select.POLLOUT, self._is_wanted and LOOK):
                    if self._is_wanted is not None and not self._is_wanted():
                        raise BrokenPipeError from None


def _read(descriptor: int) -> bytes:
    """Return what is there, or nothing at the end. What we were given need not be blocking."""
    while True:
        try:
            return os.read(descriptor, PIECE)
        except BlockingIOError:
            _wait(descriptor, select.POLLIN)
        except OSError:  # a terminal that was hung up, a socket that was reset
            return b""


def _wait(descriptor: int, what: int, seconds: float | None = None) -> bool:
    poll = select.poll()
    poll.register(descriptor, what)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


LONGEST = 64 * 1024 * 1024
"""Bytes of a line that is waited for. The rest of a longer one is passed on as it comes."""


class LineSplitter:
    """Splits what one side sends, in pieces that end anywhere, into whole lines.

    A line that is longer than `longest` is not held: its parts come as they are.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        self.longest: int = longest
        self._rest: list[bytes] = []
        self._size: int = 0
        self._is_long: bool = False

    def take(self, data: bytes) -> tuple[bytes, bytes, bytes]:
        """Take a piece.

        Returns:
            More of a line that is too long, up to its end; whole lines; and the beginning of
            another line that is too long. Joined, they are all that came and is not held.
        """
        if not self._rest and not self._is_long and data.endswith(b"\n"):
            return b"", data, b""
        ended = b""
        if self._is_long:
            end = data.find(b"\n") + 1
            if not end:
                return data, b"", b""
            self._is_long = False
            ended, data = data[:end], data[end:]
        end = data.rfind(b"\n") + 1
        if not end:
            return ended, b"", self._hold(data)
        whole = data[:end]
        if self._rest:
            whole = b"".join((*self._rest, whole))
            self._rest, self._size = [], 0
        return ended, whole, self._hold(data[end:])

    def skip(self) -> None:
        """Treat the line that is under way as one that is too long: pieces of it are missing."""
        self._rest, self._size, self._is_long = [], 0, True

    def end(self) -> bytes:
        """Return the line whose end never came."""
        rest, self._rest = b"".join(self._rest), []
        return rest

    def _hold(self, data: bytes) -> bytes:
        if not data:
            return b""
        self._rest.append(data)
        self._size += len(data)
        if self._size <= self.longest:
            return b""
        part, self._rest, self._size, self._is_long = b"".join(self._rest), [], 0, True
        return part


def split_lines(lines: bytes) -> list[bytes]:
    """Return whole lines one by one, each with its line feed. Nothing else ends a line."""
    return [line + b"\n" for line in lines.split(b"\n")[:-1]]
