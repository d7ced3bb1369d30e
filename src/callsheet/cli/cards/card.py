"""One call as rows of styled text: a live card while it runs, and the one that stays when it has ended.

No row is wider than the setting's width: `terminal` relies on it to redraw rows in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.style import Style
from rich.text import Text

from callsheet.acp.views.base import progress_text
from callsheet.cli.cards.body import BodyLine, TerminalOf, body_of, fit_lines, last_lines
from callsheet.cli.cards.footer import footer_of
from callsheet.cli.cards.style import COLOURS, STYLES, Glyphs, icon, mark
from callsheet.cli.output import visible
from callsheet.report.content import TerminalContent
from callsheet.report.humanize import duration_text, plural
from callsheet.report.json import JsonValue, is_object
from callsheet.report.report import ToolCallReport

MOST_ROWS = 40
"""Rows of what a call shows, when it has ended. The rest is counted."""

LONGEST_LINE = 2000
"""Characters of one line that are shown at most."""

BAR = 20


class CardSetting(NamedTuple):
    """Where cards are shown."""

    width: int
    glyphs: Glyphs
    cwd: str
    home: str
    links: bool


def live_card(
    report: ToolCallReport,
    terminal_of: TerminalOf,
    setting: CardSetting,
    *,
    rows: int,
    frame: int,
    elapsed: float,
    preview: Sequence[BodyLine] = (),
) -> list[Text]:
    """Return a card of a call that goes on, in `rows` rows at most: the end of its output under its title.

    `preview` is what a call that waits for permission would do; its beginning is shown.
    """
    time = duration_text(elapsed * 1000) if elapsed >= 1 else ""
    room = setting.width - 4 - (len(time) + 2 if time else 0)
    title = cut_text(visible(report.title or report.name), room, setting.glyphs)
    head = _head(report, title, setting, frame)
    if time:
        head.append(f"  {time}", "dim")
    body: list[Text] = []
    if bar := _progress(report.notes.get("progress"), setting):
        body.append(bar)
    for item in report.content:
        state = terminal_of(item.terminal_id) if isinstance(item, TerminalContent) else None
        if state is not None:
            tail = last_lines(state, max(0, rows - 1 - len(body)))
            body += [
                Text(cut_text(line, setting.width - 2, setting.glyphs), "dim") for line in tail
            ]
    body += _previewed(preview, rows - 1 - len(body), setting)
    return [head, *[_beside(row, report, setting) for row in body[: rows - 1]]]


def _previewed(preview: Sequence[BodyLine], most: int, setting: CardSetting) -> list[Text]:
    if len(preview) > most > 0:
        left = f"{setting.glyphs.more} and {plural(len(preview) - most + 1, 'line')} more"
        preview = [*preview[: most - 1], BodyLine(left, "note")]
    rows: list[Text] = []
    for line in preview[: max(0, most)]:
        room = setting.width - 2 - len(line.lead)
        text = cut_text(_shortened(line.text), room, setting.glyphs)
        rows.append(Text.assemble((line.lead, "dim"), (text, STYLES[line.tone])))
    return rows


def ended_card(
    report: ToolCallReport,
    terminal_of: TerminalOf,
    setting: CardSetting,
    most_rows: int = MOST_ROWS,
) -> list[Text]:
    """Return the card of a call that has ended: all that it shows, cut in the middle if it is much."""
    width = setting.width - 2
    body = body_of(report, terminal_of, setting.cwd)
    rows = _title_rows(report, setting)
    for line in fit_lines(body, most_rows, lambda line: _height(line, width)):
        rows += [_beside(row, report, setting) for row in _wrapped(line, width)]
    return [*rows, *_foot(report, setting)]


def _head(report: ToolCallReport, title: str, setting: CardSetting, frame: int = 0) -> Text:
    colour = COLOURS[report.status]
    return Text.assemble(
        (mark(report, setting.glyphs, frame), f"bold {colour}"),
        " ",
        (icon(report.kind, setting.glyphs), colour),
        " ",
        (title, "bold"),
    )


def _title_rows(report: ToolCallReport, setting: CardSetting) -> list[Text]:
    title = visible(report.title or report.name or report.tool_call_id)
    first, *others = wrap_text(title, max(1, setting.width - 4))
    side = setting.glyphs.side
    colour = COLOURS[report.status]
    return [
        _head(report, first, setting),
        *[Text.assemble((f"{side}   ", colour), (row, "bold")) for row in others],
    ]


def _foot(report: ToolCallReport, setting: CardSetting) -> list[Text]:
    """Return the footer's rows, broken between its facts."""
    colour = COLOURS[report.status]
    rows = [Text.assemble((setting.glyphs.foot, colour), " ")]
    for index, fact in enumerate(footer_of(report, setting.cwd, setting.home)):
        text = cut_text(fact.text, setting.width - 2, setting.glyphs)
        style = Style.parse(colour if index == 0 else "dim")
        if fact.link and setting.links:
            style += Style(link=fact.link)
        dot = setting.glyphs.dot if index else ""
        if rows[-1].cell_len + len(dot) + cell_len(text) > setting.width:
            rows.append(Text("  "))
            dot = ""
        rows[-1].append(dot, "dim").append(text, style)
    return rows


def _progress(progress: JsonValue, setting: CardSetting) -> Text | None:
    if not is_object(progress):
        return None
    done, total, glyphs = progress.get("done"), progress.get("total"), setting.glyphs
    said = visible(progress_text(progress))
    if not (isinstance(done, (int, float)) and isinstance(total, (int, float)) and total > 0):
        return Text(cut_text(said, setting.width - 2, glyphs)) if said else None
    bar = min(BAR, setting.width // 3)
    full = round(bar * max(0.0, min(1.0, done / total)))
    rest = cut_text(said, setting.width - bar - 3, glyphs)
    return Text.assemble(
        (glyphs.full * full, "cyan"), (glyphs.empty * (bar - full), "dim"), " ", rest
    )


def _beside(row: Text, report: ToolCallReport, setting: CardSetting) -> Text:
    return Text.assemble((setting.glyphs.side, COLOURS[report.status]), " ", row)


def _wrapped(line: BodyLine, width: int) -> list[Text]:
    """Return a line in rows of the width; under what stands before it, the further ones are indented."""
    lead = line.lead if len(line.lead) < width // 2 else ""
    rows: list[Text] = []
    for index, part in enumerate(wrap_text(_shortened(line.text), max(1, width - len(lead)))):
        before = " " * len(lead) if index else lead
        rows.append(Text.assemble((before, "dim"), (part, STYLES[line.tone])))
    return rows


def _height(line: BodyLine, width: int) -> int:
    return 1 if len(line.text) * 2 + len(line.lead) <= width else len(_wrapped(line, width))


def _shortened(text: str) -> str:
    if len(text) <= LONGEST_LINE:
        return text
    return f"{text[:LONGEST_LINE]}… {len(text) - LONGEST_LINE:,} characters left out …"


def wrap_text(text: str, width: int) -> list[str]:
    """Return text in rows of so many cells at most, broken between words where these are not too long."""
    rows: list[str] = []
    width = max(2, width)
    while cell_len(text) > width:
        row = chop_cells(text[: width + 1], width)[0]
        space = row.rfind(" ", len(row) // 2)
        if space > 0 and text[len(row) : len(row) + 1] != " ":
            row = row[: space + 1]
        rows.append(row.rstrip())
        text = text[len(row) :].removeprefix(" ")
    return [*rows, text]


def cut_text(text: str, width: int, glyphs: Glyphs) -> str:
    """Return text in so many cells at most."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)).rstrip() + glyphs.more if width > 0 else ""
