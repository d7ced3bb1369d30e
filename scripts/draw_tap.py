"""Draws docs/images/tap.svg: the cards of one recorded session, as the agent told them and behind the tap.

python scripts/draw_tap.py tests/recordings/kimi-cli-1.51.0.mixed-none.jsonl
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

from rich.columns import Columns
from rich.console import Console, Group
from rich.panel import Panel
from rich.text import Text

from callsheet.observe.events import PermissionAsked, UpdateApplied
from callsheet.observe.lines import read_lines
from callsheet.observe.tracker import Tracker
from callsheet.tap.context import TapSettings
from callsheet.tap.offline import Repairs

WIDTH, COLUMN = 132, 64
OUT = Path(__file__).parents[1] / "docs" / "images" / "tap.svg"
MARKS = {"completed": ("✓", "green"), "failed": ("✗", "red")}


def cards(data: bytes) -> tuple[list[Text], int]:
    """Return a few lines for each call of a recording, as a client knows it in the end; and its bytes."""
    watch, calls, asked, size = Tracker(), dict[int, Any](), dict[int, Any](), 0
    for line in read_lines(io.BytesIO(data)):
        for moment in watch.feed(line):
            if isinstance(moment, UpdateApplied):
                calls[id(moment.call)] = moment.call
                size += line.size
            elif isinstance(moment, PermissionAsked) and moment.question.call is not None:
                calls[id(moment.question.call)] = moment.question.call
                asked[id(moment.question.call)] = moment.question.tool_call
    return [row for key, call in calls.items() for row in _card(call, asked.get(key))], size


def _card(call: Any, asked: Any) -> list[Text]:
    fields = call.fields
    mark, colour = MARKS.get(call.status or "", ("◌", "yellow"))
    title = str(fields.get("title") or "(never announced)").replace("\n", " ")
    rows = [Text.assemble((f"{mark} ", colour), (title, "bold"), overflow="ellipsis", no_wrap=True)]
    facts = [str(fields.get("kind") or "no kind"), str(fields.get("name") or "no name")]
    places = [place["path"].rpartition("/")[2] for place in fields.get("locations") or ()]
    facts.append(", ".join(places) or "no location")
    rows.append(Text("  " + " · ".join(facts), style="dim", overflow="ellipsis", no_wrap=True))
    given = fields.get("rawInput")
    rows.append(
        Text(
            f"  input {given}" if given else "  no input",
            style="dim",
            overflow="ellipsis",
            no_wrap=True,
        )
    )
    if asked is not None:
        is_blind = not asked.get("rawInput")
        words = "without the input" if is_blind else "with the input"
        rows.append(Text(f"  permission asked {words}", style="red" if is_blind else "green"))
    return rows


def main() -> None:
    """Draw it."""
    data = Path(sys.argv[1]).read_bytes()
    repairs = Repairs(TapSettings(locale="en"), spill=False)
    repaired = b"".join(repairs.repaired(io.BytesIO(data)))
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    panels: list[Panel] = []
    for name, told in (("as the agent tells it", data), ("behind callsheet tap", repaired)):
        rows, size = cards(told)
        title = f"{name}: {size / 1000:.0f} kB about calls"
        panels.append(Panel(Group(*rows), title=title, width=COLUMN, border_style="dim"))
    console.print(Columns(panels))
    OUT.parent.mkdir(exist_ok=True)
    title = Path(sys.argv[1]).name.partition(".mixed")[0]
    OUT.write_text(console.export_svg(title=title, unique_id="tap"))


if __name__ == "__main__":
    main()
