"""The score card: a table of text, or Markdown."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from callsheet.check.finding import Finding
from callsheet.check.output import CheckedRecording, CheckOutcome, totals
from callsheet.check.scorecard import HEADS, Scorecard, ScorecardRow, markdown, rows
from callsheet.cli.cards.words import visible
from callsheet.observe.model import ObservedCall

from .page import Page, Part, cells

GAP = "  "


class CardTeller:
    """Shows the score card at the end, and nothing before."""

    def __init__(self, page: Page, form: str) -> None:
        self._page: Page = page
        self._form: str = form

    def begin(self, path: str) -> None:
        """Show nothing."""

    def found(self, finding: Finding, title: str, fingerprint: str) -> None:
        """Show nothing."""

    def over(self, call: ObservedCall) -> None:
        """Show nothing."""

    def end(self, recording: CheckedRecording) -> None:
        """Show nothing."""

    def close(self, outcome: CheckOutcome) -> None:
        """Show the card."""
        if self._form == "markdown":
            sys.stdout.write(markdown(outcome.summary, totals(outcome)))
            return
        if outcome.calls:
            show_card(self._page, outcome.summary)
            self._page.blank()
        self._page.line((totals(outcome), "yellow" if outcome.findings else "green"))


def show_card(page: Page, summary: Scorecard, most_tools: int | None = None) -> None:
    """Show the card; of each agent, only the tools that were called most."""
    table = list(rows(summary, most_tools))
    widths = [max(len(head), *(len(row.cells[n]) for row in table)) for n, head in enumerate(HEADS)]
    wide = max((cells(_name(row)) for row in table), default=0)
    if page.width is not None:
        wide = max(10, min(wide, page.width - 1 - sum(widths) - len(GAP) * len(widths)))
    page.line((_row("", HEADS, wide, widths).upper(), "dim"))
    for row in table:
        page.line(*_parts(row, wide, widths))


def _parts(row: ScorecardRow, wide: int, widths: Sequence[int]) -> list[Part]:
    name = _fitted(_name(row), wide)
    figures = _row("", row.cells, 0, widths)
    return [(name, "cyan" if row.is_tool else "bold"), (figures, "" if row.is_tool else "bold")]


def _name(row: ScorecardRow) -> str:
    return f"  {visible(row.name)}" if row.is_tool else visible(row.name)


def _row(name: str, figures: Sequence[str], wide: int, widths: Sequence[int]) -> str:
    columns = (f"{figure:>{width}}" for figure, width in zip(figures, widths, strict=True))
    return f"{name:{wide}}{GAP}{GAP.join(columns)}".rstrip()


def _fitted(name: str, wide: int) -> str:
    while cells(name) > wide:
        name = f"{name[: max(0, len(name) - 2)]}…"
    return name + " " * (wide - cells(name))
