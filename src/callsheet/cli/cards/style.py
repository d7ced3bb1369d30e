"""How cards look: marks, icons and colours, and plainer ones for terminals without Unicode."""

from __future__ import annotations

from typing import NamedTuple

from callsheet.cli.cards.body import Tone
from callsheet.report.fields import Kind
from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus


class Glyphs(NamedTuple):
    """The characters that cards are drawn with. Each takes one cell of the terminal."""

    spinner: str
    marks: dict[str, str]
    icons: dict[str, str]
    side: str
    foot: str
    dot: str
    full: str
    empty: str
    more: str


PRETTY = Glyphs(
    spinner="⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏",
    marks={"pending": "○", "paused": "‖", "completed": "✓", "failed": "✗", "cancelled": "⊘"},
    icons={
        "read": "◫",
        "edit": "✎",
        "delete": "⌫",
        "move": "→",
        "search": "⌕",
        "execute": "❯",
        "think": "✻",
        "fetch": "↓",
        "switch_mode": "⇄",
    },
    side="│",
    foot="╰",
    dot=" · ",
    full="━",
    empty="─",
    more="…",
)

PLAIN = Glyphs(
    spinner="|/-\\",
    marks={"pending": "o", "paused": "=", "completed": "*", "failed": "x", "cancelled": "x"},
    icons={
        "read": "<",
        "edit": "+",
        "delete": "-",
        "move": ">",
        "search": "?",
        "execute": "$",
        "think": "~",
        "fetch": "@",
        "switch_mode": "%",
    },
    side="|",
    foot="`",
    dot=" - ",
    full="#",
    empty=".",
    more="~",
)
"""For terminals without Unicode."""

OTHER_ICON = "*"

COLOURS = {
    ToolCallStatus.PENDING: "yellow",
    ToolCallStatus.IN_PROGRESS: "cyan",
    ToolCallStatus.PAUSED: "yellow",
    ToolCallStatus.COMPLETED: "green",
    ToolCallStatus.FAILED: "red",
    ToolCallStatus.CANCELLED: "yellow",
}

STYLES: dict[Tone, str] = {
    "": "",
    "dim": "dim",
    "note": "dim italic",
    "name": "bold",
    "add": "green",
    "remove": "red",
}


def glyphs_for(encoding: str) -> Glyphs:
    """Return the characters that an encoding can express."""
    try:
        "⠋✓◫│╰━".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return PRETTY


def icon(kind: Kind, glyphs: Glyphs) -> str:
    """Return the icon of a kind."""
    return glyphs.icons.get(str(kind), OTHER_ICON)


def mark(report: ToolCallReport, glyphs: Glyphs, frame: int = 0) -> str:
    """Return the mark of a status; of a call that runs, a frame of the spinner."""
    return glyphs.marks.get(report.status.value) or glyphs.spinner[frame % len(glyphs.spinner)]
