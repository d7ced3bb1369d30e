"""The shell that commands run in, their environment, and their output as a model gets it.

A model gets plain text of bounded size, whatever was printed: its beginning and its end, and between them
how much was left out; without the sequences that colour a terminal or move its cursor, and without what a
terminal would have overwritten.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping

from callsheet.acp.terminal_text import render_plain
from callsheet.report.events import ExitStatus
from callsheet.report.terminal import TerminalState

QUIET: Mapping[str, str] = {
    "PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_PAGER": "cat",
    "GH_PAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "AWS_PAGER": "",
    "TERM": "dumb",
    "GIT_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "SSH_ASKPASS_REQUIRE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PYTHONUNBUFFERED": "1",
}
"""What is set in every command's environment, so that nothing waits for input, and output comes live."""


def shell() -> str:
    """Return the path of bash, or of sh where there is none. Raises FileNotFoundError without either."""
    found = shutil.which("bash") or shutil.which("sh") or shutil.which("sh", path=os.defpath)
    if found is None:
        why = "There is neither bash nor sh on this machine's PATH"
        raise FileNotFoundError(errno.ENOENT, why)
    return found


def environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return this process's environment with changes; None takes a variable out."""
    merged = {**os.environ, **QUIET, **changes}
    return {name: value for name, value in merged.items() if value is not None}


LIMIT = 30_000
"""Bytes that a model gets at most."""

_SAMPLE = 8192
_MOST_WRONG = 20


class CommandOutput:
    """A command's output, in bounded memory: as much of its beginning and end as a model gets."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit: int = limit
        self._state: TerminalState = TerminalState("captured", keep=2 * limit)

    def add(self, data: bytes) -> None:
        """Add more output. A character may be split over two pieces."""
        self._state.write(data)

    @property
    def total(self) -> int:
        """How many bytes there were."""
        return self._state.total

    @property
    def is_cut(self) -> bool:
        """Whether a model does not get all of it."""
        return self._state.total > self._limit or not self._is_text()

    def text(self) -> str:
        """Return the text, when nothing more will come."""
        if not self._is_text():
            return f"[{self.total} bytes that are no text]"
        self._state.exit_status = ExitStatus()
        return render_plain(self._state, self._limit)

    def _is_text(self) -> bool:
        """Whether this is text. A model can make nothing of other data, and it would take much room."""
        sample = self._state.tail(_SAMPLE)
        wrong = sample.decode(errors="replace").count("\ufffd")
        return b"\0" not in sample or wrong * _MOST_WRONG < len(sample)
