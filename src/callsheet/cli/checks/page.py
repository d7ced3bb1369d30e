"""What text is written on: a terminal, with colours and a width; or a pipe, in which a line is one line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from callsheet.cli.histories.screen import is_terminal

if TYPE_CHECKING:
    from rich.console import Console

Part = tuple[str, str]
"""A text and its style, as rich names styles."""

STYLES = {"error": "bold red", "warning": "yellow", "advice": "cyan"}
WIDEST = 120
"""Columns that text for reading takes at most."""


class Page:
    """Writes lines. `width` is None where they are not broken."""

    def __init__(self) -> None:
        self._console: Console | None = None
        self.width: int | None = None
        if is_terminal():
            from rich.console import Console

            # Not rich's guess: it is a terminal, whatever the environment says of colours.
            console = Console(force_terminal=True, highlight=False, legacy_windows=False)
            self._console, self.width = console, min(WIDEST, max(20, console.width))

    def line(self, *parts: Part, indent: int = 0, hang: int = 0) -> None:
        """Write a line; where it is broken, what follows is indented by `hang` more."""
        if self._console is None or self.width is None:
            sys.stdout.write(f"{' ' * indent}{''.join(text for text, _ in parts)}\n")
            return
        from rich.text import Text

        whole = Text.assemble(*parts)
        rows = list(whole.wrap(self._console, max(10, self.width - indent)))
        for row in rows:
            row.rstrip()
        if len(rows) > 1:
            narrow = max(10, self.width - indent - hang)
            rows[1:] = Text(" ").join(rows[1:]).wrap(self._console, narrow)
        for number, row in enumerate(rows):
            row.rstrip()
            row.pad_left(indent + (hang if number else 0))
            self._console.print(row, soft_wrap=True)

    def blank(self) -> None:
        """Write an empty line."""
        sys.stdout.write("\n")


def cells(text: str) -> int:
    """Count the columns that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
