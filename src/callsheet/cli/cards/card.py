"""One call as one of rich's panels: live while it runs, and as it stays when it has ended.

The panel's upper edge has the title, the lower one says how the call ended. It has no right edge, so that
output can be copied from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.box import Box
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.style import Style
from rich.table import Table
from rich.text import Text

from callsheet.acp.views.base import progress_text
from callsheet.cli.cards.body import TerminalOf, body_of, fit_lines, footer_of, last_lines
from callsheet.cli.output import visible
from callsheet.report.content import TerminalContent
from callsheet.report.humanize import duration_text
from callsheet.report.json import JsonValue, is_object
from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus

MOST_ROWS = 40
"""Lines of what a call shows, when it has ended. The rest is counted."""

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


class CardSetting(NamedTuple):
    """Where cards are shown."""

    width: int
    cwd: str
    home: str = ""
    links: bool = False
    """Whether the terminal shows hyperlinks."""


def live_card(
    report: ToolCallReport,
    terminal_of: TerminalOf,
    setting: CardSetting,
    *,
    rows: int,
    frame: int,
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
    return _panel(report, body, setting, frame=frame, time=time)


def ended_card(
    report: ToolCallReport,
    terminal_of: TerminalOf,
    setting: CardSetting,
    most_rows: int = MOST_ROWS,
) -> Panel:
    """Return the card of a call that has ended: all that it shows, cut in the middle if it is much."""
    lines = fit_lines(body_of(report, terminal_of, setting.cwd), most_rows)
    body: list[RenderableType] = [Text(_shortened(line.text), line.style) for line in lines]
    title = visible(report.title or report.name)
    if cell_len(title) > setting.width - _EDGES - 4:
        body.insert(0, Text(title, "bold"))  # the edge has no room for it
    return _panel(report, body, setting)


def mark(status: str, frame: int = 0) -> str:
    """Return the mark of a status; of a call that runs, a frame of the spinner."""
    return MARKS.get(status) or SPINNER[frame % len(SPINNER)]


def _panel(
    report: ToolCallReport,
    body: Sequence[RenderableType],
    setting: CardSetting,
    *,
    frame: int = 0,
    time: str = "",
) -> Panel:
    colour = COLOURS[report.status]
    head = f"{mark(report.status.value, frame)} {ICONS.get(str(report.kind), '*')} "
    title = Text(visible(report.title or report.name), "bold", overflow="ellipsis")
    title.truncate(max(1, setting.width - _EDGES - 4 - (len(time) + 2 if time else 0)))
    return Panel(
        Group(*body),
        box=_BOX,
        border_style=colour,
        width=setting.width,
        padding=(0, 0, 0, 1),
        title=Text.assemble((head, colour), title, (f"  {time}" if time else "", "dim")),
        title_align="left",
        subtitle=_foot(report, setting) if report.status.is_final else None,
        subtitle_align="left",
    )


def _foot(report: ToolCallReport, setting: CardSetting) -> Text:
    foot = Text(overflow="ellipsis")
    for fact in footer_of(report, setting.cwd, setting.home):
        style = Style.parse("dim" if foot else COLOURS[report.status])
        if fact.link and setting.links:
            style += Style(link=fact.link)
        foot.append(" · " if foot else "", "dim").append(fact.text, style)
    return foot


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
