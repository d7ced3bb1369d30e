"""The board of a terminal: calls that go on are drawn at the bottom, ended ones are printed above."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.text import Text

from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus

from .board import TICK, Board
from .card import Setting, chopped, ended_card, live_card
from .content import blocks_of
from .lines import Line
from .looks import looks_for
from .region import SHOW_CURSOR, Region
from .words import harmless

LIVE_ROWS = 10
"""Rows that one call takes at most while it goes on."""


class TerminalBoard(Board):
    """Shows calls as cards on a terminal."""

    draws = True

    def __init__(
        self,
        stream: TextIO,
        cwd: str,
        *,
        version: int = 2,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(version=version, clock=clock)
        # Not rich's guess: it is a terminal, whatever the environment says of colours.
        console = Console(file=stream, force_terminal=True, highlight=False, legacy_windows=False)
        self._stream: TextIO = stream
        self._region: Region = Region(console, stream)
        self._setting: Setting = Setting(
            width=0,
            looks=looks_for(console.encoding),
            cwd=cwd,
            home=str(Path.home()) if os.environ.get("HOME") else "",
            links=console.color_system is not None and os.environ.get("TERM") != "linux",
        )
        self._frame: int = 0
        self._drawn: float = 0.0
        self._hidden: bool = False
        self._previewed: tuple[ToolCallReport | None, list[Line]] = (None, [])

    def ended(self, report: ToolCallReport) -> None:
        """Print the card, to stay."""
        self._region.print(ended_card(report, self.ledger.terminal, self._sized()))
        self._drawn = 0.0

    def refresh(self) -> None:
        """Draw the calls that go on, if it is time."""
        if self._hidden:
            return
        if not self.open:
            self._region.clear()
        elif self.clock() - self._drawn >= TICK:
            self._draw()

    def tick(self) -> None:
        """Turn the spinners."""
        self._frame += 1
        if self.open and not self._hidden:
            self._draw()

    @contextmanager
    def hidden(self) -> Generator[None]:
        """Take away what is drawn, and draw nothing meanwhile."""
        self._region.clear()
        self._hidden = True
        try:
            yield
        finally:
            self._hidden = False

    def say(self, text: str, style: str = "") -> None:
        """Print what somebody else has to say, above what is drawn."""
        width = self._region.size[0]
        lines = [harmless(line) for line in text.split("\n")]
        self._region.print([Text(row, style) for line in lines for row in chopped(line, width)])
        self._drawn = 0.0
        self.refresh()

    def give_up(self) -> None:
        """Show the cursor again, past whatever waits in the stream's buffer."""
        with suppress(OSError, ValueError):
            os.write(self._stream.fileno(), f"{SHOW_CURSOR}\n".encode())

    def _draw(self) -> None:
        self._drawn = self.clock()
        setting, height = self._sized(), self._region.size[1]
        calls = [found for key in self.open if (found := self.report(key))]
        most = max(1, min(LIVE_ROWS, height // max(1, len(calls))))
        rows: list[Text] = []
        for index, report in enumerate(calls):
            if len(rows) + most > height - (index < len(calls) - 1):
                rows.append(Text(f"  and {len(calls) - index} more", "dim"))
                break
            rows += live_card(
                report,
                self.ledger.terminal,
                setting,
                rows=most,
                frame=self._frame,
                elapsed=self._drawn - self.open[report.tool_call_id],
                preview=self._preview(report),
            )
        self._region.draw(rows[:height])

    def _preview(self, report: ToolCallReport) -> list[Line]:
        """Return what a call that waits would do. A large diff is not made anew each time."""
        if report.status is not ToolCallStatus.PENDING or not report.content:
            return []
        if self._previewed[0] is not report:
            blocks = blocks_of(report, lambda _: None, self._setting.cwd)
            self._previewed = report, [line for block in blocks for line in block.lines()]
        return self._previewed[1]

    def _sized(self) -> Setting:
        return self._setting._replace(width=self._region.size[0])
