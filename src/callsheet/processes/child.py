"""An agent as a child process that takes our place: it gets our signals, and nothing of it is left behind.

`Child` runs in a process group of its own. When it has ended, the rest of its group is ended, too.
An agent that was killed can't end what it ran in other sessions, so that is found by a mark in its
environment; an agent that exits normally may mean to leave something running.

`Watchdog` is for the case that we are killed ourselves: a small process, forked before anything
else is done, that waits for the end of a pipe that only we hold open, and then does the same.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic, sleep
from types import FrameType

from callsheet.processes.table import end_tree

LINGER = 0.3
"""Seconds for what still runs in the agent's group when the agent has ended."""

TO_ALL = ("SIGINT", "SIGHUP", "SIGQUIT")
"""Signals that a terminal sends to a whole group. The agent is not in ours, so we pass them on."""

TO_AGENT = ("SIGTERM", "SIGUSR1", "SIGUSR2")

_PASSED_ON = [getattr(signal, name) for name in (*TO_ALL, *TO_AGENT)]

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""What shells exit with, too."""


class CannotStart(Exception):
    """The agent can't be started. `exit_code` is what a shell would exit with."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code: int = exit_code


class Child:
    """The agent. Its stderr is ours."""

    def __init__(self) -> None:
        self.told_to_leave: bool = False
        """Whether a signal came for an agent that had ended already."""
        self._is_over: bool = False
        self._was_ended: bool = False
        self._mark: str = f"CALLSHEET_BEHIND_{os.getpid()}_{os.urandom(4).hex()}=1"
        self._watchdog: Watchdog | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []

    def start(self, command: Sequence[str]) -> tuple[int, int]:
        """Start the agent.

        Returns:
            The descriptors to write to it and to read from it. The caller owns them.
        """
        self._watchdog = Watchdog.start()
        self._listen()
        name, _, value = self._mark.partition("=")
        os.environ[name] = value
        theirs_in, stdin = os.pipe()
        stdout, theirs_out = os.pipe()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=theirs_in,
                stdout=theirs_out,
                process_group=0,
                close_fds=False,  # what the client has left open is for the agent; ours is not
            )
        except (OSError, ValueError) as exc:
            self._dismiss()
            raise _cannot(command, exc) from None
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self._watchdog.watch(self._process.pid, self._mark)
        for number in self._early:
            self._pass_on(number, None)
        # Threads that are started from now on block these signals, too. One that got a signal would
        # not wake the main thread, which waits in a system call, and only that runs handlers.
        signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
        return stdin, stdout

    def wait(self) -> int:
        """Wait for its end, and end what it left behind: in its group, or anywhere if it was killed.

        Returns:
            Its exit code, or 128 plus the signal that ended it.
        """
        assert self._process is not None
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
        code = self._process.wait()
        self._is_over = True
        has_left = not _is_gone(self._process.pid, LINGER)
        if code < 0 or self._was_ended:
            end_tree(self._process.pid, marker=self._mark)
        elif has_left:
            end_tree(self._process.pid)
        self._dismiss()
        return code if code >= 0 else 128 - code

    def end(self) -> None:
        """End it, and all of its group: its client has gone."""
        if self._process is not None and not self._is_over:
            self._was_ended = True
            end_tree(self._process.pid)

    def _dismiss(self) -> None:
        if self._watchdog is not None:
            self._watchdog.dismiss()
            self._watchdog = None

    def _listen(self) -> None:
        """Install signal handlers. Signals that were ignored stay ignored, by the agent as well."""
        for number in _PASSED_ON:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._pass_on)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        process = self._process
        if process is None:
            self._early.append(number)
        elif self._is_over:
            self.told_to_leave = True
        elif signal.Signals(number).name in TO_ALL:
            with suppress(OSError):
                os.killpg(process.pid, number)
        else:
            process.send_signal(number)


def _cannot(command: Sequence[str], exc: Exception) -> CannotStart:
    why = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
    if isinstance(exc, FileNotFoundError) and os.sep not in command[0]:
        why = "there is no such command"
    code = NOT_FOUND if isinstance(exc, FileNotFoundError) else NOT_EXECUTABLE
    return CannotStart(f"{command[0]}: {why}", code)


_PACE = 0.01
_MOST_DESCRIPTORS = 1 << 16
_DISMISSED = b"."


class Watchdog:
    """Our end of it."""

    def __init__(self, pid: int, pipe: int) -> None:
        self._pid: int = pid
        self._pipe: int = pipe

    @classmethod
    def start(cls) -> Watchdog:
        """Fork it. There must be no thread yet."""
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
        """Send the watchdog what it has to end."""
        with suppress(OSError):  # it was killed
            os.write(self._pipe, f"{group} {mark}\n".encode())

    def dismiss(self) -> None:
        """Dismiss the watchdog: everything has ended."""
        with suppress(OSError):
            os.write(self._pipe, _DISMISSED)
        os.close(self._pipe)
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def _watch(pipe: int) -> None:
    _let_go_of_all_but(pipe)
    received = b""
    while more := os.read(pipe, 64):
        received += more
    group, _, mark = received.partition(b"\n")[0].decode().partition(" ")
    if group and not received.endswith(_DISMISSED):
        end_tree(int(group), marker=mark)


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


def _is_gone(group: int, within: float) -> bool:
    """Wait until no process is left in a group, and return whether that is so."""
    until = monotonic() + within
    while True:
        try:
            os.killpg(group, 0)
        except OSError:
            return True
        if monotonic() >= until:
            return False
        sleep(_PACE)
