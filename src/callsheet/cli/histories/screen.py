"""What we write to: a terminal with its colours and its width, or a pipe."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.text import Text

    from callsheet.cli.cards.region import Region


def is_terminal() -> bool:
    """Whether people look at it, on a terminal that can be drawn on."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def has_colours() -> bool:
    """Whether colours are wanted."""
    return is_terminal() and not os.environ.get("NO_COLOR")


def write(text: str) -> None:
    """Write a line to stdout. It may wait in the buffer."""
    sys.stdout.write(f"{text}\n")


def is_closed() -> bool:
    """Whether nobody reads stdout any more."""
    if not hasattr(select, "poll"):
        return False
    with suppress(OSError, ValueError):
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(event & (select.POLLERR | select.POLLNVAL) for _, event in poll.poll(0))
    return False


class Screen:
    """A terminal that rows are printed on, above others that are drawn anew in place."""

    def __init__(self, stream: TextIO | None = None) -> None:
        from rich.console import Console

        from callsheet.cli.cards.looks import Looks, looks_for
        from callsheet.cli.cards.region import Region

        self._stream: TextIO = stream or sys.stdout
        # Not rich's guess: it is a terminal, whatever the environment says of colours.
        console = Console(
            file=self._stream, force_terminal=True, highlight=False, legacy_windows=False
        )
        self.looks: Looks = looks_for(console.encoding)
        self.links: bool = console.color_system is not None and os.environ.get("TERM") != "linux"
        self._region: Region = Region(console, self._stream)

    @property
    def width(self) -> int:
        """Columns that a row may have."""
        return self._region.size[0]

    @property
    def height(self) -> int:
        """Rows that may be drawn."""
        return self._region.size[1]

    def print(self, rows: Iterable[Text]) -> None:
        """Print rows that stay."""
        self._region.print(list(rows))

    def draw(self, rows: Iterable[Text]) -> None:
        """Draw rows that are drawn anew next time."""
        self._region.draw(list(rows))
