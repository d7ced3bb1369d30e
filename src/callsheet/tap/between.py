"""Runs an agent, and stands between it and the client on our stdin and stdout until both are served."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from .child import Child
from .relay import Hook, Relay

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

        One that left the agent's group may hold its stdout open. It is not waited for if it is silent: the
        relay has nothing in hand, neither at the beginning nor at the end of the wait, and nothing came.
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
