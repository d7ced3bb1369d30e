"""Calls on a terminal: running ones are drawn at the bottom, ended ones are printed above them.

A call is one of rich's panels. Its upper edge has the title, the lower one shows how the call ended. It has
no right edge, so that output can be copied from it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from rich.box import Box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from callsheet.acp.views.base import progress_text
from callsheet.cli.cards.board import TICK, Board
from callsheet.cli.cards.body import (
    MOST_ROWS,
    TerminalOf,
    body_of,
    end_text,
    fit_lines,
    footer_of,
    last_lines,
)
from callsheet.cli.output import console_for, fit, harmless, visible
from callsheet.report.content import TerminalContent
from callsheet.report.humanize import duration_text
from callsheet.report.json import JsonValue, is_object
from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus

LONGEST_LINE = 1000
"""Characters of one line that are shown at most."""

BAR = 20

LIVE_ROWS = 8
"""Rows of output that one call shows at most while it runs."""

SHOW_CURSOR = "\x1b[?25h"
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
MARKS = {"pending": "○", "paused": "‖", "completed": "✓", "failed": "✗", "cancelled": "⊘"}
ICONS = {
    "read": "◫",
    "edit": "✎",
    "delete": "⌫",
    "move": "→",
    "search": "⌕",
    "execute": "❯",
    "think": "✻",
    "fetch": "↓",
    "switch_mode": "⇄",
}
COLOURS = {
    ToolCallStatus.PENDING: "yellow",
    ToolCallStatus.IN_PROGRESS: "cyan",
    ToolCallStatus.PAUSED: "yellow",
    ToolCallStatus.COMPLETED: "green",
    ToolCallStatus.FAILED: "red",
    ToolCallStatus.CANCELLED: "yellow",
}

_BOX = Box("╭── \n│   \n│   \n│   \n│   \n│   \n│   \n╰── \n")
_EDGES = 6
"""Cells of the upper edge that the title can't have."""


def live_card(
    report: ToolCallReport,
    terminal_of: TerminalOf,
    width: int,
    *,
    rows: int,
    elapsed: float,
) -> Panel:
    """Return a card of a call that goes on, with `rows` rows of its progress and of the end of its output."""
    body: list[RenderableType] = []
    if bar := _progress(report.notes.get("progress")):
        body.append(bar)
    for item in report.content:
        state = terminal_of(item.terminal_id) if isinstance(item, TerminalContent) else None
        if state is not None and rows > len(body):
            body += [_row(line, "dim") for line in last_lines(state, rows - len(body))]
    time = duration_text(elapsed * 1000) if elapsed >= 1 else ""
    return _panel(report, body, width, elapsed=elapsed, time=time)


def ended_card(
    report: ToolCallReport,
    terminal_of: TerminalOf,
    width: int,
    cwd: str,
    most_rows: int = MOST_ROWS,
    *,
    end: str = "",
) -> Panel:
    """Return the card of a call that has ended: all that it shows, cut in the middle if it is much.

    `end` says how it ended, if the report does not know.
    """
    lines = fit_lines(body_of(report, terminal_of, cwd), most_rows)
    body: list[RenderableType] = [Text(_shortened(line.text), line.style) for line in lines]
    title = visible(report.title or report.name)
    if cell_len(title) > width - _EDGES - 4:
        body.insert(0, Text(title, "bold"))  # the edge has no room for it
    end = end or end_text(report)
    foot = Text(" · ".join([end, *footer_of(report, cwd)[1:]]), "dim", overflow="ellipsis")
    foot.stylize(COLOURS[report.status], 0, len(end))
    return _panel(report, body, width, foot=foot)


def mark(status: str, elapsed: float = 0.0) -> str:
    """Return the mark of a status; of a call that runs, the frame of the spinner at that time."""
    return MARKS.get(status) or SPINNER[int(elapsed / TICK) % len(SPINNER)]


def _panel(
    report: ToolCallReport,
    body: Sequence[RenderableType],
    width: int,
    *,
    elapsed: float = 0.0,
    time: str = "",
    foot: Text | None = None,
) -> Panel:
    colour = COLOURS[report.status]
    head = f"{mark(report.status.value, elapsed)} {ICONS.get(str(report.kind), '*')} "
    title = Text(visible(report.title or report.name), "bold", overflow="ellipsis")
    title.truncate(max(1, width - _EDGES - 4 - (len(time) + 2 if time else 0)))
    return Panel(
        Group(*body),
        box=_BOX,
        border_style=colour,
        width=width,
        padding=(0, 0, 0, 1),
        title=Text.assemble((head, colour), title, (f"  {time}" if time else "", "dim")),
        title_align="left",
        subtitle=foot,
        subtitle_align="left",
    )


def _progress(progress: JsonValue) -> RenderableType | None:
    if not is_object(progress):
        return None
    done, total = progress.get("done"), progress.get("total")
    text = _row(visible(progress_text(progress)))
    if not (isinstance(done, (int, float)) and isinstance(total, (int, float)) and total > 0):
        return text or None
    row = Table.grid(padding=(0, 1))
    row.add_row(ProgressBar(total=total, completed=max(0.0, min(done, total)), width=BAR), text)
    return row


def _row(text: str, style: str = "") -> Text:
    """Return a line that is cut to the width of the terminal, so that it takes one row."""
    return Text(_shortened(text), style, no_wrap=True, overflow="ellipsis")


def _shortened(text: str) -> str:
    if len(text) <= LONGEST_LINE:
        return text
    return f"{text[:LONGEST_LINE]}… {len(text) - LONGEST_LINE:,} characters left out …"


# The board


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
        if self.is_paused:
            return
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
