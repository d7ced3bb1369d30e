"""Run an agent, and relay bytes between it and the client, which is on this process's stdin and stdout.

`Between` starts the agent and serves until it ends. A `Relay` for each direction passes bytes on at once,
in a thread of its own, through a `Hook`. Hooks that work on lines use `acp.jsonrpc.LineBuffer`.
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
"""Seconds of silence, after the agent's end, after which processes that hold its stdout open are ignored."""

SWITCH = 0.0005
"""Seconds that a thread may hold the interpreter. With the default, a message could wait 5 ms."""


class Between:
    """Stands between a client and an agent: `start`, then `serve`."""

    def __init__(self) -> None:
        self.child: Child = Child()
        self._stdin: int = -1
        self._stdout: int = -1
        self._answers: Relay | None = None

    def start(self, command: Sequence[str]) -> None:
        """Start the agent. There must be no other thread yet.

        Raises:
            CannotStart: The command can't be run.
        """
        self._stdin, self._stdout = self.child.start(command)

    def serve(self, to_agent: Hook, to_client: Hook) -> int:
        """Pass everything on until the agent has ended.

        Args:
            to_agent: The hook on what the client sends.
            to_client: The hook on what the agent sends.

        Returns:
            The agent's exit code, or 128 plus the number of the signal that ended it.
        """
        sys.setswitchinterval(SWITCH)
        answers = self._answers = Relay(self._stdout, _take_over(1, os.O_WRONLY), to_client)
        answers.start()
        Relay(_take_over(0, os.O_RDONLY), self._stdin, to_agent, self.client_listens).start()
        code = self.child.wait()
        self._let_finish(answers)
        return code

    def client_listens(self) -> bool:
        """Whether somebody may still read what the agent sends."""
        return self._answers is None or (self._answers.is_alive() and self._answers.is_heard)

    def _let_finish(self, answers: Relay) -> None:
        """Wait until the client has read what the agent sent last, however long that takes.

        A process that left the agent's process group may hold its stdout open, so the end of the stream
        may never come. Such a process is not waited for if it is silent for `PATIENCE` seconds: the relay
        has nothing to pass on at the beginning and at the end of the wait, and read nothing in between.
        """
        while answers.is_alive() and not self.child.told_to_leave:
            pieces, was_idle = answers.pieces, answers.is_idle
            answers.join(PATIENCE)
            if was_idle and answers.is_idle and answers.pieces == pieces:
                return


def _take_over(descriptor: int, mode: int) -> int:
    """Return a duplicate of stdin or stdout, and put `/dev/null` in its place.

    The duplicate is then the only one, so that closing it closes the pipe.
    """
    nothing = os.open(os.devnull, mode)
    try:
        ours = os.dup(descriptor)
    except OSError:  # it was closed when this process was started
        return nothing
    os.dup2(nothing, descriptor)
    os.close(nothing)
    return ours


PIECE = 1 << 16
"""Bytes that are passed on in one go, at most: as much as a pipe holds."""

LOOK = 1.0
"""Seconds between two checks, while the target does not read, whether it still matters (`is_wanted`)."""

_NOBODY = select.POLLERR | select.POLLHUP | select.POLLNVAL

Send: TypeAlias = Callable[[bytes], None]


class Hook(Protocol):
    """Receives what one side sends, piece by piece, and sends on what the other side is to receive.

    Pieces end anywhere. A hook that only watches sends each piece on unchanged. A hook that changes
    lines holds back a line that is not complete yet (`LineBuffer`).
    """

    def begin(self, send: Send) -> None:
        """Receive the function that sends to the other side, before any data.

        Any thread may call it, but only one at a time.
        """
        ...

    def take(self, data: bytes, send: Send) -> None:
        """Take the next piece."""
        ...

    def end(self, send: Send) -> None:
        """Send on what was held back: no more data will come."""
        ...


class Relay(Thread):
    """A thread that passes on what comes from `source` to `target`, until one of them ends; it closes both.

    In this way the end of either side reaches the other: a reader reads the end of the stream, and a
    writer gets a broken pipe.
    """

    def __init__(
        self, source: int, target: int, hook: Hook, is_wanted: Callable[[], bool] | None = None
    ) -> None:
        """Prepare the relay, and let the hook begin.

        Args:
            source: The descriptor to read from.
            target: The descriptor to write to.
            hook: Receives each piece, and decides what is sent.
            is_wanted: Asked while `target` does not read: whether what comes from `source` still matters.
                If not, the relay ends. Without it, the relay waits for as long as it takes.
        """
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
            pass  # nobody reads any more; closing the source passes that on to the writer
        finally:
            with suppress(OSError):
                self._leave()

    def _leave(self) -> None:
        """Close both descriptors.

        Another thread may still call `_send`. So the target's number is not freed, which could make it that
        of another file, but points to `/dev/null`.
        """
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
    """Return the next bytes, or none at the end. An inherited descriptor may be non-blocking."""
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
