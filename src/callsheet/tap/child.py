"""The agent as a child process: in a group of its own, given our signals, ended with all of its group."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType

from .strays import end_marked, new_mark
from .watchdog import Watchdog, end_group, is_gone

LINGER = 0.3
"""Seconds for what still runs in the agent's group when the agent has ended."""

TO_ALL = ("SIGINT", "SIGHUP", "SIGQUIT")
"""Signals that a terminal sends to a whole group. The agent is not in ours, so we pass them on."""

TO_AGENT = ("SIGTERM", "SIGUSR1", "SIGUSR2")

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
        self._mark: str = new_mark()
        self._watchdog: Watchdog | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []

    def start(self, command: Sequence[str]) -> tuple[int, int]:
        """Start it. Gives the descriptors to write to it and to read from it; they are the caller's now."""
        self._watchdog = Watchdog.start()
        self._listen()
        group = 0 if os.name == "posix" else None
        os.environ[self._mark] = "1"
        theirs_in, stdin = os.pipe()
        stdout, theirs_out = os.pipe()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=theirs_in,
                stdout=theirs_out,
                process_group=group,
                close_fds=False,  # what the client has left open is for the agent; ours is not
            )
        except (OSError, ValueError) as exc:
            self._dismiss()
            raise _cannot(command, exc) from None
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        if self._watchdog is not None:
            self._watchdog.watch(self._process.pid, self._mark)
        for number in self._early:
            self._pass_on(number, None)
        return stdin, stdout

    def wait(self) -> int:
        """Wait for its end, and end what it left behind: in its group, or anywhere if it was killed.

        Gives its exit code, or 128 and the signal that ended it.
        """
        assert self._process is not None
        code = self._process.wait()
        self._is_over = True
        if os.name == "posix" and not is_gone(self._process.pid, LINGER):
            end_group(self._process.pid)
        if code < 0 or self._was_ended:
            end_marked(self._mark)
        self._dismiss()
        return code if code >= 0 else 128 - code

    def end(self) -> None:
        """End it, and all of its group: nobody is there any more for whom it could work."""
        if self._process is not None and not self._is_over:
            self._was_ended = True
            if os.name == "posix":
                end_group(self._process.pid)
            else:
                self._process.kill()

    def _dismiss(self) -> None:
        if self._watchdog is not None:
            self._watchdog.dismiss()
            self._watchdog = None

    def _listen(self) -> None:
        """Hear signals. Those that were ignored stay ignored, by the agent as well."""
        for name in (*TO_ALL, *TO_AGENT):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._pass_on)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        process = self._process
        if process is None:
            self._early.append(number)
        elif self._is_over:
            self.told_to_leave = True
        elif os.name == "posix" and signal.Signals(number).name in TO_ALL:
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
