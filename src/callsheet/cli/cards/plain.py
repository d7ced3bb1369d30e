"""The board of a pipe: plain lines, in order, as they come.

The output of one call is never mixed with another's. The call that was announced first is written
live; the others wait for their turn, and are written whole if they have ended by then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from callsheet.acp.terminal_text import to_plain
from callsheet.report.content import TerminalContent
from callsheet.report.report import ToolCallReport
from callsheet.report.terminal import TerminalState

from .board import Board
from .content import blocks_of
from .facts import facts_of
from .words import bytes_text, visible

LONGEST_WAIT = 64 * 1024
"""Bytes of a line without an end that are waited for."""


class PlainBoard(Board):
    """Writes calls as plain lines."""

    def __init__(
        self,
        stream: TextIO,
        cwd: str,
        *,
        version: int = 2,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(version=version, clock=clock)
        self._stream: TextIO = stream
        self._cwd: str = cwd
        self._queue: dict[str, ToolCallReport | None] = {}
        self._titled: bool = False
        self._in_line: bool = False
        self._marks: dict[str, tuple[int, int]] = {}

    def ended(self, report: ToolCallReport) -> None:
        """Write the call's end, when its turn comes."""
        self._line_up()
        self._queue[report.tool_call_id] = report
        self.refresh()

    def refresh(self) -> None:
        """Write what is new of the first call, and of those after it that have ended."""
        self._line_up()
        while self._queue:
            key = next(iter(self._queue))
            ended = self._queue[key]
            report = ended or self.report(key)
            if report is not None:
                self._write_head(report)
                self._write_output(report)
            if ended is None and report is not None:
                break
            if ended is not None:
                self._write_end(ended)
            del self._queue[key]
            self._titled = False
        self._stream.flush()

    def _line_up(self) -> None:
        for key in self.open:
            self._queue.setdefault(key, None)

    def tick(self) -> None:
        """Nothing here moves."""

    def say(self, text: str, style: str = "") -> None:
        """Write it beside the calls."""
        del style
        self._put(text)

    def give_up(self) -> None:
        """Nothing here is out of order."""

    def _write_head(self, report: ToolCallReport) -> None:
        if not self._titled:
            self._titled = True
            self._put(visible(report.title or report.name or report.tool_call_id))

    def _write_output(self, report: ToolCallReport) -> None:
        """Write what the call's terminals have put out since: whole lines, unless it has ended."""
        for item in report.content:
            if isinstance(item, TerminalContent):
                state = self.ledger.terminal(item.terminal_id)
                if state is not None:
                    self._write_news(state, final=report.status.is_final)

    def _write_news(self, state: TerminalState, *, final: bool) -> None:
        mark = self._marks.get(state.terminal_id, (state.epoch, 0))
        data, missed = state.since(mark), state.missed(mark)
        whole = data.rfind(b"\n") + 1
        if not final and (whole or len(data) < LONGEST_WAIT):
            data = data[:whole]
        if missed:
            self._put(f"… {bytes_text(missed)} left out …")
        self._stream.write(text := to_plain(data, final=final))
        self._in_line = not text.endswith("\n") if text else self._in_line
        position = mark[1] if mark[0] == state.epoch else 0
        self._marks[state.terminal_id] = (state.epoch, position + missed + len(data))

    def _write_end(self, report: ToolCallReport) -> None:
        for block in blocks_of(report, lambda _: None, self._cwd):
            for line in block.lines():
                self._put(f"{line.lead}{line.text}".rstrip())
        self._put(" · ".join(fact.text for fact in facts_of(report, self._cwd)))

    def _put(self, text: str) -> None:
        self._stream.write(f"\n{text}\n" if self._in_line else f"{text}\n")
        self._in_line = False
