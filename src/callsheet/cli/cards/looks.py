"""How cards look: marks, icons, colours. A terminal that can't show these is given plainer ones."""

from __future__ import annotations

from typing import NamedTuple

from callsheet.report.fields import Kind
from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus

from .lines import Tone


class Looks(NamedTuple):
    """The characters that cards are drawn with. Each takes one cell."""

    spinner: str
    marks: dict[str, str]
    icons: dict[str, str]
    side: str
    foot: str
    dot: str
    full: str
    empty: str
    more: str


PRETTY = Looks(
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

PLAIN = Looks(
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
"""For terminals that know no Unicode."""

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


def looks_for(encoding: str) -> Looks:
    """Return the characters that an encoding has."""
    try:
        "⠋✓◫│╰━".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return PRETTY


def icon(kind: Kind, looks: Looks) -> str:
    """Return the icon of a kind."""
    return looks.icons.get(str(kind), OTHER_ICON)


def mark(report: ToolCallReport, looks: Looks, frame: int = 0) -> str:
    """Return the mark of a status; while a call runs, the spinner's."""
    return looks.marks.get(report.status.value) or looks.spinner[frame % len(looks.spinner)]
