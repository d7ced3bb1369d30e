"""A board: the calls of a session as their client sees them, kept up to date and shown.

What is sent to it is folded by a ledger, as any client would. How it is shown is for the two kinds
of boards to say. A board has no clock and no thread: whoever owns it calls `tick` now and then,
which is when spinners turn.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TextIO

from callsheet.acp import v1, v2
from callsheet.acp.jsonrpc import LineReader, Notification
from callsheet.acp.peer import Peer
from callsheet.report.errors import CallsheetError
from callsheet.report.ledger import Ledger
from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus
from callsheet.runtime.timing import new_call_id

TICK = 0.1
"""Seconds after which `tick` is to be called again."""


class Board(ABC):
    """Shows calls. A `Sink` of a session; or feed it an agent's lines with `take`."""

    draws: bool = False
    """Whether it draws in place, so that others who write to the same terminal are in its way."""

    def __init__(self, *, version: int = 2, clock: Callable[[], float] = time.monotonic) -> None:
        self.peer: Peer | None = Peer(version=2 if version == 2 else 1, progress="meta")
        self.ledger: Ledger = Ledger("board", new_call_id)
        self.clock: Callable[[], float] = clock
        self.open: dict[str, float] = {}
        """The calls that go on, in the order of their announcement, and since when they run or wait."""
        self._running: set[str] = set()
        self._reader: LineReader = LineReader()
        self._decode: Callable[[Any], Any] = v2.decode if version == 2 else v1.decode

    # As a sink

    def send(self, items: deque[Any]) -> None:
        """Take the lines, and show what is new."""
        while items:
            self.take(items[0])
            items.popleft()
        self.refresh()

    def close(self) -> None:
        """Show that nothing more comes."""
        self.refresh()

    # Folding

    def take(self, line: bytes) -> None:
        """Take in what an agent wrote. What is not about tool calls is passed over."""
        for message in self._reader.feed(line):
            if not isinstance(message, Notification) or message.method != "session/update":
                continue
            try:
                for event in self._decode(message.params["update"]):
                    changed = self.ledger.apply(event)
                    if isinstance(changed, ToolCallReport):
                        self._changed(changed)
            except (CallsheetError, KeyError, TypeError):
                continue  # another agent's mistake; what it said before stands

    def _changed(self, report: ToolCallReport) -> None:
        key = report.tool_call_id
        if not report.status.is_final:
            self.open.setdefault(key, self.clock())
            if report.status is ToolCallStatus.IN_PROGRESS and key not in self._running:
                self._running.add(key)
                self.open[key] = self.clock()
            return
        self.ended(report)
        self._running.discard(key)
        self.open.pop(key, None)

    def report(self, key: str) -> ToolCallReport | None:
        """Return what is known of a call."""
        found = self.ledger.get(key)
        return found if isinstance(found, ToolCallReport) else None

    # Showing

    @abstractmethod
    def ended(self, report: ToolCallReport) -> None:
        """Show a call that has ended. It is still among the open ones."""

    @abstractmethod
    def refresh(self) -> None:
        """Show what is new, at once."""

    @abstractmethod
    def tick(self) -> None:
        """Show that time goes on."""

    @abstractmethod
    def say(self, text: str, style: str = "") -> None:
        """Show what somebody else has to say, in one of rich's styles where there are any."""

    @abstractmethod
    def give_up(self) -> None:
        """Leave the terminal in order, without a word: the process ends at once."""

    @contextmanager
    def hidden(self) -> Generator[None]:
        """Make room for somebody else who writes to the same terminal."""
        yield


def board_for(stream: TextIO, cwd: str, *, version: int = 2) -> Board:
    """Return the board for a stream: cards on a terminal, else plain lines."""
    if stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown"):
        from .terminal import TerminalBoard

        return TerminalBoard(stream, cwd, version=version)
    from .plain import PlainBoard

    return PlainBoard(stream, cwd, version=version)
