"""The end of the demo: every call in a row of a table, the checks, and how to go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from callsheet.cli.cards.card import chopped
from callsheet.cli.cards.facts import end_text
from callsheet.cli.cards.looks import COLOURS, Looks, mark
from callsheet.cli.cards.words import bytes_text, duration_text, visible
from callsheet.testing import Frame

from .checks import Verdict
from .editors import Setting
from .kept import Kept
from .tally import Tally

HEADS = ("call", "ended", "took", "bytes", "redacted")
NARROWEST_TITLE = 18
WIDEST_TITLE = 44
GAP = 2


def table(calls: Sequence[Tally], looks: Looks, width: int) -> list[Text]:
    """Return the calls, a row each; in a narrow terminal, two."""
    rows = [_cells(one) for one in calls]
    rows.append(_totals(calls))
    widths = [max(cell_len(row[n]) for row in (HEADS, *rows)) for n in range(len(HEADS))]
    room = width - 2 - sum(widths[1:]) - GAP * (len(HEADS) - 1)
    styles = [COLOURS[one.report.status] for one in calls]
    marks = [mark(one.report, looks) for one in calls]
    if room < NARROWEST_TITLE:
        return _stacked(rows, marks, styles, width)
    widths[0] = min(widths[0], room, WIDEST_TITLE)
    out = [Text("  ").append_text(_row(HEADS, widths, looks, "dim", "dim"))]
    for row, sign, style in zip(rows, [*marks, " "], [*styles, ""], strict=True):
        out.append(Text.assemble((sign, style), " ", _row(row, widths, looks, style, "dim")))
    out.insert(-1, Text("  " + looks.empty * (sum(widths) + GAP * (len(HEADS) - 1)), "dim"))
    return out


def _cells(one: Tally) -> tuple[str, ...]:
    took = one.report.notes.get("durationMs")
    return (
        visible(one.report.title),
        end_text(one.report),
        duration_text(took) if isinstance(took, (int, float)) else "",
        bytes_text(one.bytes),
        str(one.redactions or ""),
    )


def _totals(calls: Sequence[Tally]) -> tuple[str, ...]:
    spent, hidden = sum(one.bytes for one in calls), sum(one.redactions for one in calls)
    return (f"{len(calls)} calls", "", "", bytes_text(spent), str(hidden))


def _row(cells: Sequence[str], widths: Sequence[int], looks: Looks, style: str, other: str) -> Text:
    title = cells[0]
    if cell_len(title) > widths[0]:
        title = set_cell_size(title, widths[0] - 1).rstrip() + looks.more
    row = Text(set_cell_size(title, widths[0]) + " " * GAP)
    row.append(set_cell_size(cells[1], widths[1]), style)
    for cell, size in zip(cells[2:], widths[2:], strict=True):
        row.append(" " * (GAP + size - cell_len(cell)) + cell, other)
    row.rstrip()
    return row


def _stacked(
    rows: Sequence[Sequence[str]], marks: Sequence[str], styles: Sequence[str], width: int
) -> list[Text]:
    out: list[Text] = []
    for row, sign, style in zip(rows, [*marks, " "], [*styles, ""], strict=True):
        first, *others = chopped(row[0], max(2, width - 2))
        out.append(Text.assemble((sign, style), " ", first))
        out += [Text(f"  {other}") for other in others]
        hidden = [f"{row[4]} redacted"] if row[4] else []
        facts = " · ".join([*filter(None, row[1:4]), *hidden])
        out += [Text(f"  {part}", "dim") for part in chopped(facts, max(2, width - 2))]
    return out


def ends_text(calls: Sequence[Tally]) -> str:
    """Give in a line how the calls ended."""
    ends = Counter(end_text(one.report).partition(":")[0] for one in calls)
    return ", ".join(f"{count} {end}" for end, count in ends.items())


def traffic_text(traffic: Sequence[Frame], seconds: float) -> str:
    """Give in a line what went over the pipe."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for frame in traffic:
        counts[frame.way] += 1
        sizes[frame.way] += len(frame.line)
    told = [
        f"{counts['in']} messages from the agent ({bytes_text(sizes['in'])})",
        f"{counts['out']} to it ({bytes_text(sizes['out'])})",
        f"in {duration_text(seconds * 1000)}",
    ]
    return ", ".join(told)


def checks(found: Sequence[tuple[str, Verdict]], looks: Looks, width: int) -> list[Text]:
    """Return the checks, a row each."""
    out: list[Text] = []
    widest = max(cell_len(name) for name, _ in found)
    for name, verdict in found:
        sign, style = ("completed", "green") if verdict.ok else ("failed", "red")
        beside = widest + 4 + cell_len(verdict.said) <= width and verdict.ok
        first, *others = [name.ljust(widest)] if beside else chopped(name, width - 2)
        out.append(Text.assemble((looks.marks[sign], f"bold {style}"), " ", first))
        out += [Text(f"  {other}") for other in others]
        if beside:
            out[-1].append(f"  {verdict.said}", "dim").rstrip()
        elif not verdict.ok:
            out += [Text(f"  {part}", style) for part in chopped(verdict.said, width - 2)]
    return out


def history(kept: Kept | None, program: str) -> list[Text]:
    """Return where the calls are kept, and how to look at them. These lines are for copying, too."""
    if kept is None:
        return [Text("None is kept: CALLSHEET_HISTORY is off.", "dim")]
    out = [Text(kept.where)]
    if kept.reports:
        out += [Text(f"{program} history --session {kept.session}", "dim")]
        out += [Text(f"{program} show {kept.reports[-1].tool_call_id}", "dim")]
    return out


def how_to_go_on(settings: Sequence[Setting]) -> list[Text]:
    """Return what is to be pasted into editors. These lines are never broken: they are for copying."""
    out: list[Text] = []
    for setting in settings:
        if out:
            out.append(Text())
        out.append(Text.assemble((setting.editor, "bold"), (f"  {setting.file}", "dim")))
        out += [Text(line) for line in setting.text.split("\n")]
    return out
