"""What a session says by itself, in the user's language, for those who know no languages."""

from __future__ import annotations

from typing import Literal

from callsheet.acp.peer import Phrases
from callsheet.describe import Describer, escape_title
from callsheet.report.fields import Kind


class Spoken(Phrases):
    """The words of a describer."""

    def __init__(self, describer: Describer) -> None:
        self._describer: Describer = describer

    def left_out(self, count: int, lines: int | None = None) -> str:
        """Say how much of an output is not shown."""
        text = self._describer.phrase("bytes_left_out", count=count)
        if lines is not None:
            text += " · " + self._describer.phrase("lines_left_out", count=lines)
        return text

    def escaped(self, title: str, kind: Kind, rendering: Literal["markdown", "either"]) -> str:
        """Return a title for a client that renders it as Markdown, or may do so."""
        return escape_title(title, kind, rendering)

    def left_out_phrase(self, key: str, **values: int | str) -> str:
        """Say what `callsheet.redaction` says in place of what it left out."""
        phrase, count = self._describer.phrase, values.get("count", 0)
        if key == "link_name":
            return phrase("whole", field=values["field"]) + f" ({values['bytes']} B)"
        if key == "data_cut":
            return f"{values['mime']}: {self.left_out(int(values['bytes']))}"
        if key in ("text_cut", "lines_cut"):
            lines = int(values["lines"]) if key == "lines_cut" else None
            return f"… {self.left_out(int(values['bytes']), lines)} …"
        if key in ("items_cut", "keys_cut"):
            return f"… {phrase(key.replace('cut', 'left_out'), count=count)} …"
        return f"… {phrase(key)} …"
