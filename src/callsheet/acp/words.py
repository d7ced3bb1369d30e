"""What a view says by itself. It speaks English; others can put their words in place of these."""

from __future__ import annotations

from typing import Literal

from callsheet.report.fields import Kind


class Words:
    """English, and titles as they are."""

    def left_out(self, count: int, lines: int | None = None) -> str:
        """Say how much of an output is not shown."""
        text = f"{count} byte{'' if count == 1 else 's'} left out"
        if lines is not None:
            text += f" · {lines} line{'' if lines == 1 else 's'} left out"
        return text

    def escaped(self, title: str, kind: Kind, rendering: Literal["markdown", "either"]) -> str:
        """Return a title for a client that renders it as Markdown, or may do so."""
        del kind, rendering
        return title


ENGLISH = Words()
