"""What a session says by itself, in the user's language, for views that know no languages."""

from __future__ import annotations

from callsheet.describe import Describer, escape_title
from callsheet.report.kinds import Kind
from callsheet.wire.words import Words


class Spoken(Words):
    """The words of a describer."""

    def __init__(self, describer: Describer) -> None:
        self._describer: Describer = describer

    def left_out(self, count: int, lines: int | None = None) -> str:
        """Say how much of an output is not shown."""
        text = self._describer.phrase("bytes_left_out", count=count)
        if lines is not None:
            text += " · " + self._describer.phrase("lines_left_out", count=lines)
        return text

    def escaped(self, title: str, kind: Kind) -> str:
        """Give a title for a client that renders it as Markdown."""
        return escape_title(title, kind, "markdown")
