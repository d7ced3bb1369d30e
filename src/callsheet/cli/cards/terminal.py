"""The board of a terminal: running calls are drawn at the bottom, ended ones are printed above them."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from callsheet.cli.cards.board import TICK, Board
from callsheet.cli.cards.card import ended_card, live_card
from callsheet.cli.output import console_for, fit, harmless
from callsheet.report.report import ToolCallReport

LIVE_ROWS = 8
"""Rows of output that one call shows at most while it runs."""

SHOW_CURSOR = "\x1b[?25h"


class TerminalBoard(Board):
    """Shows calls as cards on a terminal."""

    draws = True

    def __init__(self, stream: TextIO, cwd: str, version: int = 2) -> None:
        super().__init__(version)
        self._console: Console = console_for(stream)
        self._cwd: str = cwd
        self._live: Live | None = None
        self._drawn: float = 0.0

    def ended(self, report: ToolCallReport) -> None:
        """Print the card, to stay."""
        fit(self._console)
        self._print(ended_card(report, self.ledger.terminal, self._console.width, self._cwd))

    def refresh(self) -> None:
        """Draw the running calls, if it is time."""
        if not self.open:
            self._clear()
        elif self.clock() - self._drawn >= TICK:
            self._draw()

    def tick(self) -> None:
        """Turn the spinners."""
        if self.open:
            self._draw()

    def note(self, text: str, style: str = "") -> None:
        """Print text above what is drawn."""
        self._print(Text("\n".join(map(harmless, text.split("\n"))), style))
        self.refresh()

    def give_up(self) -> None:
        """Show the cursor again, past whatever waits in the stream's buffer."""
        with suppress(OSError, ValueError):
            os.write(self._console.file.fileno(), f"{SHOW_CURSOR}\n".encode())

    def _print(self, renderable: RenderableType) -> None:
        """Print what stays. What was drawn is removed first: it may show a call that has ended."""
        with self._console:  # one write for both, so that nothing flickers
            self._clear()
            self._console.print(renderable)
        self._drawn = 0.0

    def _clear(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _draw(self) -> None:
        self._drawn = self.clock()
        fit(self._console)
        calls = [found for key in self.open if (found := self.report(key))]
        # A card has two edges, and the last row of the terminal is for the cursor.
        fitting = max(1, (self._console.height - 2) // 3)
        rows = max(1, min(LIVE_ROWS, (self._console.height - 1) // max(1, len(calls)) - 2))
        parts: list[RenderableType] = [
            live_card(
                report,
                self.ledger.terminal,
                self._console.width,
                rows=rows,
                elapsed=self._drawn - self.open[report.tool_call_id],
            )
            for report in calls[:fitting]
        ]
        if len(calls) > fitting:
            parts.append(Text(f"  and {len(calls) - fitting} more", "dim"))
        if self._live is None:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,  # what a tool prints is output of its call
                redirect_stderr=os.isatty(2),  # what it logs stands above the cards
            )
            self._live.start()
        self._live.update(Group(*parts), refresh=True)
