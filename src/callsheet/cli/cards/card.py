"""One call as one of rich's panels: live while it runs, and as it stays when it has ended.

The panel's upper edge has the title, the lower one shows how the call ended. It has no right edge, so that
output can be copied from it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import Box
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from callsheet.acp.views.base import progress_text
from callsheet.cli.cards.board import TICK
from callsheet.cli.cards.body import (
    MOST_ROWS,
    TerminalOf,
    body_of,
    end_text,
    fit_lines,
    footer_of,
    last_lines,
)
from callsheet.cli.output import visible
from callsheet.report.content import TerminalContent
from callsheet.report.humanize import duration_text
from callsheet.report.json import JsonValue, is_object
from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus

LONGEST_LINE = 1000
"""Characters of one line that are shown at most."""

BAR = 20

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
) -> Panel:
    """Return the card of a call that has ended: all that it shows, cut in the middle if it is much."""
    lines = fit_lines(body_of(report, terminal_of, cwd), most_rows)
    body: list[RenderableType] = [Text(_shortened(line.text), line.style) for line in lines]
    title = visible(report.title or report.name)
    if cell_len(title) > width - _EDGES - 4:
        body.insert(0, Text(title, "bold"))  # the edge has no room for it
    foot = Text(" · ".join(footer_of(report, cwd)), "dim", overflow="ellipsis")
    foot.stylize(COLOURS[report.status], 0, len(end_text(report)))
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
